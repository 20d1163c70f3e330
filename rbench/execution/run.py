"""Run the jobs of a prepared suite, beside other processes that run them in the same folder."""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rbench.errors import RbenchError, ResourceError, StoreError
from rbench.execution.cluster.membership import Member, identity_of
from rbench.execution.cluster.scheduler import JobBoard, WorkerGroup, name_processes, plan_digest, schedule_jobs
from rbench.execution.job import RunContext, run_job
from rbench.plan.order import select_jobs, short_names
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import AttackSpec, Job, Plan, Record, TaskSpec, VictimSpec
from rbench.store import texts
from rbench.store.job_status import JobStatuses, describe_leftovers, find_leftovers, load_statuses
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.system.processes import cores, limit_threads
from rbench.system.progress import Progress

if TYPE_CHECKING:
    from rbench.recipes import Workers


@dataclass(frozen=True)
class RunOutcome:
    """What became of the jobs of a RUN when this process has nothing more to do for them."""

    run: JoinedRun
    failed: list[Record] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    """The jobs that needed one that failed."""
    elsewhere: list[Job] = field(default_factory=list)
    """The jobs that other processes still run."""
    others: str = ""
    """What is left of these, and which processes have them, in words."""
    left: list[Job] = field(default_factory=list)
    """The jobs that nobody runs, because processes that this one started ended too early."""
    submitted: list[str] = field(default_factory=list)
    """The ids of the SLURM jobs that run the rest."""


@contextmanager
def ran(prepared: PreparedSuite, options: Options, progress: Progress) -> Iterator[RunOutcome]:
    """Run the jobs that are not done. In the block the process still belongs to the RUN, so that it can finish it."""
    with join_run(prepared, options, progress) as run:
        device = resolve_device(options.device) if run.todo else "cpu"
        log_jobs(run.todo, run.jobs, run.cache, device)
        needed = (key for job in run.todo for key in (job.key, *job.needs.values()))
        largest = max((job.attacking.num_examples for job in run.todo if job.attacking is not None), default=0)
        outcome, ended = RunOutcome(run), set[str]()
        # `using` keeps `rbench cache` from evicting weights that a later job of this run needs.
        with run.cache.using(needed), attack_workers(largest, options, device) as workers:
            run.team.member.about["workers"] = workers.count if workers is not None else 1
            if device == "cpu":
                _check_crowding(run.team, progress)
            for job, record in _run_available(run.todo, _build_context(run, device, workers, progress, options)):
                ended.add(job.key)
                if record is None:
                    outcome.skipped.append(job)
                elif record.status == "failed":
                    outcome.failed.append(record)
        outcome.elsewhere.extend(job for job in run.todo if job.key not in ended)
        yield dataclasses.replace(outcome, others=_describe_others(run, outcome.elsewhere) if outcome.elsewhere else "")


def _describe_others(run: JoinedRun, elsewhere: list[Job]) -> str:
    """Say how many examples are left of jobs that this process does not do, and who has them."""
    attacks = [(job, job.attacking.num_examples) for job in elsewhere if job.attacking is not None]
    examples = sum(count for _, count in attacks)
    left = examples - sum(min(count, len(run.store.outcomes(job))) for job, count in attacks)
    holders = {name for job in elsewhere for name in run.team.holders(job).values()}
    living = [member for member in run.team.members.living() if member["id"] in holders]
    remaining = f" ({left} of {examples} examples to attack are left)" if examples else ""
    return (
        f"{remaining}: {name_processes(living)} has {elsewhere[0].name}{', ...' * (len(elsewhere) > 1)}"
        if living
        else remaining
    )


@dataclass(frozen=True)
class JoinedRun:
    """A RUN that this process has joined: what it holds, and what is to do."""

    prepared: PreparedSuite
    store: RunStore
    team: WorkerGroup
    cache: WeightCache
    jobs: tuple[Job, ...]
    """The jobs that --only selects."""
    todo: list[Job]


