"""Tests ADCL's hypotheses on a finished RUN of `adcl-table1`: H1, H2 (Table 1), H4 (Table 4), with intervals.

    python benchmarks/hypotheses.py RUN [RUN ...] --base minilm --trained adcl-minilm --task mr --out FILE

asr    ASR of one cell minus that of another, for each attack and for the mean of the attacks:
       H1  the trained encoder minus the base, both fine-tuned clean
       H2  the trained encoder minus the base, both fine-tuned adversarially
       fine-tuning  adversarial minus clean, for base and trained encoder
space  H4: distances in the vector space of the four victims. d_pos is the mean distance of a text to its adversarial
       text, d_neg its mean distance to every other text and every other adversarial text. d_pos / d_neg is printed as
       well, since victims differ in the length of their vectors. Texts are those on which an attack fooled the base
       fine-tuned clean, as in section 4.5. This choice is unfavourable to the base: where it was fooled, its vectors
       are far apart. So the same is printed for texts that fooled the trained encoder. Needs the victims in the weight
       cache.

All cells of a seed attack the same texts, and comparisons are paired: texts are resampled within each seed, with the
same resample for both cells (scipy.stats.bootstrap, percentile, 95%). An interval covers the choice of texts. `seeds`
has the difference of each fine-tuning seed, to show how it varies. Training has one seed. ASR is over the texts that
the cell's own victim classified correctly, so that two cells have different n.

The distance is Euclidean. The paper does not name its distance.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from machine import processor
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import bootstrap

from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import RbenchError
from rbench.spec import AttackJob, Job, Outcome
from rbench.storage.runs import Store
from rbench.storage.standing import standing
from rbench.storage.weights import WeightCache, default_cache

DRAWS = 9999
BATCH = 64
Statistic = Callable[..., float]
"""A statistic of one array of resampled indices per seed."""


class Cell(NamedTuple):
    """A cell of the table, with all its seeds."""

    encoder: str
    strategy: str
    attack: str


Runs = dict[Cell, dict[int, tuple[Job, list[Outcome]]]]
"""For each cell and seed, the attack job and its outcomes, ordered by example."""


def main() -> None:
    args = parse()
    runs = read(args.runs, args.task)
    check(runs, args)
    document: dict[str, Any] = {
        "what": "ADCL's H1, H2 and H4; see benchmarks/hypotheses.py",
        "task": args.task,
        "base": args.base,
        "trained": args.trained,
        "asr": asr(runs, args),
        "space": {
            attack: {f"texts that fooled {who}": space(runs, args, attack, who) for who in (args.base, args.trained)}
            for attack in args.space
        },
        "resamples": args.draws,
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {"python": platform.python_version(), "scipy": scipy.__version__, "torch": torch.__version__},
    }
    text = json.dumps(document, indent=1) + "\n"
    if args.out is not None:
        args.out.write_text(text, encoding="utf-8")
    print(text, end="")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders with finished attacks")
    parser.add_argument("--base", default="minilm", help="encoder without the pre-training")
    parser.add_argument("--trained", default="adcl-minilm", help="encoder with it")
    parser.add_argument("--task", default="mr")
    parser.add_argument("--space", nargs="*", default=["geometry", "textfooler"], help="attacks whose texts H4 takes")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="weight cache with the victims")
    parser.add_argument("--draws", type=int, default=DRAWS, help="resamples of an interval")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def read(folders: Sequence[Path], task: str) -> Runs:
    """Read all finished attacks on `task`. Raises SystemExit where a folder has no plan, or a cell is ambiguous."""
    runs: Runs = {}
    for folder in folders:
        store = Store(folder)
        plan = store.plan()
        if plan is None:
            raise SystemExit(f"{folder}: no RUN (plan.json is missing)")
        done = standing(store, plan).done
        for job in plan.jobs:
            if not isinstance(job.spec, AttackJob) or job.key not in done or job.spec.task.name != task:
                continue
            cell = Cell(job.spec.encoder, job.spec.strategy.name, job.spec.attack.name)
            outcomes = sorted(store.outcomes(job), key=lambda one: one.example_id)
            if any(one.status == "errored" for one in outcomes):
                raise SystemExit(f"{job.name}: has texts that errored")
            seeds = runs.setdefault(cell, {})
            if job.seed in seeds and seeds[job.seed][0].key != job.key:
                raise SystemExit(f"{job.name} and {seeds[job.seed][0].name}: one cell, two sets of options")
            seeds[job.seed] = job, outcomes
    return runs


def check(runs: Runs, args: argparse.Namespace) -> None:
    """Raise SystemExit unless both encoders have both kinds of fine-tuning for every attack, with the same seeds."""
    attacks = sorted({cell.attack for cell in runs} | set(args.space))
    if not runs:
        raise SystemExit(f"no finished attacks on {args.task}")
    seeds = {seed for found in runs.values() for seed in found}
    for cell in (Cell(e, s, a) for e in (args.base, args.trained) for s in ("clean", "adversarial") for a in attacks):
        missing = sorted(seeds - set(runs.get(cell, ())))
        if missing:
            raise SystemExit(
                f"{cell.encoder}/{args.task}/{cell.strategy}/{cell.attack}: seeds {missing} are not done; "
                "finish the RUN, or name other --base, --trained or --space"
            )


# ------------------------------------------------------------------------------------------------------ H1 and H2


def asr(runs: Runs, args: argparse.Namespace) -> dict[str, Any]:
    """Compute the ASR of the four kinds of victim for each attack, and the differences for H1, H2 and fine-tuning."""
    pairs = {
        "H1": ((args.trained, "clean"), (args.base, "clean")),
        "H2": ((args.trained, "adversarial"), (args.base, "adversarial")),
        "fine-tuning, base": ((args.base, "adversarial"), (args.base, "clean")),
        "fine-tuning, trained": ((args.trained, "adversarial"), (args.trained, "clean")),
    }
    attacks = sorted({cell.attack for cell in runs})
    cells = {
        f"{encoder}/{strategy}/{attack}": rate(runs[Cell(encoder, strategy, attack)])
        for encoder in (args.base, args.trained)
        for strategy in ("clean", "adversarial")
        for attack in attacks
    }
    differences = {
        name: {
            label: difference(runs, one, other, chosen, args.draws)
            for label, chosen in {**{attack: [attack] for attack in attacks}, "mean": attacks}.items()
        }
        for name, (one, other) in pairs.items()
    }
    return {"cells": cells, "differences": differences}


def rate(seeds: dict[int, tuple[Job, list[Outcome]]]) -> dict[str, Any]:
    """Return the ASR in % over all seeds, its n, and the ASR of each seed."""
    tried = {seed: [one for one in outcomes if one.status != "skipped"] for seed, (_, outcomes) in seeds.items()}
    fooled = {seed: sum(one.status == "succeeded" for one in chosen) for seed, chosen in tried.items()}
    n = sum(map(len, tried.values()))
    return {
        "asr": percent(sum(fooled.values()) / n),
        "n": n,
        "seeds": {seed: percent(fooled[seed] / len(tried[seed])) for seed in sorted(tried)},
    }


def difference(
    runs: Runs, one: tuple[str, str], other: tuple[str, str], attacks: Sequence[str], draws: int
) -> dict[str, Any]:
    """Return the ASR of cell `one` minus that of `other` in points, as the mean over `attacks`."""
    seeds = sorted(runs[Cell(*one, attacks[0])])
    table = {seed: np.array([marks(runs, one, other, attack, seed) for attack in attacks]) for seed in seeds}

    def found(*drawn: NDArray[np.int64]) -> float:
        """Compute it from (attacks, 2 cells, 2 marks, texts), with texts resampled within each seed and pooled."""
        sums = sum(table[seed][..., places].sum(-1) for seed, places in zip(seeds, drawn, strict=True))
        rates = sums[..., 1] / sums[..., 0]
        return float((rates[:, 0] - rates[:, 1]).mean())

    everything = [np.arange(table[seed].shape[-1]) for seed in seeds]
    low, high = interval(everything, found, draws)
    own = {}
    for seed in seeds:
        sums = table[seed].sum(-1)
        own[seed] = percent(float((sums[:, 0, 1] / sums[:, 0, 0] - sums[:, 1, 1] / sums[:, 1, 0]).mean()))
    return {"points": percent(found(*everything)), "low": percent(low), "high": percent(high), "seeds": own}


def marks(
    runs: Runs, one: tuple[str, str], other: tuple[str, str], attack: str, seed: int
) -> list[list[NDArray[np.int64]]]:
    """Return for each of two cells and each text whether it was attacked and whether the attack succeeded."""
    both = [runs[Cell(*cell, attack)][seed][1] for cell in (one, other)]
    if [x.example_id for x in both[0]] != [x.example_id for x in both[1]]:
        raise SystemExit(f"{one} and {other}, {attack}, seed {seed}: not the same texts")
    return [
        [np.array([x.status != "skipped" for x in cell], int), np.array([x.status == "succeeded" for x in cell], int)]
        for cell in both
    ]


# ------------------------------------------------------------------------------------------------------------- H4


def space(runs: Runs, args: argparse.Namespace, attack: str, fooled: str) -> dict[str, Any]:
    """Compute d_pos, d_neg, their difference (delta) and quotient in each of four vector spaces, and H4's differences.

    Texts are those on which `attack` fooled the encoder `fooled`, fine-tuned clean.
    """
    source = runs[Cell(fooled, "clean", attack)]
    seeds = sorted(source)
    texts = {seed: [one for one in source[seed][1] if one.status == "succeeded"] for seed in seeds}
    chosen = [np.arange(len(texts[seed])) for seed in seeds]
    measured: dict[tuple[str, str], Statistic] = {}
    found: dict[str, Any] = {"n": sum(map(len, chosen))}
    for encoder in (args.base, args.trained):
        for strategy in ("clean", "adversarial"):
            jobs = {seed: runs[Cell(encoder, strategy, attack)][seed][0] for seed in seeds}
            tables = [distances(args.cache, jobs[seed], texts[seed]) for seed in seeds]
            measured[encoder, strategy] = lambda *drawn, t=tables: quotient(t, drawn)
            pos, neg = (mean([which(t, c) for t, c in zip(tables, chosen, strict=True)]) for which in (d_pos, d_neg))
            low, high = interval(chosen, measured[encoder, strategy], args.draws)
            found[f"{encoder}/{strategy}"] = {
                "d_pos": round(pos, 3),
                "d_neg": round(neg, 3),
                "delta": round(neg - pos, 3),
                "d_pos/d_neg": [rounded(x) for x in (measured[encoder, strategy](*chosen), low, high)],
            }
    for strategy in ("clean", "adversarial"):
        one, other = measured[args.trained, strategy], measured[args.base, strategy]
        less: Statistic = lambda *drawn, a=one, b=other: a(*drawn) - b(*drawn)  # noqa: E731
        low, high = interval(chosen, less, args.draws)
        found[f"H4, {strategy}: d_pos/d_neg, trained less base"] = [rounded(x) for x in (less(*chosen), low, high)]
    return found


def distances(cache: Path, job: Job, texts: Sequence[Outcome]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return distances between texts, and between texts (rows) and adversarial texts (columns), both (texts, texts)."""
    key = job.needs.get("victim", job.needs.get("0", ""))  # "0": in plans made before needs had roles
    victim, _ = EncoderClassifier.load(WeightCache(cache).folder(key), "cpu")
    victim.eval()
    clean = vectors(victim, [one.original for one in texts])
    fooling = vectors(victim, [one.perturbed or one.original for one in texts])
    return cdist(clean, clean), cdist(clean, fooling)


