"""Lays out tables of contrast sets: accuracy of victims on originals, on their edits, and on both together.

paper   Rows are encoders (and fine-tuning strategies). Each contrast set has the columns Ori, Rev and Con, as in
        Table 4 of the CLINE paper. The best entry of each column is bold. A column has no best where an entry is
        missing, or where an entry was picked before all its candidates were done.
full    Each (encoder, fine-tuning, contrast set, seed) has one row with every score and its sample sizes.

As with attacks, the plan determines the shape and order, whatever is done. Records are read, and the predictions of
victims of several seeds, for their intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rbench.errors import StoreError
from rbench.score import mean_score
from rbench.spec import ContrastSpec, Draw, EvaluationMetric, Job, Plan, Record, Score
from rbench.storage.runs import Reader
from rbench.storage.standing import Standing
from rbench.tables import variants
from rbench.tables.aggregate import Results, in_order
from rbench.tables.columns import mark_best
from rbench.tables.draws import levels_note, means, plain, training_seed, within
from rbench.tables.draws import notes as draw_notes
from rbench.tables.flags import Flags
from rbench.tables.levels import limits, observed
from rbench.tables.notes import missing, seeds, selected_steps, spanned
from rbench.tables.predicted_values import predicted_values
from rbench.tables.table import MEANING, Draws, Entry, Number, Table

METRIC: EvaluationMetric = "contrast"
_PAPER = {"ori": "Ori", "rev": "Rev", "con": "Con"}
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
class ContrastCell:
    """All seeds, of training and of fine-tuning, of one (encoder, fine-tuning, contrast set)."""

    encoder: str
    finetune: str
    task: str
    contrast: str
    jobs: tuple[Job, ...]
    records: tuple[Record, ...]
    """Records of the jobs that are complete."""
    provisional: bool = False
    """Whether the cell was picked among cells that are not all complete, so that another may turn out better."""
    draws: Mapping[str, Draw] = field(default_factory=dict)
    """Of the plan; see `Plan.draws`."""
    store: Reader | None = field(default=None, compare=False, repr=False)
    """Where the predictions are."""

    @property
    def complete(self) -> bool:
        """Whether all seeds are done."""
        return len(self.records) == len(self.jobs)

    @property
    def partial(self) -> bool:
        """Whether some seeds are done while others, of this cell or of those it was picked among, are not."""
        return bool(self.records) and (self.provisional or not self.complete)

    def score(self, name: str) -> tuple[Score, float | None] | None:
        """Return a score's mean over the finished seeds, and its standard deviation between seeds of fine-tuning; None
        where no seed is finished."""
        if not self.records:
            return None
        mean = mean_score([score_of(record, name) for record in self.records])[0]
        if (ends := self._limits(name)) is not None:
            mean = mean.model_copy(update={"low": ends[0], "high": ends[1]})
        return mean, within(self._values(name))

    def levelled(self, name: str) -> bool:
        """Whether the interval of `score` covers differences between seeds, too."""
        return self._limits(name) is not None

    def _limits(self, name: str) -> tuple[float, float] | None:
        """Return the interval with seeds as levels; None for one victim, and where predictions do not give it."""
        if self.store is None or len(self.records) < 2:
            return None
        if name not in self._known:
            jobs = [record.job for record in self.records]
            found = observed((job.seed, self.train_seed(job), predicted_values(self.store, job, name)) for job in jobs)
            self._known[name] = limits([found], shares=True)
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, tuple[float, float] | None]:
        """What `_limits` has computed, by score."""
        return {}

    def by_training(self, name: str) -> Draws | None:
        """Return a score by training seed; None without `train_seeds`."""
        several = len({job.seed for job in self.jobs}) > 1
        return Draws(means(self._values(name)), several) if self.draws else None

    def train_seed(self, job: Job) -> int | None:
        """Return the training seed of a job's encoder; None where it has none."""
        draw = self.draws.get(job.parts[0])
        return draw.train_seed if draw is not None else None

    def _values(self, name: str) -> list[tuple[int | None, float | None]]:
        return [(self.train_seed(record.job), score_of(record, name).value) for record in self.records]

    def number(self, name: str) -> Number | None:
        """Return the mean of a score as a table entry; None where no seed is done."""
        if (found := self.score(name)) is None:
            return None
        return Number.of(found[0], METRIC, seed_sd=found[1], draws=self.by_training(name), partial=self.partial)


