"""Make RUNs without texts, because licences forbid passing on many texts. Scores do not need the texts.

A RUN without texts is started with `rbench run --no-texts` or copied from another RUN with `rbench pack --no-texts`.
Its outcomes have neither the original nor the perturbed text, and an error is only the exception's type. Nothing else
differs. Its plan says so, and a run that resumes it writes no texts either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import get_args

from rbench.errors import PlanError, StoreError
from rbench.schema import Job, Plan, TableSpec
from rbench.schema.common import Stored
from rbench.store.runs import RunStore
from rbench.store.runs.files import grow_folder, path_beside
from rbench.store.runs.packed import name_of_run

_TEXTS_METRIC = "positives"
"""The metric whose table shows texts. The tables of all other metrics show numbers."""
_OUTCOMES = re.compile(r"outcomes.*\.jsonl")


def keeps_texts(store: RunStore, plan: Plan, wanted: bool) -> bool:
    """Whether the RUN in `store` keeps texts: as when it was started, or as `wanted` if it has no results yet.

    Raises StoreError if no texts are wanted but the RUN has some.
    """
    stored_plan = None
    with suppress(StoreError):  # a damaged plan is replaced, and the records say whether there are texts
        stored_plan = store.plan()
    if stored_plan is not None and not stored_plan.texts:
        return False
    if stored_plan is None and any(
        record.outcomes is not None and not record.outcomes.texts for record in store.records(plan)
    ):
        return False
    if not wanted and any(_OUTCOMES.fullmatch(path.name) for _, path in store.stage_files()):
        raise StoreError(
            f"{store.root} has outcomes with texts, so --no-texts cannot resume it. Resume it without --no-texts and "
            "make a copy without texts, rbench pack RUN --no-texts; or choose another --out."
        )
    return wanted


def check_no_texts_needed(jobs: Iterable[Job]) -> None:
    """Raise PlanError if a job that is to run needs the texts of another job, which the RUN would not keep."""
    for job in jobs:
        if "attack" in job.needs or (job.measuring is not None and job.measuring.attack is not None):
            raise PlanError(
                f"{job.name} needs the texts that an attack made, and this RUN keeps no texts. Run the suite in "
                "another --out without --no-texts, and make a copy without texts afterwards, which keeps what was "
                "measured: rbench pack RUN --no-texts."
            )


def shows_texts(table: TableSpec) -> bool:
    """Whether a table shows texts."""
    return table.metric == _TEXTS_METRIC and table.layout == "paper"


def describe_left_out(plan: Plan) -> list[str]:
    """Name the tables of the suite that a RUN without texts leaves out."""
    missing = not plan.texts and any(shows_texts(table) for table in plan.suite.tables)
    return [f"the table {_TEXTS_METRIC} shows texts, which this RUN does not keep: it is left out"] if missing else []


def strip(run: Path, out: Path | None = None) -> Path:
    """Copy a RUN without its texts; return the copy's folder, `out` or RUN-stripped. The RUN itself is not changed.

    Copies the plan, the records of its jobs, outcomes, predictions and rows, and what people said. The copy gets its
    name once it is complete. Until then it lies beside, and is removed if anything goes wrong.

    Raises StoreError if `run` is not a RUN, something in it is damaged, or `out` is inside it, not empty or a file.
    """
    source = RunStore(run)
    plan = source.existing_plan()
    out = out if out is not None else path_beside(run, f"{name_of_run(run)}-stripped")
    if out.resolve().is_relative_to(run.resolve()):
        raise StoreError(f"{out} lies in the RUN, which is not to be changed. Choose another --out.")
    problems = list[str]()
    for job in plan.jobs:
        job_problems = [source.look(job).problem, *(read.damage for read in source.reads(job))]
        problems += [problem for problem in job_problems if problem][:1]
    if problems:
        raise StoreError("\n".join([*problems, "Run the suite again, and strip the RUN then."]))
    with grow_folder(out) as unfinished:
        stripped = RunStore(unfinished, texts=False)
        stripped.write_plan(plan.model_copy(update={"texts": False}))
        for job in plan.jobs:
            record = source.record(job)
            digests = {
                name: getattr(stripped, f"write_{name}")(job, lines)
                for name in get_args(Stored)
                if (lines := getattr(source, name)(job))
            }
            if record is not None:
                # Lines without texts have other digests. Those of a job under way are in no record.
                stated_digests = {name: digest for name, digest in digests.items() if getattr(record, name) is not None}
                stripped.write_record(record.model_copy(update=stated_digests))
        from rbench.store import judged

        judgements = judged.read_judgements(source)
        if judgements is not None:
            judged.write_judgements(stripped, judgements)
    return out
