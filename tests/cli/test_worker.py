"""Tests the command that executors start: its exit codes, and that it ends when whoever started it is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, time
from rbench.cli import worker
from rbench.errors import LeaseLost, PlanError

def work(text):
    if text == "refuse\\n":
        raise PlanError("no such suite")
    if text == "silent\\n":
        raise LeaseLost("another process took over")
    if text == "full\\n":
        raise OSError(28, "No space left on device", "RUN/x")
    print("working on " + text, end="", flush=True)
    time.sleep(0 if text == "quick\\n" else 60)
    return 0

worker._do_request = work
sys.exit(worker.main())
"""


def started() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_it_ends_in_order_when_whoever_started_it_is_gone() -> None:
    process = started()
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write("long\n")
    process.stdin.flush()
    assert process.stdout.readline() == "working on long\n" and process.poll() is None
    process.stdin.close()
    assert process.wait(60) == 143
    assert process.stderr.read() == "ended, because it was asked to\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        pytest.param("refuse", 2, "error: no such suite\n", marks=pytest.mark.nightly),
        ("full", 2, "error: RUN/x: No space left on device\n"),
        pytest.param("silent", 1, "error: another process took over\n", marks=pytest.mark.nightly),
        ("quick", 0, ""),
    ],
)
def test_its_exit_codes_are_those_of_a_run(text: str, code: int, said: str) -> None:
    process = started()
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()
    assert process.wait(60) == code and process.stderr.read() == said
