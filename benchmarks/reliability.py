"""Measure what is lost, repeated or different when processes, disks and clocks fail while a suite runs.

    python benchmarks/reliability.py [--runs 5] [--only SCENARIO ...] [--minutes 50]

Each run of a scenario starts `rbench run` on a small suite of the embedded world, in one process or several, breaks
something, and repeats the command until the RUN is complete. benchmarks/results/reliability.json gets a row for each
scenario, summed over its runs:

    runs        how often it was tried
    lost        outcomes that were in the files when something broke, and are not in the end
    repeated    trainings and outcomes that were stored twice
    different   runs whose tables, outcomes or scores differ from those of one process that nothing disturbs
    crashes     processes that ended otherwise than they should: 0, and 1 or 2 where nothing can be written
    tracebacks  processes that printed a Python traceback

A row is written after each run. The same command goes on with the scenarios that have fewer runs than `--runs`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "reliability.json"
FIELDS = ("runs", "lost", "repeated", "different", "crashes", "tracebacks")
LONGEST = 600.0
"""Seconds after which a process that does not end counts as a crash."""
SUITE = """\
name: reliability
encoders: [toy]
tasks: [mini-sentiment]
attacks: [textfooler, {pwws: {max_words: 3}}, random]
evaluate: [contrast]
num_examples: 32
resources: {profile: mini, masked_lm: toy}
training: {max_train: 300, max_validation: 50, epochs: 1, learning_rate: 1.0e-3}
tables: [{metric: asr}, {metric: queries}]
"""
ENCODER = """\
name: toy
architecture: {hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64}
train: {objective: mlm, data: mini-corpus, steps: 30, learning_rate: 1.0e-3}
"""
HOOK = """
import os, sys
from rbench.stages import cell, weights
from rbench.storage import board
from rbench.storage.runs import Parts
from rbench.system import members

