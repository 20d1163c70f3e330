"""Two versions of rbench side by side, and commands that are measured in either.

The version of a commit is a git worktree, made in a temporary folder and removed in the end. A process has the version
of the folder that stands first on its PYTHONPATH; what else is installed is the same for both.
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
"""Arguments of Python that make it the command `rbench`."""


@dataclass(frozen=True)
class Ran:
    """What a command came to."""

    seconds: float
    """From its start to its end."""
    first: float | None
    """From its start to its first byte on stdout or stderr, which are one pipe; None where it wrote nothing."""
    peak_mb: int
    """The most memory that it held (its own maximum resident set size)."""
    output: str


@dataclass(frozen=True)
class Tree:
    """One version: where its files are, and a folder for what it writes."""

    name: str
    root: Path
    commit: str
    """With a + where files differ from it."""
    work: Path

    def python(self, *arguments: str, cache: str = "cache", stop: bool = False) -> Ran:
        """Run Python with this version; stderr is told what it took. `cache`, a folder in `work`, is its RBENCH_CACHE.

        `stop`: end it with its first byte. SystemExit where it fails otherwise.
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
        """What a script prints as JSON in its last line, with `peak_mb`, the most memory that it held."""
        ran = self.python(str(script), *arguments)
        found: dict[str, Any] = json.loads(ran.output.splitlines()[-1])
        return found | {"peak_mb": ran.peak_mb}


def run(command: list[str], environment: dict[str, str], folder: Path, *, stop: bool = False) -> tuple[Ran, int]:
    """Run a command in a folder; what it came to, and its exit status."""
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
    """The version of the commit `before`, and the one that this file is in; both compiled."""
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
    """What git prints."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()
