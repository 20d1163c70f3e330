"""Says where the results of a RUN come from: facts, versions, the command, references and licences.

References become BibTeX: keys are entries of references.bib, and a free text becomes an entry with a note, in the
file's own words.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from rbench.config.references import entries
from rbench.report.data import Fact, Names
from rbench.schema import Plan, Record
from rbench.schema.entries import Named
from rbench.store.job_status import Standing
from rbench.store.runs.packed import name_of
from rbench.tables import Results
from rbench.tables.aggregate import Grid
from rbench.tables.for_people import titles
from rbench.tables.notes import spanned
from rbench.tables.results import plan_of


def header(results: Results, grid: Grid | None) -> Iterator[Fact]:
    """Yield what stands at the top: state, n, seeds, resources, commit, time."""
    plan, standing = results.plan, results.standing
    yield Fact(name="jobs", value=_state(plan, standing))
    if grid is not None:
        counts = [cell.pooled.attacked for cell in grid.cells.values() if cell.present]
        if counts:
            yield Fact(name="n of a cell", value=spanned(counts))
    yield Fact(name="seeds", value=", ".join(map(str, plan.suite.seeds)))
    if plan.suite.train_seeds:
        yield Fact(name="training seeds", value=", ".join(map(str, plan.suite.train_seeds)))
    sets = dict.fromkeys(job.attacking.resources.name for job in plan.jobs if job.attacking is not None)
    if sets:
        yield Fact(name="resources", value=", ".join(sets))
    records = list(standing.records.values())
    for name in ("rbench", "commit"):
        if said := _each(_said(record, name) for record in records):
            yield Fact(name=name, value=said)
    seconds = sum(record.provenance.seconds for record in records)
    if seconds:
        yield Fact(name="computed in", value=_duration(seconds))


def facts(results: Results) -> Iterator[Fact]:
    """Yield what stands behind the records: machines, back-ends, times, fingerprints of data and weights."""
    records = list(results.standing.records.values())
    for name in ("rbench", "commit", "python", "platform", "device", "precision", "backend"):
        if said := _each(_said(record, name) for record in records):
            yield Fact(name=name, value=said)
    started = sorted(record.provenance.started for record in records if record.provenance.started)
    if started:
        yield Fact(name="first job started", value=started[0])
        yield Fact(name="last job started", value=started[-1])
    for name, value in _fingerprints(results.plan, records):
        yield Fact(name=name, value=value)


def packages(results: Results) -> Iterator[Fact]:
    """Yield the version of each package that the records name."""
    records = results.standing.records.values()
    names = dict.fromkeys(name for record in records for name in record.provenance.packages)
    for name in names:
        yield Fact(name=name, value=_each(record.provenance.packages.get(name, "") for record in records))


def commands(results: Results) -> Iterator[str]:
    """Yield the command that makes each RUN again, without what the plan does not keep: the options of the first run,
    and the path of a suite that is none of rbench's."""
    stores = results.store.parts
    for store in stores:
        plan = results.plan if len(stores) == 1 else plan_of(store)
        yield shlex.join(["rbench", "run", plan.suite.name, "--out", name_of(store.root)])


def names_of(results: Results, grid: Grid | None) -> Names:
    """Return names in the order of tables, titles, and columns and labels of tasks."""
    plan = results.plan
    tasks = {job.attacking.task.name: job.attacking.task for job in plan.jobs if job.attacking is not None}
    return Names(
        encoders=grid.encoders if grid is not None else plan.suite.lineup,
        finetunes=grid.finetunes if grid is not None else (),
        tasks=grid.tasks if grid is not None else (),
        attacks=grid.attacks if grid is not None else (),
        titles=titles(plan, results.metrics),
        columns={name: task.columns for name, task in tasks.items()},
        labels={name: task.labels for name, task in tasks.items()},
    )


def licences(plan: Plan) -> Iterator[Fact]:
    """Yield the licence of each task, contrast set and encoder that states one."""
    for entry in _entries(plan):
        if entry.licence:
            yield Fact(name=entry.name, value=entry.licence)


def references(results: Results) -> str:
    """Return BibTeX of what the RUN used: encoders, tasks, attacks and their resources, contrast sets, TextAttack and
    rbench."""
    plan = results.plan
    used = [(reference, entry.name) for entry in _entries(plan) for reference in entry.reference]
    used += _resources(plan)
    if any(job.attacking is not None for job in plan.jobs):
        used.append((TEXTATTACK, "all attacks"))
    return bibtex(used, _each(_said(record, "rbench") for record in results.standing.records.values()))


