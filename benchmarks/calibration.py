"""Simulate how often the gate gives a false alarm, and how often it sees a true rise.

    python benchmarks/calibration.py --out benchmarks/results/calibration.json --page docs/gate.md

A simulated check has baseline runs and a new run on the same examples, and goes through `rbench.score.gate.judge` with
a tolerance of 2 points and alpha 0.05. A *false alarm* is a check in which a cell fails although nothing is worse;
*power* is the share of checks in which one fails when all cells are worse by so many points.

The world does not share the gate's assumptions. An attack succeeds with a chance whose logit is a sum: a level of the
cell (ASRs from 27 to 82% in 36 cells, 50% in one), a difficulty of the example (normal, sd 1.2, shared by all runs and
attacks), a part of the example with this training (sd 0.8, shared by all attacks on its victim), and a shift of the
training. The shift is the victim's (80% of its variance: all attacks on it move together) and the attack's. It is
scaled so that ASR has the deviation named, as a root mean square over cells. A tenth of the examples is skipped, more
of the hard ones, and not the same by victim. 36 cells are 6 victims under 6 attacks.

- *equal weights*: two runs of the same victims; an example's chance is the same in both, and outcomes are drawn anew.
- *other weights*: each run is a training of its own.
- *unequal spread*: half of the victims have all of the deviation, the others none.
- *heavy tails*: shifts have Student's t distribution with 4 degrees of freedom: some trainings fail.
- *15% discordant pairs*: the textbook case of McNemar's test, one cell.
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

from rbench.score.gate import GateSample, judge

Array = NDArray[np.float64]
TOLERANCE, ALPHA = 0.02, 0.05
VICTIMS = ATTACKS = 6
RISES = (5, 10, 20)
EXAMPLE, OWN, VICTIM, SKIPPED = 1.2, 0.8, 0.8, 0.1


@dataclass(frozen=True)
class Setting:
    """One row of the result."""

    world: Literal["equal weights", "other weights", "unequal spread", "heavy tails"]
    baselines: int
    cells: int
    n: int
    deviation: float = 0
    """Of ASR between trainings, in points."""
    rise: float = 0
    """True, in points, in all cells."""

    @property
    def key(self) -> tuple[int, ...]:
        """The seed of the setting's random numbers."""
        worlds = ("equal weights", "other weights", "unequal spread", "heavy tails")
        return (worlds.index(self.world), self.baselines, self.cells, self.n, int(self.deviation), int(self.rise))


