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
    from rbench.api.best_known import best
    from rbench.api.building import BuiltSet, Cell, build_adversarial, build_adversarial_from
    from rbench.api.choosing import ORDER, Chosen
    from rbench.api.diagnosing import Check, doctor, fix
    from rbench.api.evaluating import Evaluated, evaluate
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
    from rbench.api.runs import Merged, load_results, merge, table
    from rbench.api.sites import WrittenSite, site
    from rbench.api.strict import verify_strictly
    from rbench.api.suites import run
    from rbench.api.training import ListedObjective, Trained, export, load_encoder, objectives, train
    from rbench.api.watching import Status, Watcher, status
    from rbench.errors import PlanError
    from rbench.execution.cluster.executor import Executor
    from rbench.execution.forecast import Planned
    from rbench.gate.reports import as_text as check_table
    from rbench.plan.prepare import Options
    from rbench.plan.work import Estimate
    from rbench.store.pack import PackedRun, unpack
    from rbench.store.texts import strip
    from rbench.store.verify import verify

_NAMES = {
    "api.attacking": "attack attack_texts classifier textattack_wrapper",
    "api.best_known": "best",
    "api.building": "BuiltSet Cell build_adversarial build_adversarial_from",
    "api.choosing": "ORDER Chosen",
    "api.diagnosing": "Check doctor fix",
    "api.evaluating": "Evaluated evaluate",
    "api.housekeeping": "Gathered gather pack",
    "api.judge": "Exported Imported judge_export judge_import",
    "api.judging": "Case Cases baseline_notes cases cases_of check check_annotations claims claims_table compare "
    "comparison_table conditions met paper_claims paper_claims_table write_baseline write_reports",
    "api.planning": "check_conditions plan",
    "api.proxies": "AskedProxy ask_proxy",
    "api.ranking": "RankResult rank",
    "api.reporting": "figure report write_figure",
    "api.results": "AttackResult RunResult write_textattack_csv",
    "api.runs": "Merged load_results merge table",
    "api.sites": "WrittenSite site",
    "api.strict": "verify_strictly",
    "api.suites": "run",
    "api.training": "ListedObjective Trained export load_encoder objectives train",
    "api.watching": "Status Watcher status",
    "errors": "PlanError",
    "execution.cluster.executor": "Executor",
    "execution.forecast": "Planned",
    "gate.reports": "check_table",
    "plan.prepare": "Options",
    "plan.work": "Estimate",
    "store.pack": "PackedRun unpack",
    "store.texts": "strip",
    "store.verify": "verify",
}
"""The names above, by the module that has them, seen from `rbench`."""
_THERE = {"check_table": "as_text", "judge_export": "export", "judge_import": "take"}
"""The names that are other ones in their modules."""
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    """Import the module of a name. The name stays here afterwards, so this is called once for each."""
    if name not in _WHERE:
        raise AttributeError(f"module 'rbench.api' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"rbench.{_WHERE[name]}"), _THERE.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_WHERE)
