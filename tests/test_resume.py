"""Tests that a run that is killed and restarted gives the same tables as an uninterrupted run, byte for byte."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import chdir, suppress
from itertools import count
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api, mini
from rbench.cli import app, main
from rbench.execution import attacks
from rbench.execution import weights as stages
from rbench.execution.cluster import scheduler as board
from rbench.schema import AttackJob, Job, Outcome
from rbench.store.runs import PartialOutcomes, RunStore
from rbench.store.weights.inventory import list_items
from rbench.train.finetune import _tuning as tuning

SUITE = """\
name: small
encoders: [toy]
tasks: [mini-sentiment, mini-nli]
attacks: [{pwws: {max_words: 3}}, random]
seeds: [0, 1]
num_examples: {default: 8, mini-nli: 6}
evaluate: [test_accuracy: {max_rows: 40}]
resources: {set: mini, masked_lm: toy}
training: {max_train: 120, max_validation: 30, epochs: 1, learning_rate: 1.0e-3}
"""
ENCODER = """\
name: toy
architecture: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
train: {objective: mlm, data: mini-topic, steps: 10, learning_rate: 1.0e-3}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("resume")
    (place / "mine" / "encoders").mkdir(parents=True)
    (place / "mine" / "encoders" / "toy.yaml").write_text(ENCODER)
    (place / "small.yaml").write_text(SUITE)
    return place


def words(suite: str, out: str, *more: str) -> list[str]:
    return ["run", suite, "--include", "mine", "--out", out, "--device", "cpu", "--backend", "torch", *more]


FORK = multiprocessing.get_context("forkserver")
"""Starts processes that have imported PyTorch and TextAttack."""


def rows_in(cache: Path) -> None:
    """Put the generated rows that this process has into a cache: a new process would take seconds to make them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mini, "default_cache", lambda: cache)
        for name in ("mini-corpus", "mini-topic", "mini-sentiment", "mini-nli"):
            mini.read_or_make(name, lambda name=name: mini._rows_by_split(name))  # type: ignore[misc]
        mini.read_or_make("mini-sentiment-contrast", lambda: mini._contrast_rows("mini-sentiment"))


def command(place: Path, words: list[str], cache: str, at_once: bool) -> None:
    """The command `rbench`, unheard; with `at_once` the first checkpoint of a fine-tuning is complete."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["RBENCH_CACHE"] = str(place / cache)
    os.chdir(place)
    if at_once:
        tuning.AFTER = 0.0
    sys.argv = ["rbench", *words]
    main()


def start(
    place: Path, out: str, *, cache: str, workers: int = 1, suite: str = "small.yaml", at_once: bool = False
) -> ForkServerProcess:
    """Start `rbench run` in a process, which can be killed."""
    rows_in(place / cache)
    given = (place, words(suite, out, "--workers", str(workers)), cache, at_once)
    process = FORK.Process(target=command, args=given)
    process.start()
    return process


def run(place: Path, out: str, *more: str, cache: str = "cache", suite: str = "small.yaml") -> str:
    """Call `rbench run` to its end in this process, which has imported PyTorch already; returns what it prints."""
    with chdir(place):
        runner = CliRunner(env={"RBENCH_CACHE": str(place / cache)})
        result = runner.invoke(app, words(suite, out, "--workers", "1", *more))
    assert result.exit_code == 0, result.output
    return result.output


def tables(run: Path) -> dict[tuple[str, str, str], str]:
    wanted = [(metric, "paper", "json") for metric in ("asr", "oracle_asr", "queries")]
    wanted += [("asr", "full", "json"), ("asr", "paper", "markdown")]
    return {one: api.table(run, metric=one[0], layout=one[1], fmt=one[2], intervals=True) for one in wanted}


def outcomes(run: Path, job: Job) -> dict[str, Outcome]:
    """The outcomes of an attack by example, without the seconds that they took."""
    return {one.example_id: one.model_copy(update={"seconds": 0.0}) for one in RunStore(run).outcomes(job)}


@pytest.fixture(scope="module")
def whole(place: Path) -> Path:
    run(place, "whole")
    return place / "whole"


def outcome_lines(run: Path) -> int:
    return sum(len(file.read_bytes().splitlines()) for file in run.rglob("outcomes*.jsonl"))


def kill_amid(place: Path, words: list[str], cache: str, lines: int) -> None:
    """The command `rbench` in a process that is killed as soon as it has written so many outcomes."""
    append, written = PartialOutcomes.append, count(1)

    def counted(parts: PartialOutcomes, outcome: Outcome) -> None:
        append(parts, outcome)
        if next(written) == lines:
            os.kill(os.getpid(), signal.SIGKILL)

    PartialOutcomes.append = counted  # type: ignore[method-assign]
    command(place, words, cache, at_once=False)


