"""Plan and run suites from Python, attack a few examples to look at, and build adversarial sets."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench import config as loading
from rbench.api import call_options
from rbench.api.results import RunResult, result_of, run_prepared
from rbench.config.claims import missing
from rbench.config.metrics import Metrics
from rbench.config.registry import Registry
from rbench.config.victims import FUNCTION, named_by_file
from rbench.errors import PlanError, RbenchError, StoreError, SuiteError
from rbench.execution.cluster.executor import Executor, executor_of
from rbench.execution.forecast import Planned, ahead
from rbench.execution.publish.adversarial import Made, check_place, write
from rbench.execution.run import check_attacks
from rbench.execution.spread import Request, check, spread, told_apart
from rbench.plan.occupied import check_same_suite
from rbench.plan.order import select
from rbench.plan.prepare import Options, Prepared, prepare_loaded
from rbench.plan.work import estimate
from rbench.schema import Job, NumExamples, Outcome, Plan, SetFile, Suite
from rbench.schema.unlisted import known_as, short_name
from rbench.store.job_status import Standing, standing
from rbench.store.runs import Store
from rbench.store.weights import WeightCache, default_cache
from rbench.system import scratch
from rbench.system.progress import Progress, Silent, shown
from rbench.tables.results import Results, plan_of
from rbench.tasks.adversarial import Only
from rbench.verdicts.cells import Cells

if TYPE_CHECKING:
    from rbench.verdicts.fail_if import Condition


def plan(suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None, **settings: Any) -> Planned:
    """Plan a suite: its jobs, which of them are done, and what the others will cost. Trains and attacks nothing.

    The arguments are those of `run`.
    """
    options = call_options.options_of(options, settings)
    prepared = _prepared(suite, options)
    store = Store(prepared.run)
    jobs = select(prepared.plan, options.only)
    found = Standing({}, {}) if options.fresh else standing(store, prepared.plan)
    check_attacks((job for job in jobs if job.key not in found.done), set_by_suite=True)
    cache = WeightCache(default_cache())
    return Planned(
        plan=prepared.plan,
        jobs=jobs,
        run=prepared.run,
        done=found.done,
        estimates={job.key: cost for job in jobs if (cost := estimate(job, prepared)) is not None},
        notes=[*prepared.notes, *(found.problems[job.key] for job in jobs if job.key in found.problems)],
        cached=frozenset(job.key for job in jobs if job.key not in found.done and cache.seems_to_have(job.key)),
        prepared=prepared,
    )


def run(
    suite: str | Path | Mapping[str, Any] | Suite,
    options: Options | None = None,
    *,
    executor: str | Executor | Mapping[str, Any] | None = "inline",
    progress: Progress | bool = True,
    **settings: Any,
) -> RunResult:
    """Run the jobs of a suite that are not done, and return its results. The same call resumes, also after a crash.

    Args:
        suite: a name such as "quickstart", the path of a YAML file, or what such a file would hold: a mapping like
            {"encoders": ["mini-bert"], "tasks": ["mini-sentiment"], "attacks": ["pwws"]}, or a `Suite`. The default
            of the key `name` is the name of the folder `out`, or else "suite".
        options: how to run it; None: the defaults, and the search paths of RBENCH_DATA, RBENCH_MODELS, RBENCH_INCLUDE.
        executor: "inline" runs the jobs in this process. "local", "slurm" and "ray" start processes that do; an
            `rbench.api.Executor`, or a mapping of its fields, says more.
        progress: True shows it: below a notebook's cell, as bars on a terminal, elsewhere as lines on standard error.
            False shows nothing. A `rbench.system.progress.Progress` receives it.
        settings: single fields of `Options`, such as out="RUN", limit=20, device="cuda", profile="local", workers=4.

    Raises RbenchError before any work if the suite, an option or a resource is wrong. A job that fails while running is
    recorded and listed in the result, and the jobs that do not need it still run.
    """
    options = call_options.options_of(options, settings)
    where = executor_of(executor)
    with shown(progress) as receiver:
        if where.kind != "inline":
            check(where)
            prepared = _prepared(suite, options)
            content = call_options.content(suite, prepared.plan.suite.name)
            return result_of(spread(content, prepared, options, where, receiver), options, receiver, report=True)
        return run_prepared(_prepared(suite, options), options, receiver, report=True)


def check_conditions(
    wanted: Sequence[Condition], suite: str | Path | Mapping[str, Any] | Suite, options: Options | None = None
) -> None:
    """Raise SuiteError where a suite has no cells that conditions are about, before it runs."""
    if not wanted:
        return
    options = options or Options()
    ground = Cells(Results.planned(plan(suite, options).plan, Metrics(Registry(options.include)))).ground
    for one in wanted:
        if (why := missing(one.metric.name, ground)) is not None:
            raise SuiteError(f"--fail-if {str(one)!r}: {why}")


def _prepared(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite for its RUN. Raises PlanError where its folder holds a RUN of another suite."""
    prepared = prepared_for(suite, options)
    if not options.fresh:
        check_same_suite(prepared.run, prepared.loaded.suite.name)
        if options.out is None:  # who names a folder has decided
            Store(prepared.run).check_suite(prepared.loaded.path)
    return prepared


