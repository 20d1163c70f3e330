"""Transferability (ADCL, section 4.5, Table 3): texts made against one victim, judged by every other.

A text that an attack changed until victim A erred transfers to victim B if B errs on it too, that is, if B's prediction
is not the label. The rate is the share of such texts among all successes on A, so for A itself it is 1.

The paper does not print its denominator, nor whether B must have classified the original correctly. Beside the share
among all successes, the table therefore has the share among those whose original B classifies correctly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

from rbench.measures import Measure, MeasureContext, MeasuredRow, VictimRef
from rbench.measures._stored import attacks_behind, chosen, jobs_of_measure, read_rows
from rbench.schema import AS_IS, Job, Outcome, Score
from rbench.schema.extension import NoOptions
from rbench.score import Proportion, make_score
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, PooledCell, in_order
from rbench.tables.notes import unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, Number, TableEntry, group_starts

# Part of the key of every transfer job (config/versions.py): raising it asks all judges anew.
VERSION = 1
USES = ("encoders.classify",)
NAME = "transfer"
ABOUT = Meaning(
    "Transferability",
    "share of the texts with which an attack fooled one victim (row) that fool another (column)",
    undefined="no such text",
)


NamedVictim = tuple[str, str]
"""Encoder, as the suite names it, and strategy."""


class TransferRates(Measure[NoOptions]):
    """Transferability (ADCL, section 4.5, Table 3): texts made against one victim, judged by every other."""

    title = "Transferability: texts made against one victim, judged by every other (ADCL, Table 3)"
    numbers = {"transfer": ABOUT}

    def run(self, options: NoOptions, context: MeasureContext) -> list[MeasuredRow]:
        """Return one row for each ordered pair of victims, with counts and no texts."""
        successes = {
            victim_ref: [outcome for outcome in context.outcomes[victim_ref] if outcome.status == "succeeded"]
            for victim_ref in context.victims
        }
        rows = []
        for num_done, judge in enumerate(context.victims):
            context.progress(num_done, len(context.victims), f"{judge.encoder} {judge.finetune} judges")
            known_predictions = {outcome.example_id: outcome.original_prediction for outcome in context.outcomes[judge]}
            for maker in context.victims:
                if maker == judge:
                    counts = _count_own(successes[maker])
                else:
                    counts = _ask_judge(successes[maker], judge, known_predictions, context)
                names = _pair_names((maker.encoder, maker.finetune), (judge.encoder, judge.finetune))
                rows.append(MeasuredRow(names=names, numbers={**counts}))
        return rows

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the matrix of each task and attack: makers in rows, judges in columns."""
        matrices = build_matrices(results)
        victims = list(dict.fromkeys(victim for matrix in matrices for victim in matrix.victims))
        several_strategies = len({finetune for _, finetune in victims}) > 1
        headings = [f"{encoder}, {finetune}" if several_strategies else encoder for encoder, finetune in victims]
        planned_jobs = jobs_of_measure(results, NAME)
        rows: list[tuple[TableEntry, ...]] = []
        for task, attack, pairs in matrices:
            for maker, heading in zip(victims, headings, strict=True):
                if (maker, maker) not in pairs:
                    continue
                pairs_of_maker = [pairs.get((maker, judge)) for judge in victims]
                shares = [None if pair is None else pair.number(NAME) for pair in pairs_of_maker]
                shares_of_right = [None if pair is None else pair.number("right") for pair in pairs_of_maker]
                rows.append((task, attack, heading, "all", pairs[maker, maker].counts["n"], *shares))
                rows.append((task, attack, heading, "right", "", *shares_of_right))  # n differs between judges
        return Table(
            metric=NAME,
            header=("Task", "Attack", "Made against", "Among", "n", *headings),
            rows=tuple(rows),
            groups=group_starts(rows, 2),
            cells=tuple(_program_row(pair) for matrix in matrices for pair in matrix.pairs.values()),
            notes=(
                "all: of all texts that fooled the victim of the row, n of them; the diagonal is 100% by definition. "
                "right: of those whose original the judge classifies correctly, which differ between judges.",
                *results.plan.suite.notes,
                *results.flags.notes(planned_jobs),
                *unfinished_notes("jobs", planned_jobs, results.standing),
            ),
            interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between "
            "seeds.",
            flags=results.flags.listed(planned_jobs),
            about=ABOUT,
        )

    def cells(self, results: Results) -> Grid[TransferPair]:
        return build_cells(results)


