"""Measure what is lost, repeated or different when processes, disks and clocks fail while a suite runs.

    python benchmarks/reliability.py [--runs N] [--only SCENARIO ...] [--minutes 50]

Each run of a scenario starts `rbench run` on a small suite of the embedded world, in one process or several, breaks
something, and repeats the command until the RUN is complete. benchmarks/results/reliability.json gets a row for each
scenario, summed over its runs:

    runs        how often it was tried
    lost        outcomes that were in the files when something broke, and are not in the end
    repeated    trainings and outcomes that were stored twice
    different   runs whose tables, outcomes or scores differ from those of one process that nothing disturbs
    crashes     processes that ended otherwise than they should: 0, and 1 or 2 where nothing can be written
    tracebacks  processes that printed a Python traceback

Scenarios of input (`hostile.py`) count in `lost` the texts without an outcome and the files that were refused without
a place. benchmarks/results/reliability.json also has the machine, versions, command, and the seconds of each scenario.

Each process is a fork of this one, which has imported the packages before: imports are most of a start's seconds, and
none of what is tried here. The processes that `rbench run --workers` and Ray start are made as for a user.

A row is written after each run. The same command goes on with the scenarios that have fewer runs than `--runs`.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import json
import math
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import hostile
from machine import cores, processor

RESULTS = Path(__file__).parent / "results" / "reliability.json"
PACKAGES = ("torch", "transformers", "textattack", "filelock")
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
log = os.open(os.environ["RBENCH_RELIABILITY_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

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
ELSEWHERE = "import sys\nif any('rbench.cli' in word for word in sys.orig_argv):" + HOOK.replace("\n", "\n    ")
"""The same for processes that an executor starts."""
MAIN = "\nfrom rbench.cli import main\nsys.exit(main())\n"
PRELOADED = ("rbench.cli", "rbench.api", "rbench.attack.workers", "rbench.stages", "rbench.train.loop", "rbench.report")
"""What a process imports sooner or later. None of them starts a thread, so that a fork is safe."""
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
FULL_CACHE = """
import errno
left = [LEFT]
def failing(function):
    def called(*args, **more):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*args, **more)
    return called
import transformers, torch
transformers.PreTrainedModel.save_pretrained = failing(transformers.PreTrainedModel.save_pretrained)
torch.save = failing(torch.save)
"""
"""Some saving of weights, and all after it, finds the disk full."""
JUMP = """
import time
began, really, shift = time.monotonic(), time.time, [0.0]
def jumping():
    if time.monotonic() - began > 5:
        shift[0] = shift[0] or __import__("random").choice([-86400.0, 86400.0])
    return really() + shift[0]
