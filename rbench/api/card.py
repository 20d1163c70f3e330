"""The card of an evaluation: ten numbers with intervals in plain words, what breaks the model, and what is not said.

Its numbers are those of the RUNs' own tables (`verdicts.cells`), and differences those of `rbench compare`, except that
p is corrected over the numbers of the card, which are one family.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rbench.schema import Outcome
from rbench.schema.claims import CellOf
from rbench.score import Share
from rbench.score.paired import Difference, holm
from rbench.store.runs import Store
from rbench.system.changes import marked
from rbench.tables import Results
from rbench.tables.table import p_value
from rbench.verdicts.cells import Cells, OfCell, by_name
from rbench.verdicts.compare import CellKey, pair
from rbench.verdicts.pairing import way

FEW = 30
"""With fewer texts a card begins with what it cannot tell."""
SHOWN = 3
"""How many changed texts a card shows of each model."""
Verdict = Literal["better", "worse", "undecided"]


class Part(NamedTuple):
    """A RUN that a card reads."""

    results: Results
    store: Store
    report: Path | None


@dataclass(frozen=True)
class Asked:
    """A number that a card asks of a RUN."""

    id: str
    title: str
    metric: str
    part: str
    task: str
    """As claims name it, so of noise the kind and the degree."""
    attack: str | None
    says: str
    """What the number means, with `{hits}`, `{n}` or `{value}` in place of numbers."""


@dataclass(frozen=True)
class Value:
    """A number of one model. Shares and correlations lie in -1..1; the interval is one of 95%."""

    value: float
    low: float | None
    high: float | None
    n: int
    flags: tuple[str, ...] = ()
    """What the RUN found suspicious in the training, the victim or the attack behind it."""


@dataclass(frozen=True)
class Compared:
    """The second model against the first: second minus first, over the units that both have."""

    difference: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    """Holm's, over the numbers of the card."""
    verdict: Verdict
    """Whether the second is better."""
    shows: float | None
    """The least true difference that so many units show with a power of 80%, before the correction."""
    why: str = ""
    """Why nothing is decided, apart from p."""


@dataclass(frozen=True)
class Line:
    """A line of the card: one value for each model, None where it has none, and `missing` says why."""

    asked: Asked
    values: tuple[Value | None, ...]
    missing: str = ""
    compared: Compared | None = None

    @property
    def said(self) -> str:
        """What the first model's number means, in words."""
        one = self.values[0]
        if one is None:
            return ""
        return self.asked.says.format(hits=round(one.value * one.n), n=f"{one.n:,}", value=round(100 * one.value))


@dataclass(frozen=True)
class Broken:
    """A text that an attack changed until a model erred."""

    model: str
    attack: str
    was: str
    became: str
    words: int
    """How many words changed."""
    text: str
    """The text, with each change as `[[old]] -> [[new]]`."""


@dataclass(frozen=True)
class Card:
    """What an evaluation found."""

    models: tuple[str, ...]
    task: str
    n: int
    lines: tuple[Line, ...]
    broken: tuple[Broken, ...]
    notes: tuple[str, ...]
    runs: tuple[str, ...]
    reports: tuple[str, ...]

    def rendered(self, fmt: str) -> str:
        """Return the card as markdown, or for programs as JSON."""
        return "\n".join(_markdown(self)) if fmt == "markdown" else _json(self)


def card_of(
    models: tuple[str, ...],
    asked: Sequence[Asked],
    parts: Mapping[str, Part],
    missing: Mapping[str, str],
    notes: Sequence[str],
) -> Card:
    """Read a card.

    Args:
        models: one or two, by their labels in the RUNs.
        asked: the numbers.
        parts: the RUNs.
        missing: by the id of a number why no RUN has it.
        notes: further sentences on how the numbers came about.

    Raises StoreError where a RUN is damaged.
    """
    cells = {name: Cells(part.results) for name, part in parts.items()}
    read = [_read(one, models, parts, cells, missing) for one in asked]
    lines = _judged(read) if len(models) > 1 else [line for line, _ in read]
    main = parts["main"]
    flagged = [note for part in parts.values() for note in part.results.flags.raised_notes(part.results.plan.jobs)]
    n = {job.attacking.num_examples for job in main.results.plan.attacks if job.attacking is not None}
    return Card(
        models,
        " and ".join(main.results.plan.suite.tasks),
        min(n, default=0),
        tuple(lines),
        tuple(one for model in models for one in _broken(model, main)),
        (*notes, *flagged),
        tuple(str(part.results.root) for part in parts.values()),
        tuple(str(part.report) for part in parts.values() if part.report is not None),
    )


_Read = tuple[Line, tuple["_Found", ...]]


class _Found(NamedTuple):
    """The cell of a number, and why it decides nothing."""

    cell: OfCell
    obstacle: str | None


