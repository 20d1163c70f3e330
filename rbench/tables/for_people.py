"""Make a table shorter for people: its notes in one paragraph, and titles in place of file names.

The paragraph says what a reader must know: n, seeds, resources, flags, and what is missing. It is made for any table of
a RUN, of a metric or of a measure, from the table's cells and the RUN's plan. The full notes, one bullet each, are
`Table.notes`; JSON always has them.

The plan holds `title` and `short` of every entry as they were when it was made. A table shows `short`, or a title
that has room (`TITLE_ROOM`); otherwise the name stays. Options stay visible: `SimCSE on mini-bert [temperature=0.1]`.
Where two entries of a table would read alike, both keep their names. rbench's own fine-tuning strategies say in their
files what tables call them (`short`); those of users keep their names. An attack shows only the options in which it
differs from others of its name, and a strategy that a plan has once shows none; all options stand below the table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rbench.metrics import MetricCatalogue
from rbench.schema import AttackSpec, Choice, EncoderSpec, FinetuneJob, Job, Plan, PretrainJob, VictimSpec
from rbench.schema.entries import Named
from rbench.store.job_status import JobStatuses
from rbench.tables import draws
from rbench.tables.draws import describe_weights
from rbench.tables.flags import HEALTH_UNKNOWN
from rbench.tables.formats import list_names
from rbench.tables.notes import format_range, seeds_note
from rbench.tables.results import Results
from rbench.tables.table import Table, TableEntry

TITLE_ROOM: Mapping[type[Named], int] = {EncoderSpec: 40, VictimSpec: 40, AttackSpec: 40}
"""The most characters of a title that stands for a name, by kind of entry."""
COLUMN_TITLE_ROOM = 20
"""The same for entries that head columns."""


def add_short_notes(table: Table, results: Results, *, names: bool = False) -> Table:
    """Return the table with its notes in short, and with what its numbers are of.

    Args:
        names: whether flagged jobs are named as in commands instead of by titles.
    """
    plan = results.plan
    measure_jobs = [job for job in plan.jobs if job.what == table.metric] if table.shows is not None else []
    jobs = measure_jobs or [job for job in plan.jobs if job.attacking is not None]
    short_notes = (
        *_resource_note(jobs),
        *_precision_note(plan),
        *_flag_notes(table, plan, {} if names else collect_titles(plan, results.metrics)),
        *(note for note in table.notes if note.startswith(HEALTH_UNKNOWN)),
        *_unfinished_note(jobs, results.standing),
        *table.brief,
    )
    return replace(
        table,
        basis=(*_size_notes(table), *_seed_notes(plan, jobs)),
        brief=short_notes,
        of=describe_weights(table, plan, results.victims),
    )


def _size_notes(table: Table) -> list[str]:
    counts = [cell["n"] for cell in table.cells if cell.get("n") and "sets" not in cell]  # not those of averages
    errored = [cell["errored"] for cell in table.cells if cell.get("errored")]
    sentences = [f"n of a cell: {format_range(counts)}."] if counts else []
    timed_out = [cell["timed_out"] for cell in table.cells if cell.get("timed_out")]
    more = f", of these timed out up to {max(timed_out)}" if timed_out else ""
    return sentences + (
        [f"Errored examples, in no denominator: up to {max(errored)} of a cell{more}."] if errored else []
    )


def _seed_notes(plan: Plan, jobs: list[Job]) -> list[str]:
    if not jobs:
        return []
    if plan.draws:
        trained = dict.fromkeys(plan.draw(job.parts[0]).train_seed for job in jobs)
        sentences = [f"Training seeds {', '.join(str(seed) for seed in trained if seed is not None)}."]
        fine_tuning = "" if jobs[0].untuned else f"Fine-tuning: {seeds_note(jobs)[0].lower()}{seeds_note(jobs)[1:]}"
        return [*sentences, *([fine_tuning] if fine_tuning else []), draws.notes(plan, jobs)[-1]]
    return [] if jobs[0].untuned else [seeds_note(jobs)]


def _resource_note(jobs: list[Job]) -> list[str]:
    profiles = dict.fromkeys(job.attacking.resources.name for job in jobs if job.attacking is not None)
    return [f"Resources: {', '.join(profiles)}."] if profiles else []


def _precision_note(plan: Plan) -> list[str]:
    # A precision that is an option of a strategy stands in its label.
    tasks = dict.fromkeys(
        job.spec.task.name
        for job in plan.jobs
        if isinstance(job.spec, FinetuneJob)
        and job.spec.training.precision == "bf16"
        and "precision" not in job.spec.strategy.options
    )
    return [f"Fine-tuning in bf16, where weights are trained: {list_names([*tasks])}."] if tasks else []


def _flag_notes(table: Table, plan: Plan, titles_by_name: dict[str, str]) -> list[str]:
    parts = {job.name: job.parts for job in plan.jobs}
    names_by_flag: dict[str, dict[str, None]] = {}
    for flag in table.flags:
        job = flag["job"]  # or an encoder whose weights are given
        name = name_with_titles(parts[job], titles_by_name) if job in parts else titles_by_name.get(job, job)
        names_by_flag.setdefault(flag["flag"], {})[name] = None
    return [f"Flagged {flag}: {list_names(list(flagged))}." for flag, flagged in names_by_flag.items()]


def _unfinished_note(jobs: list[Job], statuses: JobStatuses) -> list[str]:
    counts = zip(map(len, statuses.unfinished(jobs)), ("failed", "are damaged", "are not done"), strict=True)
    counted = ", ".join(f"{n} {what}" for n, what in counts if n)
    return [f"Of {len(jobs)} jobs {counted}."] if counted else []


def collect_titles(plan: Plan, metrics: MetricCatalogue | None = None) -> dict[str, str]:
    """Return what stands for each name of the plan's encoders, tasks, attacks and contrast sets.

    With the metrics of a RUN, names of rbench's own fine-tuning strategies are among them.

    Names that stay, because they have no short title or one that is not theirs alone, are left out.
    """
    title_by_name: dict[str, str] = {}
    attack_labels = shorten_labels(plan.suite.attacks)
    for name, entry in _labelled_entries(plan):
        label = attack_labels.get(name, name) if isinstance(entry, AttackSpec) else name
        if (title := _title_with_options(label, entry.short or _short_title(entry))) is not None:
            title_by_name.setdefault(name, title)
    entry_names = {name for name, _ in _labelled_entries(plan)}
    for name, title in _strategy_titles(plan, metrics).items():
        if name not in entry_names:
            title_by_name.setdefault(name, title)
    uses = Counter(title_by_name.values())
    # A title that two names share, or that is another entry's name, would mislead: both keep their names.
    return {
        name: title for name, title in title_by_name.items() if uses[title] == 1 and title not in entry_names - {name}
    }


def replace_names(table: Table, plan: Plan, metrics: MetricCatalogue | None = None) -> Table:
    """Return a table with titles for names in its header and its columns of names, and a note that gives the names."""
    titles_by_name, replaced = collect_titles(plan, metrics), {}
    # Titles of strategies replace names in their own column only: elsewhere such a word may mean something else.
    strategies = {name: titles_by_name.pop(name) for name in _strategy_titles(plan, metrics) if name in titles_by_name}
    columns = {i for i, head in enumerate(table.header) if head == "Fine-tuning"}

    def shown(text: str) -> str:
        if text in titles_by_name:
            replaced[text] = titles_by_name[text]
            return titles_by_name[text]
        # The text may begin or end with a name: `ASR pwws`, `mr Con`. Longest first, so that `simcse-mini` is not taken
        # for `simcse`.
        for name in sorted(titles_by_name, key=len, reverse=True):
            if text.startswith(f"{name} ") or text.endswith(f" {name}"):
                replaced[name] = titles_by_name[name]
                return titles_by_name[name].join(text.rsplit(name, 1) if text.endswith(name) else text.split(name, 1))
        return text

    def entry(value: TableEntry, column: int) -> TableEntry:
        if isinstance(value, str) and column in columns and value in strategies:
            replaced[value] = strategies[value]
            return strategies[value]
        return shown(value) if isinstance(value, str) and value in titles_by_name else value

    rows = tuple(tuple(entry(value, i) for i, value in enumerate(row)) for row in table.rows)
    header = tuple(map(shown, table.header))
    pairs = "; ".join(f"{title}: {name}" for name, title in replaced.items() if title != name)
    notes = [f"Names in notes, commands, CSV and JSON: {pairs}."] if pairs else []
    # What a title leaves out of the options of a name.
    hidden_options = {
        title: name.partition("[")[2].removesuffix("]")
        for name, title in replaced.items()
        if "[" in name and not title.endswith(name[name.index("[") :])
    }
    option_notes = [f"{title}: {option_text.replace(',', ', ')}." for title, option_text in hidden_options.items()]
    return replace(table, rows=rows, header=header, notes=(*table.notes, *notes), brief=(*table.brief, *option_notes))


def _labelled_entries(plan: Plan) -> Iterator[tuple[str, Named]]:
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


def shorten_labels(choices: Iterable[Choice]) -> dict[str, str]:
    """Return for the label of each choice a shorter one, with the options in which it differs from its namesakes.

    Of an option that holds others, only those that differ are named, without it where no other has their name:
    `inside[space={candidates:synonyms,k:50}]` beside `inside[space={candidates:wordnet,k:50}]` becomes
    `inside[candidates=synonyms]`.
    """
    options_by_label = {choice.label: dict(_flatten_options(choice.options)) for choice in choices}
    short_labels = {}
    for label, options in options_by_label.items():
        name = label.partition("[")[0]
        namesakes = [other for label, other in options_by_label.items() if label.partition("[")[0] == name]
        differing = {
            path: value for path, value in options.items() if any(other.get(path) != value for other in namesakes)
        }
        uses = Counter(path[-1] for path in differing)
        shown = {path[-1] if uses[path[-1]] == 1 else ".".join(path): value for path, value in differing.items()}
        short_labels[label] = Choice(name=name, options=shown).label
    return short_labels


def _flatten_options(options: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each option that holds no others: `("space", "k"), 50`."""
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _flatten_options(value, (*above, key))
        else:
            yield (*above, key), value


