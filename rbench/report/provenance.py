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

from rbench.config.references import bib_entries
from rbench.report.data import PageFact, PageNames
from rbench.schema import Plan, Record
from rbench.schema.entries import Named
from rbench.store.job_status import JobStatuses
from rbench.store.runs.packed import name_of_run
from rbench.tables import Results
from rbench.tables.aggregate import AttackGrid
from rbench.tables.for_people import collect_titles
from rbench.tables.notes import format_range
from rbench.tables.results import load_plan


def header_facts(results: Results, grid: AttackGrid | None) -> Iterator[PageFact]:
    """Yield what stands at the top: state, n, seeds, resources, commit, time."""
    plan, standing = results.plan, results.standing
    yield PageFact(name="jobs", value=_job_states(plan, standing))
    if grid is not None:
        counts = [cell.pooled.attacked for cell in grid.cells.values() if cell.present]
        if counts:
            yield PageFact(name="n of a cell", value=format_range(counts))
    yield PageFact(name="seeds", value=", ".join(map(str, plan.suite.seeds)))
    if plan.suite.train_seeds:
        yield PageFact(name="training seeds", value=", ".join(map(str, plan.suite.train_seeds)))
    sets = dict.fromkeys(job.attacking.resources.name for job in plan.jobs if job.attacking is not None)
    if sets:
        yield PageFact(name="resources", value=", ".join(sets))
    records = list(standing.records.values())
    for name in ("rbench", "commit"):
        if recorded := _list_values(_recorded(record, name) for record in records):
            yield PageFact(name=name, value=recorded)
    seconds = sum(record.provenance.seconds for record in records)
    if seconds:
        yield PageFact(name="computed in", value=_format_duration(seconds))


def provenance_facts(results: Results) -> Iterator[PageFact]:
    """Yield what stands behind the records: machines, back-ends, times, fingerprints of data and weights."""
    records = list(results.standing.records.values())
    for name in ("rbench", "commit", "python", "platform", "device", "precision", "backend"):
        if recorded := _list_values(_recorded(record, name) for record in records):
            yield PageFact(name=name, value=recorded)
    started = sorted(record.provenance.started for record in records if record.provenance.started)
    if started:
        yield PageFact(name="first job started", value=started[0])
        yield PageFact(name="last job started", value=started[-1])
    for name, value in _fingerprints(results.plan, records):
        yield PageFact(name=name, value=value)


def package_facts(results: Results) -> Iterator[PageFact]:
    """Yield the version of each package that the records name."""
    records = results.standing.records.values()
    names = dict.fromkeys(name for record in records for name in record.provenance.packages)
    for name in names:
        yield PageFact(name=name, value=_list_values(record.provenance.packages.get(name, "") for record in records))


def rerun_commands(results: Results) -> Iterator[str]:
    """Yield the command that makes each RUN again, without what the plan does not keep: the options of the first run,
    and the path of a suite that is none of rbench's."""
    stores = results.store.parts
    for store in stores:
        plan = results.plan if len(stores) == 1 else load_plan(store)
        yield shlex.join(["rbench", "run", plan.suite.name, "--out", name_of_run(store.root)])


def collect_names(results: Results, grid: AttackGrid | None) -> PageNames:
    """Return names in the order of tables, titles, and columns and labels of tasks."""
    plan = results.plan
    tasks = {job.attacking.task.name: job.attacking.task for job in plan.jobs if job.attacking is not None}
    return PageNames(
        encoders=grid.encoders if grid is not None else plan.suite.lineup,
        finetunes=grid.finetunes if grid is not None else (),
        tasks=grid.tasks if grid is not None else (),
        attacks=grid.attacks if grid is not None else (),
        titles=collect_titles(plan, results.metrics),
        columns={name: task.columns for name, task in tasks.items()},
        labels={name: task.labels for name, task in tasks.items()},
    )


def licence_facts(plan: Plan) -> Iterator[PageFact]:
    """Yield the licence of each task, contrast set and encoder that states one."""
    for entry in _used_entries(plan):
        if entry.licence:
            yield PageFact(name=entry.name, value=entry.licence)


def references_as_bibtex(results: Results) -> str:
    """Return BibTeX of what the RUN used: encoders, tasks, attacks and their resources, contrast sets, TextAttack and
    rbench."""
    plan = results.plan
    used = [(reference, entry.name) for entry in _used_entries(plan) for reference in entry.reference]
    used += _resource_references(plan)
    if any(job.attacking is not None for job in plan.jobs):
        used.append((TEXTATTACK_REFERENCE, "all attacks"))
    return write_bibtex(used, _list_values(_recorded(record, "rbench") for record in results.standing.records.values()))


def _used_entries(plan: Plan) -> list[Named]:
    """Return the encoders, tasks, attacks and contrast sets of a plan, each once."""
    used: dict[tuple[type, str], Named] = {}
    for job in plan.jobs:
        spec: Any = job.spec
        entries = [job.entry, *(getattr(spec, name, None) for name in ("task", "attack", "set"))]
        for entry in entries:
            if isinstance(entry, Named):
                used.setdefault((type(entry), entry.name), entry)
    return list(used.values())


