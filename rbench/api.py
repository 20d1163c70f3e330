"""The Python face of rbench: what the command line calls, and what a notebook may call.

import rbench
result = rbench.run("quickstart")
frame = rbench.load_results(result.run)   # one row an attacked example
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rbench import load as loading
from rbench import scratch, texts
from rbench.cache import WeightCache, default_cache
from rbench.errors import PlanError, RbenchError, ResourceError
from rbench.estimate import Estimate, estimate
from rbench.lineage import trained_root, weights_source
from rbench.plan import select
from rbench.prepare import Options, Prepared, prepare, prepare_loaded
from rbench.progress import Progress, Silent
from rbench.registry import Registry
from rbench.spec import (
    CONTRAST,
    AttackJob,
    Job,
    Metric,
    Outcome,
    Pick,
    Plan,
    Record,
    Strict,
)
from rbench.standing import Standing, errored, standing
from rbench.store import Store
from rbench.texts import strip
from rbench.training import Objective, Trained, export, objectives, train
from rbench.verify import verify

if TYPE_CHECKING:
    import pandas as pd

    from rbench.attack import Workers
    from rbench.stages import Context


@dataclass(frozen=True)
class Planned:
    """A suite, planned: its jobs, where they go, which are done, what the rest costs, and what a user should know."""

    plan: Plan
    jobs: tuple[Job, ...]
    """The jobs chosen by --only, in order; all of the plan without it."""
    run: Path
    done: frozenset[str]
    estimates: Mapping[str, Estimate]
    notes: list[str]


@dataclass(frozen=True)
class RunResult:
    """What a run came to. `failed` are the records of failed jobs, `skipped` the jobs that needed one of them."""

    run: Path
    complete: int
    failed: list[Record] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    errored: Mapping[str, int] = field(default_factory=dict)
    """Examples of complete jobs on which the attack raised, by the type of what it raised."""


class Check(Strict):
    """One line of `rbench doctor`: is it here, where, and if not how to get it. `ok` None: present but not verified."""

    kind: str
    name: str
    ok: bool | None
    where: str = ""
    remedy: str = ""


# ------------------------------------------------------------------------------------------------------------ verbs


def plan(suite: str | Path, options: Options | None = None) -> Planned:
    """The jobs of a suite, which of them are done, and what the others will cost. Trains and attacks nothing."""
    options = options or Options()
    prepared = prepare(suite, options)
    store = Store(prepared.run)
    jobs = select(prepared.plan, options.only)
    found = Standing({}, {}) if options.fresh else standing(store, prepared.plan)
    return Planned(
        plan=prepared.plan,
        jobs=jobs,
        run=prepared.run,
        done=found.done,
        estimates={job.key: cost for job in jobs if (cost := estimate(job, prepared)) is not None},
        notes=[*prepared.notes, *(found.problems[job.key] for job in jobs if job.key in found.problems)],
    )


def run(suite: str | Path, options: Options | None = None, *, progress: Progress | None = None) -> RunResult:
    """Run what is not done yet and return the suite's tables. The same call again resumes, also after a crash.

    Raises RbenchError before any work where the suite or a resource is wrong; a job that fails while running is
    recorded and listed in the result, and the jobs that do not need it go on.
    """
    options = options or Options()
    return run_prepared(prepare(suite, options), options, progress or Silent())


def _check_attacks(todo: list[Job]) -> None:
    """Recipe and parameter names, against TextAttack itself, before anything is trained."""
    specs = {job.parts[-1]: job.spec.attack for job in todo if isinstance(job.spec, AttackJob)}
    if specs:  # importing TextAttack takes seconds: not for a run that is done
        from rbench import attack

        for spec in specs.values():
            attack.check(spec)


def run_prepared(prepared: Prepared, options: Options, progress: Progress) -> RunResult:
    """`run` for a suite that is prepared already."""
    from rbench.stages import Context
    from rbench.train import reports

    store = Store(prepared.run)
    jobs = select(prepared.plan, options.only)
    with store.lock():
        prepared, found = _as_it_stands(store, prepared, options)
        cache = WeightCache(default_cache())
        if swept := cache.sweep():
            progress.note(f"removed what killed processes had left: {', '.join(map(str, swept))}")
        todo = _todo(jobs, found.done, cache)
        if not store.texts:
            texts.check(todo, prepared.plan)
        _check_attacks(todo)
        reports.check(options.report_to)
        device = _device(options.device) if todo else "cpu"
        if options.fresh and (moved := store.set_aside()) is not None:
            progress.note(f"the old results are in {moved}")
        store.write_plan(prepared.plan)
        problems = [found.problems[job.key] for job in jobs if job.key in found.problems]
        for note in (*prepared.notes, *problems, *texts.notes(prepared.plan)):
            progress.note(note)
        needed = (key for job in todo for key in (job.key, *job.needs))
        with cache.using(needed), _workers(todo, options, device, cache) as workers:
            context = Context(
                plan=prepared.plan,
                store=store,
                cache=cache,
                encoders=prepared.loaded.encoders,
                tasks=prepared.loaded.tasks,
                resources=prepared.loaded.resources,
                modules=prepared.loaded.modules,
                contrast=prepared.loaded.contrast,
                data_path=options.data,
                places=prepared.places,
                device=device,
                workers=workers,
                progress=progress,
                logs=options.logs or store.root / "logs",
                report_to=options.report_to,
            )
            failed, skipped = _finished(todo, context)
        tables = _write_tables(prepared)
    found = standing(store, prepared.plan)
    done = sum(job.key in found.done for job in jobs)
    return RunResult(prepared.run, done, failed, skipped, tables, errored(store, found, jobs))


def _as_it_stands(store: Store, prepared: Prepared, options: Options) -> tuple[Prepared, Standing]:
    """The suite with a plan that says whether the RUN keeps texts, and how its jobs stand; --fresh begins anew."""
    plan = prepared.plan
    store.texts = options.texts if options.fresh else texts.kept(store, plan, options.texts)
    found = Standing({}, {}) if options.fresh else standing(store, plan)
    for job in plan.jobs:
        if job.key in found.problems:
            store.check_owner(job)
    return dataclasses.replace(prepared, plan=plan.model_copy(update={"texts": store.texts})), found


def _finished(todo: list[Job], context: Context) -> tuple[list[Record], list[Job]]:
    """Run all jobs; the records of those that failed, and the jobs that needed one of them."""
    from rbench.executors import inline
    from rbench.stages import run_job

    number = {job.key: i + 1 for i, job in enumerate(todo)}

    def call(job: Job) -> Record:
        context.progress.start(job.name, number[job.key], len(todo))
        record = run_job(job, context)
        context.progress.finish(record.status)
        return record

    failed, skipped = [], []
    for job, record in inline.run(todo, call):
        if record is None:
            skipped.append(job)
        elif record.status == "failed":
            failed.append(record)
    return failed, skipped


@contextmanager
def _workers(todo: list[Job], options: Options, device: str, cache: WeightCache) -> Iterator[Workers | None]:
    """What runs attacks, if there are any to run."""
    largest = max((job.spec.num_examples for job in todo if isinstance(job.spec, AttackJob)), default=0)
    if not largest:
        yield None
        return
    from rbench import attack

    how = attack.How(device, options.backend, options.pooled, cache.root / "backends.json")
    with attack.Workers(options.workers or attack.sensible(device), how) as workers:
        workers.warm_up(largest)
        yield workers


def _write_tables(prepared: Prepared) -> list[str]:
    """The suite's tables in every format under RUN/tables; returned as markdown."""
    suite = prepared.plan.suite
    asked = {"sts": suite.evaluations, CONTRAST: prepared.loaded.contrast, "positives": suite.build}
    wanted_tables = [wanted for wanted in suite.tables if asked.get(wanted.metric, suite.attacks)]
    if not prepared.plan.texts:
        wanted_tables = [wanted for wanted in wanted_tables if not texts.shown_by(wanted)]
    if not wanted_tables:
        return []
    store, shown = Store(prepared.run), []
    for wanted in wanted_tables:
        name = wanted.metric if wanted.layout == "paper" else f"{wanted.metric}-{wanted.layout}"
        name += f"-picked-by-{wanted.pick}" if wanted.pick is not None else ""
        for fmt, ending in (("markdown", "md"), ("latex", "tex"), ("csv", "csv"), ("json", "json")):
            text = table(prepared.run, metric=wanted.metric, layout=wanted.layout, fmt=fmt, pick=wanted.pick)
            store.write_table(f"{name}.{ending}", text)
            if fmt == "markdown":
                shown.append(text)
    return shown


