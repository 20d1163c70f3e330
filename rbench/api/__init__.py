"""The Python face of rbench: what the command line calls, and what a notebook may call.

import rbench
result = rbench.run("quickstart")
frame = rbench.load_results(result.run)   # one row an attacked example

Some functions have the name of their module (`run`, `train`, `doctor`): `rbench.api.run` is the function. All of them
are imported at once, so that this holds whatever was imported before. Importing them does not load torch.
"""

from __future__ import annotations

from rbench.api.doctor import Check, doctor
from rbench.api.results import load_results, table
from rbench.api.run import RunResult
from rbench.api.suites import Planned, attack, plan, run
from rbench.api.train import ListedObjective, Trained, export, objectives, train
from rbench.errors import PlanError
from rbench.plan.estimate import Estimate
from rbench.plan.prepare import Options
from rbench.storage.texts import strip
from rbench.storage.verify import verify

__all__ = [
    "Check",
    "Estimate",
    "ListedObjective",
    "Options",
    "PlanError",
    "Planned",
    "RunResult",
    "Trained",
    "attack",
    "doctor",
    "export",
    "load_results",
    "objectives",
    "plan",
    "run",
    "strip",
    "table",
    "train",
    "verify",
]
