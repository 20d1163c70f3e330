"""What breaks while a suite runs, and input that would break it. Each scenario adds to its row."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hostile
from breakable import LONGEST, Place, Process

FULL_DISK = """
import errno
from rbench.store.runs import store
really, left = os.write, [10]
def write(handle, content):
    left[0] -= handle != log
    if left[0] < 0 and handle != log:
        really(handle, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return really(handle, content)
store.os = type("Os", (), {**vars(os), "write": staticmethod(write)})
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
    """Left out where ray is not installed, as is the next one."""
    _kill_of_ray(place, rng, row, b"ray::_Actor").wait()


def kill_a_ray_node(place: Place, rng: random.Random, row: dict[str, int]) -> None:
    """The cluster's only node dies: the run ends, and says that it can be repeated."""
    process = _kill_of_ray(place, rng, row, b"raylet/raylet")
    process.codes = (0, 2)
    process.wait()


def _kill_of_ray(place: Place, rng: random.Random, row: dict[str, int], words: bytes) -> Process:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(place.root / "site"), *sys.path[1:]])
    process = place.start(more=("--executor", "ray", "--processes", "2"))
    _kill(place, rng, row, process, of=lambda: [pid for pid in process.below() if _says(pid, words)])
    return process


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
    "kill -9 of Ray's node": 5,
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
    **({"kill -9 of a Ray worker": kill_a_ray_worker, "kill -9 of Ray's node": kill_a_ray_node} if has_ray() else {}),
}
