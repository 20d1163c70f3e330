"""Contrast sets: the victim's prediction for each text, and scores over the bundles, in two tables.

paper   Rows are encoders (and fine-tuning strategies). Each contrast set has the columns Ori, Rev and Con, as in
        Table 4 of the CLINE paper. The best entry of each column is bold. A column has no best where an entry is
        missing, or where an entry was picked before all its candidates were done.
full    Each (encoder, fine-tuning, contrast set, seed) has one row with every score and its sample sizes.

As with attacks, the plan determines the shape and order, whatever is done. Records are read, and the predictions of
victims of several seeds, for their intervals.

Of victims that differ only in their learning rate, `--pick` shows the best. A suite names such victims as strategies:
`finetune: [{clean: {learning_rate: 1.0e-5}}, {clean: ...}]`. For each encoder and contrast set the table shows the
victim with the best mean, and the first of equal ones. Victims without any record are ignored. Means are over the seeds
that all the others share. Until every victim has all of its seeds, the choice is provisional, and its entries are never
bold. There are two criteria:

validation  Accuracy on the task's validation split, which fine-tuning has recorded.
contrast    Rev on the contrast set itself (CLINE, section 4.3: "the best result on the contrastive test set").
            Such numbers are optimistic, and the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.measures._context import Measured, VictimContext
from rbench.measures._predicted import ask_victim, mismatches_of_predictions
from rbench.schema import CONTRAST, Choice, ContrastSpec, Job, Pick, Prediction, Record, Score
from rbench.schema.extension import NoOptions
from rbench.score.contrast import SCORES, BundleResult, contrast_scores, contrast_values, group_into_bundles, mean_score
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, NumberReading, find_score, gather_cells, read_values_by_place
from rbench.tables.cells import MeasuredCell as Cell
from rbench.tables.draws import levels_note, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import (
    differing_model_notes,
    format_range,
    name_jobs,
    seeds_note,
    selected_step_notes,
    unfinished_notes,
    variant_notes,
)
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, Number, TableEntry, group_starts, mark_best

if TYPE_CHECKING:
    from rbench.encoders.classify import ClassifiedRows
    from rbench.tasks import Example
    from rbench.tasks.contrast import ContrastBundle

# Part of the key of every contrast job (config/versions.py): raising it classifies all contrast sets anew.
VERSION = 1
USES = ("encoders.classify", "score.contrast")
METRIC = CONTRAST
ABOUT = Meaning(
    "Contrast sets",
    "accuracy of fine-tuned encoders on test examples and on small edits of them that mostly change the label",
    "highest",
    undefined="no such text in the contrast set",
    good="better",
    among="of each column",
)
"""The scale and direction of accuracies on any set."""
TaskAndSet = tuple[str, str]
"""Task and name of a set."""
METRICS = {name: replace(ABOUT, title=name.capitalize()) for name in ("ori", "rev", "con")}
_PAPER_SCORES = {name: about.title for name, about in METRICS.items()}
_FULL_SCORES = {
    **_PAPER_SCORES,
    "con_pairs": "Con of pairs",
    "rev_changed": "Rev, label changed",
    "rev_kept": "Rev, label kept",
}
DEFINITION = (
    "Ori: accuracy on originals, each counted once; Rev: accuracy on their edits; Con (contrast consistency): bundles "
    "of which the original and every edit are right."
)
INTERVAL = (
    "Wilson 95% intervals. Those of edits allow for edits of one bundle being alike. They cover the choice of bundles, "
    "not differences between seeds."
)
_ALONE = "Wilson's (that of edits allows for edits of one bundle being alike)"
_MEAN_NOTE = "All seeds see the same bundles: an entry is their mean. "
_SPREAD_NOTE = " ± is the standard deviation between seeds."
RATE_OPTION = "learning_rate"
_HOW_PICKED: dict[Pick, str] = {
    "validation": "by accuracy on the validation split",
    "contrast": "by Rev on the contrast set itself, as in the CLINE paper: what is shown was looked at to choose it",
}


def _iterate_members(bundles: Sequence[ContrastBundle]) -> Iterator[tuple[ContrastBundle, Example]]:
    for bundle in bundles:
        for member in (bundle.original, *bundle.edits):
            yield bundle, member


def _count_alike(bundles: Sequence[ContrastBundle], classified: ClassifiedRows) -> int:
    """Count the edits whose tokens equal those of their original."""
    num_alike, original_place = 0, 0
    for bundle in bundles:
        edits = classified.read[original_place + 1 : original_place + 1 + len(bundle.edits)]
        num_alike += sum(ids == classified.read[original_place] for ids in edits)
        original_place += 1 + len(bundle.edits)
    return num_alike


@dataclass(frozen=True)
class SetCells(Grid[Cell]):
    """What victims did on sets of texts that are classified as they are, by encoder, strategy, task and set."""

    @cached_property
    def sets(self) -> list[TaskAndSet]:
        """The sets, task by task."""
        sets_of_cells = dict.fromkeys((cell.task, cell.label) for cell in self.cells.values())
        return sorted(
            sets_of_cells,
            key=lambda task_and_set: (self.tasks.index(task_and_set[0]), self.labels.index(task_and_set[1])),
        )

    @property
    def several(self) -> bool:
        """Whether there are several strategies."""
        return len({finetune for _, finetune in self.victims}) > 1

    def of(self, of: TaskAndSet) -> list[Cell]:
        """Return the cells of a set."""
        return [cell for cell in self.cells.values() if (cell.task, cell.label) == of]

    def rows(self, names: Iterable[str]) -> list[list[Number | None]]:
        """Return the entries of each victim: of each set, these scores."""
        shown_names = [*names]
        rows_of_cells = [
            [self.cells.get((*victim, *task_and_set)) for task_and_set in self.sets] for victim in self.victims
        ]
        return [[cell.number(name) if cell else None for cell in row for name in shown_names] for row in rows_of_cells]


def collect_on_sets(
    results: Results,
    measure: str,
    missing: str,
    values_of: Callable[[Sequence[BundleResult], str], Iterable[float] | None],
) -> SetCells:
    """Collect the evaluations on sets in a RUN, which are the jobs of a measure. Raises StoreError where it has none.

    Args:
        missing: what the error says of a suite that has none.
        values_of: returns the values of the units of a set of which a number is the mean; None where it has none.
    """
    plan, suite = results.plan, results.plan.suite
    jobs = []
    for job in (job for job in plan.jobs if job.what == measure):
        draw, task, finetune, name = job.parts
        cell_names = {"encoder": plan.draw(draw).encoder, "finetune": finetune, "task": task, "label": name}
        jobs.append((job, cell_names))
    if not jobs:
        raise StoreError(f"{results.root} has no table of {missing}")

    def score(run: SeedRun, name: str) -> Score | None:
        return find_score(run.record, name) if run.record is not None else None

    def values(run: SeedRun, name: str) -> Values | None:
        return read_values_by_place(
            results, run.job, lambda: values_of(group_into_bundles(results.store.predictions(run.job)), name)
        )

    reading = NumberReading(ABOUT, score, mean_score, values, shares=True)
    orders = {
        "encoder": suite.lineup,
        "finetune": (choice.label for choice in suite.finetune),
        "task": suite.tasks,
        "label": (cell_names["label"] for _, cell_names in jobs),
    }
    cells, axes = gather_cells(results, jobs, orders, partial(Cell, read=reading))
    return SetCells(results, cells, **axes)


def collect_contrasts(results: Results) -> SetCells:
    """Collect the evaluations on contrast sets in a RUN. Raises StoreError where its plan has none."""
    missing = f"contrast sets: suite {results.plan.suite.name} has no `evaluate: [contrast]`."
    set_cells = collect_on_sets(results, METRIC, missing, contrast_values)
    return replace(set_cells, spoken=lambda cell: [(_column_name(set_cells, (cell.task, cell.label)), None)])


def build_paper_table(set_cells: SetCells) -> Table:
    """Build the layout paper: victims in rows; Ori, Rev and Con of each contrast set in columns."""
    several = set_cells.several
    shown: list[tuple[TableEntry, ...]] = [
        (encoder, *([finetune] if several else []), *entries)
        for (encoder, finetune), entries in zip(set_cells.victims, _mark_best(set_cells), strict=True)
    ]
    header = [f"{_column_name(set_cells, of)} {title}" for of in set_cells.sets for title in _PAPER_SCORES.values()]
    return Table(
        metric=METRIC,
        header=("Encoder", *(["Fine-tuning"] if several else []), *header),
        rows=tuple(shown),
        groups=group_starts(shown) if several else frozenset(),
        cells=tuple(_program_row(cell, _PAPER_SCORES) for cell in set_cells.cells.values()),
        notes=_build_notes(set_cells),
        interval=_describe_interval(set_cells),
        flags=set_cells.flags.listed(set_cells.jobs),
        shows=ABOUT,
    )


def _describe_interval(set_cells: SetCells) -> str:
    cells_of_seeds = [cell for cell in set_cells.cells.values() if len(cell.done) > 1]
    if not cells_of_seeds:
        return INTERVAL
    num_without_levels = sum(not cell.has_seed_levels("con") for cell in cells_of_seeds)
    interval_text = (
        INTERVAL
        if len(cells_of_seeds) == num_without_levels
        else levels_note(_ALONE, "bundles", cells=num_without_levels, missing="predictions")
    )
    return f"{_MEAN_NOTE}{interval_text}{'' if set_cells.plan.draws else _SPREAD_NOTE}"


def _mark_best(set_cells: SetCells) -> list[list[Number | None]]:
    """Return the entries of each victim with the best marked. Sets with a provisional cell have no best."""
    marked = mark_best(set_cells.rows([*_PAPER_SCORES]), [ABOUT] * (len(set_cells.sets) * len(_PAPER_SCORES)))
    undecided = {(cell.task, cell.label) for cell in set_cells.cells.values() if cell.provisional}
    decided = [task_and_set not in undecided for task_and_set in set_cells.sets for _ in _PAPER_SCORES]
    return [
        [
            replace(entry, best=entry.best and is_decided) if entry else entry
            for entry, is_decided in zip(row, decided, strict=True)
        ]
        for row in marked
    ]


def build_full_table(contrast_cells: SetCells) -> Table:
    """Build the layout full: one row per job, with all scores."""
    drawn = bool(contrast_cells.plan.draws)
    has_strategies = contrast_cells.several
    rows: list[tuple[TableEntry, ...]] = []
    cells: list[dict[str, Any]] = []
    for cell in contrast_cells.cells.values():
        for run in cell.runs:
            of_seed = cell.only(run)
            counts = (
                [of_seed.records[0].counts.get(name) for name in ("bundles", "edits")] if run.done else [None, None]
            )
            names: list[TableEntry] = [cell.encoder, *([cell.finetune] if has_strategies else []), cell.label]
            names += [training_seed(run.train_seed)] if drawn else []
            rows.append((*names, run.job.seed, *counts, *(of_seed.number(name) for name in _FULL_SCORES)))
            seed_fields = {"train_seed": run.train_seed} if drawn else {}
            cells.append(_program_row(of_seed, _FULL_SCORES) | seed_fields | {"seed": run.job.seed})
    header = [
        "Encoder",
        *(["Fine-tuning"] if has_strategies else []),
        "Contrast set",
        *(["Training seed"] if drawn else []),
    ]
    header += ["Seed", "Bundles", "Edits"]
    return Table(
        metric=METRIC,
        layout="full",
        header=(*header, *_FULL_SCORES.values()),
        rows=tuple(rows),
        groups=group_starts(rows),
        cells=tuple(cells),
        notes=_build_notes(contrast_cells),
        interval=_describe_interval(contrast_cells),
        flags=contrast_cells.flags.listed(contrast_cells.jobs),
        shows=ABOUT,
        caption="Every evaluation on a contrast set; shares in %",
    )


def _column_name(set_cells: SetCells, task_and_set: tuple[str, str]) -> str:
    """Return the task's name, or the contrast set's name where the task has several sets."""
    task, contrast = task_and_set
    return task if sum(other_task == task for other_task, _ in set_cells.sets) == 1 else contrast


def _program_row(cell: Cell, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a cell for programs: `value` is the consistency (Con), `scores` holds all scores that are shown."""
    scores = {name: cell.told(name, "seed_sd") for name in names}
    return {
        **cell.at("encoder", "finetune", "task"),
        "contrast": cell.label,
        "seeds": cell.seeds,
        **scores["con"],
        "flags": cell.results.flags.told(cell.jobs),
        "scores": scores,
    }