time.time = jumping
"""
"""After five seconds the clock is a day off."""
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


GENERATED: list[Path] = []
"""The folder of texts that the undisturbed run generated, once there is one."""


@dataclass
class Place:
    """A folder in which one scenario runs once: suite, cache, RUN and log."""

    root: Path
    began: list[Process] = field(default_factory=list)
    hook: str = ""
    """Of the process that finishes the RUN in the end."""

    def __post_init__(self) -> None:
        (self.root / "mine" / "encoders").mkdir(parents=True)
        (self.root / "mine" / "encoders" / "toy.yaml").write_text(ENCODER, encoding="utf-8")
        (self.root / "suite.yaml").write_text(SUITE, encoding="utf-8")
        if GENERATED:  # the embedded world's texts; to generate them anew is a third of a run's time
            shutil.copytree(GENERATED[0], self.root / "cache" / "prepared")
        (self.root / "site").mkdir()
        (self.root / "site" / "sitecustomize.py").write_text(ELSEWHERE, encoding="utf-8")

    def start(
        self, *, hook: str = "", workers: int = 1, out: str = "run", cache: str = "cache", more: Sequence[str] = ()
    ) -> Process:
        """Start `rbench run`."""
        words = ["run", "suite.yaml", "--include", "mine", "--out", out, "--device", "cpu", "--backend", "torch", *more]
        said = self.root / f"said-{len(self.began)}"
        more_env = {
            "OMP_NUM_THREADS": "1",
            "RBENCH_CACHE": str(self.root / cache),
            "RBENCH_RELIABILITY_LOG": str(self.root / "log"),
        }
        words = ["rbench", *words, "--workers", str(workers)]
        process = Process(Fork(HOOK + hook + MAIN, words, self.root, more_env, said), said)
        self.began.append(process)
        return process

    def finish(self, row: dict[str, int]) -> None:
        """Repeat the command until the RUN is complete."""
        if self.complete() and not any(process.killed or process.popen.returncode for process in self.began):
            return
        for _ in range(3):
            process = self.start(hook=self.hook)
            if process.wait() == 0 and self.complete():
                return
        row["lost"] += 1  # it does not come to an end

    def complete(self) -> bool:
        if not (self.root / "run" / "plan.json").exists():
            return False
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
        for file in sorted((self.root / "run").glob("tables/*")):
            found[file.name] = file.read_text(encoding="utf-8")
        return found


class Fork:
    """A process that runs `code` in a fork of this one, in a process group of its own."""

    def __init__(self, code: str, words: list[str], folder: Path, env: dict[str, str], said: Path) -> None:
        self.returncode: int | None = None
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            return
        status = 1
        try:
            os.setpgid(0, 0)
            os.chdir(folder)
            os.environ.update(env)
            output = os.open(said, os.O_WRONLY | os.O_CREAT)
            for stream in (1, 2):
                os.dup2(output, stream)
            main = sys.modules["__main__"] = types.ModuleType("__main__")  # as of `python -c`
            sys.argv = words
            exec(compile(code, "<reliability>", "exec"), vars(main))
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            # As at the end of a Python program: a signal that came late must still be counted.
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def poll(self) -> int | None:
        """Return the exit code, -N if signal N killed it, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, seconds: float = math.inf) -> int:
        """Return the exit code. Raises TimeoutError if the process still runs after `seconds`."""
        ends = time.monotonic() + seconds
        while (code := self.poll()) is None:
            if time.monotonic() > ends:
                raise TimeoutError
            time.sleep(0.01)
        return code


@dataclass
class Process:
    """An `rbench run` and the file with what it printed."""

    popen: Fork
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
        except TimeoutError:
            os.killpg(self.popen.pid, signal.SIGKILL)
            return self.popen.wait()

    def workers(self) -> list[int]:
        """The worker processes: all that are below it, except those that have such processes themselves."""
        parent = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parent[int(stat.parent.name)] = int(fields[1])
        below = {self.popen.pid}
        while more := {pid for pid, above in parent.items() if above in below} - below:
            below |= more
        return [pid for pid in below if pid != self.popen.pid and parent.get(pid) != self.popen.pid]


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


def _kill(
    place: Place,
    rng: random.Random,
    row: dict[str, int],
    process: Process,
    of: Callable[[], list[int]] | None = None,
) -> None:
    """Kill a process at a random moment, or one of those below it that `of` finds then."""
    for _ in moment(place, rng):
        before = place.outcomes() if (place.root / "run").exists() else set()
        if of is None:
            process.kill()
        elif found := of():
            os.kill(rng.choice(found), signal.SIGKILL)
        row["lost"] += len(before - place.outcomes())