def _strategy_titles(plan: Plan, metrics: MetricCatalogue | None) -> dict[str, str]:
    """Return what tables call the fine-tuning strategies of a plan that are rbench's own, with the options that tell
    several choices of one strategy apart.
    """
    if metrics is None:
        return {}
    # A strategy with options by task is one choice with one label, whatever each of its jobs does.
    labelled = [(job.parts[2], job.spec) for job in plan.jobs if isinstance(job.spec, FinetuneJob)]
    bundled = {label: spec.strategy.name for label, spec in labelled if not spec.source}
    uses = Counter({label: spec.strategy.name for label, spec in labelled}.values())
    strategy_titles = {
        label: _title_with_options(label if uses[name] > 1 else name, metrics.called(name))
        for label, name in bundled.items()
    }
    return {label: title for label, title in strategy_titles.items() if title is not None}


def _short_title(entry: Named) -> str:
    return entry.title if len(entry.title) <= TITLE_ROOM.get(type(entry), COLUMN_TITLE_ROOM) else ""


def _title_with_options(name: str, title: str) -> str | None:
    _, bracket, options = name.partition("[")
    return f"{title} {bracket}{options}" if title and bracket else title or None


def replace_names_in_text(text: str, title_by_name: Mapping[str, str], *, sentence: bool = False) -> str:
    """Return a text with titles in place of the names in it.

    Args:
        title_by_name: the titles by name.
        sentence: whether it has other words, so that a name that could be one of them stays.
    """
    names = [name for name in title_by_name if not sentence or re.search(r"[-_\[\d]", name)]
    if not names:
        return text
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w\[=-])(?:{any_name})(?![\w=-])", lambda name_in_text: title_by_name[name_in_text[0]], text)


def name_with_titles(parts: tuple[str, ...], title_by_name: Mapping[str, str]) -> str:
    """Return the name of a job, such as `SimCSE on mini-bert/mr/clean`, with titles."""
    return "/".join(title_by_name.get(part, part) for part in parts)