def settings() -> Iterator[Setting]:
    for cells, n in product((1, 36), (50, 200, 1000)):
        yield Setting("equal weights", 1, cells, n)
        yield Setting("other weights", 1, cells, n, 8)
    for baselines, deviation, cells, n, rise in product((3, 5), (3, 8), (1, 36), (50, 200, 1000), (0, *RISES)):
        yield Setting("other weights", baselines, cells, n, deviation, rise)
    for world, baselines, cells in product(("unequal spread", "heavy tails"), (3, 5), (1, 36)):
        if (world, cells) != ("unequal spread", 1):
            yield Setting(world, baselines, cells, 200, 8)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--runs", type=int, default=1000, help="simulated checks of a row without a rise, or of one cell"
    )
    parser.add_argument("--power-runs", type=int, default=100, help="of a row with 36 cells and a true rise")
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
        print(
            f"{setting} fires {row['fires']} cells {row['cells failed']} ({time.process_time() - started:.1f} s)",
            flush=True,
        )
    if args.page is not None:
        said = args.page.read_text(encoding="utf-8")
        part = re.compile("(?<=<!-- calibration -->\n).*?(?=<!-- end -->)", re.DOTALL)
        args.page.write_text(part.sub(lambda _: table(found["rows"]), said, count=1), encoding="utf-8")


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as markdown: one line for all rises of a setting."""
    lines = [
        "| world | baseline runs | deviation | cells | n | false alarms | power at 5 | at 10 | at 20 |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    settings: dict[tuple[Any, ...], dict[float, float]] = {}
    for row in rows[1:]:  # the first is the textbook case, which the page has as a sentence
        place = tuple(row[key] for key in ("world", "baseline runs", "deviation", "cells", "n"))
        settings.setdefault(place, {})[row["rise"]] = 100 * row["fires"]
    for place, fires in settings.items():
        power = [f"{fires[rise]:.0f}%" if rise in fires else "" for rise in RISES]
        lines.append("| " + " | ".join(map(str, [*place, f"{fires[0]:.1f}%", *power])) + " |")
    return "\n".join(lines) + "\n"


def runs_of(setting: Setting, runs: int, power_runs: int) -> int:
    """Return how many checks to simulate. Rates near 5% and cheap rows get more."""
    if setting.rise:
        return power_runs if setting.cells > 1 else runs
    return 2 * runs if setting.world == "equal weights" else runs if setting.cells > 1 else 4 * runs


def discordant(runs: int, n: int = 1000, share: float = 0.15, rise: float = 0.05) -> dict[str, Any]:
    """Simulate one cell with equal weights, in which a share of the pairs is discordant."""
    rng = np.random.default_rng(15)
    counts = rng.multinomial(n, [(share - rise) / 2, (share + rise) / 2, (1 - share) / 2, (1 - share) / 2], size=runs)
    both = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype=float)
    verdicts = []
    for drawn in counts:
        pairs = np.repeat(both, drawn, axis=0)
        verdicts.append(gate([GateSample((pairs[:, :1],), pairs[:, 1:], same_weights=True)]))
    row = Setting("equal weights", 1, 1, n, 0, 100 * rise)
    return report(row, verdicts) | {"world": "15% discordant pairs"}


def simulate(setting: Setting, runs: int) -> dict[str, Any]:
    """Simulate a row."""
    rng = np.random.default_rng(setting.key)
    return report(setting, [gate(check(rng, setting)) for _ in range(runs)])


def gate(samples: list[GateSample]) -> list[str]:
    return [cell.verdict for cell in judge(samples, tolerance=TOLERANCE, alpha=ALPHA, about_these_weights=False)]


def report(setting: Setting, verdicts: list[list[str]]) -> dict[str, Any]:
    count = {verdict: [cells.count(verdict) for cells in verdicts] for verdict in ("failed", "warned")}
    return {
        "world": setting.world,
        "baseline runs": setting.baselines,
        "cells": setting.cells,
        "n": setting.n,
        "deviation": setting.deviation,
        "rise": round(setting.rise, 6),
        "simulated": len(verdicts),
        "fires": round(float(np.mean([found > 0 for found in count["failed"]])), 4),
        "warns": round(float(np.mean([found > 0 for found in count["warned"]])), 4),
        "cells failed": round(float(np.mean(count["failed"])) / setting.cells, 4),
    }


def check(rng: np.random.Generator, setting: Setting) -> list[GateSample]:
    """Draw one check: all cells of baseline runs and a new run, the new one last."""
    victims, attacks = (1, 1) if setting.cells == 1 else (VICTIMS, ATTACKS)
    levels = np.linspace(-1.5, 2.2, attacks) if attacks > 1 else np.zeros(1)
    same, runs, n = setting.world == "equal weights", setting.baselines + 1, setting.n
    drawn = 1 if same else runs
    hard = rng.normal(0, EXAMPLE, n)
    own = rng.normal(0, OWN, (drawn, victims, 1, n))
    logit = hard + own + levels[:, None] + shifts(rng, setting, drawn, victims, levels)
    if setting.rise:
        logit = np.broadcast_to(logit, (runs, victims, attacks, n)).copy()
        logit[-1] += np.array([rise_of(level, setting.rise / 100) for level in levels])[:, None]
    fell = (rng.random((runs, victims, attacks, n)) < 1 / (1 + np.exp(-logit))).astype(float)
    ease = (rng.normal(0, 1, (drawn, victims, 1, n)) - hard) / np.hypot(1, EXAMPLE)
    skipped = np.broadcast_to(ease < -1.2816, fell.shape)  # a tenth of a standard normal distribution
    fell[skipped] = np.nan
    cells = fell.reshape(runs, setting.cells, n, 1)
    return [GateSample(tuple(cells[:-1, c]), cells[-1, c], same) for c in range(setting.cells)]


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