def prepared_for(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite that a call names or gives."""
    return prepare_loaded(call_options.loaded(suite, options), options)


def work(request: Request, progress: Progress) -> RunResult:
    """Run the suite beside the other processes. Raises PlanError if it has another plan on this machine."""
    prepared = prepared_for(request.suite, request.options)
    if told_apart(prepared.plan) != request.plan:
        raise PlanError(
            f"{prepared.run}: the plan is another one on this machine. Give all machines the same data, weights "
            "and versions of rbench and its packages; `rbench doctor SUITE` says on each what it finds where."
        )
    return run_prepared(prepared, request.options, progress, report=request.report)


def attack(
    encoder: str | None,
    task: str | Mapping[str, Any],
    attack: str,
    n: int = 5,
    options: Options | None = None,
    *,
    classifier: Entry | None = None,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Fine-tune (or take from the cache) one victim, attack `n` examples, and yield their outcomes.

    `task` is written as in a suite: a name, the path of a table, or `{"my.csv": {"text": "review", "label": "stars"}}`.
    `encoder` is a name of the registry, a folder (`./mine`, or its path), or a hub id (`OWNER/NAME`). With `classifier`
    in its place, which is an entry under `victims` of a suite, nothing is fine-tuned. What is trained first, and about
    how long that takes, is a note of `progress`.

    The outcomes go to a folder that is deleted afterwards; use a suite to keep results. Raises PlanError if
    `options.texts` is false, because the texts are what it shows.
    """
    options = options or Options()
    if not options.texts:
        raise PlanError("rbench attack shows texts, so --no-texts does not apply; use rbench run --no-texts for scores")
    registry = Registry(options.include)
    victims: dict[str, Any] = {"victims": [classifier]} if classifier is not None else {"encoders": [encoder]}
    suite = {"name": "attack", **victims, "tasks": [task], "attacks": [attack], "num_examples": n}
    if isinstance(task, str) and task.startswith("mini-"):
        suite["resources"] = "mini"
    loaded = loading.load_mapping(
        call_options.plain(suite), registry=registry, overrides=options.overrides, origin="rbench attack"
    )
    with scratch.folder("attack") as folder:
        prepared = prepare_loaded(loaded, dataclasses.replace(options, out=folder))
        cache = WeightCache(default_cache())
        if progress is not None and (note := ahead(prepared, cache)) is not None:
            progress.note(note)
        result = run_prepared(prepared, options, progress or Silent())
        outcomes = Store(folder).outcomes(prepared.plan.jobs[-1])
        if result.failed and len(outcomes) < n:  # a job that failed because examples errored still has all outcomes
            raise RbenchError(result.failed[0].error or f"{result.failed[0].job.name} failed")
        yield from outcomes


_NAMED = 6
"""How many attacks a message lists. It counts the others."""


@dataclass(frozen=True)
class Cell:
    """What names one attack of a RUN. None: whatever there is, if it is one."""

    encoder: str | None = None
    """A name or label; or a folder or hub id, for an encoder without a file."""
    task: str | None = None
    attack: str | None = None
    finetune: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class BuiltSet:
    """A set that was written."""

    folder: Path
    run: Path
    """The RUN whose outcomes it holds."""
    about: SetFile


def build_adversarial(
    cell: Cell,
    folder: Path,
    options: Options | None = None,
    *,
    num_examples: NumExamples = 1000,
    resources: str | None = None,
    only: Only = "all",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> BuiltSet:
    """Fine-tune one victim, attack it, and write the attacked texts as a set; the cell names encoder, task and attack.

    The outcomes stay in the RUN `options.out`, by default `results/runs/adversarial-ENCODER-TASK-ATTACK`, so that the
    same call goes on where an earlier one was interrupted.

    Raises:
        RbenchError: before any work if a name, a resource or `folder` is wrong; later if the attack failed.
    """
    options = options or Options()
    if not options.texts:
        raise PlanError("an adversarial set is made of texts, so its RUN must keep them: leave --no-texts out")
    check_place(folder, overwrite=overwrite)
    suite = _suite(cell, num_examples, resources)
    registry = Registry(options.include)
    loaded = loading.load_mapping(
        suite, registry=registry, overrides=options.overrides, origin="rbench build adversarial"
    )
    prepared = prepare_loaded(loaded, dataclasses.replace(options, only=()))
    result = run_prepared(prepared, options, progress or Silent())
    if result.failed:
        raise RbenchError(f"{result.failed[0].job.name} failed: {result.failed[0].error}")
    return build_adversarial_from(result.run, folder, Cell(), only=only, overwrite=overwrite)


def build_adversarial_from(
    run: Path, folder: Path, cell: Cell, *, only: Only = "all", overwrite: bool = False
) -> BuiltSet:
    """Write a set from the stored outcomes of a RUN.

    Raises:
        StoreError: `run` is not a RUN or keeps no texts, `cell` names none of its attacks or several, or the attack is
            not finished.
        PlanError: `folder` is not empty, or there is nothing to write.
    """
    check_place(folder, overwrite=overwrite)
    plan = plan_of(store := Store(run))
    if not plan.texts:
        raise StoreError(
            f"{run} keeps no texts, and a set is made of them: it was run with --no-texts, or rbench strip made it. "
            "Use the RUN from which it was copied, or run the suite into another --out without --no-texts."
        )
    job = _chosen(plan, cell, run)
    record = store.record(job)
    if record is None or record.status != "complete":
        raise StoreError(_unfinished(store, plan, job, failed=record is not None))
    outcomes = store.outcomes(job)
    made = Made(job, record, plan.job(job.needs["victim"]), outcomes, only)
    return BuiltSet(folder, run, write(made, folder, overwrite=overwrite))


def _suite(cell: Cell, num_examples: NumExamples, resources: str | None) -> dict[str, Any]:
    encoder = str(cell.encoder)
    named = (short_name(encoder) if "/" in encoder else encoder, cell.task, cell.attack)
    suite: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(("adversarial", *map(str, named)))),
        "encoders": [cell.encoder],
        "tasks": [cell.task],
        "attacks": [cell.attack],
        "seeds": [cell.seed or 0],
        "num_examples": num_examples,
    }
    if cell.finetune is not None:
        suite["finetune"] = [cell.finetune]
    if resources is not None:
        suite["resources"] = resources
    elif str(cell.task).startswith("mini-"):
        suite["resources"] = "mini"
    return suite


