"""Whether what an attack does to victims says what noise does to them: a rank correlation over victims, with interval.

    python benchmarks/noise_ranks.py results/reference/noise-local.zip results/reference/noise-attacked.zip

Prints each victim's success rate under the attack and the score that it loses by typos (mean height of the curve), and
Spearman's correlation of the two. Its interval is from 10,000 bootstrap samples of the texts of both, alike for all
victims. With few victims it covers nearly all that there is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from rbench.measures._noise import NoiseRows
from rbench.store.runs import RunStore

FELL = {"succeeded": 1.0, "failed": 0.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("noise", type=Path)
    parser.add_argument("attacked", type=Path)
    asked = parser.parse_args()
    noise, attacked = RunStore(asked.noise), RunStore(asked.attacked)
    plans = noise.plan(), attacked.plan()
    assert plans[0] is not None and plans[1] is not None
    rows = {job.parts[0]: NoiseRows(tuple(noise.rows(job))) for job in plans[0].jobs if job.what == "noise"}
    lost = np.stack([np.asarray(one.values("typos", "noise_drop")) for one in rows.values()])  # (victims, texts)
    jobs = {job.parts[0]: job for job in plans[1].attacks}
    found = [{one.example_id: FELL.get(one.status, np.nan) for one in attacked.outcomes(jobs[name])} for name in rows]
    fell = np.array([[one[example] for example in sorted(found[0])] for one in found])
    rates, losses = np.nanmean(fell, axis=1), lost.mean(axis=1)
    for name, rate, loss in zip(rows, rates, losses, strict=True):
        print(f"{name}: ASR {100 * rate:.1f}%, lost to typos {100 * loss:.1f}")
    rng, ranks = np.random.default_rng(0), []
    for _ in range(10_000):
        some, others = (rng.integers(0, own.shape[1], own.shape[1]) for own in (lost, fell))
        one, other = lost[:, some].mean(axis=1), np.nanmean(fell[:, others], axis=1)
        if np.ptp(one) and np.ptp(other):
            ranks.append(float(spearmanr(one, other).statistic))
    low, high = np.percentile(ranks, [2.5, 97.5])
    value = spearmanr(losses, rates).statistic
    print(f"Spearman's correlation over {len(rows)} victims: {value:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
