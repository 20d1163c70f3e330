"""Measures how much of two processes' time is used, and computes what more processes would use.

    python benchmarks/efficiency.py [--examples 256] [--repetitions 3] [--minutes 11] [--only WORDS ...]
        [--plan] [--out FILE]

The same suite of the embedded world runs in one process, in two processes that share a RUN, and with Ray in one and two
workers. A control runs two processes at once that share nothing but the machine: its efficiency is what the machine
leaves to each of two. Every process has one thread (OMP_NUM_THREADS=1) and no worker processes. The suite trains
nothing: its victim comes with rbench. The order of the five is drawn anew for each repetition. What is counted, in
seconds by the wall:

    starting   from the command until the first job is taken: imports and planning, and with Ray a cluster
    working    from the first job taken until the last record is written. Where a second process starts later than the
               first, its absence is in here
    whole      from the command until it has ended

Efficiency is T1 / (n Tn): the seconds of one process by n times those of n. T1 is the median of `inline`, of all rows.

`expected` plays the jobs and chunks of the first inline run, as they were measured, on more processes, each of which
takes what comes first in the plan (`benchmarks/schedule.py`). So its row for two processes can be held against what was
measured. With --plan it also plays the jobs of table1, as the cost model sees them, which were not run: with the
profile `local`, and with the 1,000 examples and five seeds of the paper. That needs the data and models of the profile
(RBENCH_DATA, RBENCH_MODELS, NLTK_DATA). A process is then the machine of the cost model: two cores.

benchmarks/results/efficiency.json is written after each run. The same command goes on with what is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import cores, processor
from schedule import Part, play

RESULTS = Path(__file__).parent / "results" / "efficiency.json"
PACKAGES = ("rbench", "torch", "transformers", "textattack", "ray")
RAY = ["--executor", "ray", "--cpus-per-process", "1", "--processes"]
CONFIGURATIONS: dict[str, list[list[str]]] = {
    "inline": [[]],
    "2 processes on one RUN": [[], []],
    "Ray, 1 worker": [[*RAY, "1"]],
    "Ray, 2 workers": [[*RAY, "2"]],
    "control: a RUN of its own for each of 2 processes": [[], ["--out", "APART"]],
}
"""By configuration: the commands that are started at once, each by its further options."""
N = {name: 2 if "2" in name and "control" not in name else 1 for name in CONFIGURATIONS}
"""Processes that share the work. The two of the control share nothing but the machine."""
SUITE = """\
name: efficiency
encoders: [robustsentembed-mini-victim]
tasks: [mini-sentiment]
finetune: [saved]
attacks: [textfooler, textbugger, pwws, random]
seeds: [0, 1]
num_examples: EXAMPLES
resources: {set: mini, masked_lm: mini-bert-packaged}
tables: [{metric: asr}]
"""
COUNTS = (1, 2, 8, 64)
BUSY = 0.9
"""Share of the processes' time that is used, from which on the work as a whole limits a run."""
LOOK = 0.02
"""Seconds between two looks for the first job."""
LONGEST = 300.0
"""Seconds after which a run counts as hanging."""