@contextmanager
def join_run(prepared: PreparedSuite, options: Options, progress: Progress) -> Iterator[JoinedRun]:
    """Join the RUN of a prepared suite while the block lasts. What cannot run is refused before the block begins."""
    store, team = RunStore(prepared.run), WorkerGroup(prepared.run)
    for foreign in store.foreign(store.folder(job) for job in prepared.plan.jobs):
        raise StoreError(foreign)
    jobs = select_jobs(prepared.plan, options.only)
    log_inputs(prepared)
    preparation = _RunPreparation(store, prepared, options, progress, team.others)
    # The checks come after joining: from here on nobody else can begin another plan in this folder.
    with team.joined(preparation.prepare):
        prepared = preparation.prepared
        statuses = load_statuses(store, prepared.plan)
        if statuses.mixed:
            raise StoreError(
                "\n".join(statuses.problems[job.key] for job in prepared.plan.jobs if job.key in statuses.mixed)
            )
        _check_endpoints(prepared, statuses)
        for job in prepared.plan.jobs:
            if job.key in statuses.problems:
                store.check_owner(job)
        cache = WeightCache(default_cache())
        if swept := cache.sweep():
            progress.note(f"removed what killed processes had left: {', '.join(map(str, swept))}")
        todo = _select_todo(jobs, statuses.done, cache)
        if not store.texts:
            texts.check_no_texts_needed(todo)
        check_attacks(todo)
        if options.report_to:
            from rbench.train.loop import check_trackers

            check_trackers(options.report_to)
        for note in (*prepared.notes, *_folder_notes(prepared, jobs, store, statuses)):
            progress.note(note)
        yield JoinedRun(prepared, store, team, cache, jobs, todo)


def _check_endpoints(prepared: PreparedSuite, statuses: JobStatuses) -> None:
    """Raise StoreError where results of a RUN are of other weights than an encoder's endpoint has now."""
    signatures: dict[str, tuple[float, ...]] = {}
    for name, spec in prepared.loaded.encoders.items():
        if spec.endpoint is not None:
            from rbench.encoders.asked_vectors import probe_signature

            signatures[name] = probe_signature(spec.endpoint)
    for job in prepared.plan.jobs if signatures else ():
        record, encoder = statuses.records.get(job.key), job.parts[0]
        if record is not None and record.provenance.other_weights(signatures.get(encoder, ())):
            raise StoreError(
                f"{job.name} in this RUN is of other weights than those that the endpoint of {encoder} has now: fixed "
                "texts have other vectors. Give the endpoint another `version` to measure what is there now, or name "
                "another --out"
            )


def _folder_notes(
    prepared: PreparedSuite, jobs: tuple[Job, ...], store: RunStore, statuses: JobStatuses
) -> Iterator[str]:
    """Say what is found in the folder of a RUN that is joined."""
    yield from (statuses.problems[job.key] for job in jobs if job.key in statuses.problems)
    if count := len(find_leftovers(store, prepared.plan)):
        yield describe_leftovers(store.root, count)
    yield from texts.describe_left_out(prepared.plan)
    yield from note_changed_answers(prepared, store)