board.CHUNK = cell.CHUNK = 4
log = os.open(os.environ["RELIABILITY_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def noting(function, what):
    def noted(*args):
        done = function(*args)
        os.write(log, (what(*args) + "\\n").encode())
        return done
    return noted

weights.pretrain = noting(weights.pretrain, lambda job, *rest: job.name)
weights.finetune = noting(weights.finetune, lambda job, *rest: job.name)
Parts.append = noting(Parts.append, lambda parts, outcome: f"{parts._job.name} {outcome.example_id}")
"""
"""Run before rbench in each process: chunks are small, and a line is logged after each training and outcome."""
MAIN = "\nfrom rbench.cli import main\nsys.argv[0] = 'rbench'\nsys.exit(main())\n"
FULL_DISK = """
import errno
from rbench.storage.runs import appender
really, left = os.write, [10]
def write(handle, content):
    left[0] -= handle != log
    if left[0] < 0 and handle != log:
        really(handle, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return really(handle, content)
appender.os = type("Os", (), {**vars(os), "write": staticmethod(write)})
"""
NO_FLOCK = """
import errno, fcntl
def flock(*args):
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
fcntl.flock = flock
"""
QUICK = "\nmembers.EXPIRY, members.BEAT = 6.0, 0.5\nmembers.Members.__init__.__kwdefaults__['expiry'] = 6.0\n"
QUICK += "members.Member.__init__.__kwdefaults__['beat'] = 0.5\n"
APART = """
import random, socket, time
shift, really = random.choice([-86400.0, 86400.0]), time.time
time.time = lambda: really() + shift
name = f"node-{os.getpid()}"
socket.gethostname = lambda: name
"""
"""Each process believes to be on a machine of its own, whose clock is a day off."""


@dataclass
class Place:
    """A folder in which one scenario runs once: suite, cache, RUN and log."""

    root: Path
    began: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "mine" / "encoders").mkdir(parents=True)
        (self.root / "mine" / "encoders" / "toy.yaml").write_text(ENCODER, encoding="utf-8")
        (self.root / "suite.yaml").write_text(SUITE, encoding="utf-8")

    def start(self, *, hook: str = "", workers: int = 1, out: str = "run", cache: str = "cache") -> Process:
        """Start `rbench run`, in a session of its own."""
        words = ["run", "suite.yaml", "--include", "mine", "--out", out, "--device", "cpu", "--backend", "torch"]
        said = self.root / f"said-{len(self.began)}"
        with said.open("wb") as file:
            popen = subprocess.Popen(
                [sys.executable, "-c", HOOK + hook + MAIN, *words, "--workers", str(workers)],
                cwd=self.root,
                env={**os.environ, "RBENCH_CACHE": str(self.root / cache), "RELIABILITY_LOG": str(self.root / "log")},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(popen, said)
        self.began.append(process)
        return process

    def finish(self, row: dict[str, int], hook: str = "") -> None:
        """Repeat the command until the RUN is complete."""
        for _ in range(3):
            process = self.start(hook=hook)
            if process.wait() == 0 and self.complete():
                return
        row["lost"] += 1  # it does not come to an end

    def complete(self) -> bool:
        plan = json.loads((self.root / "run" / "plan.json").read_bytes())
        return len([*(self.root / "run").rglob("record.json")]) == len(plan["jobs"])

    def outcomes(self) -> set[tuple[str, str]]:
        """The outcomes that are in the files: their job and example."""
        found = set()
        for file in (self.root / "run").rglob("outcomes*.jsonl"):
            for line in file.read_bytes().split(b"\n")[:-1]:
                one = json.loads(line)
                found.add((one["job"], one["outcome"]["example_id"]))
        return found

    def log(self) -> list[str]:
        file = self.root / "log"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def results(self) -> dict[str, object]:
        """All that should not depend on what happened: outcomes without times, scores, tables."""
        found: dict[str, object] = {}
        for file in sorted((self.root / "run").rglob("outcomes.jsonl")):
            lines = [json.loads(line)["outcome"] for line in file.read_text(encoding="utf-8").splitlines()]
            found[str(file.relative_to(self.root))] = [{**line, "seconds": 0} for line in lines]
        for file in sorted((self.root / "run").rglob("record.json")):
            record = json.loads(file.read_bytes())
            scores = [score for score in record["scores"] if score["name"] != "seconds"]
            found[str(file.relative_to(self.root))] = [record["status"], scores, record["counts"]]
        for file in sorted((self.root / "run" / "tables").iterdir()):
            found[file.name] = file.read_text(encoding="utf-8")
        return found


@dataclass
class Process:
    """An `rbench run` and the file with what it printed."""

    popen: subprocess.Popen[bytes]
    said: Path
    killed: bool = False
    codes: tuple[int, ...] = (0,)
    """The exit codes that it may end with."""

    def kill(self) -> None:
        """Kill it and its workers with SIGKILL."""
        self.killed = self.popen.poll() is None
        if self.killed:
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def wait(self) -> int:
        try:
            return self.popen.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(self.popen.pid, signal.SIGKILL)
            return self.popen.wait()

    def workers(self) -> list[int]:
        """The worker processes: all that are below it, except those that have such processes themselves."""
        below = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.popen.pid and fields[0] != "Z":  # of its session
                below[int(stat.parent.name)] = int(fields[1])
        return [pid for pid, parent in below.items() if parent != self.popen.pid and pid != self.popen.pid]


def moment(place: Place, rng: random.Random, *, until: int = 95) -> Iterator[None]:
    """Wait until a random number of things are done: trainings or outcomes. Yields once, unless all has ended."""
    wanted = rng.randrange(until)
    began = time.monotonic()
    while len(place.log()) < wanted and time.monotonic() - began < LONGEST:
        if all(one.popen.poll() is not None for one in place.began):
            return
        time.sleep(0.02)
    time.sleep(rng.random() * 0.3)
    yield


def kill_with_workers(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    process = place.start(workers=2)
    _kill(place, rng, row, process)


def kill_a_worker(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    process = place.start(workers=2)
    for _ in moment(place, rng, until=80):
        before = place.outcomes()
        if workers := process.workers():
            os.kill(rng.choice(workers), signal.SIGKILL)
        process.wait()
        row["lost"] += len(before - place.outcomes())
    process.wait()


def kill_one_of_three(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    processes = [place.start() for _ in range(3)]
    _kill(place, rng, row, rng.choice(processes))
    for process in processes:
        process.wait()


def kill_three_in_turn(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    processes = [place.start() for _ in range(3)]
    for process in processes:
        _kill(place, rng, row, process)


def _kill(place: Place, rng: random.Random, row: dict[str, int], process: Process) -> None:
    for _ in moment(place, rng):
        before = place.outcomes() if (place.root / "run").exists() else set()
        process.kill()
        row["lost"] += len(before - place.outcomes())


def three_at_once(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    for process in [place.start() for _ in range(3)]:
        process.wait()


def full_disk(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    process = place.start(hook=FULL_DISK.replace("[10]", f"[{rng.randrange(90)}]"))
    process.codes = (0, 1, 2)  # 1: the job that could not write is a failed one
    process.wait()
    before = place.outcomes()
    row["lost"] += len({line for line in place.log() if " " in line}) - len(before)


def read_only(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """Neither root nor anyone else can write into /sys."""
    for process in (place.start(out="/sys/rbench"), place.start(cache="/sys/rbench")):
        process.codes = (2,)
        process.wait()


def torn_lease(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    process = place.start(hook=QUICK)
    _kill(place, rng, row, process)
    for lease in (place.root / "run" / ".processes" / "leases").glob("*/*"):
        lease.write_bytes(lease.read_bytes()[: rng.randrange(20)])
    two = [place.start(hook=QUICK) for _ in range(2)]
    for one in two:
        one.wait()


def no_flock(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    processes = [place.start(hook=NO_FLOCK) for _ in range(2)]
    _kill(place, rng, row, processes[0])
    processes[1].wait()


def clocks_apart(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    processes = [place.start(hook=QUICK + APART) for _ in range(3)]
    _kill(place, rng, row, processes[0])
    for process in processes:
        process.wait()


SCENARIOS: dict[str, Callable[[Place, random.Random, dict[str, int]], None]] = {
    "kill -9 of a run with two workers": kill_with_workers,
    "kill -9 of one worker": kill_a_worker,
    "kill -9 of one of three processes": kill_one_of_three,
    "kill -9 of three processes in turn": kill_three_in_turn,
    "three processes at once, empty cache": three_at_once,
    "full disk on the RUN": full_disk,
    "read-only RUN and cache": read_only,
    "torn leases": torn_lease,
    "flock missing": no_flock,
    "machines whose clocks are a day apart": clocks_apart,
}


def once(scenario: str, seed: int, expected: dict[str, object]) -> dict[str, int]:
    """Run a scenario once; return what it adds to its row."""
    row = dict.fromkeys(FIELDS, 0) | {"runs": 1}
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        place = Place(Path(folder))
        SCENARIOS[scenario](place, random.Random(f"{scenario}:{seed}"), row)
        place.finish(row)
        lines = place.log()
        row["repeated"] += len(lines) - len({*lines})
        row["different"] += place.results() != expected
        for process in place.began:
            row["crashes"] += not process.killed and process.popen.returncode not in process.codes
            row["tracebacks"] += b"Traceback" in process.said.read_bytes()
    return row


def undisturbed() -> dict[str, object]:
    """Return the results of one process that nothing disturbs."""
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        place = Place(Path(folder))
        process = place.start()
        if process.wait() != 0:
            sys.exit(f"the suite does not run:\n{process.said.read_text(encoding='utf-8')}")
        return place.results()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each scenario, earlier ones included")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORDS", help="scenarios whose name has these words")
    parser.add_argument("--minutes", type=float, default=50.0, help="start no run after this time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    began = time.monotonic()
    rows: dict[str, dict[str, int]] = json.loads(args.out.read_bytes()) if args.out.exists() else {}
    chosen = [one for one in SCENARIOS if not args.only or any(words in one for words in args.only)]
    expected: dict[str, object] | None = None
    for number in range(args.runs):
        for scenario in chosen:
            row = rows.setdefault(scenario, dict.fromkeys(FIELDS, 0))
            if row["runs"] > number or time.monotonic() - began > 60 * args.minutes:
                continue
            expected = expected or undisturbed()
            for name, value in once(scenario, row["runs"], expected).items():
                row[name] += value
            args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            print(f"{scenario}: {', '.join(f'{value} {name}' for name, value in row.items())}", flush=True)


if __name__ == "__main__":
    main()