def _build_notes(set_cells: SetCells) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    jobs = [job for job in set_cells.plan.jobs if job.what == METRIC]  # those that were not picked, too
    return (
        f"{ABOUT.title}: {ABOUT.definition}. {DEFINITION}",
        *set_cells.plan.suite.notes,
        *(note for of in set_cells.sets for note in _build_set_notes(set_cells, of)),
        *set_cells.notes,
        *(draw_notes(set_cells.plan, jobs) or [seeds_note(jobs)]),
        *variant_notes(set_cells.plan, set_cells.flags.jobs_behind(set_cells.jobs)),
        *selected_step_notes(set_cells.plan),
        *differing_model_notes(set_cells.plan),
        *set_cells.flags.notes(set_cells.jobs),
        *unfinished_notes("evaluations on contrast sets", jobs, set_cells.standing),
    )


def _build_set_notes(found: SetCells, task_and_set: tuple[str, str]) -> list[str]:
    """Return notes on a set: its size, rows left out, rows kept out of training, texts cut, and its file's notes."""
    name = (
        _column_name(found, task_and_set)
        if _column_name(found, task_and_set) == task_and_set[1]
        else f"{task_and_set[0]} ({task_and_set[1]})"
    )
    cells = found.of(task_and_set)
    seed_counts = [record.counts for cell in cells for record in cell.records]
    job = cells[0].jobs[0].measuring
    assert job is not None and isinstance(job.set, ContrastSpec)
    set_notes = [f"{name}: {_describe_sizes(seed_counts[0])}."] if seed_counts and seed_counts[0] else []
    count_names = {
        "texts longer than the victim reads": "texts_cut",
        "edits that it reads as their original": "edits_read_as_original",
    }
    if any(counts.get(key) for counts in seed_counts for key in count_names.values()):
        spans = (
            f"{format_range(counts.get(key, 0) for counts in seed_counts)} {what}" for what, key in count_names.items()
        )
        set_notes.append(f"{name}: {', '.join(spans)}.")
    return set_notes + [f"{name}: {note}" for note in job.set.notes]