def _resource_references(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the reference of each resource that an attack uses and that has one, and what it is."""
    for job in plan.jobs:
        if job.attacking is not None:
            for (kind, source), reference in RESOURCE_REFERENCES.items():
                used = getattr(job.attacking.resources, kind)
                if used is not None and used.kind == source:
                    yield reference, kind.replace("_", " ")


def _job_states(plan: Plan, standing: JobStatuses) -> str:
    counts = zip(map(len, standing.unfinished(plan.jobs)), ("failed", "damaged", "not done"), strict=True)
    more = [f"{n} {what}" for n, what in counts if n]
    return f"{len(standing.done)} of {len(plan.jobs)} done" + (f" ({', '.join(more)})" if more else "")


def _recorded(record: Record, name: str) -> str:
    value: str | None = getattr(record.provenance, name)
    if name == "commit" and value:
        return value[:10] + (" (changed)" if record.provenance.dirty else "")
    return value or ""


def _list_values(values: Iterable[str]) -> str:
    """List the different values, the most frequent first."""
    return ", ".join(value for value, _ in Counter(value for value in values if value).most_common())


def _fingerprints(plan: Plan, records: list[Record]) -> Iterator[tuple[str, str]]:
    values_by_name: dict[str, dict[str, None]] = {}
    for record in records:
        provenance = record.provenance
        name = plan.draw(record.job.parts[0]).encoder if record.job.parts else ""
        if provenance.dataset_fingerprint and (task := getattr(record.job.spec, "task", None)) is not None:
            values_by_name.setdefault(f"rows of {task.name}", {})[provenance.dataset_fingerprint] = None
        # Weights of encoders alone: those of victims are as many as there are fine-tunings.
        if provenance.weights_hash and (record.job.pretraining or record.job.untuned):
            values_by_name.setdefault(f"weights of {name}", {})[provenance.weights_hash] = None
        for kind, value in provenance.resources.items():
            values_by_name.setdefault(f"resource {kind}", {})[value] = None
    for name, values in values_by_name.items():
        yield name, ", ".join(value[:16] for value in values)


def _format_duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{minutes:.1f} minutes" if minutes >= 1 else f"{seconds:.0f} seconds"


RESOURCE_REFERENCES: Mapping[tuple[str, str], str] = {
    ("word_vectors", "textattack-counterfitted"): "mrksic2016counter",
    ("synonyms", "wordnet"): "miller1995wordnet",
    ("synonyms", "wordnet-and-folder"): "miller1995wordnet",
    ("sentence_encoder", "use"): "cer2018universal",
    ("sentence_encoder", "sentence-transformers"): "reimers2019sentence",
}
"""What attacks look up, by kind of resource and kind of source. A folder of a user's own is not known."""
TEXTATTACK_REFERENCE = "morris2020textattack"
"""What computes all attacks."""
_OWN_TITLE = "{rbench}: a robustness benchmarking harness for sentence encoders"
_SIGNS = {
    "\\": r"{\textbackslash}",
    "{": r"{\textbraceleft}",  # BibTeX counts braces, and an escaped one too
    "}": r"{\textbraceright}",
    "~": r"{\textasciitilde}",
    "^": r"{\textasciicircum}",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}


def write_bibtex(used: Iterable[tuple[str, str]], version: str) -> str:
    """Return an entry for each reference, and one for rbench.

    Args:
        used: pairs of a reference, a key of references.bib or a free text, and the name of what it is of.
        version: the version of rbench that computed the results; empty: unknown.
    """
    names_by_reference: dict[str, dict[str, None]] = {}
    for reference, name in used:
        if not reference.startswith("none"):  # as RUNs have it that were planned before there was references.bib
            names_by_reference.setdefault(" ".join(reference.split()), {})[name] = None
    # Keys of references.bib have an entry there; any other text becomes an entry of its own.
    numbers, bibtex_entries = count(1), []
    for reference, names in names_by_reference.items():
        bibtex_entry = bib_entries().get(reference) or _bibtex_entry(
            "misc", f"used-{next(numbers)}", {"note": _escape_bibtex(reference)}
        )
        annotation = _escape_bibtex(f"used for {', '.join(names)}")
        bibtex_entries.append(bibtex_entry.removesuffix("\n}") + f",\n  annote = {{{annotation}}}\n}}")
    own_fields = {"author": "{The rbench developers}", "title": _OWN_TITLE, "year": "2026"}
    own_fields |= {"note": f"Version {_escape_bibtex(version)}"} if version else {}
    return "\n\n".join([*bibtex_entries, _bibtex_entry("misc", "rbench", own_fields)])


def _bibtex_entry(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


def _escape_bibtex(text: str) -> str:
    """Escape what BibTeX and LaTeX read as signs."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)
