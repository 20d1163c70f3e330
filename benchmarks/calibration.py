"""Simulate how often the gate gives a false alarm, and how often it sees a true change for the worse.

    python benchmarks/calibration.py --out benchmarks/results/calibration.json --page benchmarks/results/calibration.md

A simulated check has baseline runs and a new run on the same examples, and goes through `rbench.gate.score.judge` with
all rows of a check: clean accuracy of each victim, accuracy under attack (AUA) and ASR of each attack on it. The
tolerance is 2 points and alpha 0.05. A *false alarm* is a check in which any row fails although nothing is worse.
*Power* of a metric is the share of checks in which a row of it fails when all victims are worse: ASR is higher by so
many points (AUA is then lower by about nine tenths of them), or clean accuracy lower.

The world does not share the gate's assumptions. An attack succeeds with a chance whose logit is a sum: a level of the
cell (ASRs from 27 to 82% in 36 cells, 50% in one), a difficulty of the example (normal, sd 1.2, shared by all runs and
attacks), a part of the example with this training (sd 0.8, shared by all attacks on its victim), and a shift of the
training. The shift is the victim's (80% of its variance: all attacks on it move together) and the attack's. It is
scaled so that ASR has the deviation named, as a root mean square over cells. A tenth of the examples is misread, more
of the hard ones, and not the same by victim. Training again moves clean accuracy too, with a third of ASR's deviation.
36 cells are 6 victims under 6 attacks: 78 rows. 4 cells are one victim: 9 rows. One cell has 3 rows.

- *equal weights*: two runs of the same victims; an example's chance is the same in both, and outcomes are drawn anew.
- *other weights*: each run is a training of its own.
- *unequal spread*: half of the victims have all of the deviation, the others none.
- *heavy tails*: shifts have Student's t distribution with 4 degrees of freedom: some trainings fail.
- *15% discordant pairs*: the textbook case of McNemar's test, one row.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from machine import processor
from numpy.typing import NDArray
from scipy.special import ndtri

from rbench.gate.score import GateSample, judge

Array = NDArray[np.float64]
TOLERANCE, ALPHA = 0.02, 0.05
VICTIMS = ATTACKS = 6
CHANGES = (5, 10)
EXAMPLE, OWN, VICTIM, MISREAD, CLEAN = 1.2, 0.8, 0.8, 0.1, 1 / 3
METRICS = ("aua", "clean", "asr")


@dataclass(frozen=True)
class Setting:
    """One row of the result."""

    world: Literal["equal weights", "other weights", "unequal spread", "heavy tails"]
    baselines: int
    cells: int
    n: int
    deviation: float = 0
    """Of ASR between trainings, in points."""
    worse: Literal["", "attack", "accuracy"] = ""
    """What is truly worse in all victims: ASR or clean accuracy."""
    by: float = 0
    """In points."""

    @property
    def key(self) -> tuple[int, ...]:
        """The seed of the setting's random numbers."""
        worlds = ("equal weights", "other weights", "unequal spread", "heavy tails")
        kind = ("", "attack", "accuracy").index(self.worse)
        return (worlds.index(self.world), self.baselines, self.cells, self.n, int(self.deviation), kind, int(self.by))