def _describe_sizes(counts: Mapping[str, int]) -> str:
    of_clusters = f" of {counts['clusters']} clusters" if "clusters" in counts else ""
    parts = [f"{counts.get('bundles', 0)} bundles{of_clusters}, {counts.get('edits', 0)} edits"]
    kinds = {
        "edits_label_kept": "edits keep the label",
        "edits_same_text": "edits have their original's text",
        "edits_repeated": "edits repeat another of their bundle",
    }
    parts += [f"{counts[name]} {kind}" for name, kind in kinds.items() if counts.get(name)]
    parts += [
        f"{num_rows} {reason}" for reason, num_rows in counts.items() if reason.startswith("rows left out") and num_rows
    ]
    kept_out = [
        f"{counts[f'{split}_kept_out']} of {split}"
        for split in ("train", "validation")
        if counts.get(f"{split}_kept_out")
    ]
    parts += [f"rows kept out of training for it: {', '.join(kept_out)}"] if kept_out else []
    return "; ".join(parts)


def pick_best(contrast_cells: SetCells, criterion: Pick | None) -> SetCells:
    """Replace the cells that differ only in the learning rate by the best one, and add a note that names it.

    Without `criterion` nothing is picked. With validation, a job is left out and named in a note where no record has
    its victim's validation accuracy.

    Raises StoreError where the suite has no strategies that differ in their learning rate.
    """
    if criterion is None:
        return contrast_cells
    bases = {choice.label: _label_without_rate(choice) for choice in contrast_cells.plan.suite.finetune}
    rates = {
        choice.label: choice.options[RATE_OPTION]
        for choice in contrast_cells.plan.suite.finetune
        if RATE_OPTION in choice.options
    }
    if len(rates) < 2:
        raise StoreError(
            f"there is no learning rate to pick: suite {contrast_cells.plan.suite.name} has no strategies that differ "
            f"in it, such as `finetune: [{{clean: {{{RATE_OPTION}: 1.0e-5}}}}, {{clean: {{{RATE_OPTION}: 2.0e-5}}}}]`."
        )
    has_strategies = len(set(bases.values())) > 1
    validated = {
        key: value for key, record in contrast_cells.standing.records.items() if (value := _validation_accuracy(record))
    }
    unvalidated = [] if criterion == "contrast" else _jobs_without_accuracy(contrast_cells, validated)
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in contrast_cells.cells.values():
        runs = tuple(replace(run, record=None) if run.job in unvalidated else run for run in cell.runs)
        groups.setdefault((cell.encoder, bases[cell.finetune], cell.task, cell.label), []).append(
            replace(cell, runs=runs)
        )
    cells, chosen = {}, []
    for key, candidates in groups.items():
        encoder, base, task, contrast = key
        best = _best_candidate(candidates, criterion, validated)
        provisional = len(candidates) > 1 and not all(cell.complete for cell in candidates)
        cells[key] = replace(best, finetune=base, provisional=provisional)
        if best.present and best.finetune in rates:
            names = [encoder, *([base] if has_strategies else []), contrast if criterion == "contrast" else task]
            chosen.append(f"{' '.join(names)} {rates[best.finetune]:g}{' so far' if provisional else ''}")
    among = ", ".join(f"{rate:g}" for rate in sorted(set(rates.values())))
    note = (
        f"Learning rate picked among {among}, {_HOW_PICKED[criterion]}: "
        f"{'; '.join(dict.fromkeys(chosen)) or 'nothing yet'}."
    )
    left_out = (
        [f"Left out, for no record says how their victims validate: {name_jobs(unvalidated)}."] if unvalidated else []
    )
    return replace(contrast_cells, cells=cells, notes=(*contrast_cells.notes, note, *left_out))


