"""Say in one paragraph what a reader of a table must know: n, seeds, resources, flags, and what is missing.

It is made for any table of a RUN, of a metric or of a measure, from the table's cells and the RUN's plan. The full
notes, one bullet each, are `Table.notes`; JSON always has them.
"""

from __future__ import annotations

from dataclasses import replace

from rbench.schema import Job, Plan
from rbench.store.job_status import Standing
from rbench.tables import draws
from rbench.tables.about import of_table
from rbench.tables.formats import listed
from rbench.tables.notes import seeds, spanned
from rbench.tables.results import Results
from rbench.tables.table import Table
from rbench.tables.titles import shown_parts, titles


def briefed(table: Table, results: Results, *, names: bool = False) -> Table:
    """Return the table with its notes in short, and with what its numbers are of.

    Args:
        names: whether flagged jobs are named as in commands instead of by titles.
    """
    plan = results.plan
    own = [job for job in plan.jobs if job.what == table.metric] if table.shows is not None else []
    jobs = own or [job for job in plan.jobs if job.attacking is not None]
    said = (
        *_sizes(table),
        *_seeds(plan, jobs),
        *_resources(jobs),
        *_flags(table, plan, {} if names else titles(plan)),
        *_missing(jobs, results.standing),
        *table.brief,
        "All notes: --notes full.",
    )
    return replace(table, brief=said, of=of_table(table, plan))


def _sizes(table: Table) -> list[str]:
    counts = [cell["n"] for cell in table.cells if cell.get("n") and "sets" not in cell]  # not those of averages
    errored = [cell["errored"] for cell in table.cells if cell.get("errored")]
    said = [f"n of a cell: {spanned(counts)}."] if counts else []
    late = [cell["timed_out"] for cell in table.cells if cell.get("timed_out")]
    more = f", of these timed out up to {max(late)}" if late else ""
    return said + ([f"Errored examples, in no denominator: up to {max(errored)} of a cell{more}."] if errored else [])


def _seeds(plan: Plan, jobs: list[Job]) -> list[str]:
    if not jobs:
        return []
    if plan.draws:
        trained = dict.fromkeys(plan.draw(job.parts[0]).train_seed for job in jobs)
        said = [f"Training seeds {', '.join(str(seed) for seed in trained if seed is not None)}."]
        tuned = "" if jobs[0].untuned else f"Fine-tuning: {seeds(jobs)[0].lower()}{seeds(jobs)[1:]}"
        return [*said, *([tuned] if tuned else []), draws.notes(plan, jobs)[-1]]
    return [] if jobs[0].untuned else [seeds(jobs)]


def _resources(jobs: list[Job]) -> list[str]:
    profiles = dict.fromkeys(job.attacking.resources.name for job in jobs if job.attacking is not None)
    return [f"Resources: {', '.join(profiles)}."] if profiles else []


def _flags(table: Table, plan: Plan, known: dict[str, str]) -> list[str]:
    parts = {job.name: job.parts for job in plan.jobs}
    raised: dict[str, dict[str, None]] = {}
    for flag in table.flags:
        job = flag["job"]  # or an encoder whose weights are given
        name = shown_parts(parts[job], known) if job in parts else known.get(job, job)
        raised.setdefault(flag["flag"], {})[name] = None
    return [f"Flagged {flag}: {listed(list(found))}." for flag, found in raised.items()]


def _missing(jobs: list[Job], found: Standing) -> list[str]:
    failed = sum(job.key in found.records and job.key not in found.done for job in jobs)
    damaged = sum(job.key in found.problems for job in jobs)
    waiting = sum(job.key not in found.records and job.key not in found.problems for job in jobs)
    counts = ((failed, "failed"), (damaged, "are damaged"), (waiting, "are not done"))
    said = ", ".join(f"{n} {what}" for n, what in counts if n)
    return [f"Of {len(jobs)} jobs {said}."] if said else []
