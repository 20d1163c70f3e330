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
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from breakable import GENERATED, LONGEST, PRELOADED, Place
from machine import cores, processor
from scenarios import INPUTS, SCENARIOS, WANTED

RESULTS = Path(__file__).parent / "results" / "reliability.json"
PACKAGES = ("torch", "transformers", "textattack", "filelock")
FIELDS = ("runs", "lost", "repeated", "different", "crashes", "tracebacks")


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
