"""Vector space (ADCL, section 4.5, Table 4 and Figures 3 to 6): how far adversarial texts lie from their originals.

For each victim: d_pos, d_neg, delta and the ratio d_pos / d_neg (`_distances`), and places of some texts by t-SNE.
The same texts are taken in all victims' spaces: those on which an attack fooled victims that the suite's first strategy
fine-tuned. The paper takes texts that fooled the encoder without pre-training (`fooled: NAME`). That choice is
unfavourable to this encoder, whose vectors are far apart where it was fooled. So the default is `either` (ours).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel
from scipy.special import ndtri

from rbench.errors import JobError
from rbench.measures import Asked, MeasureContext
from rbench.measures._stored import attacks_behind, jobs
from rbench.measures._stored import chosen as chosen_jobs
from rbench.schema import Count, Job, MeasuredRow, Outcome, Positive, Score, Strict, Suite
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Whole, in_order
from rbench.tables.notes import missing
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning

if TYPE_CHECKING:
    from rbench.measures._vectors import Array

TITLE = "Vector space: distances of texts and adversarial texts (ADCL, Table 4)"
VERSION = 1
USES = ("encoders.sentence",)
NAME = "space"
VECTORS = True
NUMBERS = ("d_pos", "d_neg", "delta", "ratio", "less")
ABOUT = Meaning(
    "Vector space",
    "distances of texts to their adversarial texts (d_pos) and to other texts (d_neg), delta = d_neg - d_pos",
    percent=False,
    undefined="fewer than 2 such texts, or the encoder with which the others are compared",
)
METRICS = {name: replace(ABOUT, title=name, digits=3) for name in NUMBERS[:3]}


class Options(Strict):
    """Which texts, and how much is computed of them."""

    fooled: str = "either"
    """`either`: texts that fooled any encoder. `both`: texts that fooled every encoder. Otherwise an encoder's name:
    texts that fooled this one. Where several encoders were fooled, they give their adversarial texts by turns."""
    resamples: Positive = 9999
    """Resamples of the bootstrap."""
    points: Count = 50
    """How many texts t-SNE places in a plane; 0: none. (The paper does not print how many its figures show.)"""


def check(options: Options, suite: Suite) -> str | None:
    """Say what is wrong with the options in this suite."""
    if options.fooled in ("either", "both", *suite.encoders):
        return None
    return (
        f"`fooled` is either, both, or one of the suite's encoders ({', '.join(suite.encoders)}), not {options.fooled}"
    )


class Text(NamedTuple):
    """A text and the adversarial text that fooled a victim."""

    example: str
    made_against: str
    clean: tuple[str, ...]
    adversarial: tuple[str, ...]


def chosen(options: Options, context: MeasureContext) -> list[Text]:
    """Return the texts that the option `fooled` means, by example."""
    source = context.victims[0].finetune
    makers = [of for of in context.victims if of.finetune == source]
    if options.fooled not in ("either", "both"):
        makers = [of for of in makers if of.encoder == options.fooled]
    if not makers:
        raise JobError(f"there is no encoder {options.fooled} in this suite")
    made = {of: {one.example_id: one for one in context.outcomes[of] if one.status == "succeeded"} for of in makers}
    texts: list[Text] = []
    for example in sorted({example for own in made.values() for example in own}):
        there = [of for of in makers if example in made[of]]
        if options.fooled != "both" or len(there) == len(makers):
            maker = there[len(texts) % len(there)]
            texts.append(_text(maker, made[maker][example]))
    return texts


def _text(maker: Asked, one: Outcome) -> Text:
    clean = one.original or ()
    return Text(one.example_id, maker.encoder, clean, one.perturbed or clean)


def run(options: Options, context: MeasureContext) -> list[MeasuredRow]:
    """Return a row of distances for each victim, and a row for each text that is placed in its plane."""
    import numpy as np

    from rbench.measures._distances import Distances, estimates
    from rbench.measures._vectors import plane, vectors

    texts, victims = chosen(options, context), context.victims
    spaces, rows = [], []
    for done, of in enumerate(victims):
        context.progress(done, len(victims), f"{of.encoder} {of.finetune}, {len(texts)} texts")
        if len(texts) < 2:
            break
        victim = context.victim(of)
        clean, adversarial = (vectors(victim, [getattr(one, which) for one in texts]) for which in Text._fields[2:])
        spaces.append(Distances.of(clean, adversarial))
        shown = min(options.points, len(texts))
        places = plane(np.concatenate([clean[:shown], adversarial[:shown]]), context.seed)
        rows += _placed(of, texts, places)
    found = estimates(spaces, _against(victims), options.resamples, context.seed) if spaces else []
    for i, of in enumerate(victims):
        numbers: dict[str, float | None] = {"n": len(texts)}
        for name, one in zip(NUMBERS, found[i] if found else (), strict=False):
            numbers |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high, f"{name}_error": one.error}
        rows.append(MeasuredRow(names={"kind": "distances", **of.names}, numbers=numbers))
    return rows


def _against(victims: Sequence[Asked]) -> list[int | None]:
    """Return for each victim the index of the first encoder's victim with the same strategy; None for itself."""
    first = {of.finetune: i for i, of in reversed(list(enumerate(victims)))}
    return [first[of.finetune] if first[of.finetune] != i else None for i, of in enumerate(victims)]