@dataclass(frozen=True)
class Contrasts:
    """The evaluations on contrast sets of a plan, in the order of the suite."""

    plan: Plan
    victims: tuple[tuple[str, str], ...]
    """Encoder and strategy."""
    sets: tuple[tuple[str, str], ...]
    """Task and contrast set."""
    cells: Mapping[tuple[tuple[str, str], tuple[str, str]], ContrastCell]
    standing: Standing
    """State of all jobs of the plan."""
    notes: tuple[str, ...] = ()
    """Notes on cells of the plan that were left out."""

    @cached_property
    def flags(self) -> Flags:
        """The flags of all jobs of the plan."""
        return Flags(self.plan, self.standing.records)

    @property
    def shown(self) -> list[Job]:
        """The jobs of all cells."""
        return [job for cell in self.cells.values() for job in cell.jobs]

    def number(self, cell: ContrastCell, name: str) -> Number | None:
        """Return the mean of a score as a table entry; None where no seed is done."""
        number = cell.number(name)
        return self.flags.on(number, cell.jobs) if number is not None else None


def contrasts(results: Results) -> Contrasts:
    """Collect the evaluations on contrast sets in a RUN. Raises StoreError where its plan has none."""
    plan, found = results.plan, results.standing
    jobs: dict[tuple[tuple[str, str], tuple[str, str]], list[Job]] = {}
    for job in plan.jobs:
        if job.what == METRIC:
            label, task, finetune, contrast = job.parts
            encoder = plan.draw(label).encoder
            jobs.setdefault(((encoder, finetune), (task, contrast)), []).append(job)
    if not jobs:
        raise StoreError(
            f"{results.root} has no table of contrast sets: suite {plan.suite.name} has no `evaluate: [contrast]`."
        )
    encoders = in_order(plan.suite.lineup, (victim[0] for victim, _ in jobs))
    finetunes = in_order((choice.label for choice in plan.suite.finetune), (victim[1] for victim, _ in jobs))
    tasks = in_order(plan.suite.tasks, (task for _, (task, _) in jobs))
    victims = [(encoder, finetune) for encoder in encoders for finetune in finetunes]
    sets = sorted(dict.fromkeys(of for _, of in jobs), key=lambda of: tasks.index(of[0]))
    cells = {
        (victim, of): _cell(victim, of, jobs[victim, of], results)
        for victim in victims
        for of in sets
        if (victim, of) in jobs
    }
    there = tuple(victim for victim in victims if any((victim, of) in cells for of in sets))
    return Contrasts(plan, there, tuple(sets), cells, found)


def _cell(victim: tuple[str, str], of: tuple[str, str], jobs: Sequence[Job], results: Results) -> ContrastCell:
    found = (results.standing.records.get(job.key) for job in jobs)
    done = tuple(record for record in found if record is not None and record.status == "complete")
    return ContrastCell(*victim, *of, tuple(jobs), done, draws=results.plan.draws, store=results.store)


def score_of(record: Record, name: str) -> Score:
    """Return one of a record's scores. Raises StoreError where it is missing."""
    found = next((score for score in record.scores if score.name == name), None)
    if found is None:
        raise StoreError(f"the record of {record.job.name} has no {name}. Delete it, and the job runs again.")
    return found


def paper(found: Contrasts) -> Table:
    """Build the layout paper: victims in rows; Ori, Rev and Con of each contrast set in columns."""
    several = len({finetune for _, finetune in found.victims}) > 1
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
        cells=tuple(_described(cell, _PAPER, found) for cell in found.cells.values()),
        notes=_notes(found),
        interval=_interval(found),
        flags=found.flags.listed(found.shown),
    )


def _interval(found: Contrasts) -> str:
    several = [cell for cell in found.cells.values() if len(cell.records) > 1]
    if not several:
        return INTERVAL
    bare = sum(not cell.levelled("con") for cell in several)
    said = INTERVAL if len(several) == bare else levels_note(_ALONE, "bundles", cells=bare, missing="predictions")
    return f"{_MEAN}{said}{'' if found.plan.draws else _SPREAD}"


