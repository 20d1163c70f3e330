"""Start other Python processes, and say for how many there are cores and memory, in a container too.

A process starts without the current folder on its import path, and without the user's script. By default a new Python
process looks for modules in the current folder first: a file tabulate.py beside a suite would be imported in place of
the library. So processes start with PYTHONSAFEPATH set, which has the effect of `python -P`.

A process that multiprocessing starts also runs the main script, so that a script without the guard `if __name__ ==
"__main__"` would begin from the start. No process of rbench needs anything that is defined there, so none runs it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_SAFE = "PYTHONSAFEPATH"
GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows the limits of groups of processes, of which each container is one."""
OWN = Path("/proc/self/cgroup")
"""Which groups this process is in."""


def process_context() -> Any:
    """Return the multiprocessing context: `forkserver` on Linux, `spawn` elsewhere.

    A fork server imports the modules once, and each process that it forks starts at once.
    """
    return multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


@contextmanager
def start_safely(*, deaf: bool = False) -> Iterator[None]:
    """Start processes inside this block: they do not import from the current folder, and do not run the main script.

    Args:
        deaf: they never receive Ctrl-C, not even while they import, and their parent has to end them.
    """
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    mask = None
    if deaf and hasattr(signal, "pthread_sigmask"):  # not on Windows
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # its start unblocks Ctrl-C, which would undo this
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # new processes inherit it
    main = vars(sys.modules["__main__"])
    script_names: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)  # by these two names multiprocessing finds the script
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(script_names)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ[_SAFE]
        else:
            os.environ[_SAFE] = before


def cores() -> int:
    """Return the number of cores that this process may use, at least 1.

    Its affinity and the CPU quota of its container limit them: a container with two CPUs on a machine with 64 has two.
    """
    from joblib import cpu_count  # here, because its import takes time

    return int(cpu_count())


def shared_cores() -> int:
    """Return the number of cores on which this process may start processes, at least 1.

    OMP_NUM_THREADS limits it: whoever sets it shares the machine between several commands or executor's processes.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has one number a level of nesting
    return min(cores(), max(1, int(first))) if first.isascii() and first.isdecimal() else cores()


def memory() -> int | None:
    """Return the bytes of memory that this process and those of its container may use; None where unknown.

    They are those of the machine, or the lowest limit of a group that the process is in, or of a group around it.
    """
    # A line of OWN is `number:controllers:/path`. Version 2 of the kernel's interface has no controllers there. In a
    # container the path may be the host's, and the container's own group is then the root of GROUPS.
    files: list[Path] = []
    with suppress(OSError):
        for line in OWN.read_text(encoding="utf-8").splitlines():
            controllers, _, path = line.partition(":")[2].partition(":")
            if path.startswith("/") and controllers in ("", "memory"):
                old = controllers == "memory"
                root, name = (GROUPS / "memory", "memory.limit_in_bytes") if old else (GROUPS, "memory.max")
                inside = Path(path.strip("/"))
                files += [root / group / name for group in (inside, *inside.parents) if ".." not in group.parts]
    known = []
    for file in files:
        with suppress(OSError, ValueError):  # "max" is no limit
            known.append(int(file.read_text(encoding="ascii")))
    with suppress(AttributeError, OSError, ValueError):
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(known, default=None)


def limit_threads() -> int:
    """Let PyTorch compute with at most one thread a core, unless OMP_NUM_THREADS says how many; return how many it has.

    PyTorch counts the cores of the machine. In a container that may use few of them, its threads would take turns.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > (most := cores()):
        torch.set_num_threads(most)
    return torch.get_num_threads()
