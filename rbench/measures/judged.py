"""What people said of the texts that attacks made: a bracket of valid ASR, and how far its raters can be relied on.

A row is a cell that was judged. ASR x the share of successes whose label is still seen, and x the share whose meaning
is kept as well, stand beside what the same raters say of the originals. Ours.
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
        judgements, of = results.require_judged(), attack_grid(results)
        several = len(of.finetunes) > 1
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        groups = set()
        for cell in sorted(of.cells.values(), key=lambda cell: of.tasks.index(cell.task)):
            answers = [(item, one) for run in cell.done for _, item, one in judgements.of(run.job.key)]
            if not answers:
                continue
            groups |= {len(rows)} if rows and rows[-1][0] != cell.task else set()
            changed = _list_labels((item, one) for item, one in answers if item.kind == "changed")
            agreed = krippendorff_alpha(changed)
            numbers = {name: cell.number(name) for name in NUMBERS}
            shares = {name: _mean_share(results, cell, name) for name in _SHARE_TITLES}
            texts = len({item for _, item, _ in changed})
            names: list[TableEntry] = [
                cell.task,
                cell.encoder,
                *([cell.finetune] if several else []),
                cell.attack,
                texts,
            ]
            own = [results.flags.on(Number(share, percent=True), cell.jobs) for share in shares.values()]
            rows.append((*names, *numbers.values(), *own, Number(agreed, percent=False, digits=2)))
            told = {name: number.value for name, number in numbers.items() if number is not None}
            cells.append(
                {
                    **cell.at(*AXES),
                    "texts": texts,
                    **told,
                    **shares,
                    "alpha": agreed,
                    "flags": results.flags.told(cell.jobs),
                }
            )
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "Attack", "Judged"]
        return Table(
            metric="judged",
            layout="paper",
            header=(*header, *NUMBERS.values(), *_SHARE_TITLES.values(), "Alpha"),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(cells),
            notes=table_notes(of, of.tasks, (*_NOTES, *_describe_agreement(judgements))),
            interval=PEOPLE_INTERVAL_NOTE,
            flags=of.flags.listed(run.job for run in of.runs),
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


def _list_labels(answers: Iterable[tuple[Item, Answer]]) -> list[tuple[int, str, int]]:
    """Return (rater, item, label) of answers, without repeats and open ones."""
    label_of = {(answer.rater, item.id): answer.label for item, answer in answers if answer.label is not None}
    return [(rater, item, label) for (rater, item), label in label_of.items()]


def _mean_share(results: Results, cell: AttackCell, name: str) -> float | None:
    """Return the mean of a column of what people said, over the texts that fell."""
    of_runs = [
        getattr(observed, name)[observed.fell] for observed in (results.observations(run.job) for run in cell.done)
    ]
    shares = np.concatenate(of_runs)
    shares = shares[~np.isnan(shares)]
    return float(shares.mean()) if len(shares) else None


def _describe_agreement(judgements: HumanJudgements) -> Iterator[str]:
    """Say how far raters agree with each other, and with themselves."""
    items_and_answers = [(judgements.sheet.by_id[answer.item], answer) for answer in judgements.answers]
    # Repeated items tell how far a rater agrees with himself; alpha is about agreement between raters.
    first_answers = [(item, answer) for item, answer in items_and_answers if item.repeats is None]
    meaning = [
        (answer.rater, item.id, answer.meaning)
        for item, answer in first_answers
        if item.kind == "pair" and answer.meaning
    ]
    alphas = {
        "labels of changed texts": krippendorff_alpha(
            _list_labels(answer for answer in first_answers if answer[0].kind == "changed")
        ),
        "labels of originals": krippendorff_alpha(
            _list_labels(answer for answer in first_answers if answer[0].kind == "original")
        ),
        "meaning": krippendorff_alpha(meaning, scale=True),
    }
    listed = [f"{question} {value:.2f}" for question, value in alphas.items() if value is not None]
    yield f"Krippendorff's alpha over all cells: {', '.join(listed) or 'not defined'}."
    for rater in judgements.raters:
        yield (
            f"Rater {rater}: "
            f"{_describe_rater([(item, answer) for item, answer in items_and_answers if answer.rater == rater])}."
        )


def _describe_rater(items_and_answers: Sequence[tuple[Item, Answer]]) -> str:
    """Say how many answers a rater gave, how often the same twice, and how often those that attention gives."""
    answer_of = {item.id: answer for item, answer in items_and_answers}
    is_same = [
        _is_same_answer(item, answer_of[item.repeats], answer)
        for item, answer in items_and_answers
        if item.repeats in answer_of
    ]
    is_told_apart = [
        answer.meaning < KEPT
        for item, answer in items_and_answers
        if item.kind == "other" and answer.meaning is not None
    ]
    parts = [f"{len(items_and_answers)} answers"]
    parts += [f"the same to {sum(is_same)} of {len(is_same)} that came twice ({mean(is_same):.0%})"] if is_same else []
    parts += [f"{sum(is_told_apart)} of {len(is_told_apart)} unlike pairs told apart"] if is_told_apart else []
    times = [answer.seconds for _, answer in items_and_answers if answer.seconds]
    return ", ".join([*parts, *([f"{median(times):.0f} s an item"] if times else [])])


def _is_same_answer(item: Item, first: Answer, again: Answer) -> bool:
    """Whether two answers to one question are the same: the label, or meaning kept."""
    if item.kind in TEXTS:
        return first.label == again.label
    return (first.meaning or 0) // KEPT == (again.meaning or 0) // KEPT
