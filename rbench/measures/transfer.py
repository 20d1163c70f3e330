"""Transferability (ADCL, section 4.5, Table 3): texts made against one victim, judged by every other.

A text that an attack changed until victim A erred transfers to victim B if B errs on it too, that is, if B's prediction
is not the label. The denominator is the successes on A, so a victim that judges its own texts errs on all of them.
The paper does not print its denominator, nor whether B must have classified the original correctly (ours: all successes
on A; beside it the share among the texts whose original B classifies correctly).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rbench.measures import Asked, MeasureContext, MeasuredRow
from rbench.measures._options import Plain
from rbench.measures._stored import attacks_behind, jobs, measured
from rbench.score import wilson
from rbench.spec import AS_IS, Job, Outcome
from rbench.tables import Results, Table
from rbench.tables.cells import in_order
from rbench.tables.flags import Flags
from rbench.tables.notes import missing
from rbench.tables.table import Entry, Meaning, Number

TITLE = "Transferability: texts made against one victim, judged by every other (ADCL, Table 3)"
VERSION = 1
USES = ("encoders.classify",)
NAME = "transfer"
ABOUT = Meaning(
    "Transferability",
    "share of the texts with which an attack fooled one victim (row) that fool another (column)",
    undefined="no such text",
)

Options = Plain


@dataclass(frozen=True)
class Pair:
    """Counts of one ordered pair of victims, over the seeds that are done."""

    n: int
    """Texts that fooled the victim against which they were made."""
    fooled: int
    """How many of them fool the judge."""
    right: int
    """How many have an original that the judge classifies correctly."""
    fooled_right: int
    """How many of `right` fool the judge."""
    repeats: float = 1
    """How many victims share each example, on average."""

    def number(self, among: str) -> Number:
        """Return the share `among` "all" texts, or those with an original that the judge got "right"."""
        count, n = (self.fooled, self.n) if among == "all" else (self.fooled_right, self.right)
        low, high = wilson(count / self.repeats, n / self.repeats) or (None, None)
        return Number(count / n if n else None, percent=True, n=n, low=low, high=high)


# --------------------------------------------------------------------------------------------------------------- run


def run(options: Plain, context: MeasureContext) -> list[MeasuredRow]:
    """Return one row for each ordered pair of victims, with counts and no texts."""
    made = {of: [one for one in context.outcomes[of] if one.status == "succeeded"] for of in context.victims}
    rows = []
    for done, judge in enumerate(context.victims):
        context.progress(done, len(context.victims), f"{judge.encoder} {judge.finetune} judges")
        known = {one.example_id: one.original_prediction for one in context.outcomes[judge]}
        for maker in context.victims:
            counts = _own(made[maker]) if maker == judge else _judged(made[maker], judge, known, context)
            rows.append(MeasuredRow(names=_names(maker, judge), numbers={**counts}))
    return rows


def _names(maker: Asked, judge: Asked) -> dict[str, str]:
    return {**maker.names, "judge": judge.encoder, "judge_finetune": judge.finetune}


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


# ------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Matrix:
    """All ordered pairs of victims for one task and attack."""

    task: str
    attack: str
    victims: tuple[tuple[str, str], ...]
    """Encoder and strategy, in the suite's order."""
    pairs: dict[tuple[tuple[str, str], tuple[str, str]], Pair]
    """By the victim against which texts were made, and the victim that judges."""
    attacks: dict[tuple[str, str], list[Job]]
    """The attacks on each victim, one a seed."""
    partial: bool = False
    """Whether some seeds or trainings are done and some are not."""

    def number(self, maker: tuple[str, str], judge: tuple[str, str], among: str, flags: Flags) -> Number | None:
        """Return the share of a pair, withheld where the suite requires it; None where the pair is not there."""
        if (maker, judge) not in self.pairs:
            return None
        raised = (*flags.hiding(self.attacks.get(maker, ())), *flags.hiding(self.attacks.get(judge, ()), attacks=False))
        number = replace(self.pairs[maker, judge].number(among), partial=self.partial)
        return number.hidden(tuple(dict.fromkeys(raised)))