def _placed(of: Asked, texts: Sequence[Text], places: Array) -> list[MeasuredRow]:
    """Return a row for each text that has a place: first come all texts, then all adversarial texts."""
    shown = len(places) // 2
    return [
        MeasuredRow(
            names={"kind": "point", **of.names, "example": one.example, "made_against": one.made_against},
            numbers={
                "x": round(float(places[i][0]), 4),
                "y": round(float(places[i][1]), 4),
                "adversarial_x": round(float(places[shown + i][0]), 4),
                "adversarial_y": round(float(places[shown + i][1]), 4),
            },
        )
        for i, one in enumerate(texts[:shown])
    ]


@dataclass(frozen=True)
class Space(Whole):
    """One victim's distances for one task, attack and choice of texts, which is its label. Its runs are the jobs."""

    attacks: tuple[Job, ...] = ()
    """The attacks on the victim, one a run."""

    @property
    def jobs(self) -> list[Job]:
        return list(self.attacks)

    @cached_property
    def rows(self) -> list[tuple[int, MeasuredRow]]:
        """The distances, each with its fine-tuning seed. Several trainings have a row each for a seed."""
        wanted = {"kind": "distances", "encoder": self.encoder, "finetune": self.finetune}
        return [
            (run.seed, row)
            for run in self.done
            for row in self.results.store.rows(run.job)
            if wanted.items() <= row.names.items()
        ]

    @property
    def n(self) -> int:
        """Texts of all seeds."""
        return sum(int(row.numbers["n"] or 0) for _, row in self.rows)

    def sampled(self, name: str) -> Score:
        """Return the mean over seeds, with an interval.

        Each seed has victims of its own, so it has a vector space of its own. With one seed the interval is the
        percentile interval of its bootstrap. With several it is the normal interval of the mean, from the bootstraps'
        standard errors, which are independent. Trainings share the texts of a seed, so their errors are not: they are
        averaged.
        """
        there = [(seed, row.numbers) for seed, row in self.rows if row.numbers.get(name) is not None]
        if not there:
            return Score(name=name, value=None, n=0)
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
        return Score(name=name, value=value, n=self.n, low=low, high=high)

    def meaning(self, name: str) -> Meaning:
        return METRICS["delta"]

    def _of_the_attack(self, name: str) -> bool:
        return False


def cells(results: Results, options: BaseModel | None = None, *, planned: bool = True) -> Grid[Space]:
    """Return all victims' spaces by task, attack, choice of texts, strategy and encoder.

    Args:
        planned: whether those are there, too, of which no job is done.

    Raises StoreError as `measured` does.
    """
    plan, suite = results.plan, results.plan.suite
    found: dict[tuple[str, ...], list[tuple[Run, Job | None]]] = {}
    for job in jobs(results, NAME) if planned else chosen_jobs(results, NAME, options):
        spec = job.measuring
        assert spec is not None
        run = Run.of(job, results.standing.records.get(job.key), None)
        behind = attacks_behind(plan, job)
        told = [row.names for row in results.store.rows(job) if row.names["kind"] == "distances"] if not planned else ()
        for encoder, finetune in dict.fromkeys((one["encoder"], one["finetune"]) for one in told) or behind:
            of = spec.task.name, spec.attack or "", str(spec.what.options["fooled"])
            found.setdefault((*of, finetune, encoder), []).append((run, behind.get((encoder, finetune))))
    tunings, attacks = ([choice.label for choice in asked] for asked in (suite.finetune, suite.attacks))
    wanted = (suite.tasks, attacks, [key[2] for key in found], tunings, suite.encoders)
    orders = [in_order(own, (key[i] for key in found)) for i, own in enumerate(wanted)]
    spaces = {}
    for key in sorted(found, key=lambda key: [own.index(name) for own, name in zip(orders, key, strict=True)]):
        task, attack_label, fooled, finetune, encoder = key
        runs, attacked = zip(*found[key], strict=True)
        on = tuple(attack for attack in attacked if attack is not None)
        spaces[key] = Space(encoder, task, runs, results, False, finetune, attack_label, fooled, attacks=on)
    return Grid(results, spaces)


def table(options: BaseModel, results: Results) -> Table:
    """Make one row for each task, attack, choice of texts and victim."""
    found = list(cells(results, options, planned=False).cells.values())
    asked = jobs(results, NAME)
    flags = results.flags
    rows: list[tuple[Entry, ...]] = []
    groups = set()
    for i, space in enumerate(found):
        of = space.task, space.attack, space.label
        if i and of != (found[i - 1].task, found[i - 1].attack, found[i - 1].label):
            groups.add(len(rows))
        rows.append((*of, space.encoder, space.finetune, space.n, *map(space.number, NUMBERS)))
    return Table(
        metric=NAME,
        layout="paper",
        header=(*("Task", "Attack", "Fooled", "Encoder", "Fine-tuning"), "n", *NUMBERS[:3], "d_pos/d_neg", "less"),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=tuple(map(_described, found)),
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


def _described(space: Space) -> dict[str, object]:
    cell: dict[str, object] = {
        "task": space.task,
        "attack": space.attack,
        "fooled": space.label,
        "encoder": space.encoder,
        "finetune": space.finetune,
        "n": space.n,
    }
    for name in NUMBERS:
        told = space.told(name)
        cell |= {name: told["value"], f"{name}_low": told["low"], f"{name}_high": told["high"]}
    return cell