@dataclass
class _RunPreparation:
    """Prepares the folder of a RUN while no other process can join it (`WorkerGroup.join`)."""

    store: RunStore
    prepared: PreparedSuite
    options: Options
    progress: Progress
    surely_living: Callable[[], list[dict[str, Any]]]
    """Returns those of the others that surely live (`WorkerGroup.others`). It may take two minutes."""

    def prepare(self, others: list[dict[str, Any]]) -> Plan:
        """Write the plan, unless others run it already. Raises StoreError if they run another one."""
        store, options, plan = self.store, self.options, self.prepared.plan
        store.texts = options.texts if options.fresh else texts.keeps_texts(store, plan, options.texts)
        plan = plan.model_copy(update={"texts": store.texts})
        # Only then: it may wait two minutes for a sign of life, to tell a process that died from one that is silent.
        if options.fresh or options.retry_timeouts or _runs_another_plan(others, plan):
            others = others and self.surely_living()
        if others and options.fresh:
            raise StoreError(
                f"{store.root} is in use by {name_processes(others)}. --fresh would take away what it works on."
            )
        if _runs_another_plan(others, plan):
            raise StoreError(
                f"{store.root} is in use by {name_processes(others)}, which runs another plan there (another suite, "
                "--limit, --set, data or weights). Wait for it or choose another --out."
            )
        if options.fresh and (moved := store.set_aside()) is not None:
            self.progress.note(f"the old results are in {moved}")
        if others:
            self.progress.note(f"{store.root} is shared with {name_processes(others)}")
        else:
            store.write_plan(plan)
            store.note_suite(self.prepared.loaded.path)
        if options.retry_timeouts:
            self._retry_timeouts(plan, others)
        self.prepared = dataclasses.replace(self.prepared, plan=plan)
        return plan

    def _retry_timeouts(self, plan: Plan, others: list[dict[str, Any]]) -> None:
        """Have examples that timed out attacked again. The first process does it for those that come later."""
        if others:
            self.progress.note("--retry-timeouts: the first process here decided what is tried again")
            return
        from rbench.store import timeouts  # for --retry-timeouts alone

        for note in timeouts.forget_timed_out(self.store, plan, select_jobs(plan, self.options.only)):
            self.progress.note(note)


def _runs_another_plan(others: list[dict[str, Any]], plan: Plan) -> bool:
    return bool({member["plan"] for member in others} - {plan_digest(plan)})


def _build_context(
    run: JoinedRun, device: str, workers: Workers | None, progress: Progress, options: Options
) -> RunContext:
    prepared, loaded = run.prepared, run.prepared.loaded
    return RunContext(
        **loaded.named,
        plan=prepared.plan,
        store=run.store,
        team=run.team,
        cache=run.cache,
        modules=loaded.modules,
        rows=prepared.rows,
        places=prepared.places,
        device=device,
        workers=workers,
        progress=StatusProgress(progress, run.team.member),
        logs=options.logs or run.store.root / "logs",
        report_to=options.report_to,
    )


def _check_crowding(team: WorkerGroup, progress: Progress) -> None:
    """Tell other processes how many threads this one has, and the user if those of this machine are too many."""
    threads = team.member.about["threads"] = limit_threads()
    others = [member for member in team.members.living() if "plan" in member and member["id"] != team.member.id]
    if warning := crowding_warning(others, threads, cores()):
        progress.note(warning)


def _run_available(todo: list[Job], context: RunContext) -> Iterator[tuple[Job, Record | None]]:
    """Run all jobs that no other process runs, and yield each that ends as `scheduler.schedule_jobs` does."""
    positions = {job.key: i + 1 for i, job in enumerate(todo)}
    titles = short_names(todo)
    board = JobBoard(context.team, context.store, context.cache, todo)
    run_here: set[str] = set()

    def call(job: Job) -> Record | None:
        context.progress.start(titles[job.key], positions[job.key], len(todo))
        record = run_job(job, context)
        if record is None:
            board.nothing_left(job)
            context.progress.finish("others do the rest")
        else:
            run_here.add(job.key)
            context.progress.finish(record.status)
        return record

    for job, record in schedule_jobs(todo, board, call):
        if record is not None and job.key not in run_here:
            context.progress.note(f"{titles[job.key]}: {record.status}, by another process")
        yield job, record


@contextmanager
def attack_workers(examples: int, options: Options, device: str) -> Iterator[Workers | None]:
    """Yield the workers that attack so many examples at once; None if there are none to attack."""
    if not examples:
        yield None
        return
    from rbench.recipes import EngineConfig, sensible
    from rbench.recipes import Workers as Processes

    config = EngineConfig(
        device, options.backend, options.pooled, default_cache() / "backends.json", options.max_seconds
    )
    with Processes(options.workers or sensible(device), config) as workers:
        workers.warm_up(examples)
        yield workers


