"""What people said of the texts that attacks made: a bracket of valid ASR, and how far its raters can be relied on.

A row is a cell that was judged. ASR x the share of successes whose label is still seen, and x the share whose meaning
is kept as well, stand beside what the same raters say of the originals. Ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import mean, median
from typing import Any

import numpy as np

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.schema.judged import KEPT, TEXTS, Answer, Item, Judged
from rbench.score.people import alpha
from rbench.tables import Results, Table
from rbench.tables.aggregate import AXES, Cell, grid
from rbench.tables.notes import OF_PEOPLE, notes
from rbench.tables.table import Entry, Meaning, Number

TITLE = "What people say of the texts that attacks made"
NUMBERS = {
    "asr": "ASR",
    "valid_asr": "Label still seen",
    "valid_asr_kept": "Meaning also kept",
    "seen_in_original": "Seen in originals",
}
_SHARES = {"natural": "Natural", "natural_original": "Originals natural"}


class JudgedTexts(Measure[NoOptions]):
    """What people said of the texts that attacks made: a bracket of valid ASR, and how far raters agree."""

    title = TITLE

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table. Raises StoreError where nobody was asked about the RUN."""
        said, of = results.judged, grid(results)
        if said is None:
            raise StoreError(
                f"{results.root} is not judged. rbench judge export makes sheets for people who judge its texts."
            )
        several = len(of.finetunes) > 1
        rows: list[tuple[Entry, ...]] = []
        cells: list[dict[str, Any]] = []
        groups = set()
        for cell in sorted(of.cells.values(), key=lambda cell: of.tasks.index(cell.task)):
            answers = [(item, one) for run in cell.done for _, item, one in said.of(run.job.key)]
            if not answers:
                continue
            groups |= {len(rows)} if rows and rows[-1][0] != cell.task else set()
            changed = _labels((item, one) for item, one in answers if item.kind == "changed")
            agreed = alpha(changed)
            numbers = {name: cell.number(name) for name in NUMBERS}
            shares = {name: _share(results, cell, name) for name in _SHARES}
            texts = len({item for _, item, _ in changed})
            names: list[Entry] = [cell.task, cell.encoder, *([cell.finetune] if several else []), cell.attack, texts]
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
            header=(*header, *NUMBERS.values(), *_SHARES.values(), "Alpha"),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(cells),
            notes=notes(of, of.tasks, (*_NOTES, *_said(said))),
            interval=OF_PEOPLE,
            flags=of.flags.listed(run.job for run in of.runs),
            about=Meaning(
                TITLE, "ASR, and what is left of it", undefined="nobody answered that, or answers do not differ"
            ),
            brief=tuple(_said(said)),
        )


_NOTES = (
    "Label still seen: ASR x the share of raters who see the label in the text that it fell to. Meaning also kept: the "
    f"same of those who also give {KEPT} or more of 5 to the meaning. Both are the ends of a bracket, and not judged "
    "where there are no answers.",
    "Seen in originals: how often the same raters see the label before the attack, which is the ceiling. Natural: "
    "share of answers that a person wrote the text. Alpha: Krippendorff's, of labels of changed texts; 1 is "
    "agreement, 0 is chance.",
)


def _labels(answers: Iterable[tuple[Item, Answer]]) -> list[tuple[int, str, int]]:
    """Return (rater, item, label) of answers, without repeats and open ones."""
    there = {(one.rater, item.id): one.label for item, one in answers if one.label is not None}
    return [(rater, item, label) for (rater, item), label in there.items()]


def _share(results: Results, cell: Cell, name: str) -> float | None:
    """Return the mean of a column of what people said, over the texts that fell."""
    every = [getattr(of, name)[of.fell] for of in (results.observations(run.job) for run in cell.done)]
    there = np.concatenate(every)
    there = there[~np.isnan(there)]
    return float(there.mean()) if len(there) else None


def _said(said: Judged) -> Iterator[str]:
    """Say how far raters agree with each other, and with themselves."""
    every = [(said.sheet.by_id[one.item], one) for one in said.answers]
    firsts = [(item, one) for item, one in every if item.repeats is None]
    meaning = [(one.rater, item.id, one.meaning) for item, one in firsts if item.kind == "pair" and one.meaning]
    alphas = {
        "labels of changed texts": alpha(_labels(one for one in firsts if one[0].kind == "changed")),
        "labels of originals": alpha(_labels(one for one in firsts if one[0].kind == "original")),
        "meaning": alpha(meaning, scale=True),
    }
    listed = [f"{what} {value:.2f}" for what, value in alphas.items() if value is not None]
    yield f"Krippendorff's alpha over all cells: {', '.join(listed) or 'not defined'}."
    for rater in said.raters:
        yield f"Rater {rater}: {_of_rater([(item, one) for item, one in every if one.rater == rater])}."


def _of_rater(own: Sequence[tuple[Item, Answer]]) -> str:
    """Say how many answers a rater gave, how often the same twice, and how often those that attention gives."""
    known = {item.id: one for item, one in own}
    same = [_alike(item, known[item.repeats], one) for item, one in own if item.repeats in known]
    apart = [one.meaning < KEPT for item, one in own if item.kind == "other" and one.meaning is not None]
    parts = [f"{len(own)} answers"]
    parts += [f"the same to {sum(same)} of {len(same)} that came twice ({mean(same):.0%})"] if same else []
    parts += [f"{sum(apart)} of {len(apart)} unlike pairs told apart"] if apart else []
    times = [one.seconds for _, one in own if one.seconds]
    return ", ".join([*parts, *([f"{median(times):.0f} s an item"] if times else [])])


def _alike(item: Item, first: Answer, again: Answer) -> bool:
    """Whether two answers to one question are the same: the label, or meaning kept."""
    if item.kind in TEXTS:
        return first.label == again.label
    return (first.meaning or 0) // KEPT == (again.meaning or 0) // KEPT