def _todo(jobs: tuple[Job, ...], done: Collection[str], cache: WeightCache) -> list[Job]:
    """Jobs that must run: those not done, and done ones whose weights another needs and the cache no longer has."""
    todo: dict[str, Job] = {}
    needed: set[str] = set()
    for job in reversed(jobs):
        makes_weights = job.stage in ("pretrain", "finetune")
        if job.key not in done or (makes_weights and job.key in needed and not cache.has(job.key)):
            todo[job.key] = job
            needed.update(job.needs)
    return [job for job in jobs if job.key in todo]


def _device(wanted: str) -> str:
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise ResourceError("--device cuda: torch sees no CUDA device here; use --device cpu, or install a CUDA torch")
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def table(
    run: Path,
    *,
    metric: Metric = "asr",
    layout: str = "paper",
    fmt: str = "markdown",
    intervals: bool = False,
    pick: Pick | None = None,
) -> str:
    """A table computed from the records of a RUN and from nothing else; see `rbench.tables.build`."""
    from rbench.tables import build
    from rbench.tables.formats import render

    return render(build(Store(run), metric, layout, pick), fmt, intervals=intervals)


def load_results(run: Path | str) -> pd.DataFrame:
    """One row an attacked example: encoder, finetune, task, attack, seed, and all fields of its outcome."""
    from rbench.tables import results_frame

    return results_frame(Store(Path(run)))