def go_on(place: Path, out: str, cache: str, whole: Path) -> None:
    """Run the command of a killed run again: it keeps all outcomes, and ends as the whole run did."""
    before = {file: file.read_bytes() for file in (place / out).rglob("outcomes*.jsonl")}
    assert sum(map(len, before.values())), "there is something to keep"
    run(place, out, cache=cache)
    for file, content in before.items():  # nothing that was done is done again
        kept = content.split(b"\n")[:-1]
        assert {*kept} <= {*(file.parent / "outcomes.jsonl").read_bytes().split(b"\n")}
    assert tables(place / out) == tables(whole)
    plan = RunStore(whole).plan()
    assert plan is not None
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob):
            assert outcomes(place / out, job) == outcomes(whole, job)


def test_a_killed_run_ends_with_the_same_tables(place: Path, whole: Path) -> None:
    shutil.copytree(place / "cache", place / "killed-cache")  # as when another run made the victims
    rows_in(place / "killed-cache")
    lines = outcome_lines(whole) // 2 + 3  # amid an attack, with others before and after it
    given = (place, words("small.yaml", "killed", "--workers", "1"), "killed-cache", lines)
    process = FORK.Process(target=kill_amid, args=given)
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL and outcome_lines(place / "killed") == lines
    go_on(place, "killed", "killed-cache", whole)


