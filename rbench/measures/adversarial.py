"""Accuracy on adversarial sets: texts that an attack made against one victim, classified by all victims of a suite.

Rows are encoders (and fine-tuning strategies). Each set has three columns, all of the same rows: accuracy on the
originals (Clean), on the set (Adv: changed texts, and originals that no attack changed), and on the changed texts alone
(Changed). Adv is the number of the CLINE paper's Table 5 (section 4.4), which does not say whether texts that did not
fall are in its sets. As with contrast sets, only records are read, and the plan determines the shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rbench.measures import Measure
from rbench.measures._context import Measured, VictimContext
from rbench.measures._predicted import ask_victim, mismatches_of_predictions
from rbench.measures.contrast import ABOUT as SCALE
from rbench.measures.contrast import SetCells, collect_on_sets
from rbench.schema import AdversarialSet, Job, Plan, Prediction, Record
from rbench.schema.extension import NoOptions
from rbench.score.contrast import SET_SCORES, adversarial_scores, adversarial_values, group_into_bundles
from rbench.tables import Results, Table
from rbench.tables.cells import MeasuredCell as Cell
from rbench.tables.draws import notes as draw_notes
from rbench.tables.notes import differing_model_notes, format_range, seeds_note, selected_step_notes, unfinished_notes
from rbench.tables.table import Meaning, TableEntry, group_starts, mark_best

if TYPE_CHECKING:
    from rbench.tasks.adversarial import AdversarialRow

# Part of the key of every job on an adversarial set (config/versions.py): raising it classifies all sets anew.
VERSION = 1
NAME = "adversarial"
USES = ("encoders.classify", "score.contrast")

ABOUT = Meaning(
    "Adversarial sets",
    "accuracy of fine-tuned encoders on texts that an attack made against one of them, or against another",
    "highest",
    undefined="no such text in the set",
    good="better",
    among="of each column",
)
_SHOWN_SCORES = {"clean": "Clean", "adversarial": "Adv", "changed": "Changed"}
DEFINITION = (
    "Clean: accuracy on the originals of all rows; Adv: on the rows as they are in the set, where those that did not "
    "fall keep their text; Changed: on the rows alone with which the attack succeeded."
)
INTERVAL = (
    "Wilson 95% intervals. All victims see the same rows: an entry is the mean over seeds, ± the standard deviation "
    "between them. Where several seeds are done, the interval of Adv covers differences between them and the choice of "
    "rows, as that of a claim does (with seeds as levels; texts and seeds have their own degrees of freedom). All "
    "others are as wide as those of one victim: they cover the choice of rows alone."
)


class AdversarialAccuracy(Measure[NoOptions]):
    """Accuracy on adversarial sets: texts that an attack made against one victim, classified by all victims."""

    title = "Adversarial sets: accuracy on texts that an attack made against one victim"
    reads = "victims"
    stores = "predictions"
    required_scores = SET_SCORES
    workload = "to classify: {:,} rows of adversarial sets"
    numbers = {"adversarial": ABOUT}

    def run(self, options: NoOptions, context: VictimContext) -> Measured:
        """Classify every original once, and every changed text.

        `texts_cut` counts the texts that are longer than the victim's input. `changed_read_as_original` counts the
        changed texts that have the same tokens as their original for the victim, because the changed words were cut
        off or are not in its vocabulary.
        """
        import numpy as np

        assert context.set is not None
        rows: tuple[AdversarialRow, ...] = context.set.rows
        changed = [row for row in rows if row.changed]
        texts = [*(row.original for row in rows), *(row.texts for row in changed)]
        classified = ask_victim(context, texts)
        read_of_original = dict(zip((row.id for row in rows), classified.read, strict=False))
        texts_of_rows = [*((row, True) for row in rows), *((row, False) for row in changed)]
        predictions = [
            Prediction(
                bundle=row.id,
                example_id=row.id if original else f"{row.id}:changed",
                original=original,
                label=int(row.label),
                prediction=int(label),
            )
            for (row, original), label in zip(texts_of_rows, classified.labels, strict=True)
        ]
        scores = adversarial_scores(group_into_bundles(predictions))
        values = {score.name: score.value for score in scores}
        context.progress(
            len(texts), len(texts), f"accuracy {values['clean']:.3f}, on the set {values['adversarial']:.3f}"
        )
        num_alike = sum(
            read_of_original[row.id] == read for row, read in zip(changed, classified.read[len(rows) :], strict=True)
        )
        counts = {
            "rows": len(rows),
            "changed": len(changed),
            "texts_cut": int(np.sum(classified.cut)),
            "changed_read_as_original": num_alike,
        }
        return Measured(predictions, scores, counts)

    def examples(self, prepared: Any, job: Job) -> int:
        """Return how many rows a job classifies: those of the folder, or the examples of the attack behind the set."""
        if "attack" in job.needs:
            attack_job = prepared.plan.job(job.needs["attack"]).attacking
            return int(attack_job.num_examples)
        assert job.measuring is not None
        sets = prepared.sets[job.measuring.task.name]
        return next(len(set_data.rows) for set_data in sets if set_data.set == job.measuring.set)

    def unlike(self, record: Record, lines: Sequence[Prediction]) -> Iterator[str]:
        """Say which numbers of a record are not those of its predictions."""
        return mismatches_of_predictions(record, lines, adversarial_scores, ("rows", "changed"))

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table of a RUN. Raises StoreError where its suite has no `evaluate: [adversarial]`."""
        found = build_cells(results)
        several = found.several
        marked = mark_best(found.rows([*_SHOWN_SCORES]), [SCALE] * (len(found.sets) * len(_SHOWN_SCORES)))
        rows: list[tuple[TableEntry, ...]] = [
            (encoder, *([strategy] if several else []), *entries)
            for (encoder, strategy), entries in zip(found.victims, marked, strict=True)
        ]
        tasks = [task for task, _ in found.sets]
        titles = [task if tasks.count(task) == 1 else f"{task} {name}" for task, name in found.sets]
        return Table(
            metric="adversarial",
            header=(
                "Encoder",
                *(["Fine-tuning"] if several else []),
                *(f"{t} {s}" for t in titles for s in _SHOWN_SCORES.values()),
            ),
            rows=tuple(rows),
            groups=group_starts(rows) if several else frozenset(),
            cells=tuple(_program_row(cell) for of in found.sets for cell in found.of(of)),
            notes=_build_notes(found),
            interval=INTERVAL,
            flags=found.flags.listed(found.jobs),
            about=ABOUT,
        )

    def cells(self, results: Results) -> SetCells:
        return build_cells(results)


