"""Transferability (ADCL, section 4.5, Table 3): texts made against one victim, judged by every other.

A text that an attack changed until victim A erred transfers to victim B if B errs on it too, that is, if B's prediction
is not the label. The denominator is the successes on A, so a victim that judges its own texts errs on all of them.
The paper does not print its denominator, nor whether B must have classified the original correctly (ours: all successes
on A; beside it the share among the texts whose original B classifies correctly).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

from rbench.measures import Asked, Measure, MeasureContext, MeasuredRow
from rbench.measures._stored import attacks_behind, chosen, jobs, read_rows
from rbench.schema import AS_IS, Job, Outcome, Score
from rbench.schema.extension import NoOptions
from rbench.score import Share, scored
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Whole, in_order
from rbench.tables.notes import missing
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, Number, groups_of

VERSION = 1
USES = ("encoders.classify",)
NAME = "transfer"
ABOUT = Meaning(
    "Transferability",
    "share of the texts with which an attack fooled one victim (row) that fool another (column)",
    undefined="no such text",
)


Victim = tuple[str, str]
"""Encoder, as the suite names it, and strategy."""


class Transfer(Measure[NoOptions]):
    """Transferability (ADCL, section 4.5, Table 3): texts made against one victim, judged by every other."""

    title = "Transferability: texts made against one victim, judged by every other (ADCL, Table 3)"
    numbers = {"transfer": ABOUT}

    def run(self, options: NoOptions, context: MeasureContext) -> list[MeasuredRow]:
        """Return one row for each ordered pair of victims, with counts and no texts."""
        made = {of: [one for one in context.outcomes[of] if one.status == "succeeded"] for of in context.victims}
        rows = []
        for done, judge in enumerate(context.victims):
            context.progress(done, len(context.victims), f"{judge.encoder} {judge.finetune} judges")
            known = {one.example_id: one.original_prediction for one in context.outcomes[judge]}
            for maker in context.victims:
                counts = _own(made[maker]) if maker == judge else _judged(made[maker], judge, known, context)
                rows.append(MeasuredRow(names=_names(maker[1:], judge[1:]), numbers={**counts}))
        return rows

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the matrix of each task and attack: makers in rows, judges in columns."""
        found = matrices(results)
        victims = list(dict.fromkeys(victim for matrix in found for victim in matrix.victims))
        several = len({finetune for _, finetune in victims}) > 1
        shown = [f"{encoder}, {finetune}" if several else encoder for encoder, finetune in victims]
        asked = jobs(results, NAME)
        rows: list[tuple[Entry, ...]] = []
        for task, attack, pairs in found:
            for maker, heading in zip(victims, shown, strict=True):
                for name, among in ((NAME, "all"), ("right", "right")) if (maker, maker) in pairs else ():
                    n = pairs[maker, maker].counts["n"] if among == "all" else ""
                    judged = [pairs.get((maker, judge)) for judge in victims]
                    rows.append(
                        (task, attack, heading, among, n, *(one.number(name) if one else None for one in judged))
                    )
        return Table(
            metric=NAME,
            header=("Task", "Attack", "Made against", "Among", "n", *shown),
            rows=tuple(rows),
            groups=groups_of(rows, 2),
            cells=tuple(_described(pair) for matrix in found for pair in matrix.pairs.values()),
            notes=(
                "all: of all texts that fooled the victim of the row, n of them; the diagonal is 100% by definition. "
                "right: of those whose original the judge classifies correctly, which differ between judges.",
                *results.plan.suite.notes,
                *results.flags.notes(asked),
                *missing("jobs", asked, results.standing),
            ),
            interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between "
            "seeds.",
            flags=results.flags.listed(asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> Grid[Pair]:
        return cells(results)


def _names(maker: Victim, judge: Victim) -> dict[str, str]:
    return {"encoder": maker[0], "finetune": maker[1], "judge": judge[0], "judge_finetune": judge[1]}


def _own(made: Sequence[Outcome]) -> dict[str, float]:
    """A victim errs on all texts that fooled it, and got all of their originals right: attacks count only those."""
    n = len(made)
    return {"n": n, "fooled": n, "right": n, "fooled_right": n}


def _judged(
    made: Sequence[Outcome], judge: Asked, known: dict[str, int | None], context: MeasureContext
) -> dict[str, float]:
    """Ask `judge` for the texts, and for their originals where its own attack did not ask it already (`known`)."""
    import numpy as np

    from rbench.encoders.classify import classify

    if not made:
        return {"n": 0, "fooled": 0, "right": 0, "fooled_right": 0}
    victim = context.victim(judge)
    labels = np.array([one.label for one in made])
    fooled = classify(victim, [one.perturbed or one.original or () for one in made]).labels != labels
    unknown = [one for one in made if known.get(one.example_id) is None]
    asked = classify(victim, [one.original or () for one in unknown]).labels
    now = {one.example_id: int(label) for one, label in zip(unknown, asked, strict=True)}
    before = np.array([(known | now)[one.example_id] for one in made])
    right = before == labels
    return {
        "n": len(made),
        "fooled": int(fooled.sum()),
        "right": int(right.sum()),
        "fooled_right": int((fooled & right).sum()),
    }


@dataclass(frozen=True)
class Pair(Whole):
    """What one victim says of the texts that fooled another, whose names the cell has. Its runs are the jobs.

    It has two numbers: the share among all texts, `transfer`, and among those whose original the judge gets `right`.
    """

    judge: Victim = ("", "")
    attacks: tuple[Job, ...] = ()
    """The attacks on the victim against which the texts were made, one a run that is done."""
    attacks_on_judge: tuple[Job, ...] = ()
    rows: Callable[[Job], tuple[MeasuredRow, ...]] = field(kw_only=True, compare=False, repr=False)
    """Reads what a job stored."""

    @property
    def maker(self) -> Victim:
        return self.encoder, self.finetune

    @property
    def jobs(self) -> list[Job]:
        return [*self.attacks, *self.attacks_on_judge]

    @cached_property
    def counts(self) -> Counter[str]:
        """`n` texts fooled the victim, and `fooled` of them the judge; it gets the originals of `right` right, of which
        `fooled_right` fool it. Seeds are added up."""
        wanted, found = _names(self.maker, self.judge), Counter[str]()
        for row in (row for run in self.done for row in self.rows(run.job) if row.names == wanted):
            found.update({name: int(value or 0) for name, value in row.numbers.items()})
        return found

    def sampled(self, name: str) -> Score:
        count, n = ("fooled_right", "right") if name == "right" else ("fooled", "n")
        found = Share(self.counts[count], self.counts[n])
        return scored(name, found, self.results.repeats(self.attacks)) if found.n else scored(name, found)

    def meaning(self, name: str) -> Meaning:
        return ABOUT

    def number(self, name: str) -> Number | None:
        """Return a share. It is withheld for flags of the attack, and of the judge as a victim."""
        flags = self.results.flags
        number = flags.on(Number.of(self.sampled(name), ABOUT, partial=self.partial), self.attacks)
        return flags.on(number, self.attacks_on_judge, attacks=False)


def cells(results: Results) -> Grid[Pair]:
    """Return all ordered pairs of victims, by task, attack, maker and judge. Raises StoreError as `jobs` does."""
    suite, plan = results.plan.suite, results.plan
    stored: dict[str, tuple[MeasuredRow, ...]] = {}

    def rows(job: Job) -> tuple[MeasuredRow, ...]:
        return stored.get(job.key) or stored.setdefault(job.key, read_rows(results, job).rows)

    places: dict[tuple[str, str], list[Job]] = {}
    for job in jobs(results, NAME):
        assert job.measuring is not None
        places.setdefault((job.measuring.task.name, job.measuring.attack or ""), []).append(job)
    tasks = in_order(suite.tasks, (task for task, _ in places))
    attacks = in_order((choice.label for choice in suite.attacks), (attack for _, attack in places))
    order = [(e, s.label) for e in suite.encoders for s in suite.finetune] + [(name, AS_IS) for name in suite.victims]
    found: dict[tuple[str, ...], Pair] = {}
    for task, attack in sorted(places, key=lambda of: (tasks.index(of[0]), attacks.index(of[1]))):
        asked = places[task, attack]
        runs = tuple(Run.of(job, results.standing.records.get(job.key), None) for job in asked)
        done = [attacks_behind(plan, run.job) for run in runs if run.done]
        there = dict.fromkeys(victim for job in asked for victim in attacks_behind(plan, job))
        told = (row.names for run in runs if run.done for row in rows(run.job))
        there = dict.fromkeys((names["judge"], names["judge_finetune"]) for names in told) or there
        victims = sorted(there, key=lambda of: order.index(of) if of in order else len(order))
        on = {victim: tuple(own[victim] for own in done if victim in own) for victim in victims}
        for judge, maker in product(victims, victims):
            pair = Pair(maker[0], task, runs, results, False, maker[1], attack, attacks=on[maker], rows=rows)
            found[task, attack, *maker, *judge] = replace(pair, judge=judge, attacks_on_judge=on[judge])
    return Grid(results, found)


class Matrix(NamedTuple):
    """All ordered pairs of victims for one task and attack."""

    task: str
    attack: str
    pairs: dict[tuple[Victim, Victim], Pair]
    """By the victim against which texts were made, and the victim that judges."""

    @property
    def victims(self) -> list[Victim]:
        """In the suite's order."""
        return list(dict.fromkeys(maker for maker, _ in self.pairs))


def matrices(results: Results) -> list[Matrix]:
    """Return what is done, by task and attack. Raises StoreError as `measured` does."""
    chosen(results, NAME)
    found: dict[tuple[str, str], Matrix] = {}
    for cell in (cell for cell in cells(results).cells.values() if cell.present):
        matrix = found.setdefault((cell.task, cell.attack), Matrix(cell.task, cell.attack, {}))
        matrix.pairs[cell.maker, cell.judge] = cell
    return list(found.values())


def _described(pair: Pair) -> dict[str, object]:
    every, right = (pair.told(name) for name in (NAME, "right"))
    return {
        **pair.at("task", "attack", "encoder", "finetune"),
        "judge": pair.judge[0],
        "judge_finetune": pair.judge[1],
        "n": pair.counts["n"],
        **{each: every[each] for each in ("value", "low", "high", "flagged")},
        "right_n": pair.counts["right"],
        **{f"right_{each}": right[each] for each in ("value", "low", "high")},
    }
