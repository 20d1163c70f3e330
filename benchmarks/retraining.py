"""Measure how far training an encoder again moves ASR, beyond what the choice of examples does.

    rbench run retraining --include benchmarks/retraining --out RUN
    python benchmarks/retraining.py RUN --out benchmarks/results/retraining.json

The suite trains one small encoder with ten seeds, fine-tunes each with one seed and attacks each on the same examples.
For each attack the JSON has the ASR of every training as tables have it, and their standard deviation. On the examples
that all victims classify correctly it has a two-way analysis of variance (trainings x examples, one value a cell): the
mean square of trainings has the examples' noise in it, that of the interaction is this noise alone. So
`beyond noise` is sqrt((MS trainings - MS interaction) / n), in points. Its 95% interval takes MS trainings / MS
interaction to be F distributed (0 where the ratio is no larger than chance makes it). Trainings whose attacks are not
all complete are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy import stats

VALUES = {"succeeded": 1.0, "failed": 0.0}
Rows = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    attacks = read(args.run)
    trainings = sorted(set.intersection(*(set(found) for found in attacks.values())))
    found = {
        "what": "deviation of ASR between trainings of one encoder; see benchmarks/retraining.py",
        "command": "rbench run retraining --include benchmarks/retraining --out RUN; "
        "python benchmarks/retraining.py RUN --out FILE",
        "encoder": "simcse-again: SimCSE on mini-bert-packaged, 60 steps; fine-tuned on mini-sentiment for 2 epochs",
        "trainings": len(trainings),
        "left out": max(map(len, attacks.values())) - len(trainings),
        "attacks": {name: deviation([found[t] for t in trainings]) for name, found in sorted(attacks.items())},
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "torch", "transformers", "textattack", "numpy")},
    }
    asrs = [one["asr"] for one in found["attacks"].values()]
    found["correlation of the attacks' ASRs over trainings"] = round(float(np.corrcoef(asrs)[0, 1]), 2)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found["attacks"], indent=1))


def read(run: Path) -> dict[str, dict[str, Rows]]:
    """Return by attack and by encoder which examples fell, of the attacks that are complete."""
    attacks: dict[str, dict[str, Rows]] = {}
    for path in sorted(run.glob("attack/**/record.json")):
        encoder, _, _, attack = json.loads(path.read_text(encoding="utf-8"))["job"]["parts"]
        lines = (path.parent / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
        outcomes = [json.loads(line)["outcome"] for line in lines]
        attacks.setdefault(attack, {})[encoder] = {
            one["example_id"]: VALUES[one["status"]] for one in outcomes if one["status"] in VALUES
        }
    return attacks


def deviation(trainings: list[Rows]) -> dict[str, Any]:
    """Analyse one attack on several trainings."""
    asrs = [float(np.mean(list(rows.values()))) for rows in trainings]
    sizes = [len(rows) for rows in trainings]
    common = sorted(set.intersection(*(set(rows) for rows in trainings)))
    beyond, low, high = components(np.array([[rows[example] for example in common] for rows in trainings]))
    noise = math.sqrt(np.mean([p * (1 - p) / n for p, n in zip(asrs, sizes, strict=True)]))
    return {
        "asr": [round(100 * p, 1) for p in asrs],
        "n": sizes,
        "standard deviation": round(100 * float(np.std(asrs, ddof=1)), 2),
        "binomial noise of one ASR": round(100 * noise, 2),
        "examples that all victims classify correctly": len(common),
        "beyond noise": round(100 * beyond, 2),
        "interval": [round(100 * low, 2), round(100 * high, 2)],
    }


def components(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the deviation between rows (trainings) beyond the interaction's noise, and its 95% limits."""
    k, n = values.shape
    rest = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    noise = float(np.sum(rest**2)) / ((k - 1) * (n - 1))
    between = n * float(values.mean(axis=1).var(ddof=1))
    quantiles = (1.0, *(float(stats.f.ppf(q, k - 1, (k - 1) * (n - 1))) for q in (0.975, 0.025)))
    value, low, high = (math.sqrt(max(between / q - noise, 0.0) / n) for q in quantiles)
    return value, low, high


if __name__ == "__main__":
    main()
