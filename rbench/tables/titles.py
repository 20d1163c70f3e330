"""Show encoders, tasks, attacks and contrast sets by their titles instead of their file names.

The plan holds `title` and `short` of every entry as they were when it was made. A table shows `short`, or a title
that has room (`ROOM`); otherwise the name stays. Options stay visible: `SimCSE on mini-bert [temperature=0.1]`.
Where two entries of a table would read alike, both keep their names. Fine-tuning strategies have no titles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from rbench.schema import (
    AttackSpec,
    EncoderSpec,
    Plan,
    PretrainJob,
    VictimSpec,
)
from rbench.schema.entries import Named
from rbench.tables.table import Entry, Table

ROOM: Mapping[type[Named], int] = {EncoderSpec: 40, VictimSpec: 40, AttackSpec: 40}
"""The most characters of a title that stands for a name, by kind of entry."""
COLUMN = 20
"""The same for entries that head columns."""


def titles(plan: Plan) -> dict[str, str]:
    """Return what stands for each name of the plan's encoders, tasks, attacks and contrast sets.

    Names that stay, because they have no short title or one that is not theirs alone, are left out.
    """
    found: dict[str, str] = {}
    for name, entry in _entries(plan):
        if (title := _title(name, entry)) is not None:
            found.setdefault(name, title)
    uses = Counter(found.values())
    taken = {name for name, _ in _entries(plan)}
    return {name: title for name, title in found.items() if uses[title] == 1 and title not in taken - {name}}


def titled(table: Table, plan: Plan) -> Table:
    """Return a table with titles for names in its header and its columns of names, and a note that gives the names."""
    known, used = titles(plan), {}

    def shown(text: str) -> str:
        if text in known:
            used[text] = known[text]
            return known[text]
        for name in sorted(known, key=len, reverse=True):  # `ASR pwws`, `mr Con`
            if text.startswith(f"{name} ") or text.endswith(f" {name}"):
                used[name] = known[name]
                return known[name].join(text.rsplit(name, 1) if text.endswith(name) else text.split(name, 1))
        return text

    def entry(value: Entry) -> Entry:
        return shown(value) if isinstance(value, str) and value in known else value

    rows = tuple(tuple(map(entry, row)) for row in table.rows)
    header = tuple(map(shown, table.header))
    listed = "; ".join(f"{title}: {name}" for name, title in used.items() if title != name)
    note = f"Names in notes, commands, CSV and JSON: {listed}."
    return replace(table, rows=rows, header=header, notes=(*table.notes, *([note] if listed else [])))


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


def _title(name: str, entry: Named) -> str | None:
    title = entry.short or (entry.title if len(entry.title) <= ROOM.get(type(entry), COLUMN) else "")
    _, bracket, options = name.partition("[")
    return f"{title} {bracket}{options}" if title and bracket else title or None


def shown_parts(parts: tuple[str, ...], known: Mapping[str, str]) -> str:
    """Return the name of a job, such as `SimCSE on mini-bert/mr/clean`, with titles."""
    return "/".join(known.get(part, part) for part in parts)