@pytest.mark.nightly
def test_a_run_that_is_killed_while_it_trains_and_again_ends_with_the_same_tables(place: Path, whole: Path) -> None:
    out, cache = "killed-twice", "killed-twice-cache"
    rng = random.Random(7)  # random, and the same in every test run
    total = outcome_lines(whole)
    middle = rng.randrange(total // 4, total // 2)

    def training() -> bool:
        return any((place / cache).glob("checkpoints/*/run.json"))

    def attacking() -> bool:
        return outcome_lines(place / out) >= middle

    for workers, reached in ((1, training), (2, attacking)):
        process = start(place, out, cache=cache, workers=workers)
        deadline = time.monotonic() + 300
        while not reached() and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.kill()
        process.join()
        assert reached()
    go_on(place, out, cache, whole)


FEW = """\
name: few
encoders: [toy]
tasks: [mini-sentiment]
attacks: [random, {pwws: {max_words: 3}}]
num_examples: 24
resources: {set: mini, masked_lm: toy}
training: {max_train: 120, max_validation: 30, epochs: 1, learning_rate: 1.0e-3}
"""


TUNED_JOB = "finetune/toy/mini-sentiment/clean/seed0"


def one_of_three(place: Path, log: Path, killed_after: int | None) -> None:
    """Run the suite beside others, in chunks of four; `log` gets a line for each training and each outcome."""

    def noting(function: Callable[..., Any], what: Callable[..., str]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            done = function(*args)
            with log.open("a") as file:
                file.write(f"{what(*args)}\n")
            if killed_after is not None and len(log.read_text().splitlines()) >= killed_after:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return noted

    stages.pretrain = noting(stages.pretrain, lambda job, *rest: job.name)  # type: ignore[assignment]
    stages.finetune = noting(stages.finetune, lambda job, *rest: job.name)  # type: ignore[assignment]
    append = noting(PartialOutcomes.append, lambda parts, outcome: f"{parts._job.name} {outcome.example_id}")
    PartialOutcomes.append = append  # type: ignore[method-assign]
    board.CHUNK = attacks.CHUNK = 4  # type: ignore[attr-defined]
    os.environ["RBENCH_CACHE"] = str(place / "empty-cache")
    with chdir(place):
        result = api.run(
            "few.yaml", out="three", include="mine", device="cpu", backend="torch", workers=1, progress=False
        )
    assert not result.failed and not result.skipped, result


@pytest.mark.nightly
def test_three_processes_do_nothing_twice_and_lose_nothing_of_one_that_is_killed(place: Path) -> None:
    (place / "few.yaml").write_text(FEW)
    run(place, "one", suite="few.yaml")
    log = place / "log"
    rows_in(place / "empty-cache")
    processes = [FORK.Process(target=one_of_three, args=(place, log, 30 if i == 1 else None)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert sorted(process.exitcode or 0 for process in processes) in ([0, 0, 0], [-signal.SIGKILL, 0, 0])
    run(place, "three", suite="few.yaml", cache="empty-cache")  # what the killed one left, if the others had left too
    done = log.read_text().splitlines()
    assert len(done) == len({*done}), "no training and no attack is done twice"
    assert {line for line in done if " " not in line} == {"pretrain/toy/seed0", TUNED_JOB}
    assert sum(" " in line for line in done) >= 24, (
        "the last run attacks the chunks that the killed process held at most"
    )
    assert tables(place / "three") == tables(place / "one")


TUNED = """\
name: tuned
encoders: [toy]
tasks: [mini-sentiment]
evaluate: [contrast]
resources: mini
training: {max_train: 120, max_validation: 20, epochs: 4, batch_size: 4, learning_rate: 1.0e-3}
"""


def begun(kept: Path) -> bool:
    """Whether a fine-tuning has a checkpoint there."""
    with suppress(FileNotFoundError):
        return any(
            '"finetune/' in mark.read_text() and list(mark.parent.glob("checkpoint-*/trainer_state.json"))
            for mark in kept.glob("*/run.json")
        )
    return False


@pytest.mark.nightly
def test_a_killed_fine_tuning_goes_on_and_ends_with_the_same_weights(place: Path) -> None:
    (place / "tuned.yaml").write_text(TUNED)
    run(place, "tuned-whole", suite="tuned.yaml")
    (record,) = (record for record in RunStore(place / "tuned-whole").records() if record.job.stage == "pretrain")
    trained = Path("weights", record.job.key[:2], record.job.key)
    shutil.copytree(place / "cache" / trained, place / "third-cache" / trained)
    process = start(place, "tuned", cache="third-cache", suite="tuned.yaml", at_once=True)
    kept = place / "third-cache" / "checkpoints"
    deadline = time.monotonic() + 300
    while not begun(kept) and time.monotonic() < deadline:
        assert process.is_alive(), "it ended before it could be killed"
        time.sleep(0.005)
    process.kill()
    process.join()
    (listed,) = (item for item in list_items(place / "third-cache") if item.kind == "checkpoints")
    assert listed.name == TUNED_JOB
    run(place, "tuned", cache="third-cache", suite="tuned.yaml")
    first, second = (
        {r.job.key: (r.provenance.weights_hash, r.scores) for r in RunStore(run).records() if r.job.stage == "finetune"}
        for run in (place / "tuned-whole", place / "tuned")
    )
    assert first == second and list(first) == [listed.key]
    assert list(kept.iterdir()) == []


def test_the_same_command_again_runs_nothing(place: Path, whole: Path) -> None:
    records = {file: file.stat().st_mtime_ns for file in whole.rglob("record.json")}
    output = run(place, "whole")
    assert {file: file.stat().st_mtime_ns for file in whole.rglob("record.json")} == records
    assert "started" not in output


def test_jobs_of_an_earlier_suite_are_told(place: Path, whole: Path) -> None:
    shutil.copytree(whole, place / "fewer")
    others = sum(record.job.seed == 1 for record in RunStore(whole).records())
    said = f"{others} folders are of jobs that this suite does not have"
    output = run(place, "fewer", "--seed", "0")
    assert output.count(said) == 1 and "started" not in output
    assert "does not have: no table" not in run(place, "fewer", "--seed", "0", "-q")
    assert "does not have: no table" not in run(place, "whole")


def test_another_run_takes_its_victims_from_the_cache(place: Path, whole: Path) -> None:
    output = run(place, "again", "--only", "mini-nli/clean/random")
    assert re.search(r"finetune/toy/mini-nli/clean/seed0: .*cache", output)
    first, second = ({r.job.key: r for r in RunStore(run).records()} for run in (whole, place / "again"))
    jobs = [record.job for record in second.values()]
    assert sorted(job.stage for job in jobs) == ["attack"] * 2 + ["finetune"] * 2 + ["pretrain"]
    for job in jobs:
        if job.stage == "attack":
            assert outcomes(place / "again", job) == outcomes(whole, job)
        else:  # also the time at which they were made: they were not made again
            assert second[job.key].provenance == first[job.key].provenance


def test_seeds_move_the_victim_and_the_sample(whole: Path) -> None:
    frame = api.load_results(whole)
    one = frame[(frame.task == "mini-sentiment") & (frame.attack == "random")]
    samples = [set(group.example_id) for _, group in one.groupby("seed")]
    assert len(samples) == 2
    assert samples[0] != samples[1]
    hashes = [
        r.provenance.weights_hash for r in RunStore(whole).records() if r.job.name.startswith("finetune/toy/mini-s")
    ]
    assert len(set(hashes)) == 2


def test_max_words_holds(whole: Path) -> None:
    frame = api.load_results(whole)
    limited = frame[frame.attack == "pwws[max_words=3]"]
    assert len(limited)
    assert limited.num_words_changed.max() <= 3


def test_records_of_victims_and_attacks_have_their_health(whole: Path) -> None:
    store, asked = RunStore(whole), 0.0
    for record in store.records():
        assert record.health is not None or record.job.stage in ("pretrain", "measure")
        if isinstance(record.job.spec, AttackJob) and record.health is not None:
            outcomes = [one for one in store.outcomes(record.job) if one.words_asked is not None]
            assert {one.status for one in outcomes} <= {"succeeded", "failed"}
            assert record.health.values["words asked"] == sum(one.words_asked or 0 for one in outcomes)
            asked += record.health.values["words asked"]
        elif record.job.stage == "finetune" and record.health is not None:
            assert 1 / 3 <= record.health.values["majority share"] < 1
    assert asked > 100


def test_records_say_where_they_come_from(whole: Path) -> None:
    for record in RunStore(whole).records():
        source = record.provenance
        assert source.rbench
        assert source.packages["torch"]
        assert source.started
        assert source.dataset_fingerprint
        assert source.weights_hash
        if isinstance(record.job.spec, AttackJob):
            assert set(source.resources) <= set(record.job.spec.attack.needs)
        assert json.loads(record.model_dump_json())["schema_version"] == 1