def _read(
    asked: Asked,
    models: tuple[str, ...],
    parts: Mapping[str, Part],
    cells: Mapping[str, Cells],
    missing: Mapping[str, str],
) -> _Read:
    """Read a number of all models, with the cells behind it where all have it."""
    if asked.id in missing or asked.part not in parts:
        return Line(asked, (None,) * len(models), missing.get(asked.id, "it was not asked for")), ()
    results = parts[asked.part].results
    named = by_name(results, results.metrics.asked(asked.metric))
    there = [_cell(named, model, asked) for model in models]
    values: list[Value | None] = []
    why, found = "", []
    for one in there:
        if one is None:
            values.append(None)
            why = why or "the RUN does not ask for it"
            continue
        name, cell = one
        stated = cell.stated() if cell.cell.present else None
        if stated is None:
            values.append(None)
            why = why or _why(name, cell, cells[asked.part].obstacle(name, asked.metric))
            continue
        flags = tuple(results.flags.told(cell.cell.jobs) or ())
        values.append(Value(stated.value, stated.low, stated.high, stated.n, flags))
        found.append(_Found(cell, cells[asked.part].obstacle(name, asked.metric)))
    return Line(asked, tuple(values), why), tuple(found) if len(found) == len(models) else ()


def _why(name: CellOf, cell: OfCell, obstacle: str | None) -> str:
    """Say why a number is not there: its job failed, or is not done, or its metric is not defined."""
    records = [run.record for run in cell.cell.runs if run.record is not None and run.failed]
    if records:
        return f"its job failed ({records[0].reason}). The same command tries it again"
    return obstacle or f"{name} has no value: {cell.cell.meaning(cell.number).undefined}"


def _cell(named: Mapping[CellOf, OfCell], model: str, asked: Asked) -> tuple[CellOf, OfCell] | None:
    """Return the cell of a number. What is known before any attack has the cells of all attacks, which are equal."""
    return next(
        (
            (name, cell)
            for name, cell in named.items()
            if name.encoder == model and name.task == asked.task and asked.attack in (None, name.attack)
        ),
        None,
    )


def _judged(read: Sequence[_Read]) -> list[Line]:
    """Compare two models in each number that both have, text by text."""
    pairs: list[tuple[Difference, str] | None] = []
    for line, found in read:
        if not found:
            pairs.append(None)
            continue
        one, other = found
        metric = one.cell.cell.results.metrics.asked(line.asked.metric)
        key = CellKey("", line.asked.task, "", line.asked.attack or "")
        difference = pair(key, one.cell, other.cell, metric).difference
        pairs.append((difference, one.obstacle or other.obstacle or ""))
    p_values = iter(holm([found.p for found, _ in filter(None, pairs)]))
    lines = []
    for (line, _), judged in zip(read, pairs, strict=True):
        if judged is None:
            lines.append(line)
            continue
        compared = _compared(line.asked, judged[0], next(p_values), judged[1])
        lines.append(Line(line.asked, line.values, line.missing, compared))
    return lines


LOWER = ("asr",)
"""The metrics of the card of which low values are good for the model."""


def _compared(asked: Asked, d: Difference, p: float | None, why: str) -> Compared:
    side = way(d, p) if not why else "undecided"
    good = "lower" if asked.metric in LOWER else "higher"
    verdict: Verdict = "undecided" if side == "undecided" else "better" if side == good else "worse"
    return Compared(d.value, d.low, d.high, d.n, p, verdict, d.smallest, why)


def _broken(model: str, part: Part) -> Iterator[Broken]:
    """Yield the changed texts with the fewest changed words, and of these the shortest, each of another text.

    In the embedded world those are left out whose true label changed, because there the model need not err.
    """
    if not part.results.plan.texts:
        return
    found: list[tuple[int, int, str, Outcome, tuple[str, ...]]] = []
    for job in part.results.plan.attacks:
        spec = job.attacking
        if (
            spec is None
            or part.results.plan.draw(job.parts[0]).encoder != model
            or job.key not in part.results.standing.done
        ):
            continue
        for one in part.store.outcomes(job):
            if one.status == "succeeded" and one.oracle_label in (None, one.label) and one.original and one.perturbed:
                size = sum(map(len, one.original))
                found.append((one.num_words_changed, size, job.parts[-1], one, spec.task.labels))
    seen: set[str] = set()
    for words, _, attack, one, labels in sorted(found, key=lambda each: (*each[:3], each[3].example_id)):
        if len(seen) < SHOWN and one.example_id not in seen:
            seen.add(one.example_id)
            assert one.original is not None and one.perturbed is not None and one.perturbed_prediction is not None
            text = " | ".join(marked(old, new) for old, new in zip(one.original, one.perturbed, strict=True))
            was, became = (labels[place] for place in (one.label or 0, one.perturbed_prediction))
            yield Broken(model, attack.partition("[")[0], was, became, words, text)


# ------------------------------------------------------------------------------------------------------- rendering