def build_cells(results: Results) -> SetCells:
    suite = results.plan.suite.name
    remedy = "under `evaluate`, such as `evaluate: [{adversarial: DIR}]`."
    missing = f"adversarial sets: suite {suite} has none {remedy}"
    return collect_on_sets(
        results, NAME, missing, lambda rows, name: adversarial_values(rows) if name == NAME else None
    )


def _is_attacked_victim(job: Job, plan: Plan) -> bool:
    """Return whether the victim that is scored is the one that the set was made against."""
    attacked_key = plan.job(job.needs["attack"]).needs["victim"] if "attack" in job.needs else _set_of(job).victim
    return job.needs["victim"] == attacked_key


def _set_of(job: Job) -> AdversarialSet:
    assert job.measuring is not None and isinstance(job.measuring.set, AdversarialSet)
    return job.measuring.set


def _program_row(cell: Cell) -> dict[str, Any]:
    """Return a cell for programs: `value` is Adv, `scores` holds all scores."""
    scores = {name: cell.told(name, "seed_sd") for name in (*_SHOWN_SCORES, "clean_changed")}
    return {
        **cell.at("encoder", "finetune", "task"),
        "set": cell.label,
        "seeds": cell.seeds,
        "made_against_seeds": [job.seed for job in cell.jobs if _is_attacked_victim(job, cell.results.plan)],
        **scores["adversarial"],
        "flags": cell.results.flags.told(cell.jobs),
        "scores": scores,
    }


def _build_notes(set_cells: SetCells) -> tuple[str, ...]:
    """Return the notes below the table. They hold neither times nor paths."""
    return (
        f"{ABOUT.title}: {ABOUT.definition}. {DEFINITION}",
        *set_cells.plan.suite.notes,
        *(note for set_key in set_cells.sets for note in _build_set_notes(set_cells, set_key)),
        *(draw_notes(set_cells.plan, set_cells.jobs) or [seeds_note(set_cells.jobs)]),
        *selected_step_notes(set_cells.plan),
        *differing_model_notes(set_cells.plan),
        *set_cells.flags.notes(set_cells.jobs),
        *unfinished_notes("evaluations on adversarial sets", set_cells.jobs, set_cells.standing),
    )


def _build_set_notes(found: SetCells, set_key: tuple[str, str]) -> list[str]:
    """Return notes on a set: what made it, its size, who was attacked, and what the victims did not read."""
    task, name = set_key
    cells = found.of(set_key)
    adversarial_set = _set_of(cells[0].jobs[0])
    counts = [record.counts for cell in cells for record in cell.records]
    size = f"{counts[0]['rows']} rows, {counts[0]['changed']} of them changed" if counts else "nothing yet"
    set_notes = [
        f"{task} ({name}): {size}; made by {adversarial_set.attack} against {adversarial_set.encoder} with "
        f"{adversarial_set.finetune} fine-tuning, seed {adversarial_set.seed}."
    ]
    attacked_jobs = [job for cell in cells for job in cell.jobs if _is_attacked_victim(job, found.plan)]
    set_notes += [
        f"{task} ({name}): {job.parts[0]} with {job.parts[2]} fine-tuning, seed {job.seed}, is the victim that was "
        "attacked: it was wrong on each changed text when the set was made. The others see texts made against another."
        for job in attacked_jobs
    ]
    count_names = {
        "texts longer than the victim reads": "texts_cut",
        "changed texts that it reads as their original": "changed_read_as_original",
        "training rows kept out, because they are in the set": "train_kept_out",
    }
    spans = [
        f"{format_range(seed_counts.get(count_name, 0) for seed_counts in counts)} {what}"
        for what, count_name in count_names.items()
        if any(seed_counts.get(count_name) for seed_counts in counts)
    ]
    return set_notes + ([f"{task} ({name}): {', '.join(spans)}."] if spans else [])