def _pair_names(maker: NamedVictim, judge: NamedVictim) -> dict[str, str]:
    return {"encoder": maker[0], "finetune": maker[1], "judge": judge[0], "judge_finetune": judge[1]}


def _count_own(successes: Sequence[Outcome]) -> dict[str, float]:
    """Count the successes on a victim that is its own judge: it errs on each text and got each original right, because
    an attack begins only on texts that the victim classifies correctly."""
    num_made = len(successes)
    return {"n": num_made, "fooled": num_made, "right": num_made, "fooled_right": num_made}


def _ask_judge(
    successes: Sequence[Outcome], judge: VictimRef, known_predictions: dict[str, int | None], context: MeasureContext
) -> dict[str, float]:
    """Count on how many of the texts `judge` errs, and of how many it gets the original right.

    Args:
        successes: outcomes of the attack on another victim.
        known_predictions: what the judge predicts for originals, by example, as far as the attack on it has asked.
    """
    import numpy as np

    from rbench.encoders.classify import classify

    if not successes:
        return {"n": 0, "fooled": 0, "right": 0, "fooled_right": 0}
    victim = context.victim(judge)
    labels = np.array([outcome.label for outcome in successes])
    fooled = classify(victim, [outcome.perturbed or outcome.original or () for outcome in successes]).labels != labels
    # The attack on the judge may not have the example, or errored on it. Then the judge is asked here.
    not_asked = [outcome for outcome in successes if known_predictions.get(outcome.example_id) is None]
    new_labels = classify(victim, [outcome.original or () for outcome in not_asked]).labels
    new_predictions = {outcome.example_id: int(label) for outcome, label in zip(not_asked, new_labels, strict=True)}
    predictions = known_predictions | new_predictions
    right = np.array([predictions[outcome.example_id] for outcome in successes]) == labels
    return {
        "n": len(successes),
        "fooled": int(fooled.sum()),
        "right": int(right.sum()),
        "fooled_right": int((fooled & right).sum()),
    }


@dataclass(frozen=True)
class TransferPair(PooledCell):
    """The answers of one victim, the judge, on the texts that fooled another one, the maker.

    `encoder` and `finetune` name the maker; `runs` are the jobs of the measure, one for each seed. There are two
    numbers: the share of texts that fool the judge among all, `transfer`, and among those whose original it gets
    `right`.
    """

    judge: NamedVictim = ("", "")
    attacks: tuple[Job, ...] = ()
    """The attacks on the maker: one for each of `runs` that is done."""
    attacks_on_judge: tuple[Job, ...] = ()
    """The attacks on the judge, likewise."""
    rows: Callable[[Job], tuple[MeasuredRow, ...]] = field(kw_only=True, compare=False, repr=False)
    """Returns the rows that a job stored."""

    @property
    def maker(self) -> NamedVictim:
        return self.encoder, self.finetune

    @property
    def jobs(self) -> list[Job]:
        return [*self.attacks, *self.attacks_on_judge]

    @cached_property
    def counts(self) -> Counter[str]:
        """`n` texts fooled the victim, and `fooled` of them the judge; it gets the originals of `right` right, of which
        `fooled_right` fool it. Seeds are added up."""
        totals = Counter[str]()
        names_of_pair = _pair_names(self.maker, self.judge)
        for run in self.done:
            for row in self.rows(run.job):
                if row.names == names_of_pair:
                    totals.update({name: int(value or 0) for name, value in row.numbers.items()})
        return totals

    def sampled(self, name: str) -> Score:
        if name == "right":
            share = Proportion(self.counts["fooled_right"], self.counts["right"])
        else:
            share = Proportion(self.counts["fooled"], self.counts["n"])
        if not share.n:  # there may be no attack, of which `repeats` could be asked
            return make_score(name, share)
        return make_score(name, share, self.results.repeats(self.attacks))

    def meaning(self, name: str) -> Meaning:
        return ABOUT

    def number(self, name: str) -> Number | None:
        """Return a share. It is withheld for flags of the attack, and of the judge as a victim."""
        flags = self.results.flags
        number = flags.on(Number.of(self.sampled(name), ABOUT, partial=self.partial), self.attacks)
        return flags.on(number, self.attacks_on_judge, attacks=False)


