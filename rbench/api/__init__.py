"""Offer rbench from Python: the functions that the command line calls and that a notebook may call.

import rbench
result = rbench.run("quickstart")
result.frame   # one row per attacked example

Some functions have the name of their module (`run`, `train`, `doctor`): `rbench.api.run` is the function. This module
imports all of them, so that this holds in any order of imports. Importing them does not load torch.
"""

from __future__ import annotations

from rbench.api.adversarial import BuiltSet, Cell, build_adversarial, build_adversarial_from
from rbench.api.attack_result import AttackResult
from rbench.api.attacking import attack_texts
from rbench.api.beside_paper import table_beside_paper
from rbench.api.cases import Case, Cases, cases
from rbench.api.claims import claims, claims_table, contradicted
from rbench.api.classifiers import classifier, classifier_name
from rbench.api.doctor import Check, doctor
from rbench.api.executor import Executor
from rbench.api.figures import figure, write_figure
from rbench.api.gate import (
    baseline_notes,
    check,
    check_annotations,
    check_conditions,
    check_table,
    conditions,
    met,
    write_baseline,
    write_reports,
)
from rbench.api.paper_claims import paper_claims, paper_claims_table
from rbench.api.report import report
from rbench.api.results import load_results, table
from rbench.api.run_result import RunResult
from rbench.api.runs import Merged, merge
from rbench.api.site import WrittenSite, site
from rbench.api.status import Status, Watcher, status
from rbench.api.suites import Planned, attack, plan, run
from rbench.api.textattack_log import write_textattack_csv
from rbench.api.train import ListedObjective, Trained, export, load_encoder, objectives, train
from rbench.api.verdicts import FellAlone, compare, comparison_table, fell_alone
from rbench.api.wrapping import textattack_wrapper
from rbench.errors import PlanError
from rbench.plan.estimate import Estimate
from rbench.plan.prepare import Options
from rbench.storage.texts import strip
from rbench.storage.verify import verify

__all__ = [
    "AttackResult",
    "BuiltSet",
    "Case",
    "Cases",
    "Cell",
    "Check",
    "Estimate",
    "Executor",
    "FellAlone",
    "ListedObjective",
    "Merged",
    "Options",
    "PlanError",
    "Planned",
    "RunResult",
    "Status",
    "Trained",
    "Watcher",
    "WrittenSite",
    "attack",
    "attack_texts",
    "baseline_notes",
    "build_adversarial",
    "build_adversarial_from",
    "cases",
    "check",
    "check_annotations",
    "check_conditions",
    "check_table",
    "claims",
    "claims_table",
    "classifier",
    "classifier_name",
    "compare",
    "comparison_table",
    "conditions",
    "contradicted",
    "doctor",
    "export",
    "fell_alone",
    "figure",
    "load_encoder",
    "load_results",
    "merge",
    "met",
    "objectives",
    "paper_claims",
    "paper_claims_table",
    "plan",
    "report",
    "run",
    "site",
    "status",
    "strip",
    "table",
    "table_beside_paper",
    "textattack_wrapper",
    "train",
    "verify",
    "write_baseline",
    "write_figure",
    "write_reports",
    "write_textattack_csv",
]
