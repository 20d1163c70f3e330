"""The machines that an estimate is for: this one, which is measured, and GPUs, which are assumed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rbench.errors import PlanError
from rbench.plan.cost_model import Costs, Seconds

PEAK = {
    "T4": 8.1,
    "V100": 15.7,
    "A10": 31.2,
    "A100": 19.5,
    "L4": 30.3,
    "L40S": 91.6,
    "RTX3090": 35.6,
    "RTX4090": 82.6,
    "H100": 66.9,
    "H200": 66.9,
}
"""TFLOPS of GPUs in single precision without tensor cores, as their makers state them."""
SHARES = (0.4, 0.2, 0.05)
"""Shares of that peak that networks are assumed to reach: at best, in the middle, and at worst."""
CORE = 0.65
"""Share of the speed in products of matrices that the networks of the measurements reached on a CPU."""
COUNTS = (1, 8, 64)
MOST = 10_000
USUAL = "A100"


@dataclass(frozen=True)
class Machines:
    """So many processes of `rbench run`, each with a GPU, or one on a CPU."""

    name: str
    processes: int
    networks: tuple[float, float, float]
    """How much faster networks are than on a core of the reference machine: at best, in the middle, at worst."""
    workers: int = 1
    """Worker processes that share the attacks of each process."""
    cores: float = 1.0
    """How much faster trainings are because they use several cores, where the reference machine has 1."""
    assumed: bool = False

    def seconds(self, time: Seconds, case: int, *, attack: bool) -> float:
        """Return the time of a job on one of the processes.

        Args:
            case: 0: at best, 1: in the middle, 2: at worst.
            attack: whether the worker processes share it. If not, it uses all cores.
        """
        alone = time.network / self.networks[case] + time.python
        return alone / (self.workers if attack else self.cores)


def here(costs: Costs, gflops: float, cores: int, workers: int) -> Machines:
    """Return this machine, whose cores multiply matrices at `gflops` billion operations a second."""
    faster = gflops / costs.gflops
    return Machines("this machine", 1, (faster, faster, faster), workers, max(1.0, min(cores, 8) / 2))


def gpus(costs: Costs, count: int, name: str) -> Machines:
    """Return so many GPUs of a kind, each with a process of its own."""
    core = costs.gflops * CORE / 1000
    best, middle, worst = (PEAK[name] * share / core for share in SHARES)
    return Machines(f"{count} x {name}", count, (best, middle, worst), assumed=True)


def parse(text: str) -> tuple[int, str]:
    """Read `8xH100` as (8, "H100"). Raises PlanError for anything else, and for a GPU that is not in `PEAK`."""
    found = re.fullmatch(r"(?:(\d{1,6})\s*[x*]\s*)?([A-Za-z][A-Za-z0-9 -]*)", text.strip())
    if found is None:
        raise PlanError(f"--machines {text!r}: write a number and a GPU, such as 8xH100")
    count, name = int(found[1] or 1), re.sub(r"[ -]", "", found[2]).upper()
    if name not in PEAK:
        raise PlanError(f"--machines {text!r}: there is no estimate for {found[2]}; known GPUs: {', '.join(PEAK)}")
    if not 1 <= count <= MOST:
        raise PlanError(f"--machines {text!r}: the number of GPUs must be from 1 to {MOST}")
    return count, name
