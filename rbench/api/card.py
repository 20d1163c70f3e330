"""The card of an evaluation: numbers with intervals in plain words, what breaks the model, and what is not said.

Its numbers are those of the RUNs' own tables (`verdicts.cells`), and differences those of `rbench compare`, except that
p is corrected over the numbers of the card, which are one family.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rbench.schema import Outcome
from rbench.schema.claims import CellOf
from rbench.score import Proportion
from rbench.score.paired import DifferenceEstimate, correct_by_holm
from rbench.store.runs import RunStore
from rbench.system.changes import mark_changes
from rbench.tables import Results, Table
from rbench.tables.flags import ATTACK_FLAGS
from rbench.tables.table import format_p_value
from rbench.verdicts.cells import CellNumber, RunCells, cells_by_name
from rbench.verdicts.compare import CellName, compare_cells
from rbench.verdicts.pairing import side_of_bound

FEW_TEXTS = 30
"""With fewer texts a card begins with what it cannot tell."""
TEXTS_SHOWN = 3
"""How many changed texts a card shows of each model."""
Verdict = Literal["better", "worse", "undecided"]


class CardRun(NamedTuple):
    """A RUN that a card reads."""

    results: Results
    store: RunStore
    report: Path | None


@dataclass(frozen=True)
class CardMetric:
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
class CardValue:
    """A number of one model. Shares and correlations lie in -1..1; the interval is one of 95%."""

    value: float
    low: float | None
    high: float | None
    n: int
    flags: tuple[str, ...] = ()
    """What the RUN found suspicious in the training, the victim or the attack behind it."""


@dataclass(frozen=True)
class CardDifference:
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
class CardLine:
    """A line of the card: one value for each model, None where it has none, and `missing` says why."""

    asked: CardMetric
    values: tuple[CardValue | None, ...]
    missing: str = ""
    compared: CardDifference | None = None

    @property
    def said(self) -> str:
        """What the first model's number means, in words."""
        value = self.values[0]
        if value is None:
            return ""
        return self.asked.says.format(
            hits=round(value.value * value.n), n=f"{value.n:,}", value=round(100 * value.value)
        )


@dataclass(frozen=True)
class OverlooksVerdict:
    """Whether a model's low success rate is bought with blindness, beside a control (`rbench.measures.two_sided`)."""

    encoder: str
    """The model, by its label in the RUN."""
    control: str
    task: str
    attack: str
    overlooks: bool
    """Whether it follows fewer edits and is fooled less, both decided."""
    common: int
    """Texts that both get right; the differences are over these."""
    followed_difference: float | None
    """Its share of edits followed minus the control's."""
    followed_p: float | None
    """Holm's, over both differences of all attacks; `fooled_p` is, too."""
    fooled_difference: float | None
    """Its success rate minus the control's."""
    fooled_p: float | None


@dataclass(frozen=True)
class BrokenText:
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
    lines: tuple[CardLine, ...]
    broken: tuple[BrokenText, ...]
    notes: tuple[str, ...]
    runs: tuple[str, ...]
    reports: tuple[str, ...]
    overlooking: tuple[OverlooksVerdict, ...] = ()
    """A verdict for each attack; none without a control."""

    def rendered(self, fmt: str) -> str:
        """Return the card as markdown, or for programs as JSON."""
        return "\n".join(_markdown_lines(self)) if fmt == "markdown" else _card_json(self)


def build_card(
    models: tuple[str, ...],
    metrics: Sequence[CardMetric],
    parts: Mapping[str, CardRun],
    missing: Mapping[str, str],
    notes: Sequence[str],
    two_sided: Table | None,
) -> Card:
    """Read a card.

    Args:
        models: one or two, by their labels in the RUNs.
        metrics: the numbers.
        parts: the RUNs.
        missing: by the id of a number why no RUN has it.
        notes: further sentences on how the numbers came about.
        two_sided: the table of two-sided robustness, whose verdicts the card takes over; None: it was not asked for.

    Raises StoreError where a RUN is damaged.
    """
    cells = {name: RunCells(part.results) for name, part in parts.items()}
    read = [_read_line(one, models, parts, cells, missing) for one in metrics]
    lines = _compare_lines(read) if len(models) > 1 else [line for line, _ in read]
    main = parts["main"]
    flagged = [note for part in parts.values() for note in part.results.flags.raised_notes(part.results.plan.jobs)]
    n = {job.attacking.num_examples for job in main.results.plan.attacks if job.attacking is not None}
    return Card(
        models,
        " and ".join(main.results.plan.suite.tasks),
        min(n, default=0),
        tuple(lines),
        tuple(one for model in models for one in _find_broken_texts(model, main)),
        (*notes, *flagged),
        tuple(str(part.results.root) for part in parts.values()),
        tuple(str(part.report) for part in parts.values() if part.report is not None),
        tuple(_read_verdicts(two_sided, models)) if two_sided is not None else (),
    )


