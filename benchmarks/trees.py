"""Checks out two versions of rbench and measures commands in each.

The version of a commit is a git worktree in a temporary folder, which is removed at the end. A process uses the version
that comes first on its PYTHONPATH. All other installed packages are the same for both.
"""

from __future__ import annotations

import compileall
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RBENCH = ("-c", "from rbench.cli import main; main()")
"""Arguments with which Python runs the command `rbench`."""


@dataclass(frozen=True)
class Ran:
    """Time and memory that a command took."""

    seconds: float
    """Seconds from start to end."""
    first: float | None
    """Seconds from start to the first byte on stdout or stderr, which share a pipe; None where it wrote nothing."""
    peak_mb: int
    """Peak memory (its own maximum resident set size)."""
    output: str


@dataclass(frozen=True)
class Tree:
    """One version: the folder of its files, and a folder for its output."""

    name: str
    root: Path
    commit: str
    """Commit, with a + where files differ from it."""
    work: Path

    def python(self, *arguments: str, cache: str = "cache", stop: bool = False) -> Ran:
        """Run Python with this version, and print what it took to stderr.

        Args:
            cache: a folder in `work` for RBENCH_CACHE.
            stop: whether to end the process at its first byte.

        Raises:
            SystemExit: the process failed, and was not ended at its first byte.
        """
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "RBENCH_CACHE": str(self.work / cache),
            "HF_HUB_OFFLINE": "1",
        }
        ran, code = run([sys.executable, *arguments], environment, self.work, stop=stop)
        said = " ".join(argument.replace(f"{HERE}/", "") for argument in arguments)
        print(f"  {self.name:6} {ran.seconds:6.1f} s {ran.peak_mb:5d} MB  {said}", file=sys.stderr, flush=True)
        if code and not stop:
            raise SystemExit(f"{self.name}: {' '.join(arguments)} failed with {code}:\n{ran.output[-2000:]}")
        return ran

    def child(self, script: Path, *arguments: str) -> dict[str, Any]:
        """Run a script and return the JSON in its last line, with its peak memory added as `peak_mb`."""
        ran = self.python(str(script), *arguments)
        found: dict[str, Any] = json.loads(ran.output.splitlines()[-1])
        return found | {"peak_mb": ran.peak_mb}


def run(command: list[str], environment: dict[str, str], folder: Path, *, stop: bool = False) -> tuple[Ran, int]:
    """Run a command in a folder. Return its measurements and its exit status."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    first, pieces = None, []
    while piece := os.read(process.stdout.fileno(), 65536):
        if first is None:
            first = time.perf_counter() - start
            if stop:
                os.killpg(process.pid, signal.SIGTERM)
        pieces.append(piece)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = usage.ru_maxrss >> (20 if sys.platform == "darwin" else 10)
    return Ran(seconds, first, peak, b"".join(pieces).decode(errors="replace")), process.returncode


@contextmanager
def trees(before: str) -> Iterator[tuple[Tree, Tree]]:
    """Yield the version of the commit `before` and the one of this file, both compiled to bytecode."""
    repository = HERE.parent
    with tempfile.TemporaryDirectory(prefix="rbench-growth-") as folder:
        old = Path(folder) / "tree"
        git(repository, "worktree", "add", "--quiet", "--detach", str(old), before)
        try:
            both = []
            for name, root in (("before", old), ("after", repository)):
                compileall.compile_dir(root / "rbench", quiet=2)
                work = Path(folder) / name
                work.mkdir()
                changed = "+" if git(root, "status", "--porcelain", "--", "rbench") else ""
                both.append(Tree(name, root, git(root, "rev-parse", "--short", "HEAD") + changed, work))
            yield both[0], both[1]
        finally:
            git(repository, "worktree", "remove", "--force", str(old))


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