def run(commands: list[list[str]], folder: Path, examples: int) -> tuple[dict[str, Any], Path]:
    """Run the suite once; return its row and its RUN."""
    suite, out = folder / "efficiency.yaml", folder / "run"
    suite.write_text(SUITE.replace("EXAMPLES", str(examples)), encoding="utf-8")
    program = [sys.executable, "-P", "-c", "import sys; from rbench.cli import main; sys.exit(main())"]
    how = ["run", str(suite), "--out", str(out), "--device", "cpu", "--backend", "torch", "--workers", "1"]
    changed = {**os.environ, "RBENCH_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    load = round(os.getloadavg()[0], 2)
    began = time.time()
    said = [folder / f"said-{i}" for i in range(len(commands))]
    running = []
    for more, file in zip(commands, said, strict=True):
        with file.open("wb") as opened:
            words = [str(folder / "apart") if word == "APART" else word for word in more]
            running.append(subprocess.Popen([*program, *how, *words], env=changed, stdout=opened, stderr=opened))
    try:
        first = first_job(out, began + LONGEST)
        codes = [one.wait(LONGEST) for one in running]
    finally:
        for one in running:
            one.kill()
    ended = time.time()
    if any(codes) or first is None:
        sys.exit(f"{commands} ended with {codes}:\n" + "\n".join(file.read_text(errors="replace") for file in said))
    last = max(file.stat().st_mtime for file in out.rglob("record.json"))
    row = {"starting": first - began, "working": last - first, "whole": ended - began}
    table = hashlib.sha256((out / "tables" / "asr.csv").read_bytes()).hexdigest()[:12]
    return {**{name: round(value, 2) for name, value in row.items()}, "load before": load, "table": table}, out


def first_job(out: Path, until: float) -> float | None:
    """Wait until a process takes a job of a RUN; return when."""
    leases = out / ".processes" / "leases"
    while time.time() < until:
        if leases.exists() and any(folder.name != "joining" for folder in leases.iterdir()):
            return time.time()
        time.sleep(LOOK)
    return None


def measured_parts(out: Path) -> list[dict[str, Any]]:
    """Return the jobs of a RUN with the seconds of each chunk, as one process measured them.

    What an attack takes beside its examples (`beside`), such as opening the victim, counts for each chunk, because
    several processes take the chunks of a job. It is the median of all attacks: the first ones also have what a process
    does once.
    """
    from rbench.execution.cluster.scheduler import count_chunks
    from rbench.schema import AttackJob
    from rbench.store.runs import RunStore

    store, found = RunStore(out), []
    plan = store.plan()
    took = {record.job.key: record.provenance.seconds for job in plan.jobs if (record := store.look(job).record)}
    attacks = [job for job in plan.jobs if isinstance(job.spec, AttackJob)]
    examples = {job.key: sum(one.seconds for one in store.outcomes(job)) for job in attacks}
    middle = statistics.median(max(0.0, took[key] - seconds) for key, seconds in examples.items())
    for job in plan.jobs:
        seconds, n, beside = took[job.key], 1, 0.0
        if isinstance(job.spec, AttackJob):
            n, beside = count_chunks(job.spec.num_examples), middle
            seconds = examples[job.key] / n + beside
        part = {"name": job.name, "needs": [_name(store, key) for key in job.needs.values()], "chunks": n}
        found.append({**part, "seconds": round(seconds, 3), "beside": round(beside, 3)})
    return found


def _part(said: dict[str, Any]) -> Part:
    return Part(said["name"], tuple(said["needs"]), said["seconds"], said["chunks"])


def _name(store: Any, key: str) -> str:
    return str(store.plan().job(key).name)


def expected(parts: Sequence[Part], counts: Sequence[int] = COUNTS) -> dict[str, Any]:
    """Return the efficiency with so many processes, and what keeps it from being higher."""
    rows: dict[str, Any] = {}
    alone = sum(part.seconds * part.chunks for part in parts)
    for n in counts:
        found = play(parts, n)
        efficiency = alone / (n * found.seconds)
        bound = "the longest chain" if found.chain_seconds >= BUSY * found.seconds else "too few jobs and chunks"
        row = {"hours": round(found.seconds / 3600, 4), "efficiency": round(efficiency, 3)}
        rows[str(n)] = {**row, "bound": "the work as a whole" if efficiency >= BUSY else bound}
    share = round(found.chain_seconds / alone, 4)
    return {**rows, "chain": found.chain, "chain hours": round(found.chain_seconds / 3600, 4), "share of work": share}


def planned_parts(settings: Sequence[str]) -> list[Part]:
    """Return the jobs of table1 with the seconds that they are estimated to take on this machine."""
    from rbench.api import plan
    from rbench.execution.cluster.scheduler import count_chunks
    from rbench.execution.forecast import this_machine
    from rbench.plan.work import DurationEstimator
    from rbench.schema import AttackJob

    found = plan("table1", profile="local", overrides=tuple(settings))
    assert found.prepared is not None
    timing, parts = DurationEstimator(found.prepared, this_machine(workers=1)), []
    for job in found.jobs:
        n = count_chunks(job.spec.num_examples) if isinstance(job.spec, AttackJob) else 1
        seconds = timing.seconds(job) / n
        names = tuple(found.plan.job(key).name for key in job.needs.values())
        parts.append(Part(job.name, names, seconds, n))
    return parts


PLANS = {
    "table1, profile local": [],
    "table1, profile local, 1,000 examples (IMDB: 400) and five seeds": [
        "num_examples={default: 1000, imdb: 400}",
        "seeds=[0, 1, 2, 3, 4]",
    ],
}


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the medians of the configurations, and their efficiency."""
    middle = {name: statistics.median(row["working"] for row in rows) for name, rows in runs.items() if rows}
    rows: dict[str, Any] = {}
    for name, working in middle.items():
        row: dict[str, Any] = {"n": N[name], "runs": len(runs[name]), "working": working}
        for what in ("starting", "whole"):
            row[what] = statistics.median(one[what] for one in runs[name])
        if "inline" in middle:
            ratios = sorted(middle["inline"] / (N[name] * one["working"]) for one in runs[name])
            row["efficiency"] = round(middle["inline"] / (N[name] * working), 3)
            row["lowest"], row["highest"] = round(ratios[0], 3), round(ratios[-1], 3)
        rows[name] = row
    return rows


def described(examples: int) -> dict[str, Any]:
    """The command, the machine and the versions."""
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES if find_spec(name)}}
    machine = {"processor": processor(), "cores": cores(), "system": platform.platform()}
    command = "python benchmarks/efficiency.py " + " ".join(sys.argv[1:])
    return {"command": command.strip(), "machine": machine, "versions": versions, "examples": examples}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=256, help="examples of each attack (default: 256)")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=11.0, help="start no run after this time")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="WORDS", help="configurations whose name has these words"
    )
    parser.add_argument("--plan", action="store_true", help="also play the jobs of table1")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    began = time.monotonic()
    before = json.loads(args.out.read_bytes()) if args.out.exists() else {}
    if before.get("examples", args.examples) != args.examples:
        sys.exit(f"{args.out} was measured with --examples {before['examples']}: use that, or another --out")
    runs: dict[str, list[dict[str, Any]]] = {name: before.get("runs", {}).get(name, []) for name in CONFIGURATIONS}
    document = {**before, **described(args.examples)}

    def write() -> None:
        document.update(runs=runs, summary=summary(runs))
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    for repetition in range(args.repetitions):
        names = [*CONFIGURATIONS]
        random.Random(repetition).shuffle(names)
        for name in names:
            if args.only and not any(words in name for words in args.only):
                continue
            if "Ray" in name and not find_spec("ray"):
                print(f"{name}: left out, because ray is not installed")
                continue
            if len(runs[name]) > repetition or time.monotonic() - began > 60 * args.minutes:
                continue
            with tempfile.TemporaryDirectory(prefix="efficiency-") as folder:
                row, out = run(CONFIGURATIONS[name], Path(folder), args.examples)
                runs[name].append(row)
                if name == "inline" and "parts" not in document:
                    document["parts"] = measured_parts(out)
                    parts = [_part(one) for one in document["parts"]]
                    document["expected"] = {**document.get("expected", {}), "this suite": expected(parts)}
            if len({one["table"] for rows in runs.values() for one in rows}) > 1:
                sys.exit(f"{name}: its table differs from that of another run")
            write()
            print(f"{name}: {row}", flush=True)
    if args.plan:
        for name, settings in PLANS.items():
            document.setdefault("expected", {})[name] = expected(planned_parts(settings))
            write()
    for name, row in document["summary"].items():
        print(f"{name}: {row}")
    for name, found in document.get("expected", {}).items():
        print(f"expected, {name}: {found}")


if __name__ == "__main__":
    main()