def _read_verdicts(two_sided: Table, models: tuple[str, ...]) -> Iterator[OverlooksVerdict]:
    names = [field.name for field in fields(OverlooksVerdict)]
    for cell in two_sided.cells:
        if cell["encoder"] in models and cell["overlooks"] is not None:
            yield OverlooksVerdict(**{name: cell[name] for name in names})


_ReadLine = tuple[CardLine, tuple["_MetricCell", ...]]


class _MetricCell(NamedTuple):
    """The cell of a number, and why it decides nothing."""

    cell: CellNumber
    obstacle: str | None


def _read_line(
    metric: CardMetric,
    models: tuple[str, ...],
    parts: Mapping[str, CardRun],
    cells: Mapping[str, RunCells],
    missing: Mapping[str, str],
) -> _ReadLine:
    """Read a number of all models, with the cells behind it where all have it."""
    if metric.id in missing or metric.part not in parts:
        return CardLine(metric, (None,) * len(models), missing.get(metric.id, "it was not asked for")), ()
    results = parts[metric.part].results
    named = cells_by_name(results, results.metrics.asked(metric.metric))
    found_cells = [_find_cell(named, model, metric) for model in models]
    values: list[CardValue | None] = []
    why, metric_cells = "", []
    for found_cell in found_cells:
        if found_cell is None:
            values.append(None)
            why = why or "the RUN does not ask for it"
            continue
        name, cell = found_cell
        stated = cell.stated() if cell.cell.present else None
        if stated is None:
            values.append(None)
            why = why or _why_missing(name, cell, cells[metric.part].obstacle(name, metric.metric))
            continue
        flags = _relevant_flags(results.flags.told(cell.cell.jobs) or (), metric.attack)
        values.append(CardValue(stated.value, stated.low, stated.high, stated.n, flags))
        metric_cells.append(_MetricCell(cell, cells[metric.part].obstacle(name, metric.metric)))
    return CardLine(metric, tuple(values), why), tuple(metric_cells) if len(metric_cells) == len(models) else ()


def _relevant_flags(told: Iterable[str], attack: str | None) -> tuple[str, ...]:
    """Return the flags that concern a number of an attack, or one that is known before any attack (None)."""
    return tuple(flag for flag in told if attack is not None or flag not in ATTACK_FLAGS)


def _why_missing(name: CellOf, cell: CellNumber, obstacle: str | None) -> str:
    """Say why a number is not there: its job failed, or is not done, or its metric is not defined."""
    records = [run.record for run in cell.cell.runs if run.record is not None and run.failed]
    if records:
        return f"its job failed ({records[0].reason}). The same command tries it again"
    return obstacle or f"{name} has no value: {cell.cell.meaning(cell.number).undefined}"


def _find_cell(named: Mapping[CellOf, CellNumber], model: str, metric: CardMetric) -> tuple[CellOf, CellNumber] | None:
    """Return the cell of a number. What is known before any attack has the cells of all attacks, which are equal."""
    return next(
        (
            (name, cell)
            for name, cell in named.items()
            if name.encoder == model and name.task == metric.task and metric.attack in (None, name.attack)
        ),
        None,
    )


def _compare_lines(read: Sequence[_ReadLine]) -> list[CardLine]:
    """Compare two models in each number that both have, text by text."""
    pairs: list[tuple[DifferenceEstimate, str] | None] = []
    for line, cells in read:
        if not cells:
            pairs.append(None)
            continue
        one, other = cells
        metric = one.cell.cell.results.metrics.asked(line.asked.metric)
        key = CellName("", line.asked.task, "", line.asked.attack or "")
        difference = compare_cells(key, one.cell, other.cell, metric).difference
        pairs.append((difference, one.obstacle or other.obstacle or ""))
    # Holm over the numbers of the card alone: they are the family that its reader looks at together.
    p_values = iter(correct_by_holm([cells.p for cells, _ in filter(None, pairs)]))
    lines = []
    for (line, _), judged in zip(read, pairs, strict=True):
        if judged is None:
            lines.append(line)
            continue
        compared = _judge_difference(line.asked, judged[0], next(p_values), judged[1])
        lines.append(CardLine(line.asked, line.values, line.missing, compared))
    return lines


