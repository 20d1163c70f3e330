"""Measures how time and memory grow with the size of the input, in this version and in an earlier one.

    python benchmarks/growth.py --before COMMIT --out benchmarks/results/growth.json

Measures this version and that of another commit in turn, on one machine, each time in a fresh process:

plan     seconds to plan suites of 2, 200 and 800 encoders, half of them trained. `growth` is the time of 800 over the
         time of 200, with the time of 2 subtracted from both. It is 4 where time is linear in the number of encoders.
store    seconds to write 5 outcomes and a record for each of 100 and 400 jobs, to read them again, and to determine the
         state of the plan's jobs.
tables   seconds of `rbench table`, and of a `rbench run` that finds all jobs done and writes three tables, for 200 and
         800 attack jobs.
many     seconds of such a `rbench run` and of `rbench table` for 50 and 200 encoders, of which each two are a pair.
frame    seconds and peak memory of `load_results` for a million outcomes of 1000 jobs.
import   seconds and peak memory of `import rbench`, `rbench --help` and the module that imports TextAttack; seconds to
         the first byte of `rbench plan quickstart` and `rbench run quickstart` on a pipe. Both are measured with an
         empty cache and with a warm one, filled by a `rbench plan quickstart`. The run is stopped at its first byte.

RUNs are synthetic: each version writes them with its own commit's `synthetic.py`. Figures are medians over several
processes, except those of store and frame, which come from one. --quick makes all sizes small, to test the script.
Prints results; --out FILE writes them as JSON with commits, machine and versions, after each part.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import cores, processor
from trees import RBENCH, Ran, Tree, trees

THIS = Path(__file__).resolve()
PACKAGES = ("numpy", "pandas", "pyarrow", "pydantic", "torch", "textattack", "transformers", "typer")
Figures = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """Number of rounds, and sizes of each part."""

    rounds: int
    encoders: tuple[int, ...]
    store_jobs: tuple[int, ...]
    table_jobs: tuple[int, ...]
    many: tuple[int, ...]
    frame_jobs: int
    """Number of jobs with a thousand outcomes each."""


FULL = Sizes(3, (2, 200, 800), (100, 400), (200, 800), (50, 200), 1000)
QUICK = Sizes(1, (2, 10, 40), (10, 40), (10, 40), (5, 20), 20)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        sys.path.insert(0, os.environ["PYTHONPATH"] + "/benchmarks")  # the version's own synthetic.py
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
        return
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the worktree is removed
    sizes = QUICK if args.quick else FULL
    with trees(args.before) as both:
        document = described(args, both, sizes)
        for name in args.parts:
            start = time.perf_counter()
            document[name] = PARTS[name](both, sizes)
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
            for line in lines(document[name]):
                print(f"  {line}", flush=True)
            if args.out is not None:
                write(args.out, document)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, metavar="COMMIT", help="the version to compare this one with")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


# ------------------------------------------------------------------------------------------------------------- parts


def plan(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {"encoders": list(sizes.encoders)}
    for tree in both:  # fill the cache, so that all plans find the same
        tree.child(THIS, "--child", "plan", str(sizes.encoders[0]))
    for n in sizes.encoders:
        for name, rounds in in_turn(both, sizes, lambda tree, n=n: tree.child(THIS, "--child", "plan", str(n))):
            found.setdefault(name, {"seconds": []})["seconds"].append(median(one["seconds"] for one in rounds))
    for tree in both:
        start, less, more = found[tree.name]["seconds"]
        found[tree.name]["growth"] = round((more - start) / (less - start), 2)
    return found


def store(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {"jobs": list(sizes.store_jobs)}
    for n in sizes.store_jobs:
        for tree in both:
            for what, seconds in tree.child(THIS, "--child", "store", str(n))["seconds"].items():
                found.setdefault(tree.name, {}).setdefault(what, []).append(seconds)
    return found


def tables(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {"jobs": list(sizes.table_jobs)}
    for n in sizes.table_jobs:
        for tree in both:
            tree.child(THIS, "--child", "write", f"tables-{n}", str(n), "20")
        for what, command in (
            ("table", ("table", f"tables-{n}/run")),
            ("finished_run", ("run", f"tables-{n}/growth.yaml", "--out", f"tables-{n}/run", "--quiet")),
        ):
            for name, rounds in in_turn(both, sizes, lambda tree, c=command: tree.python(*RBENCH, *c)):
                found.setdefault(name, {}).setdefault(what, []).append(median(one.seconds for one in rounds))
    return found


def many(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {"encoders": list(sizes.many)}
    for n in sizes.many:
        for tree in both:
            tree.child(THIS, "--child", "write-many", f"many-{n}", str(n))
        for what, command in (
            ("table", ("table", f"many-{n}/run")),
            (
                "finished_run",
                ("run", f"many-{n}/encoders.yaml", "--include", f"many-{n}", "--out", f"many-{n}/run", "--quiet"),
            ),
        ):
            for name, rounds in in_turn(both, sizes, lambda tree, c=command: tree.python(*RBENCH, *c)):
                found.setdefault(name, {}).setdefault(what, []).append(median(one.seconds for one in rounds))
    return found


def frame(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {"outcomes": sizes.frame_jobs * 1000}
    for tree in both:
        tree.child(THIS, "--child", "write", "frame", str(sizes.frame_jobs), "1000")
        found[tree.name] = tree.child(THIS, "--child", "frame", "frame")
    return found


def imports(both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    found: Figures = {}
    commands = {
        "import rbench": ("-c", "import rbench"),
        "rbench --help": (*RBENCH, "--help"),
        "import of TextAttack": ("-c", "import rbench.{textattack}"),
    }
    for what, command in commands.items():
        for name, rounds in in_turn(both, sizes, lambda tree, c=command: tree.python(*named(tree, c))):
            found.setdefault(name, {})[what] = {
                "seconds": median(one.seconds for one in rounds),
                "peak_mb": max(one.peak_mb for one in rounds),
            }
    for verb in ("plan", "run"):
        for cache in ("empty", "warm"):
            for name, rounds in in_turn(both, sizes, lambda tree, v=verb, c=cache: first_byte(tree, v, c)):
                found[name][f"rbench {verb} quickstart, {cache} cache"] = {
                    "first_byte_seconds": median(one.first or one.seconds for one in rounds),
                    "first_line": rounds[0].output.strip().partition("\n")[0][:100],
                } | ({"seconds": median(one.seconds for one in rounds)} if verb == "plan" else {})
    return found


def named(tree: Tree, command: tuple[str, ...]) -> list[str]:
    """Put the package in which this version imports TextAttack in place of `{textattack}`."""
    (file,) = (tree.root / "rbench").glob("*/_textattack.py")
    return [part.replace("{textattack}", f"{file.parent.name}._textattack") for part in command]


def first_byte(tree: Tree, verb: str, cache: str) -> Ran:
    """Run `rbench VERB quickstart` in a new folder, with an empty cache of its own or with the warm one."""
    out = tempfile.mkdtemp(dir=tree.work)
    own = f"{out}/cache" if cache == "empty" else "cache"
    if cache == "warm" and not (tree.work / "warm").exists():
        tree.python(*RBENCH, "plan", "quickstart")
        (tree.work / "warm").touch()
    return tree.python(*RBENCH, verb, "quickstart", "--out", f"{out}/run", cache=own, stop=verb == "run")


def in_turn(both: tuple[Tree, Tree], sizes: Sizes, measure: Callable[[Tree], Any]) -> list[tuple[str, list[Any]]]:
    """Measure each version in every round. The versions take turns, so that other load on the machine affects both."""
    rounds = [[measure(tree) for tree in both] for _ in range(sizes.rounds)]
    return [(tree.name, list(found)) for tree, found in zip(both, zip(*rounds, strict=True), strict=True)]


PARTS: dict[str, Callable[[tuple[Tree, Tree], Sizes], Figures]] = {
    "plan": plan,
    "store": store,
    "tables": tables,
    "many": many,
    "frame": frame,
    "import": imports,
}


# ------------------------------------------------------------------------ children, which have rbench of one version


def child_plan(encoders: str) -> Figures:
    """Measure seconds to plan a suite with this many encoders, which are files of an --include folder."""
    from synthetic import Options, api, write_encoders

    with tempfile.TemporaryDirectory() as folder:
        suite = write_encoders(Path(folder), int(encoders))
        start = time.perf_counter()
        api.plan(suite, Options(include=(Path(folder),), out=Path(folder) / "run"))
        return {"seconds": time.perf_counter() - start}


def child_store(jobs: str) -> Figures:
    """Measure seconds to write outcomes and records of a RUN of this many attack jobs one by one, and to read them."""
    import synthetic

    with tempfile.TemporaryDirectory() as folder:
        plan = synthetic.planned(Path(folder), int(jobs))
        store = synthetic.Store(Path(folder) / "run")
        store.write_plan(plan)
        seconds: dict[str, float] = {}
        with clock(seconds, "write"):
            for job in plan.jobs:
                synthetic.append(store, job, 5)
        with clock(seconds, "read"):
            for job in plan.jobs:
                store.record(job)
                store.outcomes(job)
        with clock(seconds, "standing"):
            synthetic.done(store, plan)
    return {"seconds": seconds}


def child_write(folder: str, jobs: str, outcomes: str) -> Figures:
    """Write a finished RUN to a new folder."""
    import synthetic

    Path(folder).mkdir()
    return {"run": str(synthetic.write_run(Path(folder), int(jobs), int(outcomes)))}


def child_write_many(folder: str, encoders: str) -> Figures:
    """Write a finished RUN of many encoders, half of them trained, to a new folder."""
    import synthetic

    place = Path(folder)
    place.mkdir()
    suite = synthetic.write_encoders(place, int(encoders))
    options = synthetic.Options(include=(place,), out=place / "run")
    plan = synthetic.api.plan(suite, options).plan
    store = synthetic.Store(place / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        synthetic.write(store, job, 20)
    return {"jobs": len(plan.jobs)}


def child_frame(folder: str) -> Figures:
    """Measure seconds of `load_results`. Imports nothing else, because the memory of this process is measured too."""
    import rbench

    start = time.perf_counter()
    frame = rbench.load_results(Path(folder) / "run")
    return {"seconds": round(time.perf_counter() - start, 1), "rows": len(frame)}


CHILDREN: dict[str, Callable[..., Figures]] = {
    "plan": child_plan,
    "store": child_store,
    "write": child_write,
    "write-many": child_write_many,
    "frame": child_frame,
}


@contextmanager
def clock(seconds: dict[str, float], what: str) -> Iterator[None]:
    """Record the seconds that the block takes."""
    start = time.perf_counter()
    yield
    seconds[what] = round(time.perf_counter() - start, 3)


# ------------------------------------------------------------------------------------------------------------ report


def described(args: argparse.Namespace, both: tuple[Tree, Tree], sizes: Sizes) -> Figures:
    return {
        "what": "time and memory by size, two versions in turn; see benchmarks/growth.py",
        "commits": {tree.name: tree.commit for tree in both},
        "rounds": sizes.rounds,
        "quick": args.quick,
        "machine": {"processor": processor(), "cores": cores(), "platform": platform.platform()},
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
    }


def lines(found: Figures) -> list[str]:
    """Format the figures of a part for people: what was measured at each size, before and after."""
    sizes = [f"{key}: {value}" for key, value in found.items() if key not in ("before", "after")]
    sides = found["before"].items()
    return sizes + [f"{what}: before {value}, after {found['after'][what]}" for what, value in sides]


def median(values: Any) -> float:
    return round(statistics.median(values), 3)


def write(path: Path, document: Figures) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