def vectors(victim: EncoderClassifier, rows: Sequence[tuple[str, ...]]) -> NDArray[np.float64]:
    """Return the vectors that the head reads, (rows, dim)."""
    found = []
    with torch.inference_mode():
        for start in range(0, len(rows), BATCH):
            columns = [list(column) for column in zip(*rows[start : start + BATCH], strict=True)]
            encoded = victim.tokenizer(
                *columns, truncation=True, max_length=victim.max_length, padding=True, return_tensors="pt"
            )
            found.append(victim.encoder(**encoded).double().numpy())
    return np.concatenate(found)


def quotient(tables: Sequence[Any], drawn: Sequence[NDArray[np.int64]]) -> float:
    """Return the mean over seeds of d_pos / d_neg. Ratios are per seed, because each seed has its own victim."""
    return mean([d_pos(one, places) / d_neg(one, places) for one, places in zip(tables, drawn, strict=True)])


def d_pos(table: tuple[NDArray[np.float64], NDArray[np.float64]], places: NDArray[np.int64]) -> float:
    return float(np.diag(table[1])[places].mean())


def d_neg(table: tuple[NDArray[np.float64], NDArray[np.float64]], places: NDArray[np.int64]) -> float:
    """Return the mean distance over pairs of different texts. A text that was drawn twice is no negative of itself."""
    weights = np.bincount(places, minlength=len(table[0])).astype(float)
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0)
    return float((pairs * (table[0] + table[1])).sum() / (2 * pairs.sum()))


# ---------------------------------------------------------------------------------------------------------- both


def interval(places: Sequence[NDArray[np.int64]], statistic: Statistic, draws: int) -> tuple[float, float]:
    """Compute the 95% interval of a statistic of one array of resampled indices per seed."""
    result = bootstrap(
        tuple(places), statistic, vectorized=False, n_resamples=draws, method="percentile", rng=np.random.default_rng(0)
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers))


def rounded(number: float) -> float | None:
    """Round a number; None if it is not finite. With few texts, a resample may be a single text without negatives."""
    return round(number, 3) if math.isfinite(number) else None


def percent(share: float) -> float:
    return round(100 * share, 1)


if __name__ == "__main__":
    try:
        main()
    except RbenchError as error:
        raise SystemExit(f"error: {error}") from error