LOWER_IS_BETTER = ("asr",)
"""The metrics of the card of which low values are good for the model."""


def _judge_difference(metric: CardMetric, difference: DifferenceEstimate, p: float | None, why: str) -> CardDifference:
    side = side_of_bound(difference, p) if not why else "undecided"
    good = "lower" if metric.metric in LOWER_IS_BETTER else "higher"
    verdict: Verdict = "undecided" if side == "undecided" else "better" if side == good else "worse"
    return CardDifference(
        difference.value, difference.low, difference.high, difference.n, p, verdict, difference.smallest, why
    )


def _find_broken_texts(model: str, part: CardRun) -> Iterator[BrokenText]:
    """Yield the changed texts with the fewest changed words, and of these the shortest, each of another text.

    In the embedded world those are left out whose true label changed, because there the model need not err.
    """
    if not part.results.plan.texts:
        return
    candidates: list[tuple[int, int, str, Outcome, tuple[str, ...]]] = []
    for job in part.results.plan.attacks:
        spec = job.attacking
        if (
            spec is None
            or part.results.plan.draw(job.parts[0]).encoder != model
            or job.key not in part.results.standing.done
        ):
            continue
        for outcome in part.store.outcomes(job):
            if (
                outcome.status == "succeeded"
                and outcome.oracle_label in (None, outcome.label)
                and outcome.original
                and outcome.perturbed
            ):
                size = sum(map(len, outcome.original))
                candidates.append((outcome.num_words_changed, size, job.parts[-1], outcome, spec.task.labels))
    shown_ids: set[str] = set()
    for words, _, attack, outcome, labels in sorted(candidates, key=lambda each: (*each[:3], each[3].example_id)):
        if len(shown_ids) < TEXTS_SHOWN and outcome.example_id not in shown_ids:
            shown_ids.add(outcome.example_id)
            assert (
                outcome.original is not None
                and outcome.perturbed is not None
                and outcome.perturbed_prediction is not None
            )
            text = " | ".join(
                mark_changes(old, new) for old, new in zip(outcome.original, outcome.perturbed, strict=True)
            )
            was, became = (labels[place] for place in (outcome.label or 0, outcome.perturbed_prediction))
            yield BrokenText(model, attack.partition("[")[0], was, became, words, text)


# ------------------------------------------------------------------------------------------------------- rendering


def _format_points(value: float | None, sign: str = "") -> str:
    return "–" if value is None else f"{100 * value:{sign}.1f}"


def _format_interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"[{_format_points(low)}, {_format_points(high)}]"


def _markdown_lines(card: Card) -> Iterator[str]:
    yield f"# {' and '.join(card.models)} on {card.task}"
    yield ""
    yield from (f"{line}\n" for line in _precision_note(card.n))
    yield from _two_model_table(card) if len(card.models) > 1 else _one_model_table(card)
    for verdict in card.overlooking:
        yield from ("", overlooks_sentence(verdict))
    missing = [line for line in card.lines if line.missing]
    if missing:
        yield from ("", "## What is missing, and why", "")
        yield from (f"- {line.asked.title}: {line.missing}" for line in missing)
    yield from ("", "## What breaks it" if len(card.models) == 1 else "## What breaks them", "")
    for broken_text in card.broken:
        whose = "" if len(card.models) == 1 else f"{broken_text.model}, "
        changed = "1 word" if broken_text.words == 1 else f"{broken_text.words} words"
        yield (
            f"- {whose}{broken_text.was} becomes {broken_text.became} ({broken_text.attack}, {changed} changed): "
            f"{broken_text.text}"
        )
    if not card.broken:
        yield "No changed text is kept: no attack succeeded, or the RUN keeps no texts."
    yield from ("", "## How the numbers came about", "")
    yield from (f"- {note}" for note in card.notes)
    yield (
        "- All numbers are in percent, with 95% intervals for the choice of texts. They are of these weights: another "
        "training may give others."
    )
    yield f"- Results: {', '.join(card.runs)}"


