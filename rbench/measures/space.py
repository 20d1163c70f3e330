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
from rbench.measures import Measure, MeasureContext, VictimRef
from rbench.measures._stored import attacks_behind, jobs_of_measure
from rbench.measures._stored import chosen as chosen_jobs
from rbench.schema import Count, Job, MeasuredRow, Outcome, Positive, Score, Strict, Suite
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, PooledCell, in_order
from rbench.tables.notes import unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Meaning, TableEntry, group_starts

if TYPE_CHECKING:
    from rbench.encoders.classifier import EncoderClassifier


# Part of the key of every job on the vector space (config/versions.py): raising it computes them anew.
VERSION = 1
USES = ("encoders.sentence",)
NAME = "space"
NUMBER_NAMES = ("d_pos", "d_neg", "delta", "ratio", "less")
ABOUT = Meaning(
    "Vector space",
    "distances of texts to their adversarial texts (d_pos) and to other texts (d_neg), delta = d_neg - d_pos",
    percent=False,
    undefined="fewer than 2 such texts, or the encoder with which the others are compared",
)
Array = NDArray[np.float64]
BATCH = 64
"""Texts that go through the network at once."""
RESAMPLES_AT_ONCE = 256
"""Resamples that are computed at once."""
PERPLEXITY = 30.0
"""scikit-learn's own default; the paper prints none."""
METRICS = {name: replace(ABOUT, title=name, digits=3) for name in NUMBER_NAMES[:3]}


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
    vector_lengths = "distances and delta follow the lengths of vectors; the ratio d_pos / d_neg does not"

    def check(self, options: Options, suite: Suite) -> str | None:
        """Say what is wrong with the options in this suite."""
        if options.fooled in ("either", "both", *suite.encoders):
            return None
        encoders = ", ".join(suite.encoders)
        return f"`fooled` is either, both, or one of the suite's encoders ({encoders}), not {options.fooled}"

    def run(self, options: Options, context: MeasureContext) -> list[MeasuredRow]:
        """Return a row of distances for each victim, and a row for each text that is placed in its plane."""
        texts, victims = choose_texts(options, context), context.victims
        spaces, rows = [], []
        for done, victim_ref in enumerate(victims):
            context.progress(done, len(victims), f"{victim_ref.encoder} {victim_ref.finetune}, {len(texts)} texts")
            if len(texts) < 2:
                break
            victim = context.victim(victim_ref)
            clean, adversarial = (
                encode_rows(victim, [getattr(item, field_name) for item in texts])
                for field_name in FooledText._fields[2:]
            )
            spaces.append(SpaceDistances.of(clean, adversarial))
            shown = min(options.points, len(texts))
            plane_places = place_in_plane(np.concatenate([clean[:shown], adversarial[:shown]]), context.seed)
            rows += _place_rows(victim_ref, texts, plane_places)
        estimates_of_victims = (
            compute_estimates(spaces, _reference_indices(victims), options.resamples, context.seed) if spaces else []
        )
        for i, victim_ref in enumerate(victims):
            numbers: dict[str, float | None] = {"n": len(texts)}
            for name, item in zip(NUMBER_NAMES, estimates_of_victims[i] if estimates_of_victims else (), strict=False):
                numbers |= {
                    name: item.value,
                    f"{name}_low": item.low,
                    f"{name}_high": item.high,
                    f"{name}_error": item.error,
                }
            rows.append(MeasuredRow(names={"kind": "distances", **victim_ref.names}, numbers=numbers))
        return rows

    def table(self, options: BaseModel, results: Results) -> Table:
        """Make one row for each task, attack, choice of texts and victim."""
        found = list(build_cells(results, options, planned=False).cells.values())
        asked = jobs_of_measure(results, NAME)
        flags = results.flags
        rows: list[tuple[TableEntry, ...]] = [
            (one.task, one.attack, one.label, one.encoder, one.finetune, one.n, *map(one.number, NUMBER_NAMES))
            for one in found
        ]
        return Table(
            metric=NAME,
            header=(
                *("Task", "Attack", "Fooled", "Encoder", "Fine-tuning"),
                "n",
                *NUMBER_NAMES[:3],
                "d_pos/d_neg",
                "less",
            ),
            rows=tuple(rows),
            groups=group_starts(rows, 3),
            cells=tuple(map(_program_row, found)),
            notes=(
                "Distances are Euclidean (the paper names none), between vectors that the classifier's head reads. "
                f"less: d_pos/d_neg less that of {_describe_reference(results.plan.suite)} with the same fine-tuning, "
                "paired by text.",
                "Fooled: the texts are those on which the attack fooled either (any) or both (all) encoders, or the "
                f"one named, fine-tuned {results.plan.suite.finetune[0].label}. They are the same in all rows of a "
                "group.",
                *results.plan.suite.notes,
                *flags.notes(asked),
                *unfinished_notes("jobs", asked, results.standing),
            ),
            interval="95% intervals of a bootstrap over texts (percentile; of several seeds, whose mean is shown, "
            "normal "
            "with the bootstraps' standard errors). They cover the choice of texts, not differences between trainings.",
            flags=flags.listed(asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> Grid[VictimSpaceCell]:
        return build_cells(results)


class FooledText(NamedTuple):
    """A text and the adversarial text that fooled a victim."""

    example: str
    made_against: str
    clean: tuple[str, ...]
    adversarial: tuple[str, ...]


def choose_texts(options: Options, context: MeasureContext) -> list[FooledText]:
    """Return the texts that the option `fooled` means, by example."""
    source = context.victims[0].finetune
    makers = [victim_ref for victim_ref in context.victims if victim_ref.finetune == source]
    if options.fooled not in ("either", "both"):
        makers = [victim_ref for victim_ref in makers if victim_ref.encoder == options.fooled]
    if not makers:
        raise JobError(f"there is no encoder {options.fooled} in this suite")
    outcomes_of = {
        victim_ref: {
            outcome.example_id: outcome for outcome in context.outcomes[victim_ref] if outcome.status == "succeeded"
        }
        for victim_ref in makers
    }
    texts: list[FooledText] = []
    for example in sorted({example for outcomes_of_maker in outcomes_of.values() for example in outcomes_of_maker}):
        fooled_makers = [victim_ref for victim_ref in makers if example in outcomes_of[victim_ref]]
        if options.fooled != "both" or len(fooled_makers) == len(makers):
            # By turns, so that no encoder's texts are the majority, whose own space they would suit best.
            maker = fooled_makers[len(texts) % len(fooled_makers)]
            texts.append(_build_text(maker, outcomes_of[maker][example]))
    return texts


def _build_text(maker: VictimRef, outcome: Outcome) -> FooledText:
    clean = outcome.original or ()
    return FooledText(outcome.example_id, maker.encoder, clean, outcome.perturbed or clean)


def _describe_reference(suite: Suite) -> str:
    """Name the encoder whose victims the others are compared with (`_reference_indices`), in words."""
    reference = suite.encoders[0]
    return reference if all(choice.serves(reference) for choice in suite.finetune) else "the first encoder"


def _reference_indices(victims: Sequence[VictimRef]) -> list[int | None]:
    """Return for each victim the index of the first encoder's victim with the same strategy; None for itself."""
    first_index = {victim_ref.finetune: i for i, victim_ref in reversed(list(enumerate(victims)))}
    return [
        first_index[victim_ref.finetune] if first_index[victim_ref.finetune] != i else None
        for i, victim_ref in enumerate(victims)
    ]


def _place_rows(victim_ref: VictimRef, texts: Sequence[FooledText], places: Array) -> list[MeasuredRow]:
    """Return a row for each text that has a place: first come all texts, then all adversarial texts."""
    shown = len(places) // 2
    return [
        MeasuredRow(
            names={"kind": "point", **victim_ref.names, "example": text.example, "made_against": text.made_against},
            numbers={
                "x": round(float(places[i][0]), 4),
                "y": round(float(places[i][1]), 4),
                "adversarial_x": round(float(places[shown + i][0]), 4),
                "adversarial_y": round(float(places[shown + i][1]), 4),
            },
        )
        for i, text in enumerate(texts[:shown])
    ]


class SpaceDistances(NamedTuple):
    """What d_pos and d_neg need of one vector space with M texts."""

    pos: Array
    """Distance of each text to its adversarial text, (M,)."""
    neg: Array
    """Distance of text i to text j, plus that to adversarial text j, (M, M). Its diagonal is not read."""

    @classmethod
    def of(cls, clean: Array, adversarial: Array) -> SpaceDistances:
        """Compute them from vectors of texts and of their adversarial texts, each (M, dim)."""
        from scipy.spatial.distance import cdist

        to_adversarial = cdist(clean, adversarial)
        return cls(np.diag(to_adversarial).copy(), cdist(clean, clean) + to_adversarial)

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


class BootstrapEstimate(NamedTuple):
    """A number with the standard error and the 95% percentile interval of its bootstrap; None where not finite."""

    value: float | None
    low: float | None
    high: float | None
    error: float | None


def compute_estimates(
    spaces: Sequence[SpaceDistances], against: Sequence[int | None], draws: int, seed: int
) -> list[list[BootstrapEstimate]]:
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
        resampled = np.stack([space.numbers(weights) for space in spaces])
        ratio_differences = [
            resampled[i, 3] - resampled[i if reference is None else reference, 3] for i, reference in enumerate(against)
        ]
        return np.concatenate([resampled, np.stack(ratio_differences)[:, None]], axis=1)

    def statistic(drawn_texts: NDArray[np.int64], axis: int = -1) -> Array:
        weights = np.stack([np.bincount(row, minlength=n) for row in np.atleast_2d(drawn_texts)])
        resampled = numbers(weights.astype(float))
        return resampled if drawn_texts.ndim > 1 else resampled[..., 0]

    with warnings.catch_warnings():  # scipy warns where an interval is no number, for which the estimate has None
        warnings.simplefilter("ignore")
        resampled = bootstrap(
            (np.arange(n),),
            statistic,
            vectorized=True,
            n_resamples=draws,
            batch=RESAMPLES_AT_ONCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        )
    columns = (numbers(np.ones((1, n)))[..., 0], *resampled.confidence_interval, resampled.standard_error)
    all_estimates = [
        [BootstrapEstimate(*map(none_if_not_finite, ends_and_error)) for ends_and_error in zip(*parts, strict=True)]
        for parts in zip(*columns, strict=True)
    ]
    return [
        of_space if reference is not None else of_space[:-1]
        for of_space, reference in zip(all_estimates, against, strict=True)
    ]


def none_if_not_finite(number: float) -> float | None:
    """Return None for what is no number. With few texts a resample may be of one text, or of none that counts."""
    return float(number) if np.isfinite(number) else None


def encode_rows(victim: EncoderClassifier, rows: Sequence[tuple[str, ...]]) -> Array:
    """Return the vectors that the victim's head reads, (rows, dim), in the order of `rows`."""
    import torch

    order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
    encoded_rows = np.zeros((len(rows), victim.encoder.dim))
    victim.eval()
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            batch_places = order[start : start + BATCH]
            columns = [list(column) for column in zip(*(rows[i] for i in batch_places), strict=True)]
            encoded = victim.tokenizer(
                *columns, truncation=True, max_length=victim.max_length, padding=True, return_tensors="pt"
            )
            encoded_rows[batch_places] = victim.encoder(**encoded.to(victim.device)).double().cpu().numpy()
    return encoded_rows


def place_in_plane(vectors: Array, seed: int) -> Array:
    """Return places by t-SNE, (rows, 2), each axis scaled to 0..1 as in the paper. Fewer than 4 rows give none: (0, 2).

    The perplexity is scikit-learn's default, or a third of the rows where these are few.
    """
    from sklearn.manifold import TSNE

    if len(vectors) < 4:
        return np.zeros((0, 2))
    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    raw_places = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors.astype(np.float32))
    low, high = raw_places.min(0), raw_places.max(0)
    return np.asarray((raw_places - low) / np.where(high > low, high - low, 1), dtype=np.float64)


@dataclass(frozen=True)
class VictimSpaceCell(PooledCell):
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
        numbers_by_seed = [(seed, row.numbers) for seed, row in self.rows if row.numbers.get(name) is not None]
        if not numbers_by_seed:
            return Score(name=name, value=None, n=0)
        value = math.fsum(numbers[name] or 0 for _, numbers in numbers_by_seed) / len(numbers_by_seed)
        low, high = numbers_by_seed[0][1][f"{name}_low"], numbers_by_seed[0][1][f"{name}_high"]
        if len(numbers_by_seed) > 1:
            errors = [(seed, numbers[f"{name}_error"]) for seed, numbers in numbers_by_seed]
            by_seed: dict[int, float] = {}
            for seed, error in errors:
                by_seed[seed] = by_seed.get(seed, 0.0) + (error or 0.0)
            half_width = float(ndtri(0.975)) * math.hypot(*by_seed.values()) / len(numbers_by_seed)
            all_known = all(error is not None for _, error in errors)
            low, high = (value - half_width, value + half_width) if all_known else (None, None)
        return Score(name=name, value=value, n=self.n, low=low, high=high)

    def meaning(self, name: str) -> Meaning:
        return METRICS["delta"]

    def _of_the_attack(self, name: str) -> bool:
        return False


def build_cells(results: Results, options: BaseModel | None = None, *, planned: bool = True) -> Grid[VictimSpaceCell]:
    """Return all victims' spaces by task, attack, choice of texts, strategy and encoder.

    Args:
        planned: whether those are there, too, of which no job is done.

    Raises StoreError as `measured` does.
    """
    plan, suite = results.plan, results.plan.suite
    runs_by_key: dict[tuple[str, ...], list[tuple[SeedRun, Job | None]]] = {}
    for job in jobs_of_measure(results, NAME) if planned else chosen_jobs(results, NAME, options):
        spec = job.measuring
        assert spec is not None
        run = SeedRun.of(job, results.standing.records.get(job.key), None)
        behind = attacks_behind(plan, job)
        row_names = (
            [row.names for row in results.store.rows(job) if row.names["kind"] == "distances"] if not planned else ()
        )
        for encoder, finetune in dict.fromkeys((names["encoder"], names["finetune"]) for names in row_names) or behind:
            place = spec.task.name, spec.attack or "", str(spec.what.options["fooled"])
            runs_by_key.setdefault((*place, finetune, encoder), []).append((run, behind.get((encoder, finetune))))
    tunings, attacks = ([choice.label for choice in choices] for choices in (suite.finetune, suite.attacks))
    suite_orders = (suite.tasks, attacks, [key[2] for key in runs_by_key], tunings, suite.encoders)
    orders = [in_order(wanted_order, (key[i] for key in runs_by_key)) for i, wanted_order in enumerate(suite_orders)]
    spaces = {}
    for key in sorted(
        runs_by_key, key=lambda key: [wanted_order.index(name) for wanted_order, name in zip(orders, key, strict=True)]
    ):
        task, attack_label, fooled, finetune, encoder = key
        runs, attacked = zip(*runs_by_key[key], strict=True)
        attacks_of_victim = tuple(attack for attack in attacked if attack is not None)
        spaces[key] = VictimSpaceCell(
            encoder, task, runs, results, False, finetune, attack_label, fooled, attacks=attacks_of_victim
        )
    return Grid(results, spaces)


def _program_row(space: VictimSpaceCell) -> dict[str, object]:
    cell: dict[str, object] = {
        **space.at("task", "attack"),
        "fooled": space.label,
        **space.at("encoder", "finetune"),
        "n": space.n,
    }
    for name in NUMBER_NAMES:
        fields = space.told(name)
        cell |= {name: fields["value"], f"{name}_low": fields["low"], f"{name}_high": fields["high"]}
    return cell | {"flags": space.results.flags.told(space.jobs)}