def _marked(found: Contrasts) -> list[list[Number | None]]:
    """Return the entries of each victim with the best marked. Sets with a provisional cell have no best."""
    rows: list[list[Number | None]] = []
    for victim in found.victims:
        cells = [found.cells.get((victim, of)) for of in found.sets]
        rows.append([found.number(cell, name) if cell is not None else None for cell in cells for name in _PAPER])
    marked = mark_best(rows, [METRIC] * (len(found.sets) * len(_PAPER)))
    undecided = {of for (_, of), cell in found.cells.items() if cell.provisional}
    decided = [of not in undecided for of in found.sets for _ in _PAPER]
    return [
        [
            replace(entry, best=entry.best and is_decided) if entry else entry
            for entry, is_decided in zip(row, decided, strict=True)
        ]
        for row in marked
    ]


def full(found: Contrasts) -> Table:
    """Build the layout full: one row per job, with all scores."""
    drawn = bool(found.plan.draws)
    several = len({finetune for _, finetune in found.victims}) > 1
    rows: list[tuple[Entry, ...]] = []
    cells: list[dict[str, Any]] = []
    groups = set()
    for cell in found.cells.values():
        if rows and rows[-1][0] != cell.encoder:
            groups.add(len(rows))
        for job in cell.jobs:
            records = tuple(record for record in cell.records if record.job.key == job.key)
            single = replace(cell, jobs=(job,), records=records, provisional=False, draws={})
            counts = [records[0].counts.get(name) for name in ("bundles", "edits")] if records else [None, None]
            names: list[Entry] = [cell.encoder, *([cell.finetune] if several else []), cell.contrast]
            names += [training_seed(cell.train_seed(job))] if drawn else []
            rows.append((*names, job.seed, *counts, *(found.number(single, name) for name in _FULL)))
            more = {"train_seed": cell.train_seed(job)} if drawn else {}
            cells.append(_described(single, _FULL, found) | more | {"seed": job.seed})
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
        flags=found.flags.listed(found.shown),
    )


def _column(found: Contrasts, of: tuple[str, str]) -> str:
    """Return the task's name, or the contrast set's name where the task has several sets."""
    task, contrast = of
    return task if sum(other == task for other, _ in found.sets) == 1 else contrast


def _described(cell: ContrastCell, names: Mapping[str, str], found: Contrasts) -> dict[str, Any]:
    """Return a cell for programs: `value` is the consistency (Con), `scores` holds all scores that are shown."""
    scores = {}
    for name in names:
        score, sd = cell.score(name) or (Score(name=name, value=None, n=0), None)
        scores[name] = {**score.model_dump(include={"value", "n", "low", "high"}), "seed_sd": sd}
        scores[name] |= plain(cell.by_training(name))
        if found.flags.hiding(cell.jobs):
            scores[name] |= dict.fromkeys(scores[name].keys() & {"value", "low", "high", "seed_sd", "train_sd"})
    return {
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
        "contrast": cell.contrast,
        "seeds": len({record.job.seed for record in cell.records}),
        **scores["con"],
        "flags": found.flags.told(cell.jobs),
        "scores": scores,
    }


def _notes(found: Contrasts) -> tuple[str, ...]:
    """Return the notes below the table. As in `notes`, they hold neither times nor paths."""
    jobs = [job for job in found.plan.jobs if job.what == METRIC]
    return (
        f"{MEANING[METRIC].title}: {MEANING[METRIC].definition}. {DEFINITION}",
        *found.plan.suite.notes,
        *(note for of in found.sets for note in _set_notes(found, of)),
        *found.notes,
        *(draw_notes(found.plan, jobs) or [seeds(jobs)]),
        *variants.notes(found.plan, found.flags.behind(found.shown)),
        *selected_steps(found.plan),
        *found.flags.notes(found.shown),
        *missing("evaluations on contrast sets", jobs, found.standing),
    )


def _set_notes(found: Contrasts, of: tuple[str, str]) -> list[str]:
    """Return notes on a set: its size, rows left out, rows kept out of training, texts cut, and its file's notes."""
    name = _column(found, of) if _column(found, of) == of[1] else f"{of[0]} ({of[1]})"
    cells = [cell for (_, other), cell in found.cells.items() if other == of]
    record = next((record for cell in cells for record in cell.records), None)
    job = cells[0].jobs[0].measuring
    assert job is not None and isinstance(job.set, ContrastSpec)
    counts = record.counts if record is not None else {}
    told = [f"{name}: {_sizes(counts)}."] if counts else []
    there = [record.counts for cell in cells for record in cell.records]
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