def _select_todo(jobs: tuple[Job, ...], done: Collection[str], cache: WeightCache) -> list[Job]:
    """Select the jobs that must run: those not done, and done ones whose weights are needed and no longer cached."""
    todo: dict[str, Job] = {}
    needed: set[str] = set()
    # Backwards, because a training is only needed again if a later job that uses its weights is to run.
    for job in reversed(jobs):
        makes_weights = job.stage in ("pretrain", "finetune")
        if job.key not in done or (makes_weights and job.key in needed and not cache.has(job.key)):
            todo[job.key] = job
            needed.update(job.needs.values())
    return [job for job in jobs if job.key in todo]


def check_device(wanted: str) -> None:
    """Refuse `cuda` where there is no such device, before anything is read or downloaded. Raises ResourceError."""
    if wanted == "cuda":  # alone, so that nothing else waits for the import of torch
        resolve_device(wanted)


def resolve_device(wanted: str) -> str:
    """Return the device that `wanted` means. Raises ResourceError for cuda where there is none."""
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise ResourceError("--device cuda: torch sees no CUDA device here; use --device cpu, or install a CUDA torch")
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


def check_attacks(jobs: Iterable[Job], *, set_by_suite: bool = False) -> None:
    """Check the attacks of `jobs` before anything is trained.

    Args:
        set_by_suite: check only recipes of which the suite sets a parameter, so that planning waits for TextAttack's
            import, which takes seconds, only where a mistake is likely. A run checks the others before it trains.

    Raises:
        SuiteError: as `rbench.recipes.check`.
    """
    chosen: dict[str, AttackSpec] = {}  # many jobs have the same attack
    for job in jobs:
        if job.attacking is not None and (not set_by_suite or _sets_a_parameter(job, job.attacking.attack)):
            chosen.setdefault(job.attacking.attack.model_dump_json(), job.attacking.attack)
    if chosen:
        from rbench.recipes import check

        for spec in chosen.values():
            check(spec)


def _sets_a_parameter(job: Job, attack: AttackSpec) -> bool:
    """Whether a job's name has a parameter of its recipe, as in pwws[GreedyWordSwapWIR.wir_method=delete]."""
    return attack.recipe is not None and any(name in job.name for name in attack.parameters)


MAX_ASKED_TEXTS = 32
"""Most texts that a victim is asked for again, of each task."""

Text = tuple[str, ...]


def note_changed_answers(prepared: PreparedSuite, store: RunStore) -> list[str]:
    """Return a note on each function or endpoint that gives other labels than it gave to texts of stored outcomes."""
    notes = []
    for name, spec in prepared.loaded.victims.items():
        for task in prepared.loaded.tasks.values() if spec.origin != "model" else ():
            known_labels = dict(_known_answers(prepared, store, name, task))
            chosen = random.Random(0).sample(sorted(known_labels), min(MAX_ASKED_TEXTS, len(known_labels)))
            if chosen and (note := _differing_answers(spec, task, {text: known_labels[text] for text in chosen})):
                notes.append(note)
    return notes


def _known_answers(prepared: PreparedSuite, store: RunStore, name: str, task: TaskSpec) -> Iterator[tuple[Text, int]]:
    """Yield texts of stored outcomes, before and after their attacks, with the label ids that the victim gave."""
    for job in prepared.plan.jobs:
        if job.attacking is None or job.parts[0] != name or job.attacking.task.name != task.name:
            continue
        try:
            outcomes = [*store.outcomes(job)]
        except (RbenchError, OSError):
            continue  # the run says what is damaged
        for outcome in outcomes:
            for text, label in (
                (outcome.original, outcome.original_prediction),
                (outcome.perturbed, outcome.perturbed_prediction),
            ):
                if text is not None and label is not None:
                    yield text, label


