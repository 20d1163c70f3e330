"""Places where `rbench run` runs on a small suite, in forks of this process that can be killed."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import shutil
import signal
import sys
import time
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 600.0
"""Seconds after which a process that does not end counts as a crash."""
SUITE = """\
name: reliability
encoders: [toy]
tasks: [mini-sentiment]
attacks: [textfooler, {pwws: {max_words: 3}}, random]
evaluate: [contrast]
num_examples: 32
resources: {set: mini, masked_lm: toy}
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
from rbench.execution import attacks, weights
from rbench.execution.cluster import scheduler as board
from rbench.store.runs import PartialOutcomes
from rbench.execution.cluster import membership

board.CHUNK = attacks.CHUNK = 4
log = os.open(os.environ["RBENCH_RELIABILITY_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def noting(function, what):
    def noted(*args):
        done = function(*args)
        os.write(log, (what(*args) + "\\n").encode())
        return done
    return noted

weights.pretrain = noting(weights.pretrain, lambda job, *rest: job.name)
weights.finetune = noting(weights.finetune, lambda job, *rest: job.name)
PartialOutcomes.append = noting(Parts.append, lambda parts, outcome: f"{parts._job.name} {outcome.example_id}")
"""
"""Run before rbench in each process: chunks are small, and a line is logged after each training and outcome."""
ELSEWHERE = "import sys\nif any('rbench.cli' in word for word in sys.orig_argv):" + HOOK.replace("\n", "\n    ")
"""The same for processes that an executor starts."""
MAIN = "\nfrom rbench.cli import main\nsys.exit(main())\n"
PRELOADED = (
    "rbench.cli",
    "rbench.api",
    "rbench.recipes.workers",
    "rbench.execution",
    "rbench.train.loop",
    "rbench.report",
)
"""What a process imports sooner or later. None of them starts a thread, so that a fork is safe."""


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
        while True:
            with contextlib.suppress(FileNotFoundError):  # a file was merged into another one: look again
                return {
                    (one["job"], one["outcome"]["example_id"])
                    for file in (self.root / "run").rglob("outcomes*.jsonl")
                    for one in map(json.loads, file.read_bytes().split(b"\n")[:-1])
                }

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
        parent = _parents()
        return [pid for pid in self.below() if parent.get(pid) != self.popen.pid]

    def below(self) -> list[int]:
        """The processes that it started, and those that these started."""
        parent = _parents()
        found = {self.popen.pid}
        while more := {pid for pid, above in parent.items() if above in found} - found:
            found |= more
        return [*(found - {self.popen.pid})]


def _parents() -> dict[int, int]:
    """By process that lives, the one that started it."""
    parent = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parent[int(stat.parent.name)] = int(fields[1])
    return parent