def three_at_once(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    shutil.rmtree(place.root / "cache")
    for process in [place.start() for _ in range(3)]:
        process.wait()


def full_disk(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    process = place.start(hook=FULL_DISK.replace("[10]", f"[{rng.randrange(90)}]"))
    process.codes = (0, 1, 2)  # 1: the job that could not write is a failed one
    process.wait()
    before = place.outcomes()
    row["lost"] += len({line for line in place.log() if " " in line}) - len(before)


def full_disk_on_the_cache(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """Weights cannot be written: the jobs that make them fail, and the same command makes them later."""
    process = place.start(hook=FULL_CACHE.replace("LEFT", str(rng.randrange(12))))
    process.codes = (0, 1, 2)
    process.wait()


def read_only(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """Neither root nor anyone else can write into /sys."""
    for process in (place.start(out="/sys/rbench"), place.start(cache="/sys/rbench")):
        process.codes = (2,)
        process.wait()


def torn_lease(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    place.hook = QUICK
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
    place.hook = QUICK
    processes = [place.start(hook=QUICK + APART) for _ in range(3)]
    _kill(place, rng, row, processes[0])
    for process in processes:
        process.wait()


def read_only_folders(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """A RUN that became read-only after it was begun, and a cache that is."""
    process = place.start()
    _kill(place, rng, row, process)
    folders = [folder for folder in (place.root / "run", place.root / "cache") if folder.exists()]
    for folder in folders:
        folder.chmod(0o500)
    again = place.start()
    again.codes = (1, 2)
    again.wait()
    for folder in folders:
        folder.chmod(0o700)


def clock_set_back(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """The clock of a machine jumps back, or forward, by a day while it works; another process joins after that."""
    jumped = place.start(hook=QUICK + JUMP)
    for _ in moment(place, rng, until=60):
        other = place.start(hook=QUICK)
        other.wait()
    jumped.wait()


def kill_a_ray_worker(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """Left out where ray is not installed."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place.root / "site"), *sys.path[1:]])
    process = place.start(more=("--executor", "ray", "--processes", "2"))
    _kill(place, rng, row, process, of=lambda: [pid for pid in process.workers() if _says(pid, b"ray::")])
    process.wait()


def _says(pid: int, words: bytes) -> bool:
    try:
        return words in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def has_ray() -> bool:
    from importlib.util import find_spec

    return find_spec("ray") is not None


def hostile_files(count: int = 200) -> Callable[[Path, int], dict[str, int]]:
    """Generated files, `count` a run: ten runs are 2,000."""
    return lambda folder, seed: hostile.load_files(folder, count, seed)


def hostile_texts(attack: str) -> Callable[[Path, int], dict[str, int]]:
    """500 hostile texts through one attack. A run is 50 of them, so that a run is short: ten runs are 500."""

    def attacked(folder: Path, seed: int) -> dict[str, int]:
        return hostile.attack_all(hostile.hostile_texts(50, seed, megabytes=seed == 0), [attack])

    return attacked


ATTACKS = ("bae", "bertattack", "bertattack-paper", "geometry", "pwws", "random", "textbugger", "textfooler")
INPUTS: dict[str, Callable[[Path, int], dict[str, int]]] = {
    "200 generated files": hostile_files(),
    **{f"50 hostile texts through {attack}": hostile_texts(attack) for attack in ATTACKS},
}
"""Scenarios of input: of a folder and a number, in a process of its own. Each returns what it adds to its row."""


WANTED = {
    "kill -9 of a run with two workers": 50,
    "kill -9 of one worker": 20,
    "kill -9 of one of three processes": 30,
    "kill -9 of three processes in turn": 10,
    "kill -9 of a Ray worker": 20,
    **dict.fromkeys(INPUTS, 10),
}
"""How often a scenario is run where `--runs` does not say it; the others: five times."""


SCENARIOS: dict[str, Callable[[Place, random.Random, dict[str, int]], None]] = {
    "kill -9 of a run with two workers": kill_with_workers,
    "kill -9 of one worker": kill_a_worker,
    "kill -9 of one of three processes": kill_one_of_three,
    "kill -9 of three processes in turn": kill_three_in_turn,
    "three processes at once, empty cache": three_at_once,
    "full disk on the RUN": full_disk,
    "full disk on the cache": full_disk_on_the_cache,
    "read-only RUN and cache": read_only,
    # Root may write everywhere; the scenario before uses /sys.
    **({"RUN and cache become read-only": read_only_folders} if os.geteuid() else {}),
    "torn leases": torn_lease,
    "flock missing": no_flock,
    "machines whose clocks are a day apart": clocks_apart,
    "clock set a day back or forward": clock_set_back,
    **({"kill -9 of a Ray worker": kill_a_ray_worker} if has_ray() else {}),
}


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """Make a folder and delete it. `TemporaryDirectory` would delete it at the exit of each fork, too."""
    folder = tempfile.mkdtemp(prefix="reliability-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def once(scenario: str, seed: int, expected: dict[str, object]) -> dict[str, int]:
    """Run a scenario once; return what it adds to its row."""
    row = dict.fromkeys(FIELDS, 0) | {"runs": 1}
    with scratch() as folder:
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


def once_of_input(scenario: str, seed: int) -> dict[str, int]:
    """Run a scenario of input once, in a process of its own: it may end, hang or run out of memory."""
    row = dict.fromkeys(FIELDS, 0) | {"runs": 1}
    code = f"import json, reliability; from pathlib import Path; found = reliability.INPUTS[{scenario!r}]"
    with scratch() as folder:
        made = Path(folder) / "row.json"
        code += f"(Path({folder!r}), {seed}); Path({str(made)!r}).write_text(json.dumps(found))"
        path = os.pathsep.join([str(Path(__file__).resolve().parent), *sys.path[1:]])
        try:
            ended = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, timeout=3 * LONGEST
            ).returncode
        except subprocess.TimeoutExpired:
            ended = 1
        if ended or not made.exists():
            return row | {"crashes": 1}
        added: dict[str, int] = json.loads(made.read_bytes())
        return row | added


def undisturbed() -> dict[str, object]:
    """Return the results of one process that nothing disturbs."""
    with scratch() as folder:
        place = Place(Path(folder))
        process = place.start()
        if process.wait() != 0:
            sys.exit(f"the suite does not run:\n{process.said.read_text(encoding='utf-8')}")
        kept = Path(tempfile.mkdtemp(prefix="generated-"))
        atexit.register(_delete, kept, os.getpid())
        GENERATED.append(shutil.copytree(place.root / "cache" / "prepared", kept / "prepared"))
        return place.results()


def _delete(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork
        shutil.rmtree(folder, ignore_errors=True)


def described() -> dict[str, object]:
    """The command, the machine and the versions."""
    return {
        "command": "python benchmarks/reliability.py " + " ".join(sys.argv[1:]),
        "machine": {"processor": processor(), "cores": cores(), "system": platform.platform()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }


def table(rows: dict[str, dict[str, int]]) -> str:
    """Return the rows as a table of markdown."""
    lines = [["scenario", *FIELDS], ["---", *["---:"] * len(FIELDS)]]
    lines += [[name, *(str(row[field]) for field in FIELDS)] for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, help="runs of each scenario, earlier ones included (default: 5 to 50)")
    parser.add_argument("--only", nargs="*", default=[], metavar="WORDS", help="scenarios whose name has these words")
    parser.add_argument("--minutes", type=float, default=50.0, help="start no run after this time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--table", action="store_true", help="print what is stored as a table for the docs; run nothing"
    )
    args = parser.parse_args()
    if args.table:
        print(table(json.loads(args.out.read_bytes())["scenarios"]))
        return
    for name in PRELOADED:
        importlib.import_module(name)
    began = time.monotonic()
    before = json.loads(args.out.read_bytes()) if args.out.exists() else {}
    rows: dict[str, dict[str, int]] = before.get("scenarios", {})
    seconds: dict[str, float] = before.get("seconds", {})
    chosen = [one for one in (*SCENARIOS, *INPUTS) if not args.only or any(words in one for words in args.only)]
    expected: dict[str, object] | None = None
    wanted = {one: args.runs or WANTED.get(one, 5) for one in chosen}
    for number in range(max(wanted.values(), default=0)):
        for scenario in (one for one in chosen if number < wanted[one]):
            row = rows.setdefault(scenario, dict.fromkeys(FIELDS, 0))
            if row["runs"] > number or time.monotonic() - began > 60 * args.minutes:
                continue
            if scenario in SCENARIOS:
                expected = expected or undisturbed()
            started = time.monotonic()
            for name, value in (
                once(scenario, row["runs"], expected or {})
                if scenario in SCENARIOS
                else once_of_input(scenario, row["runs"])
            ).items():
                row[name] += value
            seconds[scenario] = round(seconds.get(scenario, 0.0) + time.monotonic() - started, 1)
            document = {**described(), "scenarios": rows, "seconds": seconds}
            args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            print(f"{scenario}: {', '.join(f'{value} {name}' for name, value in row.items())}", flush=True)


if __name__ == "__main__":
    main()