def _chosen(plan: Plan, cell: Cell, run: Path) -> Job:
    """Return the one attack on test texts that `cell` names."""
    attacks = [job for job in plan.jobs if job.attacking is not None and job.attacking.split == "test"]
    encoder = cell.encoder and known_as(cell.encoder, {job.parts[0] for job in attacks})
    wanted = (encoder, cell.task, cell.finetune, cell.attack, cell.seed)
    found = [
        job for job in attacks if all(w in (None, own) for w, own in zip(wanted, (*job.parts, job.seed), strict=True))
    ]
    if len(found) == 1:
        return found[0]
    if not attacks:
        raise StoreError(
            f"{run} has no attacks, of whose outcomes a set is made: suite {plan.suite.name} asks for none"
        )
    listed = found or attacks
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    names = ", ".join(job.name for job in listed[:_NAMED]) + more
    if not found:
        raise StoreError(f"{run} has no such attack. It has {names}.")
    ways = ("encoder", "task", "finetune", "attack", "seed")
    differ = [f"--{way}" for i, way in enumerate(ways) if len({(*job.parts, job.seed)[i] for job in found}) > 1]
    raise StoreError(f"{run} has {len(found)} such attacks: {names}. Choose one with {', '.join(differ)}.")


def _unfinished(store: Store, plan: Plan, job: Job, *, failed: bool) -> str:
    """Say that an attack is not finished, and which command finishes it."""
    assert job.attacking is not None
    there, wanted, suite = len(store.outcomes(job)), job.attacking.num_examples, plan.suite.name
    root = store.root.resolve().name
    profile = root.removeprefix(f"{suite}-") if root.startswith(f"{suite}-") else None
    words = ["rbench", "run", suite, *(["--profile", profile] if profile else [])]
    command = shlex.join([*words, "--out", str(store.root), "--only", job.name])
    return (
        f"{job.name} {'failed' if failed else 'is not finished'}: {there} of {wanted} examples have outcomes. A set is "
        f"made of a finished attack. This finishes it (with the --profile, --set, --data and --models of the first "
        f"run): {command}"
    )


Entry = str | Mapping[str, Any]
"""An entry under `victims` of a suite."""


def classifier(where: str, labels: str | None, registry: Registry) -> Entry:
    """Return what a suite has under `victims` for a classifier of the command line.

    Args:
        where: a folder, a hub id, `module:function`, an address, a file of the kind `victims` by name, or such a file's
            path.
        labels: `theirs=ours,...`, what the classifier's labels mean; None: they are matched by name.

    Raises:
        SuiteError: `labels` has another form, or goes with a file, which says what its labels mean; or a function is
            named by its file.
    """
    if (by_file := named_by_file(where)) is not None:
        raise SuiteError(f"--classifier {by_file}")
    file = where in registry.names("victims") or where.endswith((".yaml", ".yml"))
    if file and labels is not None:
        raise SuiteError(f"--label-map: {where} is a victim's file; write `labels:` there")
    if file:
        return where
    entry: dict[str, Any] = {"model": where}
    if where.startswith(("http://", "https://")):
        entry = {"endpoint": {"url": where}, "version": "command line"}
    elif FUNCTION.fullmatch(where) and not Path(where).exists():
        entry = {"function": where, "version": "command line"}
    return {**entry, **({"labels": _map(labels)} if labels is not None else {})}


def _map(labels: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in labels.split(",")]
    wrong = [
        part for part, (theirs, equals, ours) in zip(labels.split(","), pairs, strict=True) if not (theirs and ours)
    ]
    if wrong:
        raise SuiteError(f"--label-map {labels}: expected THEIRS=OURS,..., such as LABEL_0=negative,LABEL_1=positive")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}