def _precision_note(n: int) -> Iterator[str]:
    """Say how sure the numbers can be with so many texts."""
    low, high = Proportion(n // 2, n).interval() or (0.0, 1.0)
    half = 50 * (high - low)
    if n < FEW_TEXTS:
        yield (
            f"**{n} texts tell little.** A share of them is known to within {half:.0f} points at worst: a model that "
            f"is right on 60% cannot be told from one that is right on {min(100, 60 + round(half))}%. Take -n 100, "
            "or add rows to a smaller task."
        )
    else:
        yield f"A share of {n} texts is known to within {half:.0f} points at worst."


def _one_model_table(card: Card) -> Iterator[str]:
    yield "| | Number | 95% interval | n | In plain words |"
    yield "|:--|--:|:--|--:|:--|"
    for line in card.lines:
        if (value := line.values[0] if line.values else None) is None:
            yield f"| {line.asked.title} | – | | | see below |"
            continue
        flagged = f" ({', '.join(value.flags)})" if value.flags else ""
        numbers = f"{_format_points(value.value)} | {_format_interval(value.low, value.high)} | {value.n:,}"
        yield f"| {line.asked.title} | {numbers} | {line.said}{flagged} |"


def _two_model_table(card: Card) -> Iterator[str]:
    first_model, other = card.models
    yield f"| | {first_model} | {other} | Difference | 95% interval | n | p | {other} is | Could show |"
    yield "|:--|--:|--:|--:|:--|--:|--:|:--|--:|"
    for line in card.lines:
        values = [_format_points(value.value) if value is not None else "–" for value in line.values]
        if (c := line.compared) is None:
            yield f"| {line.asked.title} | {' | '.join(values)} | – | | | | see below | |"
            continue
        verdict = f"{c.verdict} ({c.why.rpartition(' is ')[2]})" if c.why else c.verdict
        cells = [
            _format_points(c.difference, "+"),
            _format_interval(c.low, c.high),
            f"{c.n:,}",
            str(format_p_value(c.p)),
            verdict,
            _format_points(c.shows),
        ]
        yield f"| {line.asked.title} | {' | '.join((*values, *cells))} |"
    yield ""
    yield verdict_sentence(card)
    yield ""
    yield (
        "Judged text by text: a success rate over the texts that both get right. p is Holm's over the numbers of the "
        "card. Could show: the least true difference, in points, that so many texts show four times in five, before "
        "that correction. What is undecided is not shown to be equal."
    )


def verdict_sentence(card: Card) -> str:
    """Say in a sentence in which numbers the second model is better, worse, or neither."""
    one, other = card.models
    titles_by_verdict: dict[Verdict, list[str]] = {"better": [], "worse": [], "undecided": []}
    for line in card.lines:
        if line.compared is not None:
            title = line.asked.title.partition(" (")[0]
            titles_by_verdict[line.compared.verdict].append(title[:1].lower() + title[1:])
    total = sum(map(len, titles_by_verdict.values()))
    if not titles_by_verdict["better"] and not titles_by_verdict["worse"]:
        return f"**None of the {total} numbers tells {other} from {one}.**"
    verdicts = " and ".join(
        f"{verdict} than {one} in {_join_names(titles_by_verdict[verdict])}"
        for verdict in ("better", "worse")
        if titles_by_verdict[verdict]
    )
    undecided = (
        f" In the other {len(titles_by_verdict['undecided'])} nothing is decided."
        if titles_by_verdict["undecided"]
        else ""
    )
    return f"**{other} is {verdicts}.**{undecided}"


def overlooks_sentence(verdict: OverlooksVerdict) -> str:
    """Say whether a model overlooks, with the two differences behind it."""
    attack = verdict.attack.partition("[")[0]
    followed, fooled = (_format_points(x, "+") for x in (verdict.followed_difference, verdict.fooled_difference))
    differences = (
        f"edits followed {followed} points (p {format_p_value(verdict.followed_p)}), success rate of {attack} {fooled} "
        f"points (p {format_p_value(verdict.fooled_p)}), on the {verdict.common:,} texts of {verdict.task} that both "
        "get right."
    )
    beside = f"beside {verdict.control}"
    if verdict.overlooks:
        return f"**{verdict.encoder} overlooks {beside}: it is fooled less because it reads less.** {differences}"
    return f"{verdict.encoder} is not shown to overlook {beside}: {differences}"


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _card_json(card: Card) -> str:
    content: dict[str, Any] = {
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
        "verdict": verdict_sentence(card) if len(card.models) > 1 else None,
        "overlooks": [asdict(verdict) for verdict in card.overlooking],
        "breaks": [asdict(one) for one in card.broken],
        "before": list(_precision_note(card.n)),
        "notes": card.notes,
        "runs": card.runs,
        "reports": card.reports,
    }
    return json.dumps(content, indent=1, ensure_ascii=False)
