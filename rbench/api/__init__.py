"""Offer rbench from Python: the functions that the command line calls and that a notebook may call.

import rbench
result = rbench.run("quickstart")
result.frame   # one row per attacked example

Some functions have the name of their module (`train`, `doctor`, `status`): `rbench.api.train` is the function. This
module imports all of them, so that this holds in any order of imports. Importing them does not load torch.
"""

from __future__ import annotations

from rbench.api.attacking import attack_texts, textattack_wrapper
from rbench.api.doctor import Check, doctor
from rbench.api.evaluate import Evaluated, evaluate
from rbench.api.housekeeping import pack
from rbench.api.judge import Exported, Imported
from rbench.api.judge import export as judge_export
from rbench.api.judge import take as judge_import
from rbench.api.judging import (
    Case,
    Cases,
    baseline_notes,
    cases,
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
from rbench.api.ranking import RankResult, rank
from rbench.api.report import WrittenSite, figure, report, site, write_figure
from rbench.api.results import AttackResult, RunResult, write_textattack_csv
from rbench.api.runs import Merged, load_results, merge, table
from rbench.api.status import Status, Watcher, status
from rbench.api.suites import (
    BuiltSet,
    Cell,
    attack,
    build_adversarial,
    build_adversarial_from,
    check_conditions,
    classifier,
    plan,
    run,
)
from rbench.api.train import ListedObjective, Trained, export, load_encoder, objectives, train
from rbench.errors import PlanError
from rbench.execution.cluster.executor import Executor
from rbench.execution.forecast import Planned
from rbench.plan.prepare import Options
from rbench.plan.work import Estimate
from rbench.store.pack import PackedRun, unpack
from rbench.store.texts import strip
from rbench.store.verify import verify
from rbench.verdicts.check_reports import as_text as check_table
