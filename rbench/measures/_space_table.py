"""The table of the measure `space`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel
from scipy.special import ndtri

from rbench.measures._stored import attacks_behind, jobs, measured
from rbench.spec import Job, MeasuredRow
from rbench.tables import Results, Table
from rbench.tables.cells import in_order
from rbench.tables.flags import Flags
from rbench.tables.notes import missing
from rbench.tables.table import Entry, Meaning, Number

NAME = "space"
NUMBERS = ("d_pos", "d_neg", "delta", "ratio", "less")
ABOUT = Meaning(
    "Vector space",
    "distances of texts to their adversarial texts (d_pos) and to other texts (d_neg), delta = d_neg - d_pos",
    percent=False,
    undefined="fewer than 2 such texts, or the encoder with which the others are compared",
)


@dataclass(frozen=True)
class Space:
    """One victim's distances for one task, attack and choice of texts, over the jobs that are done."""

    task: str
    attack: str
    fooled: str
    encoder: str
    finetune: str
    rows: tuple[MeasuredRow, ...]
    """One a job."""
    seeds: tuple[int, ...]
    """The fine-tuning seed of each row. Several trainings have a row each for a seed."""
    attacks: tuple[Job, ...] = ()
    """The attacks on the victim, one a job."""

    @property
    def of(self) -> tuple[str, str, str]:
        """What the texts are: task, attack and whom they fooled."""
        return self.task, self.attack, self.fooled

    @property
    def n(self) -> int:
        """Texts of all seeds."""
        return sum(int(row.numbers["n"] or 0) for row in self.rows)

    def number(self, name: str) -> Number:
        """Return the mean over seeds, with an interval.

        Each seed has victims of its own, so it has a vector space of its own. With one seed the interval is the
        percentile interval of its bootstrap. With several it is the normal interval of the mean, from the bootstraps'
        standard errors, which are independent. Trainings share the texts of a seed, so their errors are not: they are
        averaged.
        """
        there = [(seed, row.numbers) for seed, row in zip(self.seeds, self.rows, strict=True) if name in row.numbers]
        there = [(seed, numbers) for seed, numbers in there if numbers[name] is not None]
        if not there:
            return Number(None, percent=False, digits=3)
        value = math.fsum(numbers[name] or 0 for _, numbers in there) / len(there)
        low, high = there[0][1][f"{name}_low"], there[0][1][f"{name}_high"]
        if len(there) > 1:
            errors = [(seed, numbers[f"{name}_error"]) for seed, numbers in there]
            by_seed: dict[int, float] = {}
            for seed, error in errors:
                by_seed[seed] = by_seed.get(seed, 0.0) + (error or 0.0)
            half = float(ndtri(0.975)) * math.hypot(*by_seed.values()) / len(there)
            known = all(error is not None for _, error in errors)
            low, high = (value - half, value + half) if known else (None, None)
        return Number(value, percent=False, n=self.n, low=low, high=high, digits=3)


def _numbers(space: Space, flags: Flags) -> list[Number]:
    """Return its numbers, withheld where the suite requires healthy victims and this one has a flag."""
    raised = flags.hiding(space.attacks, attacks=False)
    return [space.number(name).hidden(raised) for name in NUMBERS]


def spaces(results: Results, options: BaseModel | None = None) -> list[Space]:
    """Return what is stored, victim by victim in the suite's order. Raises StoreError as `measured` does."""
    suite, found = results.plan.suite, dict[tuple[str, str, str, str, str], list[tuple[int, MeasuredRow]]]()
    attacked: dict[tuple[str, str, str, str, str], list[Job]] = {}
    for one in measured(results, NAME, options):
        behind = attacks_behind(results.plan, one.job)
        for row in one.rows:
            if row.names["kind"] == "distances":
                of = one.spec.task.name, one.spec.attack or "", str(one.options["fooled"])
                victim = row.names["encoder"], row.names["finetune"]
                found.setdefault((*of, *victim), []).append((one.job.seed, row))
                attacked.setdefault((*of, *victim), []).extend([behind[victim]] if victim in behind else [])
    orders = [
        in_order(suite.tasks, (key[0] for key in found)),
        in_order((choice.label for choice in suite.attacks), (key[1] for key in found)),
        tuple(dict.fromkeys(key[2] for key in found)),
        in_order(suite.encoders, (key[3] for key in found)),
        in_order((choice.label for choice in suite.finetune), (key[4] for key in found)),
    ]
    order = sorted(found, key=lambda key: [orders[i].index(key[i]) for i in (0, 1, 2, 4, 3)])
    return [
        Space(*key, tuple(row for _, row in found[key]), tuple(seed for seed, _ in found[key]), tuple(attacked[key]))
        for key in order
    ]


def made(options: BaseModel, results: Results) -> Table:
    """Make one row for each task, attack, choice of texts and victim."""
    found = spaces(results, options)
    asked = jobs(results, NAME)
    flags = results.flags
    rows: list[tuple[Entry, ...]] = []
    groups = set()
    for i, space in enumerate(found):
        if i and space.of != found[i - 1].of:
            groups.add(len(rows))
        names = (space.task, space.attack, space.fooled, space.encoder, space.finetune)
        rows.append((*names, space.n, *_numbers(space, flags)))
    return Table(
        metric=NAME,
        layout="paper",
        header=(*("Task", "Attack", "Fooled", "Encoder", "Fine-tuning"), "n", *NUMBERS[:3], "d_pos/d_neg", "less"),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(_described(found, flags)),
        notes=(
            "Distances are Euclidean (the paper names none), between vectors that the classifier's head reads. less: "
            f"d_pos/d_neg less that of {results.plan.suite.encoders[0]} with the same fine-tuning, paired by text.",
            "Fooled: the texts are those on which the attack fooled either (any) or both (all) encoders, or the one "
            f"named, fine-tuned {results.plan.suite.finetune[0].label}. They are the same in all rows of a group.",
            *results.plan.suite.notes,
            *flags.notes(asked),
            *missing("jobs", asked, results.standing),
        ),
        interval="95% intervals of a bootstrap over texts (percentile; of several seeds, whose mean is shown, normal "
        "with the bootstraps' standard errors). They cover the choice of texts, not differences between trainings.",
        flags=flags.listed(asked),
        about=ABOUT,
    )


def _described(found: Sequence[Space], flags: Flags) -> list[dict[str, object]]:
    cells = []
    for space in found:
        cell: dict[str, object] = {
            "task": space.task,
            "attack": space.attack,
            "fooled": space.fooled,
            "encoder": space.encoder,
            "finetune": space.finetune,
            "n": space.n,
        }
        for name, number in zip(NUMBERS, _numbers(space, flags), strict=True):
            cell |= {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}
        cells.append(cell)
    return cells