def build_cells(results: Results) -> Grid[TransferPair]:
    """Return all ordered pairs of victims, by task, attack, maker and judge.

    Raises StoreError where the suite does not ask for the measure.
    """
    suite, plan = results.plan.suite, results.plan

    rows_by_key: dict[str, tuple[MeasuredRow, ...]] = {}

    def rows(job: Job) -> tuple[MeasuredRow, ...]:
        """Return what a job stored, read once for all its pairs."""
        if job.key not in rows_by_key:
            rows_by_key[job.key] = read_rows(results, job).rows
        return rows_by_key[job.key]

    jobs_by_column: dict[tuple[str, str], list[Job]] = {}
    for job in jobs_of_measure(results, NAME):
        assert job.measuring is not None
        jobs_by_column.setdefault((job.measuring.task.name, job.measuring.attack or ""), []).append(job)
    tasks = in_order(suite.tasks, (task for task, _ in jobs_by_column))
    attacks = in_order((choice.label for choice in suite.attacks), (attack for _, attack in jobs_by_column))
    suite_order = [(encoder, tuning.label) for encoder in suite.encoders for tuning in suite.finetune]
    suite_order += [(name, AS_IS) for name in suite.victims]
    pairs: dict[tuple[str, ...], TransferPair] = {}
    for task, attack in product(tasks, attacks):
        jobs = jobs_by_column.get((task, attack))
        if jobs is None:
            continue
        runs = tuple(SeedRun.of(job, results.standing.records.get(job.key), None) for job in jobs)
        jobs_done = [run.job for run in runs if run.done]
        # Stored rows name the victims that were compared. Before a job is done, the plan says which ones will be.
        names_of_rows = [row.names for job in jobs_done for row in rows(job)]
        victims = dict.fromkeys((names["judge"], names["judge_finetune"]) for names in names_of_rows)
        if not victims:
            victims = dict.fromkeys(victim for job in jobs for victim in attacks_behind(plan, job))
        ordered_victims = sorted(
            victims, key=lambda victim: suite_order.index(victim) if victim in suite_order else len(suite_order)
        )
        attacks_by_job = [attacks_behind(plan, job) for job in jobs_done]
        attacks_on = {
            victim: tuple(attack_jobs[victim] for attack_jobs in attacks_by_job if victim in attack_jobs)
            for victim in ordered_victims
        }
        for judge, maker in product(ordered_victims, ordered_victims):
            pairs[task, attack, *maker, *judge] = TransferPair(
                encoder=maker[0],
                finetune=maker[1],
                task=task,
                attack=attack,
                runs=runs,
                results=results,
                judge=judge,
                attacks=attacks_on[maker],
                attacks_on_judge=attacks_on[judge],
                rows=rows,
            )
    return Grid(results, pairs)


class TransferMatrix(NamedTuple):
    """All ordered pairs of victims for one task and attack."""

    task: str
    attack: str
    pairs: dict[tuple[NamedVictim, NamedVictim], TransferPair]
    """By the victim against which texts were made, and the victim that judges."""

    @property
    def victims(self) -> list[NamedVictim]:
        """In the suite's order."""
        return list(dict.fromkeys(maker for maker, _ in self.pairs))


def build_matrices(results: Results) -> list[TransferMatrix]:
    """Return the matrices of which a job is done. Raises StoreError where none is, or the suite asks for none."""
    chosen(results, NAME)  # raises the error
    matrices: dict[tuple[str, str], TransferMatrix] = {}
    for pair in build_cells(results).cells.values():
        if pair.present:
            matrix = matrices.setdefault((pair.task, pair.attack), TransferMatrix(pair.task, pair.attack, {}))
            matrix.pairs[pair.maker, pair.judge] = pair
    return list(matrices.values())


def _program_row(pair: TransferPair) -> dict[str, object]:
    share, share_of_right = pair.told(NAME), pair.told("right")
    return {
        **pair.at("task", "attack", "encoder", "finetune"),
        "judge": pair.judge[0],
        "judge_finetune": pair.judge[1],
        "n": pair.counts["n"],
        **{field: share[field] for field in ("value", "low", "high", "flagged")},
        "right_n": pair.counts["right"],
        **{f"right_{field}": share_of_right[field] for field in ("value", "low", "high")},
    }
