"""Tests that processes which share the attacks of a RUN do each example once, and make what one process makes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.errors import LeaseLost
from rbench.execution import attacks as attacking
from rbench.execution.attacks import OutcomeWriter
from rbench.execution.cluster import scheduler as boards
from rbench.execution.cluster.scheduler import JobBoard, WorkerGroup, schedule_jobs
from rbench.execution.job import run_job
from rbench.schema import Choice, Job, Outcome, Plan, Provenance, Record, Suite
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache
from rbench.system.one_slot_cache import OneSlotCache
from rbench.tasks import Example
from tests.store.builders import make_job

CHUNK, N = 4, 30
SUITE = Suite(name="s", encoders=("minilm",), tasks=("mr",), attacks=(Choice(name="pwws"),))
EXAMPLES = [Example(f"test:{i}", ("a film " * (1 + i % 3),), i % 2) for i in range(N)]


def attack_job(name: str) -> Job:
    job = make_job(name)
    return Job.make(job.spec.model_copy(update={"num_examples": N}), job.parts, job.needs, job.seed)


JOBS = tuple(attack_job(name) for name in ("pwws", "bae"))
PLAN = Plan(suite=SUITE, jobs=JOBS)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "CHUNK", CHUNK)
    monkeypatch.setattr("rbench.execution.attacks.CHUNK", CHUNK)
    monkeypatch.setattr(boards, "PAUSE", 0.01)


class Notes:
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def context(root: Path, team: WorkerGroup) -> Any:
    return SimpleNamespace(store=RunStore(root), team=team, progress=Notes())


def outcome(example: Example, job: Job, **changes: Any) -> Outcome:
    status = "failed" if int(example.id[5:]) % 3 else "succeeded"
    made = {"example_id": example.id, "status": status, "original": example.texts, "label": example.label, **changes}
    return Outcome(**made)


def work(root: Path, log: Path | None = None, wait: float = 0.0, processes: int = 1, stuck: int = 10**9) -> list[str]:
    """Be one process that runs the plan. Each attack is a line in `log`. Returns the names of the jobs that ended.

    Nobody makes a second attack before all `processes` have made their first, so that a late one finds work left.
    With `stuck` attacks in the log this process works at its next one for ever.
    """
    team, store = WorkerGroup(root), RunStore(root)
    with team.joined(lambda others: PLAN):
        board = JobBoard(team, store, WeightCache(root / "cache"), JOBS)

        def call(job: Job) -> Record | None:
            cell = OutcomeWriter(job, EXAMPLES, context(root, team))
            for example in cell.examples():
                time.sleep(wait)
                while log is not None and log.exists() and len(attacks(log)) >= stuck:
                    time.sleep(1)
                cell.append(outcome(example, job))
                if log is not None:
                    with log.open("a") as file:
                        file.write(f"{os.getpid()} {job.parts[-1]} {example.id}\n")
                    while len({line.split()[0] for line in log.read_text().splitlines()}) < processes:
                        time.sleep(0.002)
            kept = cell.complete
            if kept is None or team.take(job) is None:
                board.nothing_left(job)
                cell.close()
                return None
            record = Record(job=job, status="complete", provenance=Provenance(rbench="0"), outcomes=cell.merge(kept))
            team.check(job)
            store.write_record(record)
            return record

        return [job.name for job, _ in schedule_jobs(JOBS, board, call)]


def content(root: Path) -> dict[str, bytes]:
    """All that a RUN has of its jobs."""
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted((root / "attack").rglob("*.*"))}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, bytes]]:
    root = tmp_path_factory.mktemp("alone")
    assert work(root) == [job.name for job in JOBS]
    yield content(root)


def test_the_outcomes_are_those_of_the_sample_in_its_order(alone: dict[str, bytes], tmp_path: Path) -> None:
    work(tmp_path)
    assert sorted(Path(name).name for name in alone) == ["outcomes.jsonl"] * 2 + ["record.json"] * 2
    for job in JOBS:
        assert RunStore(tmp_path).outcomes(job) == [outcome(example, job) for example in EXAMPLES]
        assert RunStore(tmp_path).record(job) is not None


def together(root: Path, log: Path, stuck: tuple[int, ...] = (10**9,) * 3) -> list[Any]:
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=work, args=(root, log, 0.004, 3, each), daemon=True) for each in stuck]
    for process in processes:
        process.start()
    return processes


def attacks(log: Path) -> list[tuple[str, str]]:
    return [(attack, example) for _, attack, example in map(str.split, log.read_text().splitlines())]


def test_three_processes_attack_each_example_once(alone: dict[str, bytes], tmp_path: Path) -> None:
    root, log = tmp_path / "run", tmp_path / "log"
    processes = together(root, log)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert content(root) == alone
    assert len(attacks(log)) == len({*attacks(log)}) == 2 * N
    by_process = Counter((line.split()[0], line.split()[1]) for line in log.read_text().splitlines())
    assert len(by_process) > 2, "at least one attack was shared"
    assert [*(root / ".processes" / "members").iterdir()] == []


def test_what_a_killed_process_wrote_counts(alone: dict[str, bytes], tmp_path: Path) -> None:
    root, log = tmp_path / "run", tmp_path / "log"
    processes = together(root, log, (10**9, 20, 10**9))
    while not log.exists() or len(attacks(log)) < 20:
        time.sleep(0.002)
    time.sleep(0.01)  # the one that is killed has begun an attack
    processes[1].kill()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, -signal.SIGKILL, 0]
    work(root, log)  # as `rbench run` again; where the others had left, it finishes what is missing
    assert content(root) == alone
    assert 2 * N <= len(attacks(log)) + 1 <= 2 * N + 1, "one outcome at most was written and not logged"
    assert len(attacks(log)) == len({*attacks(log)})


def test_a_stopped_process_writes_nothing_more(tmp_path: Path) -> None:
    job, team = JOBS[0], WorkerGroup(tmp_path)
    with team.joined(lambda others: PLAN):
        cell = OutcomeWriter(job, EXAMPLES, context(tmp_path, team))
        examples = cell.examples()
        cell.append(outcome(next(examples), job))
        before = RunStore(tmp_path).outcomes(job)
        (lease,) = team._leases.held_leases(job.key[:16])
        lease.file.with_name(f"{lease.file.stem}.{lease.number + 1}").write_text('{"holder": "another"}')
        team.member._longest = 1000.0
        with pytest.raises(LeaseLost):
            cell.append(outcome(next(examples), job))
        assert RunStore(tmp_path).outcomes(job) == before and len(before) == 1
        cell.close()


def errored(example: Example) -> Outcome:
    return outcome(example, JOBS[0], status="errored", error="ValueError: x")


def test_errored_examples_are_tried_again_by_the_next_run_and_by_nobody_meanwhile(tmp_path: Path) -> None:
    job, first, second = JOBS[0], WorkerGroup(tmp_path), WorkerGroup(tmp_path)
    with first.joined(lambda others: PLAN):
        cell = OutcomeWriter(job, EXAMPLES, context(tmp_path, first))
        examples = cell.examples()
        tried = [next(examples) for _ in range(CHUNK)]
        for example in tried:
            cell.append(errored(example))
        with second.joined(lambda others: PLAN):
            beside = OutcomeWriter(job, EXAMPLES, context(tmp_path, second))
            assert {one.id for one in tried} <= beside.outcomes.keys()
        assert {one.id for one in tried} <= OutcomeWriter(job, EXAMPLES, context(tmp_path, first)).outcomes.keys()
        cell.close()
    with second.joined(lambda others: PLAN):
        told = context(tmp_path, second)
        again = OutcomeWriter(job, EXAMPLES, told)
        assert again.outcomes == {}
        assert told.progress.said == [f"{job.name}: {CHUNK} of its examples errored and are attacked again"]
        assert {one.id for one in tried} <= {one.id for one in again.examples()}


def test_an_outcome_is_kept_whatever_else_was_tried(tmp_path: Path) -> None:
    job, store = JOBS[0], RunStore(tmp_path)
    store.write_outcomes(job, [errored(EXAMPLES[0]), outcome(EXAMPLES[1], job)])
    team = WorkerGroup(tmp_path)
    with team.joined(lambda others: PLAN):
        cell = OutcomeWriter(job, EXAMPLES, context(tmp_path, team))
        assert cell.outcomes == {EXAMPLES[1].id: outcome(EXAMPLES[1], job)}
        cell.append(outcome(EXAMPLES[0], job))
        cell.close()
    assert {one.status for one in store.outcomes(job)} <= {"failed", "succeeded"}
    assert len(store.outcomes(job)) == 2


# ------------------------------------------------------------------------------------------ jobs that kill processes


def deadly_work(root: Path, deadly: str) -> None:
    """Be one process of the plan, in which an example of the first attack ends whoever attacks it."""

    def attack(job: Job, spec: Any, context: Any, source: Any) -> Record | None:
        cell = OutcomeWriter(job, EXAMPLES, context)
        for example in cell.examples():
            if (job, example.id) == (JOBS[0], deadly):
                os._exit(137)  # as the kernel does, if memory runs out
            cell.append(outcome(example, job))
        cell.close()
        kept = cell.complete
        if kept is None or context.team.take(job) is None:
            return None
        return Record(job=job, status="complete", provenance=source(), outcomes=cell.merge(kept))

    team, store = WorkerGroup(root), RunStore(root)
    with team.joined(lambda others: PLAN):
        board = JobBoard(team, store, WeightCache(root / "cache"), JOBS)
        attacking.attack = attack
        told = SimpleNamespace(store=store, team=team, progress=Notes(), device="cpu", network=OneSlotCache())
        for _ in schedule_jobs(JOBS, board, lambda job: run_job(job, told)):
            pass


def test_a_job_that_kills_its_processes_fails_and_the_run_goes_on(alone: dict[str, bytes], tmp_path: Path) -> None:
    fork, codes = multiprocessing.get_context("fork"), []
    while 0 not in codes and len(codes) < 20:
        process = fork.Process(target=deadly_work, args=(tmp_path, EXAMPLES[6].id))
        process.start()
        process.join(60)
        codes.append(process.exitcode)
    assert codes == [137] * 5 + [0], "the first one got further, four did not"
    failed, complete = (RunStore(tmp_path).look(job).record for job in JOBS)
    assert failed is not None and failed.status == "failed" and complete is not None and complete.status == "complete"
    assert str(failed.error).startswith("4 processes died while they worked on examples 5 to 8, one after the other")
    kept = {one.example_id for one in RunStore(tmp_path).outcomes(JOBS[0])}
    assert kept >= {one.id for one in EXAMPLES[: CHUNK + 2]} and EXAMPLES[6].id not in kept, (
        "what was done before counts"
    )


def test_kills_that_hit_other_chunks_or_come_after_outcomes_fail_nothing(tmp_path: Path) -> None:
    for n in range(12):
        team = WorkerGroup(tmp_path)
        team.member.write_heartbeat()
        cell = OutcomeWriter(JOBS[0], EXAMPLES, context(tmp_path, team))
        cell.append(outcome(next(cell.examples()), JOBS[0]))
        cell.close()
        assert len(OutcomeWriter(JOBS[0], EXAMPLES, context(tmp_path, team)).outcomes) == n + 1
        team.member.file.unlink()


def test_after_two_deaths_examples_are_attacked_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, told = JOBS[0], []

    def run(task: Any, examples: Any, left: int, *, apart: bool) -> Iterator[Outcome]:
        told.append(apart)
        return iter(())

    checked = SimpleNamespace(hashes=lambda *arguments: {}, check=lambda: None)
    monkeypatch.setattr(attacking, "JobInputs", lambda job, context: checked)
    monkeypatch.setattr(attacking, "victim_hash", lambda inputs: "")
    monkeypatch.setattr(attacking, "_build_attack_task", lambda *arguments: None)
    for _ in range(4):
        team = WorkerGroup(tmp_path)
        team.member.write_heartbeat()
        here = context(tmp_path, team)
        here.data = lambda *arguments: SimpleNamespace(split=lambda name: EXAMPLES)
        here.workers = SimpleNamespace(run=run)
        here.progress.update = lambda *arguments: None
        assert attacking.attack(job, job.spec, here, None) is None  # type: ignore[arg-type]
        next(OutcomeWriter(job, EXAMPLES, here).examples())
        team.member.file.unlink()
    assert told == [False, False, True, True]
