"""Vector space (ADCL, section 4.5, Table 4 and Figures 3 to 6): how far adversarial texts lie from their originals.

For each victim: d_pos, d_neg, delta and the ratio d_pos / d_neg, with paired bootstrap intervals, and places of some
texts by t-SNE. d_pos is the mean distance of a text to its adversarial text, d_neg the mean distance of a text to every
other text and every other adversarial text, delta = d_neg - d_pos. The paper's formula of d_neg lacks a factor 1/M,
without which it is M times the average that the paper's words and numbers mean (ours: the average). The ratio is ours:
vector spaces differ in scale, which delta follows and the ratio does not. The distance is Euclidean; the paper names
none.

The same texts are taken in all victims' spaces: those on which an attack fooled victims that the suite's first strategy
fine-tuned. The paper takes texts that fooled the encoder without pre-training (`fooled: NAME`). That choice is
unfavourable to this encoder, whose vectors are far apart where it was fooled. So the default is `either` (ours).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from scipy.special import ndtri

from rbench.errors import JobError
from rbench.measures import Asked, Measure, MeasureContext
from rbench.measures._stored import attacks_behind, jobs
from rbench.measures._stored import chosen as chosen_jobs
from rbench.schema import Count, Job, MeasuredRow, Outcome, Positive, Score, Strict, Suite
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Whole, in_order
from rbench.tables.notes import missing
from rbench.tables.results import Run
from rbench.tables.table import Entry, Meaning, groups_of

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier


VERSION = 1
USES = ("encoders.sentence",)
NAME = "space"
LENGTHS = "distances and delta follow the lengths of vectors; the ratio d_pos / d_neg does not"
NUMBERS = ("d_pos", "d_neg", "delta", "ratio", "less")
ABOUT = Meaning(
    "Vector space",
    "distances of texts to their adversarial texts (d_pos) and to other texts (d_neg), delta = d_neg - d_pos",
    percent=False,
    undefined="fewer than 2 such texts, or the encoder with which the others are compared",
)
Array = NDArray[np.float64]
BATCH = 64
"""Texts that go through the network at once."""
RESAMPLED = 256
"""Resamples that are computed at once."""
PERPLEXITY = 30.0
"""scikit-learn's own default; the paper prints none."""
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


