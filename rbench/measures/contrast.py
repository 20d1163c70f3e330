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
from rbench.measures._predicted import asked, unlike_predictions
from rbench.schema import CONTRAST, Choice, ContrastSpec, Job, Pick, Prediction, Record, Score
from rbench.schema.extension import NoOptions
from rbench.score.contrast import SCORES, Judged, contrast_scores, contrast_values, judged, mean_score
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Reading, by_place, gathered, score_of
from rbench.tables.cells import Measured as Cell
from rbench.tables.draws import levels_note, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import as_read, missing, named, seeds, selected_steps, spanned, variants
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, Number, groups_of, mark_best

if TYPE_CHECKING:
    from rbench.encoders.classify import Classified
    from rbench.tasks import Example
    from rbench.tasks.contrast import Bundle

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
Set = tuple[str, str]
"""Task and name of a set."""
METRICS = {name: replace(ABOUT, title=name.capitalize()) for name in ("ori", "rev", "con")}
_PAPER = {name: about.title for name, about in METRICS.items()}
_FULL = {
    **_PAPER,
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
_MEAN = "All seeds see the same bundles: an entry is their mean. "
_SPREAD = " ± is the standard deviation between seeds."
RATE = "learning_rate"
_HOW: dict[Pick, str] = {
    "validation": "by accuracy on the validation split",
    "contrast": "by Rev on the contrast set itself, as in the CLINE paper: what is shown was looked at to choose it",
}


def _members(bundles: Sequence[Bundle]) -> Iterator[tuple[Bundle, Example]]:
    for bundle in bundles:
        for one in (bundle.original, *bundle.edits):
            yield bundle, one


def _alike(bundles: Sequence[Bundle], found: Classified) -> int:
    """Count the edits whose tokens equal those of their original."""
    alike, at = 0, 0
    for bundle in bundles:
        edits = found.read[at + 1 : at + 1 + len(bundle.edits)]
        alike += sum(ids == found.read[at] for ids in edits)
        at += 1 + len(bundle.edits)
    return alike


@dataclass(frozen=True)
class OnSets(Grid[Cell]):
    """What victims did on sets of texts that are classified as they are, by encoder, strategy, task and set."""

    @cached_property
    def sets(self) -> list[Set]:
        """The sets, task by task."""
        there = dict.fromkeys((cell.task, cell.label) for cell in self.cells.values())
        return sorted(there, key=lambda of: (self.tasks.index(of[0]), self.labels.index(of[1])))

    @property
    def several(self) -> bool:
        """Whether there are several strategies."""
        return len({finetune for _, finetune in self.victims}) > 1

    def of(self, of: Set) -> list[Cell]:
        """Return the cells of a set."""
        return [cell for cell in self.cells.values() if (cell.task, cell.label) == of]

    def rows(self, names: Iterable[str]) -> list[list[Number | None]]:
        """Return the entries of each victim: of each set, these scores."""
        shown = [*names]
        found = [[self.cells.get((*victim, *of)) for of in self.sets] for victim in self.victims]
        return [[cell.number(name) if cell else None for cell in row for name in shown] for row in found]


def on_sets(
    results: Results,
    measure: str,
    missing: str,
    values_of: Callable[[Sequence[Judged], str], Iterable[float] | None],
) -> OnSets:
    """Collect the evaluations on sets in a RUN, which are the jobs of a measure. Raises StoreError where it has none.

    Args:
        missing: what the error says of a suite that has none.
        values_of: returns the values of the units of a set of which a number is the mean; None where it has none.
    """
    plan, suite = results.plan, results.plan.suite
    jobs = []
    for job in (job for job in plan.jobs if job.what == measure):
        draw, task, finetune, name = job.parts
        of = {"encoder": plan.draw(draw).encoder, "finetune": finetune, "task": task, "label": name}
        jobs.append((job, of))
    if not jobs:
        raise StoreError(f"{results.root} has no table of {missing}")

    def score(run: Run, name: str) -> Score | None:
        return score_of(run.record, name) if run.record is not None else None

    def values(run: Run, name: str) -> Values | None:
        return by_place(results, run.job, lambda: values_of(judged(results.store.predictions(run.job)), name))

    read = Reading(ABOUT, score, mean_score, values, shares=True)
    orders = {
        "encoder": suite.lineup,
        "finetune": (choice.label for choice in suite.finetune),
        "task": suite.tasks,
        "label": (of["label"] for _, of in jobs),
    }
    cells, names = gathered(results, jobs, orders, partial(Cell, read=read))
    return OnSets(results, cells, **names)


def contrasts(results: Results) -> OnSets:
    """Collect the evaluations on contrast sets in a RUN. Raises StoreError where its plan has none."""
    missing = f"contrast sets: suite {results.plan.suite.name} has no `evaluate: [contrast]`."
    found = on_sets(results, METRIC, missing, contrast_values)
    return replace(found, spoken=lambda cell: [(_column(found, (cell.task, cell.label)), None)])


def paper(found: OnSets) -> Table:
    """Build the layout paper: victims in rows; Ori, Rev and Con of each contrast set in columns."""
    several = found.several
    shown: list[tuple[Entry, ...]] = [
        (encoder, *([finetune] if several else []), *entries)
        for (encoder, finetune), entries in zip(found.victims, _marked(found), strict=True)
    ]
    header = [f"{_column(found, of)} {title}" for of in found.sets for title in _PAPER.values()]
    return Table(
        metric=METRIC,
        header=("Encoder", *(["Fine-tuning"] if several else []), *header),
        rows=tuple(shown),
        groups=groups_of(shown) if several else frozenset(),
        cells=tuple(_described(cell, _PAPER) for cell in found.cells.values()),
        notes=_notes(found),
        interval=_interval(found),
        flags=found.flags.listed(found.jobs),
        shows=ABOUT,
    )


def _interval(found: OnSets) -> str:
    several = [cell for cell in found.cells.values() if len(cell.done) > 1]
    if not several:
        return INTERVAL
    bare = sum(not cell.levelled("con") for cell in several)
    said = INTERVAL if len(several) == bare else levels_note(_ALONE, "bundles", cells=bare, missing="predictions")
    return f"{_MEAN}{said}{'' if found.plan.draws else _SPREAD}"


def _marked(found: OnSets) -> list[list[Number | None]]:
    """Return the entries of each victim with the best marked. Sets with a provisional cell have no best."""
    marked = mark_best(found.rows([*_PAPER]), [ABOUT] * (len(found.sets) * len(_PAPER)))
    undecided = {(cell.task, cell.label) for cell in found.cells.values() if cell.provisional}
    decided = [of not in undecided for of in found.sets for _ in _PAPER]
    return [
        [
            replace(entry, best=entry.best and is_decided) if entry else entry
            for entry, is_decided in zip(row, decided, strict=True)
        ]
        for row in marked
    ]


def full(found: OnSets) -> Table:
    """Build the layout full: one row per job, with all scores."""
    drawn = bool(found.plan.draws)
    several = found.several
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    for cell in found.cells.values():
        for run in cell.runs:
            one = cell.only(run)
            counts = [one.records[0].counts.get(name) for name in ("bundles", "edits")] if run.done else [None, None]
            names: list[Entry] = [cell.encoder, *([cell.finetune] if several else []), cell.label]
            names += [training_seed(run.train_seed)] if drawn else []
            rows.append((*names, run.job.seed, *counts, *(one.number(name) for name in _FULL)))
            more = {"train_seed": run.train_seed} if drawn else {}
            cells.append(_described(one, _FULL) | more | {"seed": run.job.seed})
    header = ["Encoder", *(["Fine-tuning"] if several else []), "Contrast set", *(["Training seed"] if drawn else [])]
    header += ["Seed", "Bundles", "Edits"]
    return Table(
        metric=METRIC,
        layout="full",
        header=(*header, *_FULL.values()),
        rows=tuple(rows),
        groups=groups_of(rows),
        cells=tuple(cells),
        notes=_notes(found),
        interval=_interval(found),
        flags=found.flags.listed(found.jobs),
        shows=ABOUT,
        caption="Every evaluation on a contrast set; shares in %",
    )


def _column(found: OnSets, of: tuple[str, str]) -> str:
    """Return the task's name, or the contrast set's name where the task has several sets."""
    task, contrast = of
    return task if sum(other == task for other, _ in found.sets) == 1 else contrast


def _described(cell: Cell, names: Mapping[str, str]) -> dict[str, Any]:
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


def _notes(found: OnSets) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    jobs = [job for job in found.plan.jobs if job.what == METRIC]  # those that were not picked, too
    return (
        f"{ABOUT.title}: {ABOUT.definition}. {DEFINITION}",
        *found.plan.suite.notes,
        *(note for of in found.sets for note in _set_notes(found, of)),
        *found.notes,
        *(draw_notes(found.plan, jobs) or [seeds(jobs)]),
        *variants(found.plan, found.flags.behind(found.jobs)),
        *selected_steps(found.plan),
        *as_read(found.plan),
        *found.flags.notes(found.jobs),
        *missing("evaluations on contrast sets", jobs, found.standing),
    )


def _set_notes(found: OnSets, of: tuple[str, str]) -> list[str]:
    """Return notes on a set: its size, rows left out, rows kept out of training, texts cut, and its file's notes."""
    name = _column(found, of) if _column(found, of) == of[1] else f"{of[0]} ({of[1]})"
    cells = found.of(of)
    there = [record.counts for cell in cells for record in cell.records]
    job = cells[0].jobs[0].measuring
    assert job is not None and isinstance(job.set, ContrastSpec)
    told = [f"{name}: {_sizes(there[0])}."] if there and there[0] else []
    unseen = {
        "texts longer than the victim reads": "texts_cut",
        "edits that it reads as their original": "edits_read_as_original",
    }
    if any(counts.get(key) for counts in there for key in unseen.values()):
        spans = (f"{spanned(counts.get(key, 0) for counts in there)} {what}" for what, key in unseen.items())
        told.append(f"{name}: {', '.join(spans)}.")
    return told + [f"{name}: {note}" for note in job.set.notes]


def _sizes(counts: Mapping[str, int]) -> str:
    of = f" of {counts['clusters']} clusters" if "clusters" in counts else ""
    parts = [f"{counts.get('bundles', 0)} bundles{of}, {counts.get('edits', 0)} edits"]
    kinds = {
        "edits_label_kept": "edits keep the label",
        "edits_same_text": "edits have their original's text",
        "edits_repeated": "edits repeat another of their bundle",
    }
    parts += [f"{counts[name]} {kind}" for name, kind in kinds.items() if counts.get(name)]
    parts += [f"{n} {reason}" for reason, n in counts.items() if reason.startswith("rows left out") and n]
    out = [
        f"{counts[f'{split}_kept_out']} of {split}"
        for split in ("train", "validation")
        if counts.get(f"{split}_kept_out")
    ]
    parts += [f"rows kept out of training for it: {', '.join(out)}"] if out else []
    return "; ".join(parts)


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
    groups: dict[tuple[str, ...], list[Cell]] = {}
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


def _best(candidates: list[Cell], by: Pick, validated: Mapping[str, Score]) -> Cell:
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


class Contrast(Measure[NoOptions]):
    """Contrast sets: the victim's prediction for each text, and scores over the bundles, in two tables."""

    title = "Contrast sets: accuracy on originals and edits, and consistency over both"
    reads = "victims"
    stores = "predictions"
    numbers = METRICS
    required_scores = SCORES
    workload = "to classify: {:,} texts of contrast sets"
    layouts = {
        "paper": lambda results, wanted: paper(picked(contrasts(results), wanted.pick)),
        "full": lambda results, wanted: full(contrasts(results)),
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
        bundles: tuple[Bundle, ...] = data.rows
        members = list(_members(bundles))
        found = asked(context, [one.texts for _, one in members])
        predictions = [
            Prediction(
                bundle=bundle.id,
                example_id=one.id,
                original=one is bundle.original,
                label=int(one.label or 0),  # never None in a contrast set
                prediction=int(label),
                cluster=bundle.cluster,
            )
            for (bundle, one), label in zip(members, found.labels, strict=True)
        ]
        scores = contrast_scores(judged(predictions))
        (consistency,) = (one.value for one in scores if one.name == "con")
        said = f"consistency {consistency:.3f}, {len(bundles)} bundles" if consistency is not None else ""
        context.progress(len(members), len(members), said)
        counts = {
            **data.counts,
            "texts_cut": int(np.sum(found.cut)),
            "edits_read_as_original": _alike(bundles, found),
            **{f"rows left out, {reason}": rows for reason, rows in data.dropped.items()},
        }
        return Measured(predictions, scores, counts)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many texts a job classifies."""
        found = next(one for one in prepared.sets[job.spec.task.name] if one.set == job.spec.set)
        return sum(len(bundle.members) for bundle in found.rows)

    def unlike(self, record: Record, lines: Sequence[Prediction]) -> Iterator[str]:
        """Say which numbers of a record are not those of its predictions."""
        return unlike_predictions(record, lines, contrast_scores, ("bundles", "edits"))

    def cells(self, results: Results) -> OnSets:
        return contrasts(results)
