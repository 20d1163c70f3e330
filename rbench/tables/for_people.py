"""Make a table shorter for people: its notes in one paragraph, and titles in place of file names.

The paragraph says what a reader must know: n, seeds, resources, flags, and what is missing. It is made for any table of
a RUN, of a metric or of a measure, from the table's cells and the RUN's plan. The full notes, one bullet each, are
`Table.notes`; JSON always has them.

The plan holds `title` and `short` of every entry as they were when it was made. A table shows `short`, or a title
that has room (`ROOM`); otherwise the name stays. Options stay visible: `SimCSE on mini-bert [temperature=0.1]`.
Where two entries of a table would read alike, both keep their names. rbench's own fine-tuning strategies say in their
files what tables call them (`SHORT`); those of users keep their names. The options of a strategy stand below the table
where the plan has it only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rbench.metrics import Metrics
from rbench.schema import AttackSpec, EncoderSpec, FinetuneJob, Job, Plan, PretrainJob, VictimSpec
from rbench.schema.entries import Named
from rbench.store.job_status import Standing
from rbench.tables import draws
from rbench.tables.draws import of_table
from rbench.tables.flags import HEALTH_UNKNOWN
from rbench.tables.formats import listed
from rbench.tables.notes import seeds, spanned
from rbench.tables.results import Results
from rbench.tables.table import Entry, Table

ROOM: Mapping[type[Named], int] = {EncoderSpec: 40, VictimSpec: 40, AttackSpec: 40}
"""The most characters of a title that stands for a name, by kind of entry."""
COLUMN = 20
"""The same for entries that head columns."""


def briefed(table: Table, results: Results, *, names: bool = False) -> Table:
    """Return the table with its notes in short, and with what its numbers are of.

    Args:
        names: whether flagged jobs are named as in commands instead of by titles.
    """
    plan = results.plan
    own = [job for job in plan.jobs if job.what == table.metric] if table.shows is not None else []
    jobs = own or [job for job in plan.jobs if job.attacking is not None]
    said = (
        *_resources(jobs),
        *_flags(table, plan, {} if names else titles(plan, results.metrics)),
        *(note for note in table.notes if note.startswith(HEALTH_UNKNOWN)),
        *_missing(jobs, results.standing),
        *table.brief,
    )
    return replace(
        table, basis=(*_sizes(table), *_seeds(plan, jobs)), brief=said, of=of_table(table, plan, results.victims)
    )


def _sizes(table: Table) -> list[str]:
    counts = [cell["n"] for cell in table.cells if cell.get("n") and "sets" not in cell]  # not those of averages
    errored = [cell["errored"] for cell in table.cells if cell.get("errored")]
    said = [f"n of a cell: {spanned(counts)}."] if counts else []
    late = [cell["timed_out"] for cell in table.cells if cell.get("timed_out")]
    more = f", of these timed out up to {max(late)}" if late else ""
    return said + ([f"Errored examples, in no denominator: up to {max(errored)} of a cell{more}."] if errored else [])


def _seeds(plan: Plan, jobs: list[Job]) -> list[str]:
    if not jobs:
        return []
    if plan.draws:
        trained = dict.fromkeys(plan.draw(job.parts[0]).train_seed for job in jobs)
        said = [f"Training seeds {', '.join(str(seed) for seed in trained if seed is not None)}."]
        tuned = "" if jobs[0].untuned else f"Fine-tuning: {seeds(jobs)[0].lower()}{seeds(jobs)[1:]}"
        return [*said, *([tuned] if tuned else []), draws.notes(plan, jobs)[-1]]
    return [] if jobs[0].untuned else [seeds(jobs)]


def _resources(jobs: list[Job]) -> list[str]:
    profiles = dict.fromkeys(job.attacking.resources.name for job in jobs if job.attacking is not None)
    return [f"Resources: {', '.join(profiles)}."] if profiles else []


def _flags(table: Table, plan: Plan, known: dict[str, str]) -> list[str]:
    parts = {job.name: job.parts for job in plan.jobs}
    raised: dict[str, dict[str, None]] = {}
    for flag in table.flags:
        job = flag["job"]  # or an encoder whose weights are given
        name = shown_parts(parts[job], known) if job in parts else known.get(job, job)
        raised.setdefault(flag["flag"], {})[name] = None
    return [f"Flagged {flag}: {listed(list(found))}." for flag, found in raised.items()]


def _missing(jobs: list[Job], found: Standing) -> list[str]:
    counts = zip(map(len, found.unfinished(jobs)), ("failed", "are damaged", "are not done"), strict=True)
    said = ", ".join(f"{n} {what}" for n, what in counts if n)
    return [f"Of {len(jobs)} jobs {said}."] if said else []


def titles(plan: Plan, metrics: Metrics | None = None) -> dict[str, str]:
    """Return what stands for each name of the plan's encoders, tasks, attacks and contrast sets.

    With the metrics of a RUN, names of rbench's own fine-tuning strategies are among them.

    Names that stay, because they have no short title or one that is not theirs alone, are left out.
    """
    found: dict[str, str] = {}
    for name, entry in _entries(plan):
        if (title := _title(name, entry.short or _fitting(entry))) is not None:
            found.setdefault(name, title)
    taken = {name for name, _ in _entries(plan)}
    for name, title in _strategies(plan, metrics).items():
        if name not in taken:
            found.setdefault(name, title)
    uses = Counter(found.values())
    return {name: title for name, title in found.items() if uses[title] == 1 and title not in taken - {name}}


def titled(table: Table, plan: Plan, metrics: Metrics | None = None) -> Table:
    """Return a table with titles for names in its header and its columns of names, and a note that gives the names."""
    known, used = titles(plan, metrics), {}
    strategies = {name: known.pop(name) for name in _strategies(plan, metrics) if name in known}
    columns = {i for i, head in enumerate(table.header) if head == "Fine-tuning"}
    options: dict[str, str] = {}

    def shown(text: str) -> str:
        if text in known:
            used[text] = known[text]
            return known[text]
        for name in sorted(known, key=len, reverse=True):  # `ASR pwws`, `mr Con`
            if text.startswith(f"{name} ") or text.endswith(f" {name}"):
                used[name] = known[name]
                return known[name].join(text.rsplit(name, 1) if text.endswith(name) else text.split(name, 1))
        return text

    def entry(value: Entry, column: int) -> Entry:
        if isinstance(value, str) and column in columns and value in strategies:
            used[value] = title = strategies[value]
            if "[" in value and "[" not in title:
                options[title] = value.partition("[")[2].removesuffix("]")
            return title
        return shown(value) if isinstance(value, str) and value in known else value

    rows = tuple(tuple(entry(value, i) for i, value in enumerate(row)) for row in table.rows)
    header = tuple(map(shown, table.header))
    listed = "; ".join(f"{title}: {name}" for name, title in used.items() if title != name)
    notes = [f"Names in notes, commands, CSV and JSON: {listed}."] if listed else []
    brief = [f"{title}: {said.replace(',', ', ')}." for title, said in options.items()]
    return replace(table, rows=rows, header=header, notes=(*table.notes, *notes), brief=(*table.brief, *brief))


def _entries(plan: Plan) -> Iterator[tuple[str, Named]]:
    """Yield the labels in tables and their entries."""
    for job in plan.jobs:
        if job.entry is not None:
            yield plan.draw(job.parts[0]).encoder, job.entry
        if job.attacking is not None:
            yield job.parts[-1], job.attacking.attack
        if not isinstance(job.spec, PretrainJob):
            yield job.spec.task.name, job.spec.task
        if job.measuring is not None and job.untuned:
            yield job.parts[-1], job.measuring.task
        if job.measuring is not None and isinstance(job.measuring.set, Named):
            yield job.measuring.set.name, job.measuring.set


def _strategies(plan: Plan, metrics: Metrics | None) -> dict[str, str]:
    """Return what tables call the fine-tuning strategies of a plan that are rbench's own, with the options that tell
    several choices of one strategy apart.
    """
    if metrics is None:
        return {}
    # A strategy with options by task is one choice with one label, whatever each of its jobs does.
    labelled = [(job.parts[2], job.spec) for job in plan.jobs if isinstance(job.spec, FinetuneJob)]
    own = {label: spec.strategy.name for label, spec in labelled if not spec.source}
    uses = Counter({label: spec.strategy.name for label, spec in labelled}.values())
    called = {label: _title(label if uses[name] > 1 else name, metrics.called(name)) for label, name in own.items()}
    return {label: title for label, title in called.items() if title is not None}


def _fitting(entry: Named) -> str:
    return entry.title if len(entry.title) <= ROOM.get(type(entry), COLUMN) else ""


def _title(name: str, title: str) -> str | None:
    _, bracket, options = name.partition("[")
    return f"{title} {bracket}{options}" if title and bracket else title or None


def in_words(text: str, known: Mapping[str, str], *, sentence: bool = False) -> str:
    """Return a text with titles in place of the names in it.

    Args:
        known: the titles by name.
        sentence: whether it has other words, so that a name that could be one of them stays.
    """
    names = [name for name in known if not sentence or re.search(r"[-_\[\d]", name)]
    if not names:
        return text
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w\[=-])(?:{either})(?![\w=-])", lambda found: known[found[0]], text)


def shown_parts(parts: tuple[str, ...], known: Mapping[str, str]) -> str:
    """Return the name of a job, such as `SimCSE on mini-bert/mr/clean`, with titles."""
    return "/".join(known.get(part, part) for part in parts)
