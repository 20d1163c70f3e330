"""Measures the wall and CPU seconds of each test: a plugin of pytest, `python -m pytest -p tests.seconds`.

At the end it writes a JSON file, which the variable `RBENCH_TEST_SECONDS` names (`test-seconds.json` without it): the
sums for each file of tests, the dearest first, and the dearest tests. A test has the seconds of its set-up, its call
and its tear-down, and those of the processes that it started and that have ended. A fixture counts for the first test
that asks for it.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.machine import cores, processor

DEAREST = 40
"""How many tests are listed one by one."""

SECONDS: pytest.StashKey[list[tuple[str, float, float]]] = pytest.StashKey()
"""Where a process keeps each test, its wall seconds and its CPU seconds."""


def cpu() -> float:
    """Return the CPU seconds of this process and of its children that have ended, user's and system's."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Time all phases of a test in the process that runs it, and leave the seconds with the test."""
    wall, used = time.perf_counter(), cpu()
    try:
        return (yield)
    finally:
        item.config.stash[SECONDS].append((item.nodeid, time.perf_counter() - wall, cpu() - used))


class Sums:
    """Joins the seconds of all processes, in the one that hears of all tests."""

    def __init__(self) -> None:
        self.tests = list[tuple[str, float, float]]()
        self.begun = time.perf_counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """A worker of pytest-xdist has ended, and hands over its seconds."""
        self.tests += [tuple(one) for one in getattr(node, "workeroutput", {}).get("seconds", [])]

    def table(self) -> dict[str, object]:
        """Return what is written."""
        files = defaultdict[str, list[float]](lambda: [0, 0.0, 0.0])
        for name, wall, used in self.tests:
            row = files[name.partition("::")[0]]
            row[:] = row[0] + 1, row[1] + wall, row[2] + used
        libraries = ("pytest", "pytest-xdist", "torch", "transformers", "numpy", "textattack")
        return {
            "processor": processor(),
            "cores": cores(),
            "versions": {"python": platform.python_version()} | {name: version(name) for name in libraries},
            "seconds": round(time.perf_counter() - self.begun, 1),
            "tests": len(self.tests),
            "CPU seconds": round(sum(used for _, _, used in self.tests), 1),
            "files": {
                name: {"tests": tests, "wall": round(wall, 1), "CPU": round(used, 1)}
                for name, (tests, wall, used) in sorted(files.items(), key=lambda one: -one[1][2])
            },
            "dearest tests": {
                name: {"wall": round(wall, 1), "CPU": round(used, 1)}
                for name, wall, used in sorted(self.tests, key=lambda one: -one[2])[:DEAREST]
            },
        }


def pytest_configure(config: pytest.Config) -> None:
    """Measure in each process; sum in the one that hears of all."""
    config.stash[SECONDS] = list[tuple[str, float, float]]()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Sums(), "sums of seconds")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the seconds over, or write the file. Workers have ended before the process that sums them comes here."""
    config = session.config
    if hasattr(config, "workeroutput"):
        output: dict[str, object] = config.workeroutput
        output["seconds"] = config.stash[SECONDS]
        return
    sums = config.pluginmanager.get_plugin("sums of seconds")
    assert isinstance(sums, Sums)
    own = config.stash[SECONDS]
    sums.tests += own
    Path(os.environ.get("RBENCH_TEST_SECONDS", "test-seconds.json")).write_text(
        json.dumps(sums.table(), indent=2) + "\n"
    )
