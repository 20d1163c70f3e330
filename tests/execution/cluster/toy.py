"""A command that does what its first line of input says: each word is a step. It needs none of rbench."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rbench.execution.cluster.child import ProcessCommand

TOY = """
import os, signal, sys, time
from pathlib import Path

here = Path("ran")
here.mkdir(exist_ok=True)
for word in sys.stdin.readline().split():
    what, _, value = word.partition("=")
    if what == "say":
        print(value, flush=True)
    elif what == "note":  # a file a process, with what the environment says
        (here / f"{os.getpid()}").write_text(os.environ.get(value, ""))
    elif what == "once":  # dies at its first start
        if not Path(value).exists():
            Path(value).write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
    elif what == "first":  # refuses, if it is the first
        try:
            Path(value).mkdir()
        except FileExistsError:
            continue
        print("error: no room", flush=True)
        sys.exit(2)
    elif what == "refuse":
        print(f"error: {value}", flush=True)
        sys.exit(2)
    elif what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif what == "orderly":
        def end(*args):
            Path("ended").write_text(str(os.getpid()))
            sys.exit(143)
        signal.signal(signal.SIGTERM, end)
    elif what == "ready":
        Path("ready").write_text(str(os.getpid()))
    elif what == "sleep":
        time.sleep(float(value))
    elif what == "exit":
        sys.exit(int(value))
"""


def command(folder: Path, text: str, **more: object) -> ProcessCommand:
    """The command that does what `text` says, in `folder`."""
    (folder / "toy_command.py").write_text(TOY)
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    given = {"environment": {"PYTHONPATH": paths}, **more}
    return ProcessCommand("toy_command", text, str(folder), str(folder / "logs"), **given)  # type: ignore[arg-type]


def wait_for(file: Path, seconds: float = 60.0) -> str:
    """Wait until a file has content, and return it."""
    until = time.monotonic() + seconds
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < until, f"{file} is not there"
        time.sleep(0.02)
    return file.read_text()


def alive(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
