"""Picks the best among victims that differ only in their learning rate: by validation, or as the CLINE paper does.

A suite names such victims as strategies: `finetune: [{clean: {learning_rate: 1.0e-5}}, {clean: ...}]`.
For each encoder and contrast set the table shows the victim with the best mean, and the first of equal ones. Victims
without any record are ignored. Means are over the seeds that all the others share. Until every victim has all of its
seeds, the choice is provisional, and its entries are never bold. There are two criteria:

validation  Accuracy on the task's validation split, which fine-tuning has recorded.
contrast    Rev on the contrast set itself (CLINE, section 4.3: "the best result on the contrastive test set").
            Such numbers are optimistic, and the table says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from rbench.errors import StoreError
from rbench.schema import Choice, Job, Pick, Record, Score
from rbench.tables.cells import Measured, score_of
from rbench.tables.contrast import OnSets
from rbench.tables.notes import named

RATE = "learning_rate"
_HOW: dict[Pick, str] = {
    "validation": "by accuracy on the validation split",
    "contrast": "by Rev on the contrast set itself, as in the CLINE paper: what is shown was looked at to choose it",
}


def picked(found: OnSets, by: Pick | None) -> OnSets:
    """Replace the cells that differ only in the learning rate by the best one, and add a note that names it.

    Without `by` nothing is picked. With validation, a job is left out and named in a note where no record has its
    victim's validation accuracy.

    Raises StoreError where the suite has no strategies that differ in their learning rate.
    """
    if by is None:
        return found
    bases = {choice.label: _base(choice) for choice in found.plan.suite.finetune}
    rates = {choice.label: choice.options[RATE] for choice in found.plan.suite.finetune if RATE in choice.options}
    if len(rates) < 2:
        raise StoreError(
            f"there is no learning rate to pick: suite {found.plan.suite.name} has no strategies that differ in it, "
            f"such as `finetune: [{{clean: {{{RATE}: 1.0e-5}}}}, {{clean: {{{RATE}: 2.0e-5}}}}]`."
        )
    several = len(set(bases.values())) > 1
    validated = {key: value for key, record in found.standing.records.items() if (value := _accuracy(record))}
    unknown = [] if by == "contrast" else _unknown(found, validated)
    groups: dict[tuple[str, ...], list[Measured]] = {}
    for cell in found.cells.values():
        runs = tuple(replace(run, record=None) if run.job in unknown else run for run in cell.runs)
        groups.setdefault((cell.encoder, bases[cell.finetune], cell.task, cell.label), []).append(
            replace(cell, runs=runs)
        )
    cells, chosen = {}, []
    for key, candidates in groups.items():
        encoder, base, task, contrast = key
        best = _best(candidates, by, validated)
        provisional = len(candidates) > 1 and not all(cell.complete for cell in candidates)
        cells[key] = replace(best, finetune=base, provisional=provisional)
        if best.present and best.finetune in rates:
            names = [encoder, *([base] if several else []), contrast if by == "contrast" else task]
            chosen.append(f"{' '.join(names)} {rates[best.finetune]:g}{' so far' if provisional else ''}")
    among = ", ".join(f"{rate:g}" for rate in sorted(set(rates.values())))
    note = f"Learning rate picked among {among}, {_HOW[by]}: {'; '.join(dict.fromkeys(chosen)) or 'nothing yet'}."
    left_out = [f"Left out, for no record says how their victims validate: {named(unknown)}."] if unknown else []
    return replace(found, cells=cells, notes=(*found.notes, note, *left_out))


def _base(choice: Choice) -> str:
    return Choice(name=choice.name, options={k: v for k, v in choice.options.items() if k != RATE}).label


def _accuracy(record: Record) -> Score | None:
    return next((score for score in record.scores if score.name == "validation_accuracy"), None)


def _unknown(found: OnSets, validated: Mapping[str, Score]) -> list[Job]:
    """Return the finished jobs whose victims have no recorded validation accuracy."""
    done = [record.job for cell in found.cells.values() for record in cell.records]
    return [job for job in done if not any(key in validated for key in job.needs.values())]


def _best(candidates: list[Measured], by: Pick, validated: Mapping[str, Score]) -> Measured:
    """Return the best cell that has records, over the seeds that such cells share.

    Where they share no seed it is the first of them. Where no cell has records it is the first candidate.
    """
    there = [cell for cell in candidates if cell.present]
    shared = set.intersection(*({_seeds(record) for record in cell.records} for cell in there)) if there else set()
    if not shared:
        return (there or candidates)[0]
    return max(there, key=lambda cell: _value([r for r in cell.records if _seeds(r) in shared], by, validated))


def _seeds(record: Record) -> tuple[str, int]:
    """Return the encoder's label, which says its training seed, and the seed of fine-tuning."""
    return record.job.parts[0], record.job.seed


def _value(own: Sequence[Record], by: Pick, validated: Mapping[str, Score]) -> float:
    """Return the mean over some records of a cell of the score by which cells are picked."""
    if by == "contrast":
        return fmean(score_of(record, "rev").value or 0.0 for record in own)
    return fmean(validated[key].value or 0.0 for record in own for key in record.job.needs.values() if key in validated)
