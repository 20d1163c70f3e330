"""Lays out tables of contrast sets: accuracy of victims on originals, on their edits, and on both together.

paper   Rows are encoders (and fine-tuning strategies). Each contrast set has the columns Ori, Rev and Con, as in
        Table 4 of the CLINE paper. The best entry of each column is bold. A column has no best where an entry is
        missing, or where an entry was picked before all its candidates were done.
full    Each (encoder, fine-tuning, contrast set, seed) has one row with every score and its sample sizes.

As with attacks, the plan determines the shape and order, whatever is done. Records are read, and the predictions of
victims of several seeds, for their intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from rbench.errors import StoreError
from rbench.schema import CONTRAST, ContrastSpec, Score
from rbench.score import Judged, contrast_values, judged, mean_score
from rbench.tables.cells import Grid, Measured, Reading, by_place, gathered, score_of
from rbench.tables.columns import mark_best
from rbench.tables.draws import levels_note, training_seed
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import missing, seeds, selected_steps, spanned, variants
from rbench.tables.results import Results, Run
from rbench.tables.table import Entry, Meaning, Number, Table

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


@dataclass(frozen=True)
class OnSets(Grid[Measured]):
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

    def of(self, of: Set) -> list[Measured]:
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

    read = Reading(ABOUT, score, lambda scores: mean_score(scores)[0], values, shares=True)
    orders = {
        "encoder": suite.lineup,
        "finetune": (choice.label for choice in suite.finetune),
        "task": suite.tasks,
        "label": (of["label"] for _, of in jobs),
    }
    cells, names = gathered(results, jobs, orders, partial(Measured, read=read))
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
    starts = {i for i in range(1, len(shown)) if several and shown[i][0] != shown[i - 1][0]}
    header = [f"{_column(found, of)} {title}" for of in found.sets for title in _PAPER.values()]
    return Table(
        metric=METRIC,
        layout="paper",
        header=("Encoder", *(["Fine-tuning"] if several else []), *header),
        rows=tuple(shown),
        groups=frozenset(starts),
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
    groups = set()
    for cell in found.cells.values():
        if rows and rows[-1][0] != cell.encoder:
            groups.add(len(rows))
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
        groups=frozenset(groups),
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


def _described(cell: Measured, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a cell for programs: `value` is the consistency (Con), `scores` holds all scores that are shown."""
    scores = {name: cell.told(name, "seed_sd") for name in names}
    return {
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
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