def _label_without_rate(choice: Choice) -> str:
    return Choice(name=choice.name, options={k: v for k, v in choice.options.items() if k != RATE_OPTION}).label


def _validation_accuracy(record: Record) -> Score | None:
    return next((score for score in record.scores if score.name == "validation_accuracy"), None)


def _jobs_without_accuracy(set_cells: SetCells, validated: Mapping[str, Score]) -> list[Job]:
    """Return the finished jobs whose victims have no recorded validation accuracy."""
    done = [record.job for cell in set_cells.cells.values() for record in cell.records]
    return [job for job in done if not any(key in validated for key in job.needs.values())]


def _best_candidate(candidates: list[Cell], criterion: Pick, validated: Mapping[str, Score]) -> Cell:
    """Return the best cell that has records, over the seeds that such cells share.

    Where they share no seed it is the first of them. Where no cell has records it is the first candidate.
    """
    done_cells = [cell for cell in candidates if cell.present]
    shared = (
        set.intersection(*({_seeds_of(record) for record in cell.records} for cell in done_cells))
        if done_cells
        else set()
    )
    if not shared:
        return (done_cells or candidates)[0]

    def value(cell: Cell) -> float:
        # Over shared seeds alone: a candidate must not win by having only its luckier seeds done.
        return _mean_value([record for record in cell.records if _seeds_of(record) in shared], criterion, validated)

    return max(done_cells, key=value)