class VectorSpace(Measure[Options]):
    """Vector space (ADCL, section 4.5, Table 4): how far adversarial texts lie from their originals."""

    title = "Vector space: distances of texts and adversarial texts (ADCL, Table 4)"
    numbers = METRICS
    vectors = True

    def check(self, options: Options, suite: Suite) -> str | None:
        """Say what is wrong with the options in this suite."""
        if options.fooled in ("either", "both", *suite.encoders):
            return None
        encoders = ", ".join(suite.encoders)
        return f"`fooled` is either, both, or one of the suite's encoders ({encoders}), not {options.fooled}"

    def run(self, options: Options, context: MeasureContext) -> list[MeasuredRow]:
        """Return a row of distances for each victim, and a row for each text that is placed in its plane."""
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
                numbers |= {
                    name: one.value,
                    f"{name}_low": one.low,
                    f"{name}_high": one.high,
                    f"{name}_error": one.error,
                }
            rows.append(MeasuredRow(names={"kind": "distances", **of.names}, numbers=numbers))
        return rows

    def table(self, options: BaseModel, results: Results) -> Table:
        """Make one row for each task, attack, choice of texts and victim."""
        found = list(cells(results, options, planned=False).cells.values())
        asked = jobs(results, NAME)
        flags = results.flags
        rows: list[tuple[Entry, ...]] = [
            (one.task, one.attack, one.label, one.encoder, one.finetune, one.n, *map(one.number, NUMBERS))
            for one in found
        ]
        return Table(
            metric=NAME,
            header=(*("Task", "Attack", "Fooled", "Encoder", "Fine-tuning"), "n", *NUMBERS[:3], "d_pos/d_neg", "less"),
            rows=tuple(rows),
            groups=groups_of(rows, 3),
            cells=tuple(map(_described, found)),
            notes=(
                "Distances are Euclidean (the paper names none), between vectors that the classifier's head reads. "
                f"less: d_pos/d_neg less that of {_first(results.plan.suite)} with the same fine-tuning, paired by "
                "text.",
                "Fooled: the texts are those on which the attack fooled either (any) or both (all) encoders, or the "
                f"one named, fine-tuned {results.plan.suite.finetune[0].label}. They are the same in all rows of a "
                "group.",
                *results.plan.suite.notes,
                *flags.notes(asked),
                *missing("jobs", asked, results.standing),
            ),
            interval="95% intervals of a bootstrap over texts (percentile; of several seeds, whose mean is shown, "
            "normal "
            "with the bootstraps' standard errors). They cover the choice of texts, not differences between trainings.",
            flags=flags.listed(asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> Grid[Space]:
        return cells(results)


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


def _first(suite: Suite) -> str:
    """Name the encoder whose victims the others are compared with (`_against`), in words."""
    first = suite.encoders[0]
    return first if all(one.serves(first) for one in suite.finetune) else "the first encoder"


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


class Distances(NamedTuple):
    """What d_pos and d_neg need of one vector space with M texts."""

    pos: Array
    """Distance of each text to its adversarial text, (M,)."""
    neg: Array
    """Distance of text i to text j, plus that to adversarial text j, (M, M). Its diagonal is not read."""

    @classmethod
    def of(cls, clean: Array, adversarial: Array) -> Distances:
        """Compute them from vectors of texts and of their adversarial texts, each (M, dim)."""
        from scipy.spatial.distance import cdist

        apart = cdist(clean, adversarial)
        return cls(np.diag(apart).copy(), cdist(clean, clean) + apart)

    def numbers(self, weights: Array) -> Array:
        """Return the first four NUMBERS for each row of `weights`, (4, rows).

        Args:
            weights: how often each text is drawn, (rows, M). A text that is drawn twice is no negative of itself.
        """
        total = weights.sum(-1)
        d_pos = weights @ self.pos / total
        pairs = total**2 - (weights**2).sum(-1)
        sums = ((weights @ self.neg) * weights).sum(-1) - weights**2 @ np.diag(self.neg)
        with np.errstate(divide="ignore", invalid="ignore"):
            d_neg = sums / (2 * pairs)  # no pairs where one text is drawn M times: not a number
            return np.stack([d_pos, d_neg, d_neg - d_pos, d_pos / d_neg])


class Estimate(NamedTuple):
    """A number with the standard error and the 95% percentile interval of its bootstrap; None where not finite."""

    value: float | None
    low: float | None
    high: float | None
    error: float | None


def estimates(
    spaces: Sequence[Distances], against: Sequence[int | None], draws: int, seed: int
) -> list[list[Estimate]]:
    """Return estimates for each vector space: four NUMBERS, then its ratio less that of the space `against` it, if any.

    All spaces hold the same texts. A resample draws the same texts in all, so that differences are paired.

    Args:
        spaces: the vector spaces, each of the same M >= 2 texts.
        against: for each space the index of the one to compare it with, or None.
        draws: resamples of scipy's bootstrap.
        seed: seeds the resamples.
    """

    from scipy.stats import bootstrap

    n = len(spaces[0].pos)

    def numbers(weights: Array) -> Array:
        found = np.stack([space.numbers(weights) for space in spaces])
        less = [found[i, 3] - found[i if other is None else other, 3] for i, other in enumerate(against)]
        return np.concatenate([found, np.stack(less)[:, None]], axis=1)

    def statistic(drawn: NDArray[np.int64], axis: int = -1) -> Array:
        weights = np.stack([np.bincount(row, minlength=n) for row in np.atleast_2d(drawn)])
        found = numbers(weights.astype(float))
        return found if drawn.ndim > 1 else found[..., 0]

    with warnings.catch_warnings():  # scipy warns where an interval is no number, for which the estimate has None
        warnings.simplefilter("ignore")
        found = bootstrap(
            (np.arange(n),),
            statistic,
            vectorized=True,
            n_resamples=draws,
            batch=RESAMPLED,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    columns = (numbers(np.ones((1, n)))[..., 0], *found.confidence_interval, found.standard_error)
    every = [
        [Estimate(*map(finite, four)) for four in zip(*parts, strict=True)] for parts in zip(*columns, strict=True)
    ]
    return [own if other is not None else own[:-1] for own, other in zip(every, against, strict=True)]


def finite(number: float) -> float | None:
    """Return None for what is no number. With few texts a resample may be of one text, or of none that counts."""
    return float(number) if np.isfinite(number) else None


def vectors(victim: EncoderClassifier, rows: Sequence[tuple[str, ...]]) -> Array:
    """Return the vectors that the victim's head reads, (rows, dim), in the order of `rows`."""
    import torch

    order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
    found = np.zeros((len(rows), victim.encoder.dim))
    victim.eval()
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            columns = [list(column) for column in zip(*(rows[i] for i in chosen), strict=True)]
            encoded = victim.tokenizer(
                *columns, truncation=True, max_length=victim.max_length, padding=True, return_tensors="pt"
            )
            found[chosen] = victim.encoder(**encoded.to(victim.device)).double().cpu().numpy()
    return found


def plane(vectors: Array, seed: int) -> Array:
    """Return places by t-SNE, (rows, 2), each axis scaled to 0..1 as in the paper. Fewer than 4 rows give none: (0, 2).

    The perplexity is scikit-learn's default, or a third of the rows where these are few.
    """
    from sklearn.manifold import TSNE

    if len(vectors) < 4:
        return np.zeros((0, 2))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors.astype(np.float32))
    low, high = found.min(0), found.max(0)
    return np.asarray((found - low) / np.where(high > low, high - low, 1), dtype=np.float64)


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


def _described(space: Space) -> dict[str, object]:
    cell: dict[str, object] = {
        **space.at("task", "attack"),
        "fooled": space.label,
        **space.at("encoder", "finetune"),
        "n": space.n,
    }
    for name in NUMBERS:
        told = space.told(name)
        cell |= {name: told["value"], f"{name}_low": told["low"], f"{name}_high": told["high"]}
    return cell | {"flags": space.results.flags.told(space.jobs)}