def _points(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{100 * value:{sign}.1f}"


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"[{_points(low)}, {_points(high)}]"


def _markdown(card: Card) -> Iterator[str]:
    yield f"# {' and '.join(card.models)} on {card.task}"
    yield ""
    yield from (f"{line}\n" for line in _beforehand(card.n))
    yield from _two(card) if len(card.models) > 1 else _one(card)
    missing = [line for line in card.lines if line.missing]
    if missing:
        yield from ("", "## What is missing, and why", "")
        yield from (f"- {line.asked.title}: {line.missing}" for line in missing)
    yield from ("", "## What breaks it" if len(card.models) == 1 else "## What breaks them", "")
    for one in card.broken:
        of = "" if len(card.models) == 1 else f"{one.model}, "
        changed = "1 word" if one.words == 1 else f"{one.words} words"
        yield f"- {of}{one.was} becomes {one.became} ({one.attack}, {changed} changed): {one.text}"
    if not card.broken:
        yield "No changed text is kept: no attack succeeded, or the RUN keeps no texts."
    yield from ("", "## How the numbers came about", "")
    yield from (f"- {note}" for note in card.notes)
    yield (
        "- All numbers are in percent, with 95% intervals for the choice of texts. They are of these weights: another "
        "training may give others."
    )
    yield f"- Results: {', '.join(card.runs)}"


def _beforehand(n: int) -> Iterator[str]:
    """Say how sure the numbers can be with so many texts."""
    low, high = Share(n // 2, n).interval() or (0.0, 1.0)
    half = 50 * (high - low)
    if n < FEW:
        yield (
            f"**{n} texts tell little.** A share of them is known to within {half:.0f} points at worst: a model that "
            f"is right on 60% cannot be told from one that is right on {min(100, 60 + round(half))}%. Take --n 100."
        )
    else:
        yield f"A share of {n} texts is known to within {half:.0f} points at worst."


def _one(card: Card) -> Iterator[str]:
    yield "| | Number | 95% interval | n | In plain words |"
    yield "|:--|--:|:--|--:|:--|"
    for line in card.lines:
        if (one := line.values[0] if line.values else None) is None:
            yield f"| {line.asked.title} | – | | | see below |"
            continue
        flagged = f" ({', '.join(one.flags)})" if one.flags else ""
        numbers = f"{_points(one.value)} | {_interval(one.low, one.high)} | {one.n:,}"
        yield f"| {line.asked.title} | {numbers} | {line.said}{flagged} |"


def _two(card: Card) -> Iterator[str]:
    one, other = card.models
    yield f"| | {one} | {other} | Difference | 95% interval | n | p | {other} is | Could show |"
    yield "|:--|--:|--:|--:|:--|--:|--:|:--|--:|"
    for line in card.lines:
        values = [_points(value.value) if value is not None else "–" for value in line.values]
        if (c := line.compared) is None:
            yield f"| {line.asked.title} | {' | '.join(values)} | – | | | | see below | |"
            continue
        verdict = f"{c.verdict} ({c.why.rpartition(' is ')[2]})" if c.why else c.verdict
        cells = [
            _points(c.difference, "+"),
            _interval(c.low, c.high),
            f"{c.n:,}",
            str(p_value(c.p)),
            verdict,
            _points(c.shows),
        ]
        yield f"| {line.asked.title} | {' | '.join((*values, *cells))} |"
    yield ""
    yield verdict_of(card)
    yield ""
    yield (
        "Judged text by text: a success rate over the texts that both get right. p is Holm's over the numbers of the "
        "card. Could show: the least true difference, in points, that so many texts show four times in five, before "
        "that correction. What is undecided is not shown to be equal."
    )


def verdict_of(card: Card) -> str:
    """Say in a sentence in which numbers the second model is better, worse, or neither."""
    one, other = card.models
    by: dict[Verdict, list[str]] = {"better": [], "worse": [], "undecided": []}
    for line in card.lines:
        if line.compared is not None:
            title = line.asked.title.partition(" (")[0]
            by[line.compared.verdict].append(title[:1].lower() + title[1:])
    total = sum(map(len, by.values()))
    if not by["better"] and not by["worse"]:
        return f"**None of the {total} numbers tells {other} from {one}.**"
    said = " and ".join(
        f"{verdict} than {one} in {_listed(by[verdict])}" for verdict in ("better", "worse") if by[verdict]
    )
    rest = f" In the other {len(by['undecided'])} nothing is decided." if by["undecided"] else ""
    return f"**{other} is {said}.**{rest}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _json(card: Card) -> str:
    told: dict[str, Any] = {
        "models": card.models,
        "task": card.task,
        "n": card.n,
        "numbers": [
            {
                "id": line.asked.id,
                "title": line.asked.title,
                "metric": line.asked.metric,
                "task": line.asked.task,
                "attack": line.asked.attack,
                "values": [None if one is None else asdict(one) for one in line.values],
                "missing": line.missing or None,
                "said": line.said or None,
                "compared": None if line.compared is None else asdict(line.compared),
            }
            for line in card.lines
        ],
        "verdict": verdict_of(card) if len(card.models) > 1 else None,
        "breaks": [asdict(one) for one in card.broken],
        "before": list(_beforehand(card.n)),
        "notes": card.notes,
        "runs": card.runs,
        "reports": card.reports,
    }
    return json.dumps(told, indent=1, ensure_ascii=False)
