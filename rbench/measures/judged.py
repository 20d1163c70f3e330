"""What people said of the texts that attacks made: a bracket of valid ASR, and how far its raters can be relied on.

A row is a cell that was judged. It has ASR times the share of successes whose label raters still see, and ASR times the
share whose meaning is kept as well. Beside them stands what the same raters say of the originals. The table is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.schema.judged import KEPT, TEXTS, Answer, HumanJudgements, Item
from rbench.score.people import krippendorff_alpha
from rbench.tables import Results, Table
from rbench.tables.aggregate import AXES, AttackCell, attack_grid
from rbench.tables.notes import PEOPLE_INTERVAL_NOTE, table_notes
from rbench.tables.table import Meaning, Number, TableEntry

TITLE = "What people say of the texts that attacks made"
NUMBERS = {
    "asr": "ASR",
    "valid_asr": "Label still seen",
    "valid_asr_kept": "Meaning also kept",
    "seen_in_original": "Seen in originals",
}
_SHARE_TITLES = {"natural": "Natural", "natural_original": "Originals natural"}


class JudgedTexts(Measure[NoOptions]):
    """What people said of the texts that attacks made: a bracket of valid ASR, and how far raters agree."""

    title = TITLE

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table. Raises StoreError where nobody was asked about the RUN."""
        judgements, grid = results.require_judged(), attack_grid(results)
        several_strategies = len(grid.finetunes) > 1
        header = ["Task", "Encoder", "Fine-tuning"] if several_strategies else ["Task", "Encoder"]
        header += ["Attack", "Judged", *NUMBERS.values(), *_SHARE_TITLES.values(), "Alpha"]
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        groups = set()
        for cell in sorted(grid.cells.values(), key=lambda cell: grid.tasks.index(cell.task)):
            answers = [(item, answer) for run in cell.done for _, item, answer in judgements.of(run.job.key)]
            if not answers:
                continue
            if rows and rows[-1][0] != cell.task:
                groups.add(len(rows))
            changed = _list_labels(_of_kind("changed", answers))
            alpha = krippendorff_alpha(changed)
            num_texts = len({item for _, item, _ in changed})
            numbers = {name: cell.number(name) for name in NUMBERS}
            shares = {name: _mean_share(results, cell, name) for name in _SHARE_TITLES}
            share_entries = [results.flags.on(Number(share, percent=True), cell.jobs) for share in shares.values()]
            victim_names = [cell.encoder, cell.finetune] if several_strategies else [cell.encoder]
            entries = (*numbers.values(), *share_entries, Number(alpha, percent=False, digits=2))
            rows.append((cell.task, *victim_names, cell.attack, num_texts, *entries))
            values = {name: number.value for name, number in numbers.items() if number is not None}
            flags = results.flags.told(cell.jobs)
            cells.append({**cell.at(*AXES), "texts": num_texts, **values, **shares, "alpha": alpha, "flags": flags})
        return Table(
            metric="judged",
            layout="paper",
            header=tuple(header),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(cells),
            notes=table_notes(grid, grid.tasks, (*_NOTES, *_describe_agreement(judgements))),
            interval=PEOPLE_INTERVAL_NOTE,
            flags=grid.flags.listed(run.job for run in grid.runs),
            about=Meaning(
                TITLE, "ASR, and what is left of it", undefined="nobody answered that, or answers do not differ"
            ),
            brief=tuple(_describe_agreement(judgements)),
        )


_NOTES = (
    "Label still seen: ASR x the share of raters who see the label in the text that it fell to. Meaning also kept: the "
    f"same of those who also give {KEPT} or more of 5 to the meaning. Both are the ends of a bracket, and not judged "
    "where there are no answers.",
    "Seen in originals: how often the same raters see the label before the attack, which is the ceiling. Natural: "
    "share of answers that a person wrote the text. Alpha: Krippendorff's, of labels of changed texts; 1 is "
    "agreement, 0 is chance.",
)


def _of_kind(kind: str, answers: Iterable[tuple[Item, Answer]]) -> list[tuple[Item, Answer]]:
    return [(item, answer) for item, answer in answers if item.kind == kind]


def _list_labels(answers: Iterable[tuple[Item, Answer]]) -> list[tuple[int, str, int]]:
    """Return (rater, item, label) of the answers that give a label, one for each rater and item."""
    labels = {(answer.rater, item.id): answer.label for item, answer in answers if answer.label is not None}
    return [(rater, item, label) for (rater, item), label in labels.items()]


def _mean_share(results: Results, cell: AttackCell, name: str) -> float | None:
    """Return the mean of a column of what people said, over the texts that fell."""
    observations = [results.observations(run.job) for run in cell.done]
    shares = np.concatenate([getattr(observed, name)[observed.fell] for observed in observations])
    known = shares[~np.isnan(shares)]
    return float(known.mean()) if len(known) else None


def _describe_agreement(judgements: HumanJudgements) -> Iterator[str]:
    """Say how far raters agree with each other, and with themselves."""
    answers = [(judgements.sheet.by_id[answer.item], answer) for answer in judgements.answers]
    # Repeated items tell how far a rater agrees with himself; alpha is about agreement between raters.
    first_answers = [(item, answer) for item, answer in answers if item.repeats is None]
    pairs = _of_kind("pair", first_answers)
    meaning = [(answer.rater, item.id, answer.meaning) for item, answer in pairs if answer.meaning]
    alphas = {
        "labels of changed texts": krippendorff_alpha(_list_labels(_of_kind("changed", first_answers))),
        "labels of originals": krippendorff_alpha(_list_labels(_of_kind("original", first_answers))),
        "meaning": krippendorff_alpha(meaning, scale=True),
    }
    listed = [f"{question} {value:.2f}" for question, value in alphas.items() if value is not None]
    yield f"Krippendorff's alpha over all cells: {', '.join(listed) or 'not defined'}."
    for rater in judgements.raters:
        own_answers = [(item, answer) for item, answer in answers if answer.rater == rater]
        yield f"Rater {rater}: {_describe_rater(own_answers)}."


def _describe_rater(answers: Sequence[tuple[Item, Answer]]) -> str:
    """Say how many answers a rater gave, how often the same one twice, and to how many unlike pairs the right one."""
    parts = [f"{len(answers)} answers"]
    by_item = {item.id: answer for item, answer in answers}
    repeats = [(item, by_item[item.repeats], answer) for item, answer in answers if item.repeats in by_item]
    is_same = [_is_same_answer(item, first, again) for item, first, again in repeats]
    if is_same:
        parts.append(f"the same to {sum(is_same)} of {len(is_same)} that came twice ({mean(is_same):.0%})")
    # An attentive rater does not say that two texts which have nothing to do with each other mean the same.
    unlike_pairs = _of_kind("other", answers)
    told_apart = [answer.meaning < KEPT for _, answer in unlike_pairs if answer.meaning is not None]
    if told_apart:
        parts.append(f"{sum(told_apart)} of {len(told_apart)} unlike pairs told apart")
    times = [answer.seconds for _, answer in answers if answer.seconds]
    if times:
        parts.append(f"{median(times):.0f} s an item")
    return ", ".join(parts)


def _is_same_answer(item: Item, first: Answer, again: Answer) -> bool:
    """Return whether two answers to one question are the same: the label, or whether the meaning is kept."""
    if item.kind in TEXTS:
        return first.label == again.label
    return (first.meaning or 0) // KEPT == (again.meaning or 0) // KEPT