def _entries(plan: Plan) -> list[Named]:
    """Return the encoders, tasks, attacks and contrast sets of a plan, each once."""
    found: dict[tuple[type, str], Named] = {}
    for job in plan.jobs:
        spec: Any = job.spec
        entries = [job.entry, *(getattr(spec, name, None) for name in ("task", "attack", "set"))]
        for entry in entries:
            if isinstance(entry, Named):
                found.setdefault((type(entry), entry.name), entry)
    return list(found.values())


def _resources(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the reference of each resource that an attack uses and that has one, and what it is."""
    for job in plan.jobs:
        if job.attacking is not None:
            for (kind, source), reference in RESOURCES.items():
                used = getattr(job.attacking.resources, kind)
                if used is not None and used.kind == source:
                    yield reference, kind.replace("_", " ")


def _state(plan: Plan, standing: Standing) -> str:
    counts = zip(map(len, standing.unfinished(plan.jobs)), ("failed", "damaged", "not done"), strict=True)
    more = [f"{n} {what}" for n, what in counts if n]
    return f"{len(standing.done)} of {len(plan.jobs)} done" + (f" ({', '.join(more)})" if more else "")


def _said(record: Record, name: str) -> str:
    value: str | None = getattr(record.provenance, name)
    if name == "commit" and value:
        return value[:10] + (" (changed)" if record.provenance.dirty else "")
    return value or ""


def _each(values: Iterable[str]) -> str:
    """List the different values, the most frequent first."""
    return ", ".join(value for value, _ in Counter(value for value in values if value).most_common())


def _fingerprints(plan: Plan, records: list[Record]) -> Iterator[tuple[str, str]]:
    found: dict[str, dict[str, None]] = {}
    for record in records:
        told = record.provenance
        name = plan.draw(record.job.parts[0]).encoder if record.job.parts else ""
        if told.dataset_fingerprint and (task := getattr(record.job.spec, "task", None)) is not None:
            found.setdefault(f"rows of {task.name}", {})[told.dataset_fingerprint] = None
        if told.weights_hash and (record.job.pretraining or record.job.untuned):
            found.setdefault(f"weights of {name}", {})[told.weights_hash] = None
        for kind, value in told.resources.items():
            found.setdefault(f"resource {kind}", {})[value] = None
    for name, values in found.items():
        yield name, ", ".join(value[:16] for value in values)


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return (
        f"{hours:.1f} hours" if hours >= 1 else f"{minutes:.1f} minutes" if minutes >= 1 else f"{seconds:.0f} seconds"
    )


RESOURCES: Mapping[tuple[str, str], str] = {
    ("word_vectors", "textattack-counterfitted"): "mrksic2016counter",
    ("synonyms", "wordnet"): "miller1995wordnet",
    ("sentence_encoder", "use"): "cer2018universal",
    ("sentence_encoder", "sentence-transformers"): "reimers2019sentence",
}
"""What attacks look up, by kind of resource and kind of source. A folder of a user's own is not known."""
TEXTATTACK = "morris2020textattack"
"""What computes all attacks."""
_OWN = "{rbench}: a robustness benchmarking harness for sentence encoders"
_SIGNS = {
    "\\": r"{\textbackslash}",
    "{": r"{\textbraceleft}",  # BibTeX counts braces, and an escaped one too
    "}": r"{\textbraceright}",
    "~": r"{\textasciitilde}",
    "^": r"{\textasciicircum}",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}


def bibtex(used: Iterable[tuple[str, str]], version: str) -> str:
    """Return an entry for each reference, and one for rbench.

    Args:
        used: pairs of a reference, a key of references.bib or a free text, and the name of what it is of.
        version: the version of rbench that computed the results; empty: unknown.
    """
    found: dict[str, dict[str, None]] = {}
    for reference, name in used:
        if not reference.startswith("none"):  # as RUNs have it that were planned before there was references.bib
            found.setdefault(" ".join(reference.split()), {})[name] = None
    numbers, made = count(1), []
    for reference, names in found.items():
        known = entries().get(reference) or _written("misc", f"used-{next(numbers)}", {"note": _tex(reference)})
        of = _tex(f"used for {', '.join(names)}")
        made.append(known.removesuffix("\n}") + f",\n  annote = {{{of}}}\n}}")
    own = {"author": "{The rbench developers}", "title": _OWN, "year": "2026"}
    own |= {"note": f"Version {_tex(version)}"} if version else {}
    return "\n\n".join([*made, _written("misc", "rbench", own)])


def _written(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


def _tex(text: str) -> str:
    """Escape what BibTeX and LaTeX read as signs."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)