def matrices(results: Results, options: Plain | None = None) -> list[Matrix]:
    """Return the pairs, seeds pooled, by task and attack in the suite's order. Raises StoreError as `measured` does."""
    suite = results.plan.suite
    sums: dict[tuple[str, str], dict[tuple[tuple[str, str], tuple[str, str]], list[dict[str, int]]]] = {}
    attacked: dict[tuple[str, str], dict[tuple[str, str], list[Job]]] = {}
    left = Counter(_place(job) for job in jobs(results, NAME))
    for one in measured(results, NAME, options):
        left[_place(one.job)] -= 1
        behind = attacked.setdefault(_place(one.job), {})
        for victim, job in attacks_behind(results.plan, one.job).items():
            behind.setdefault(victim, []).append(job)
        cell = sums.setdefault(_place(one.job), {})
        for row in one.rows:
            key = ((row.names["encoder"], row.names["finetune"]), (row.names["judge"], row.names["judge_finetune"]))
            counts = {name: int(value or 0) for name, value in row.numbers.items()}
            cell.setdefault(key, []).append(counts)
    tasks = in_order(suite.tasks, (task for task, _ in sums))
    attacks = in_order((choice.label for choice in suite.attacks), (attack for _, attack in sums))
    found = []
    for task in tasks:
        for attack in (attack for attack in attacks if (task, attack) in sums):
            cell = sums[task, attack]
            there = dict.fromkeys(judge for _, judge in cell)
            order = [(e, s.label) for e in suite.encoders for s in suite.finetune]
            order += [(name, AS_IS) for name in suite.victims]
            victims = tuple(sorted(there, key=lambda of: order.index(of) if of in order else len(order)))
            behind = attacked[task, attack]
            pairs = {pair: _pooled(counts, results.repeats(behind.get(pair[0], ()))) for pair, counts in cell.items()}
            found.append(Matrix(task, attack, victims, pairs, behind, partial=left[task, attack] > 0))
    return found


def _place(job: Job) -> tuple[str, str]:
    """Return the task and the attack of a job of this measure."""
    assert job.measuring is not None
    return job.measuring.task.name, job.measuring.attack or ""


def _pooled(counts: Sequence[dict[str, int]], repeats: float) -> Pair:
    total = {name: sum(one[name] for one in counts) for name in ("n", "fooled", "right", "fooled_right")}
    return Pair(**total, repeats=repeats)


def table(options: Plain, results: Results) -> Table:
    """Make the matrix of each task and attack: makers in rows, judges in columns."""
    found = matrices(results, options)
    victims = list(dict.fromkeys(victim for matrix in found for victim in matrix.victims))
    several = len({finetune for _, finetune in victims}) > 1
    shown = [f"{encoder}, {finetune}" if several else encoder for encoder, finetune in victims]
    asked = jobs(results, NAME)
    flags = results.flags
    rows: list[tuple[Entry, ...]] = []
    groups = set()
    for matrix in found:
        groups.add(len(rows))
        for maker, name in zip(victims, shown, strict=True):
            if maker in matrix.victims:
                rows += _rows(matrix, maker, name, victims, flags)
    return Table(
        metric=NAME,
        layout="paper",
        header=("Task", "Attack", "Made against", "Among", "n", *shown),
        rows=tuple(rows),
        groups=frozenset(groups - {0}),
        cells=tuple(_described(found, flags)),
        notes=(
            "all: of all texts that fooled the victim of the row, n of them; the diagonal is 100% by definition. "
            "right: of those whose original the judge classifies correctly, which differ between judges.",
            *results.plan.suite.notes,
            *flags.notes(asked),
            *missing("jobs", asked, results.standing),
        ),
        interval="Wilson 95% intervals, seeds pooled. They cover the choice of texts, not differences between seeds.",
        flags=flags.listed(asked),
        about=ABOUT,
    )


def _rows(
    matrix: Matrix, maker: tuple[str, str], name: str, victims: Sequence[tuple[str, str]], flags: Flags
) -> Iterator[tuple[Entry, ...]]:
    own = matrix.pairs[maker, maker]
    for among in ("all", "right"):
        numbers = [matrix.number(maker, judge, among, flags) for judge in victims]
        yield (matrix.task, matrix.attack, name, among, own.n if among == "all" else "", *numbers)


def _described(found: Sequence[Matrix], flags: Flags) -> Iterator[dict[str, object]]:
    """Yield every pair for programs."""
    for matrix in found:
        for (maker, judge), pair in matrix.pairs.items():
            every, right = (matrix.number(maker, judge, among, flags) for among in ("all", "right"))
            assert every is not None and right is not None
            yield {
                "task": matrix.task,
                "attack": matrix.attack,
                "encoder": maker[0],
                "finetune": maker[1],
                "judge": judge[0],
                "judge_finetune": judge[1],
                "n": pair.n,
                "value": every.value,
                "low": every.low,
                "high": every.high,
                "right_n": pair.right,
                "right_value": right.value,
                "right_low": right.low,
                "right_high": right.high,
            }
