"""Checks whether a RUN may stand on a leaderboard: `rbench verify --strict`.

A sound RUN (`store.verify`) is refused if a reader of a table could not know what its numbers are of, or nobody else
could check them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import rbench
from rbench.api.runs import build_table
from rbench.errors import RbenchError
from rbench.schema import Flag
from rbench.store.runs import RunStore
from rbench.store.runs.packed import name_of_run
from rbench.store.runs.store import folder_path
from rbench.store.verify import Finding, VerifyReport, verify
from rbench.tables import Results
from rbench.tables.formats import list_names

LEAST = 30
"""Attacked examples: with fewer an interval spans a third of the scale."""


def verify_strictly(run: Path | str) -> VerifyReport:
    """Check a RUN as `verify` does, and that it may stand on a leaderboard.

    It may not if a job is not done, a folder belongs to no job, records come from several versions of rbench or a newer
    one, a text is kept, fewer than LEAST examples are attacked, an entry is flagged that is no control, or a table of
    the suite cannot be made of it. Each is damage here, with what to do.

    Raises StoreError if `run` is not a RUN or its plan is damaged.
    """
    verified = verify(run)
    findings = [replace(finding, damage=True, refused=not finding.damage) for finding in verified.findings]
    if not verified.damaged:
        store = RunStore(folder_path(run))
        findings += [
            Finding(f"{store.root}: {obstacle}", refused=True) for obstacle in _find_obstacles(store, verified)
        ]
    return replace(verified, findings=tuple(findings))


def _find_obstacles(store: RunStore, verified: VerifyReport) -> Iterator[str]:
    results = Results.of(store)
    plan, records = results.plan, results.standing.records
    if left := verified.counts["not done"]:
        yield f"{left} of {len(plan.jobs)} jobs are not done. The same rbench run makes them."
    versions = sorted({record.provenance.rbench for record in records.values()})
    if versions != [rbench.__version__] and records:
        yield (
            f"its records come from rbench {' and '.join(versions)}, and this is {rbench.__version__}. Run the suite "
            "in a new folder with one version, and verify it with the same."
        )
    if any(record.outcomes is not None and record.outcomes.texts for record in records.values()):
        yield "it keeps texts, which not all licences let you pass on. rbench pack RUN --no-texts leaves them out."
    few = {job.attacking.num_examples for job in plan.attacks if job.attacking is not None}
    if few and min(few) < LEAST:
        yield f"it attacks {min(few)} examples, and fewer than {LEAST} tell little. Raise num_examples."
    yield from _flagged_jobs(results)
    yield from _broken_tables(results)
    if not store.root.is_file():
        yield f"it is a folder. rbench pack {store.root} writes {name_of_run(store.root)}.zip, which is verified alike."


def _flagged_jobs(results: Results) -> Iterator[str]:
    """Name the jobs that are flagged and do not stand on a control."""
    flags = results.flags
    by_flag: dict[Flag, list[str]] = {}
    for job in results.plan.jobs:
        behind = flags.jobs_behind([job])
        if not any(one.entry is not None and one.entry.control for one in behind):
            for flag in flags.of([job]):
                by_flag.setdefault(flag, []).append(job.name)
    for raised, names in by_flag.items():
        yield f"flagged {raised}: {list_names(names)}. docs/health.md says what to change."


def _broken_tables(results: Results) -> Iterator[str]:
    """Name the tables of the suite that cannot be made."""
    for wanted in results.plan.suite.tables:
        try:
            build_table(results, wanted)
        except RbenchError as error:
            yield f"the table {wanted.label} cannot be made: {error}"