def settings() -> Iterator[Setting]:
    changes = [("", 0), *product(("attack", "accuracy"), CHANGES)]
    sizes = [*product((1,), (50, 200, 1000)), (4, 200), *product((36,), (50, 200))]
    for (cells, n), (worse, by) in product(sizes, changes):
        yield Setting("equal weights", 1, cells, n, 0, worse, by)  # type: ignore[arg-type]
    for cells, n in sizes:
        yield Setting("other weights", 1, cells, n, 8)
    for deviation, (cells, n), (worse, by) in product((3, 8), sizes, changes):
        yield Setting("other weights", 3, cells, n, deviation, worse, by)  # type: ignore[arg-type]
    for world in ("unequal spread", "heavy tails"):
        yield Setting(world, 3, 36, 200, 8)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1000, help="simulated checks of a row in which nothing is worse")
    parser.add_argument("--power-runs", type=int, default=100, help="of a row with 36 cells in which something is")
    parser.add_argument("--page", type=Path, help="a page with a part `calibration`, whose table is written anew")
    args = parser.parse_args()
    found: dict[str, Any] = {
        "what": "false alarms and power of the gate; see benchmarks/calibration.py",
        "command": f"python benchmarks/calibration.py --runs {args.runs} --power-runs {args.power_runs} --out FILE",
        "tolerance": TOLERANCE,
        "alpha": ALPHA,
        "seeds": "of a row: its numbers, as Setting.key has them",
        "machine": {"processor": processor(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "numpy", "scipy")},
        "rows": [discordant(2 * args.runs)],
    }
    for setting in settings():
        started = time.process_time()
        row = simulate(setting, runs_of(setting, args.runs, args.power_runs))
        found["rows"].append(row)
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")  # after each, since all take long
        rates = f"failed {row['failed']} undecided {row['undecided']} {row['failed by metric']}"
        print(f"{setting} {rates} ({time.process_time() - started:.1f} s)", flush=True)
    if args.page is not None:
        said = args.page.read_text(encoding="utf-8")
        part = re.compile("(?<=<!-- calibration -->\n).*?(?=<!-- end -->)", re.DOTALL)
        args.page.write_text(part.sub(lambda _: table(found["rows"]), said, count=1), encoding="utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as markdown: one line for all changes of a setting."""
    lines = [
        "| world | baseline runs | deviation | cells | n | false alarms | undecided "
        "| AUA 5 | 10 | ASR 5 | 10 | clean 5 | 10 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    settings: dict[tuple[Any, ...], dict[tuple[str, float], dict[str, Any]]] = {}
    for row in rows[1:]:  # the first is the textbook case, which the page has as a sentence
        place = tuple(row[key] for key in ("world", "baseline runs", "deviation", "cells", "n"))
        settings.setdefault(place, {})[row["worse"], row["by"]] = row
    for place, found in settings.items():
        none = found["", 0]
        columns = [("attack", "aua"), ("attack", "asr"), ("accuracy", "clean")]
        power = [
            f"{100 * found[worse, by]['failed by metric'][metric]:.0f}%" if (worse, by) in found else ""
            for (worse, metric), by in product(columns, CHANGES)
        ]
        rates = [f"{100 * none[name]:.1f}%" for name in ("failed", "undecided")]
        lines.append("| " + " | ".join(map(str, [*place, *rates, *power])) + " |")
    return "\n".join(lines) + "\n"


def runs_of(setting: Setting, runs: int, power_runs: int) -> int:
    """Return how many checks to simulate. Rates near 5% and cheap rows get more."""
    if setting.worse:
        return power_runs if setting.cells > 4 else runs // 2
    return runs if setting.cells > 4 else 4 * runs


def discordant(runs: int, n: int = 1000, share: float = 0.15, rise: float = 0.05) -> dict[str, Any]:
    """Simulate one cell with equal weights, in which a share of the pairs is discordant."""
    rng = np.random.default_rng(15)
    counts = rng.multinomial(n, [(share - rise) / 2, (share + rise) / 2, (1 - share) / 2, (1 - share) / 2], size=runs)
    both = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=float)
    checks = []
    for drawn in counts:
        pairs = np.repeat(both, drawn, axis=0)
        checks.append(gate([GateSample((pairs[:, :1],), pairs[:, 1:], same_weights=True)]))
    row = Setting("equal weights", 1, 1, n, 0, "attack", 100 * rise)
    return report(row, checks) | {"world": "15% discordant pairs"}


Verdicts = list[tuple[str, str]]
"""Metric and verdict of each row of a check."""


def simulate(setting: Setting, runs: int) -> dict[str, Any]:
    """Simulate a row."""
    rng = np.random.default_rng(setting.key)
    return report(setting, [gate(check(rng, setting)) for _ in range(runs)])


def gate(samples: list[GateSample]) -> Verdicts:
    found = judge(samples, alpha=ALPHA, about_these_weights=False)
    return [(sample.metric, row.verdict) for sample, row in zip(samples, found, strict=True)]


def report(setting: Setting, checks: list[Verdicts]) -> dict[str, Any]:
    def share(*verdicts: str, metrics: tuple[str, ...] = METRICS) -> float:
        hit = [any(found in verdicts and metric in metrics for metric, found in rows) for rows in checks]
        return round(float(np.mean(hit)), 4)

    return {
        "world": setting.world,
        "baseline runs": setting.baselines,
        "cells": setting.cells,
        "n": setting.n,
        "deviation": setting.deviation,
        "worse": setting.worse,
        "by": round(setting.by, 6),
        "simulated": len(checks),
        "failed": (failed := share("failed")),
        "standard error": round(float(np.sqrt(failed * (1 - failed) / len(checks))), 4),
        "undecided": share("undecided", "unexplained"),
        "failed by metric": {metric: share("failed", metrics=(metric,)) for metric in METRICS},
    }


def check(rng: np.random.Generator, setting: Setting) -> list[GateSample]:
    """Draw one check: all rows of baseline runs and a new run, the new one last."""
    victims, attacks = (VICTIMS, ATTACKS) if setting.cells == VICTIMS * ATTACKS else (1, setting.cells)
    levels = np.linspace(-1.5, 2.2, attacks) if attacks > 1 else np.zeros(1)
    same, runs, n = setting.world == "equal weights", setting.baselines + 1, setting.n
    drawn = 1 if same else runs
    hard = rng.normal(0, EXAMPLE, n)
    own = rng.normal(0, OWN, (drawn, victims, 1, n))
    logit = np.broadcast_to(
        hard + own + levels[:, None] + shifts(rng, setting, drawn, victims, levels), (runs, victims, attacks, n)
    ).copy()
    if setting.worse == "attack":
        logit[-1] += np.array([rise_of(level, setting.by / 100) for level in levels])[:, None]
    fell = rng.random((runs, victims, attacks, n)) < 1 / (1 + np.exp(-logit))
    ease = (rng.normal(0, 1, (drawn, victims, 1, n)) - hard) / np.hypot(1, EXAMPLE)
    # The density of the normal distribution where a tenth lies below turns points of accuracy into ease.
    moved = rng.normal(0, CLEAN * setting.deviation / 100 / 0.1755, (drawn, victims, 1, 1))
    ease = np.broadcast_to(ease + moved, (runs, victims, 1, n)).copy()
    if setting.worse == "accuracy":
        ease[-1] -= float(ndtri(MISREAD + setting.by / 100) - ndtri(MISREAD))
    right = ease > float(ndtri(MISREAD))
    clean = right[:, :, 0].astype(float)[..., None]
    aua = (right & ~fell).astype(float).reshape(runs, setting.cells, n, 1)
    asr = np.where(right, fell.astype(float), np.nan).reshape(runs, setting.cells, n, 1)
    arrays = [("clean", clean, victims), ("aua", aua, setting.cells), ("asr", asr, setting.cells)]
    return [
        GateSample(tuple(of[:-1, i]), of[-1, i], same, TOLERANCE, metric == "asr", metric)
        for metric, of, count in arrays
        for i in range(count)
    ]


def shifts(rng: np.random.Generator, setting: Setting, runs: int, victims: int, levels: Array) -> Array:
    """Draw what each training adds to the logits: runs x victims x attacks x 1."""
    if not setting.deviation:
        return np.zeros((runs, victims, len(levels), 1))
    shape = (runs, victims, 1, 1), (runs, victims, len(levels), 1)
    parts = [rng.standard_t(4, s) / np.sqrt(2) if setting.world == "heavy tails" else rng.normal(size=s) for s in shape]
    shift = np.sqrt(VICTIM) * parts[0] + np.sqrt(1 - VICTIM) * parts[1]
    if setting.world == "unequal spread":
        shift[:, ::2] = 0
    return shift * scale_of(tuple(levels), setting.deviation / 100)


GRID = np.linspace(-12, 12, 4801)
NORMAL = np.exp(-(np.linspace(-5, 5, 401) ** 2) / 2)
NORMAL /= NORMAL.sum()


@cache
def curve() -> Array:
    """Return the ASR at each logit of GRID, the mean over examples."""
    spread = np.hypot(EXAMPLE, OWN) * np.linspace(-5, 5, 401)
    return np.array([np.sum(NORMAL / (1 + np.exp(-(logit + spread)))) for logit in GRID])


@cache
def rise_of(level: float, rise: float) -> float:
    """Return how much the logit of a level must grow so that its ASR does by `rise`, or to at most 99.5%."""
    asr = float(np.interp(level, GRID, curve()))
    return float(np.interp(min(asr + rise, 0.995), curve(), GRID)) - level


@cache
def scale_of(levels: tuple[float, ...], deviation: float) -> float:
    """Return the deviation of the logit that gives ASR this deviation, as a root mean square over levels."""
    z = np.linspace(-5, 5, 401)

    def of(scale: float) -> float:
        asrs = [np.interp(level + scale * z, GRID, curve()) for level in levels]
        return float(np.sqrt(np.mean([np.sum(NORMAL * (asr - np.sum(NORMAL * asr)) ** 2) for asr in asrs])))

    scales = np.linspace(0, 3, 301)
    return float(np.interp(deviation, [of(scale) for scale in scales], scales))


if __name__ == "__main__":
    main()
