"""Offer rbench from Python: the functions that the command line calls and that a notebook may call.

import rbench
result = rbench.run("quickstart")
result.frame   # one row per attacked example

Each name is imported from its module when it is first used, so that a run does not import what checks baselines or
writes sites. No module here has the name of a function, so `rbench.api.train` is always the function. Importing them
does not load torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rbench.api.attacking import attack, attack_texts, classifier, textattack_wrapper
    from rbench.api.auditing import audit_log
    from rbench.api.best_known import best
    from rbench.api.building import AttackSelection, BuiltSet, build_adversarial, build_adversarial_from
    from rbench.api.choosing import ORDER, Chosen
    from rbench.api.diagnosing import Check, doctor, fix
    from rbench.api.encoder_watch import check_encoder, write_encoder_baseline
    from rbench.api.evaluating import Evaluated, evaluate
    from rbench.api.gating import gate
    from rbench.api.housekeeping import Gathered, gather, pack
    from rbench.api.judge import Exported, Imported
    from rbench.api.judge import export as judge_export
    from rbench.api.judge import take as judge_import
    from rbench.api.judging import (
        Case,
        Cases,
        baseline_notes,
        cases,
        cases_of,
        check,
        check_annotations,
        claims,
        claims_table,
        compare,
        comparison_table,
        conditions,
        met,
        paper_claims,
        paper_claims_table,
        write_baseline,
        write_reports,
    )
    from rbench.api.planning import check_conditions, plan
    from rbench.api.proxies import AskedProxy, ask_proxy
    from rbench.api.ranking import RankResult, rank
    from rbench.api.reporting import figure, report, write_figure
    from rbench.api.results import AttackResult, RunResult, write_textattack_csv
    from rbench.api.runs import Merged, load_results, merge, table, write_mteb_results
    from rbench.api.scoring import compare_scores
    from rbench.api.sites import WrittenSite, site
    from rbench.api.strict import verify_strictly
    from rbench.api.suites import run
    from rbench.api.training import ListedObjective, Trained, export, load_encoder, objectives, train
    from rbench.api.watching import Status, Watcher, status
    from rbench.errors import PlanError
    from rbench.execution.cluster.executor import Executor
    from rbench.execution.forecast import Planned
    from rbench.gate.reports import as_text as check_table
    from rbench.gate.vector_check import describe_variation
    from rbench.plan.prepare import Options
    from rbench.plan.work import Estimate
    from rbench.store.pack import PackedRun, unpack
    from rbench.store.texts import strip
    from rbench.store.verify import verify

_NAMES = {
    "api.attacking": "attack attack_texts classifier textattack_wrapper",
    "api.auditing": "audit_log",
    "api.best_known": "best",
    "api.building": "AttackSelection BuiltSet build_adversarial build_adversarial_from",
    "api.choosing": "ORDER Chosen",
    "api.diagnosing": "Check doctor fix",
    "api.encoder_watch": "check_encoder write_encoder_baseline",
    "api.evaluating": "Evaluated evaluate",
    "api.gating": "gate",
    "api.housekeeping": "Gathered gather pack",
    "api.judge": "Exported Imported judge_export judge_import",
    "api.judging": "Case Cases baseline_notes cases cases_of check check_annotations claims claims_table compare "
    "comparison_table conditions met paper_claims paper_claims_table write_baseline write_reports",
    "api.planning": "check_conditions plan",
    "api.proxies": "AskedProxy ask_proxy",
    "api.ranking": "RankResult rank",
    "api.reporting": "figure report write_figure",
    "api.results": "AttackResult RunResult write_textattack_csv",
    "api.runs": "Merged load_results merge table write_mteb_results",
    "api.scoring": "compare_scores",
    "api.sites": "WrittenSite site",
    "api.strict": "verify_strictly",
    "api.suites": "run",
    "api.training": "ListedObjective Trained export load_encoder objectives train",
    "api.watching": "Status Watcher status",
    "errors": "PlanError",
    "execution.cluster.executor": "Executor",
    "execution.forecast": "Planned",
    "gate.reports": "check_table",
    "gate.vector_check": "describe_variation",
    "plan.prepare": "Options",
    "plan.work": "Estimate",
    "store.pack": "PackedRun unpack",
    "store.texts": "strip",
    "store.verify": "verify",
}
"""The names above, by the module that has them, seen from `rbench`."""
_NAME_IN_MODULE = {"check_table": "as_text", "judge_export": "export", "judge_import": "take"}
"""The names that are other ones in their modules."""
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    """Import the module of a name. The name stays here afterwards, so this is called once for each."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rbench.api' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rbench.{_MODULE_OF[name]}"), _NAME_IN_MODULE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