def _seeds_of(record: Record) -> tuple[str, int]:
    """Return the encoder's label, which says its training seed, and the seed of fine-tuning."""
    return record.job.parts[0], record.job.seed


def _mean_value(records: Sequence[Record], criterion: Pick, validated: Mapping[str, Score]) -> float:
    """Return the mean over some records of a cell of the score by which cells are picked."""
    if criterion == "contrast":
        return fmean(find_score(record, "rev").value or 0.0 for record in records)
    return fmean(
        validated[key].value or 0.0 for record in records for key in record.job.needs.values() if key in validated
    )


class ContrastConsistency(Measure[NoOptions]):
    """Contrast sets: the victim's prediction for each text, and scores over the bundles, in two tables."""

    title = "Contrast sets: accuracy on originals and edits, and consistency over both"
    reads = "victims"
    stores = "predictions"
    numbers = METRICS
    required_scores = SCORES
    workload = "to classify: {:,} texts of contrast sets"
    layouts = {
        "paper": lambda results, wanted: build_paper_table(pick_best(collect_contrasts(results), wanted.pick)),
        "full": lambda results, wanted: build_full_table(collect_contrasts(results)),
    }

    def run(self, options: NoOptions, context: VictimContext) -> Measured:
        """Classify every original and every edit once.

        Counts are those of the set, its rows that were left out, and two more. `texts_cut` counts the texts that are
        longer than the victim's input. `edits_read_as_original` counts the edits that have the same tokens as their
        original for the victim, for instance because the edited part was cut off.
        """
        import numpy as np

        assert context.set is not None
        data = context.set
        bundles: tuple[ContrastBundle, ...] = data.rows
        members = list(_iterate_members(bundles))
        classified = ask_victim(context, [member.texts for _, member in members])
        predictions = [
            Prediction(
                bundle=bundle.id,
                example_id=member.id,
                original=member is bundle.original,
                label=int(member.label or 0),  # never None in a contrast set
                prediction=int(label),
                cluster=bundle.cluster,
            )
            for (bundle, member), label in zip(members, classified.labels, strict=True)
        ]
        scores = contrast_scores(group_into_bundles(predictions))
        (consistency,) = (member.value for member in scores if member.name == "con")
        progress_text = f"consistency {consistency:.3f}, {len(bundles)} bundles" if consistency is not None else ""
        context.progress(len(members), len(members), progress_text)
        counts = {
            **data.counts,
            "texts_cut": int(np.sum(classified.cut)),
            "edits_read_as_original": _count_alike(bundles, classified),
            **{f"rows left out, {reason}": rows for reason, rows in data.dropped.items()},
        }
        return Measured(predictions, scores, counts)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many texts a job classifies."""
        set_data = next(candidate for candidate in prepared.sets[job.spec.task.name] if candidate.set == job.spec.set)
        return sum(len(bundle.members) for bundle in set_data.rows)

    def unlike(self, record: Record, lines: Sequence[Prediction]) -> Iterator[str]:
        """Say which numbers of a record are not those of its predictions."""
        return mismatches_of_predictions(record, lines, contrast_scores, ("bundles", "edits"))

    def cells(self, results: Results) -> SetCells:
        return collect_contrasts(results)