def attack(
    encoder: str,
    task: str,
    attack: str,
    n: int = 5,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Fine-tune (or take from the cache) one victim, attack `n` examples, and yield their outcomes.

    The outcomes go to a folder that is deleted afterwards; use a suite to keep results. Raises PlanError where texts
    are not to be kept, for they are what it shows.
    """
    options = options or Options()
    if not options.texts:
        raise PlanError("rbench attack shows texts, and none are to be kept; use rbench run --no-texts for numbers")
    registry = Registry(options.include)
    suite = {"name": "attack", "encoders": [encoder], "tasks": [task], "attacks": [attack], "num_examples": n}
    if task.startswith("mini-"):
        suite["resources"] = "mini"
    loaded = loading.load_mapping(suite, registry=registry, overrides=options.overrides, origin="rbench attack")
    with scratch.folder("attack") as folder:
        prepared = prepare_loaded(loaded, dataclasses.replace(options, out=folder))
        result = run_prepared(prepared, options, progress or Silent())
        outcomes = Store(folder).outcomes(prepared.plan.jobs[-1])
        if result.failed and len(outcomes) < n:  # a job that failed because examples errored has them all to show
            raise RbenchError(result.failed[0].error or f"{result.failed[0].job.name} failed")
        yield from outcomes


def doctor(options: Options | None = None) -> list[Check]:
    """Every resource profile, data set and encoder: present, where, or exactly how to get it."""
    from rbench import resources
    from rbench.encoders.locate import locate
    from rbench.tasks import locate_contrast, locate_task

    options = options or Options()
    registry = Registry(options.include)
    checks = [
        Check(kind=f"resources {name}", name=kind, ok=ok, where=where, remedy=remedy)
        for name in registry.names("resources")
        for kind, what, ok, where, remedy in resources.checks(loading.load_resources(name, registry), options.models)
    ]
    for name in registry.names("tasks"):
        try:
            where = locate_task(loading.load_task(name, registry), options.data)
            checks.append(Check(kind="task", name=name, ok=True, where=where))
        except ResourceError as error:
            checks.append(Check(kind="task", name=name, ok=False, remedy=str(error)))
    for name in registry.names("contrast"):
        try:
            where = locate_contrast(loading.load_contrast(name, registry), options.data)
            checks.append(Check(kind="contrast set", name=name, ok=True, where=where))
        except ResourceError as error:
            checks.append(Check(kind="contrast set", name=name, ok=False, remedy=str(error)))
    encoders = {name: loading.load_encoder(name, registry) for name in registry.names("encoders")}
    for name in encoders:
        source = weights_source(name, encoders)
        if source is None:
            checks.append(
                Check(kind="encoder", name=name, ok=True, where=f"trained by rbench ({trained_root(name, encoders)})")
            )
            continue
        try:
            checks.append(Check(kind="encoder", name=name, ok=True, where=str(locate(source, options.models).where)))
        except ResourceError as error:
            checks.append(Check(kind="encoder", name=name, ok=False, remedy=str(error)))
    return checks


__all__ = [
    "Check",
    "Estimate",
    "Objective",
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
