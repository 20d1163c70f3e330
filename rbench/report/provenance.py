"""Says where the results of a RUN come from: facts, versions, the command, references and licences.

References become BibTeX. One reads `Gao, Yao and Chen (2021): SimCSE: simple ... EMNLP. arXiv:2104.08821`; several are
separated by semicolons. Files give family names only, so entries have these. Nothing is added that a file does not
state, but the full names of venues. What reads otherwise becomes an entry with a note, in the file's own words.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rbench.report.data import Fact, Names
from rbench.schema import Plan, Record
from rbench.schema.entries import Named
from rbench.store.job_status import Standing
from rbench.store.runs.packed import name_of
from rbench.tables import Results
from rbench.tables.aggregate import Grid
from rbench.tables.for_people import titles
from rbench.tables.notes import spanned


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
    profiles = dict.fromkeys(job.attacking.resources.name for job in plan.jobs if job.attacking is not None)
    if profiles:
        yield Fact(name="resources", value=", ".join(profiles))
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


def command(results: Results) -> str:
    """Return the command that makes the RUN again, without what the plan does not keep: the options of the first run,
    and the path of a suite that is none of rbench's."""
    return shlex.join(["rbench", "run", results.plan.suite.name, "--out", name_of(results.root)])


def names_of(plan: Plan, grid: Grid | None) -> Names:
    """Return names in the order of tables, titles, and columns and labels of tasks."""
    tasks = {job.attacking.task.name: job.attacking.task for job in plan.jobs if job.attacking is not None}
    return Names(
        encoders=grid.encoders if grid is not None else plan.suite.lineup,
        finetunes=grid.finetunes if grid is not None else (),
        tasks=grid.tasks if grid is not None else (),
        attacks=grid.attacks if grid is not None else (),
        titles=titles(plan),
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
    used = [(entry.reference, entry.name) for entry in _entries(plan) if entry.reference]
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


_COLON = re.compile(r"(?P<authors>[^():;]+) \((?P<year>(?:19|20)\d\d)\): (?P<rest>.+)", re.S)
"""`Pang and Lee (2005): Seeing stars ...`."""
_COMMA = re.compile(r"(?P<authors>[^(),;]*?(?: et al\.| and [^(),;]+?)) (?P<year>(?:19|20)\d\d), (?P<rest>.+)", re.S)
"""`Jin et al. 2020, Is BERT Really Robust?`"""
_ARXIV = re.compile(r"[.,]?\s*arXiv[: ](?P<id>\d{4}\.\d{4,5})\.?\s*$")
_NONE = re.compile(r"none\b|A control of rbench's own")
"""How a reference begins where there is nothing to cite."""
_ACL = "Association for Computational Linguistics"
VENUES: Mapping[str, str] = {
    "AAAI": "AAAI Conference on Artificial Intelligence",
    "ACL": f"Annual Meeting of the {_ACL} (ACL)",
    "ACL-IJCNLP": f"Annual Meeting of the {_ACL} and International Joint Conference on Natural Language Processing "
    "(ACL-IJCNLP)",
    "COLING": "International Conference on Computational Linguistics (COLING)",
    "EMNLP": "Conference on Empirical Methods in Natural Language Processing (EMNLP)",
    "EMNLP: System Demonstrations": "Conference on Empirical Methods in Natural Language Processing (EMNLP): System "
    "Demonstrations",
    "Findings of EMNLP": f"Findings of the {_ACL}: EMNLP",
    "Findings of NAACL": f"Findings of the {_ACL}: NAACL",
    "ICLR": "International Conference on Learning Representations (ICLR)",
    "IWP": "International Workshop on Paraphrasing (IWP)",
    "KDD": "ACM SIGKDD International Conference on Knowledge Discovery and Data Mining (KDD)",
    "LREC": "International Conference on Language Resources and Evaluation (LREC)",
    "NAACL": f"Conference of the North American Chapter of the {_ACL} (NAACL)",
    "NDSS": "Network and Distributed System Security Symposium (NDSS)",
    "NeurIPS": "Advances in Neural Information Processing Systems (NeurIPS)",
    "SemEval": "International Workshop on Semantic Evaluation (SemEval)",
    "*SEM": "Joint Conference on Lexical and Computational Semantics (*SEM)",
}
JOURNALS: Mapping[str, str] = {"CACM": "Communications of the ACM", "LRE": "Language Resources and Evaluation"}
TEXTATTACK = (
    "Morris, Lifland, Yoo, Grigsby, Jin and Qi (2020): TextAttack: a framework for adversarial attacks, data "
    "augmentation, and adversarial training in NLP. EMNLP: System Demonstrations. arXiv:2005.05909"
)
"""What computes all attacks."""
RESOURCES: Mapping[tuple[str, str], str] = {
    ("word_vectors", "textattack-counterfitted"): "Mrkšić et al. (2016): Counter-fitting word vectors to linguistic "
    "constraints. NAACL. arXiv:1603.00892",
    ("synonyms", "wordnet"): "Miller (1995): WordNet: a lexical database for English. CACM 38",
    ("sentence_encoder", "use"): "Cer et al. (2018): Universal Sentence Encoder for English. EMNLP: System "
    "Demonstrations. arXiv:1803.11175",
    ("sentence_encoder", "sentence-transformers"): "Reimers and Gurevych (2019): Sentence-BERT: sentence embeddings "
    "using Siamese BERT-networks. EMNLP. arXiv:1908.10084",
}
"""What attacks look up, by kind of resource and kind of source. A folder of a user's own is not known."""
_OWN = "{rbench}: a robustness benchmarking harness for sentence encoders"
_SIGNS = {
    "\\": r"{\textbackslash}",
    "{": r"{\textbraceleft}",  # BibTeX counts braces, and an escaped one too
    "}": r"{\textbraceright}",
    "~": r"{\textasciitilde}",
    "^": r"{\textasciicircum}",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}


class _Parts(NamedTuple):
    """A reference, taken apart."""

    authors: str
    year: str
    title: str
    venue: str
    arxiv: str


def bibtex(used: Sequence[tuple[str, str]], version: str) -> str:
    """Return an entry for each reference, and one for rbench.

    Args:
        used: pairs of a reference, as a file states it, and the name of what it is of.
        version: the version of rbench that computed the results; empty: unknown.
    """
    found: dict[str, dict[str, None]] = {}
    for reference, name in used:
        for one in _split(reference):
            found.setdefault(one, {})[name] = None
    keys: set[str] = {"rbench"}
    made = [_entry(one, ", ".join(names), keys) for one, names in found.items()]
    own = {"author": "{The rbench developers}", "title": _OWN, "year": "2026"}
    own |= {"note": f"Version {_tex(version)}"} if version else {}
    return "\n\n".join([*made, _written("misc", "rbench", own)])


def _split(reference: str) -> list[str]:
    """Return the single references. What follows a citation and is none, such as the name of a recipe, is left out."""
    if _NONE.match(reference):
        return []
    parts = [" ".join(part.split()) for part in reference.split("; ")]
    cited = [part for part in parts if _parts(part) is not None]
    return cited or [" ".join(reference.split())]


def _parts(reference: str) -> _Parts | None:
    """Take a reference apart; None where it reads otherwise."""
    match = _COLON.fullmatch(reference) or _COMMA.fullmatch(reference)
    if match is None:
        return None
    rest, arxiv = match["rest"].strip(), ""
    if (on_arxiv := _ARXIV.search(rest)) is not None:
        rest, arxiv = rest[: on_arxiv.start()], on_arxiv["id"]
    rest = rest.rstrip(".")
    title, _, venue = rest.rpartition(". ")
    if venue not in VENUES and venue.partition(" ")[0] not in JOURNALS:
        title, venue = rest, ""
    return _Parts(match["authors"].strip(), match["year"], title.strip(), venue, arxiv)


def _entry(reference: str, names: str, keys: set[str]) -> str:
    """Return the entry of a single reference, with a key that is not in `keys`, and add the key."""
    parts, of = _parts(reference), {"annote": _tex(f"used for {names}")}
    if parts is None:
        return _written("misc", _free("used", keys), {"note": _tex(reference)} | of)
    first = re.match(r"[\w-]+", parts.authors)
    word = re.search(r"\w+", parts.title)
    key = f"{first[0].lower() if first else ''}{parts.year}{word[0].lower() if word else ''}"
    fields = {"author": _authors(parts.authors), "title": _title(parts.title), "year": parts.year}
    kind = "misc"
    if parts.venue in VENUES:
        kind, fields = "inproceedings", fields | {"booktitle": _tex(VENUES[parts.venue])}
    elif parts.venue:
        journal, _, volume = parts.venue.partition(" ")
        kind, fields = "article", fields | {"journal": _tex(JOURNALS[journal])}
        fields |= {"volume": volume} if volume else {}
    if parts.arxiv:
        fields |= {"eprint": parts.arxiv, "archivePrefix": "arXiv"}
    plain = re.sub(r"[^a-z0-9-]", "", unicodedata.normalize("NFKD", key))
    return _written(kind, _free(plain or "used", keys), fields | of)


def _written(kind: str, key: str, fields: Mapping[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}\n}}"


def _free(key: str, keys: set[str]) -> str:
    free, number = key, 2
    while free in keys:
        free, number = f"{key}-{number}", number + 1
    keys.add(free)
    return free


def _authors(text: str) -> str:
    """Return authors as BibTeX wants them: `Pang and Lee`, `Gardner and others`."""
    several = re.split(r", | and ", text.removesuffix(" et al."))
    # A comma parts family and given names, and none can have three. In braces it is a sign like others.
    names = [f"{{{_tex(name)}}}" if "," in name else _tex(name) for name in several if name.strip()]
    return " and ".join([*names, *(["others"] if text.endswith(" et al.") else [])])


def _title(text: str) -> str:
    """Return a title whose words keep their capitals, which BibTeX styles would take from them."""
    words = text.split(" ")
    kept = [bool(re.search(r"[A-Z]", word if i else word[1:])) for i, word in enumerate(words)]
    return " ".join(f"{{{_tex(word)}}}" if keep else _tex(word) for word, keep in zip(words, kept, strict=True))


def _tex(text: str) -> str:
    """Escape what BibTeX and LaTeX read as signs."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)