def _differing_answers(spec: VictimSpec, task: TaskSpec, known_labels: dict[Text, int]) -> str | None:
    # These ask functions and endpoints; a run of encoders has none.
    from rbench.errors import AnswerError
    from rbench.victims.answers import quote_text
    from rbench.victims.remote_classifier import open_answers

    try:
        rows = open_answers(spec, task).each([*known_labels])
    except RbenchError as error:
        return str(error)
    changed = [
        (text, label, int(row.argmax()))
        for (text, label), row in zip(known_labels.items(), rows, strict=True)
        if not isinstance(row, AnswerError) and row.max() - row[label] > spec.tolerance
    ]
    if not changed:
        return None
    text, before, now = changed[0]
    return (
        f"victim {spec.name} gave other labels to {len(changed)} of {len(known_labels)} texts of stored outcomes, such "
        f"as {quote_text(text)}: {task.labels[before]} then, {task.labels[now]} now. So another model stands behind "
        f"`version: {spec.version}`, and stored outcomes are not its own: write another `version`, and run again"
    )


logger = logging.getLogger("rbench")


def log_inputs(prepared: PreparedSuite) -> None:
    """Log the suite's file, and every place of data, weights and resources with its fingerprint."""
    logger.info("suite %s: %s", prepared.plan.suite.name, prepared.loaded.path or "given without a file")
    for name, data in prepared.data.items():
        logger.info("task %s: %s, %s", name, data.origin, data.fingerprint[:12])
    for name, place in prepared.places.weights.items():
        logger.info("weights of %s: %s, %s", name, place.where, place.fingerprint[:12])
    for kind, place in prepared.places.resources.items():
        logger.info("%s: %s, %s", kind, place.where, place.fingerprint[:12])


def log_jobs(todo: Collection[Job], planned: Collection[Job], cache: WeightCache, device: str) -> None:
    """Log which jobs run, and which of them find their weights in the cache."""
    logger.info("%d of %d jobs are to do, on %s; the cache is %s", len(todo), len(planned), device, cache.root)
    for job in todo:
        known = ", weights in the cache" if cache.seems_to_have(job.key) else ""
        logger.debug("to do: %s, key %s%s", job.name, job.key[:12], known)


def crowding_warning(others: Sequence[dict[str, Any]], threads: int, cores: int) -> str | None:
    """Return a warning if this process and the others here have more threads than cores; None if they have not.

    Threads of two trainings that wait for one core wait for each other at every product of matrices, so both may take
    several times as long.

    Args:
        others: what the other processes of the RUN say of themselves. Those on other machines do not count. One that
            has not said how many threads it has counts as having as many as this one.
        threads: those that this process computes with.
        cores: those of this machine.
    """
    identities = [(member, identity_of(member)) for member in others]
    here = [member for member, identity in identities if identity is not None and identity.is_here]
    taken = sum(member.get("threads", threads) for member in here)
    if not here or taken + threads <= cores:
        return None
    count = len(here) + 1
    if count > cores:
        remedy = f"Start at most {cores} here, each with OMP_NUM_THREADS=1"
    else:
        remedy = f"Start each with OMP_NUM_THREADS={cores // count}"
    return (
        f"{count} processes of this run share the {_count_of(cores, 'core')} of this machine and compute with "
        f"{_count_of(taken + threads, 'thread')}. That may make all of them several times slower. {remedy}, or start "
        f"one command with --processes {min(count, cores)}, which divides the cores."
    )


def _count_of(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


class StatusProgress:
    """A `Progress` that passes everything to `inner`, and writes it to the heartbeat that `rbench status` reads."""

    def __init__(self, inner: Progress, member: Member) -> None:
        self._shown, self._member = inner, member

    def start(self, name: str, index: int, count: int) -> None:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        self._member.publish(now=True, job=name, since=since, done=0, total=0)
        self._shown.start(name, index, count)

    def update(self, done: int, total: int, text: str = "") -> None:
        self._member.publish(done=done, total=total)
        self._shown.update(done, total, text)

    def finish(self, status: str) -> None:
        self._member.publish(job=None)
        self._shown.finish(status)

    def note(self, text: str) -> None:
        self._shown.note(text)
