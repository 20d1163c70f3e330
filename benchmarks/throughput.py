"""Compares the speed of stock TextAttack 0.3.11 and rbench on the same examples, victim and resources.

    python benchmarks/throughput.py --task mr --victim FOLDER --models DIR --data DIR --n 20

Stock is unmodified TextAttack: its own wrapper (inputs padded to the tokenizer's limit, --max-length, 512 for models
like BERT), constraints, transformations and caches, one example after the other, with all cores for PyTorch. rbench
uses --workers processes, as `rbench run` does. Examples are drawn at random. The two sides attack them in blocks, in
turn, so that other load on the machine affects both. Before timing starts, models are loaded and other examples are
attacked: one by stock, --warm by rbench, whose back-ends compile code for each new batch shape. So both are measured as
in the middle of a long run. Medians are over blocks. Outcomes are compared too.

--sizes adds cells of other numbers of texts, which rbench attacks with warm processes, others for each size: always the
same texts, as many as the largest size says, so that all rates are of the same queries. --start CELLS times whole
commands in place of all this: from the start of `rbench attack -n 4` on a victim that exists to its first outcome, in
seconds and in CPU seconds of the command and all its processes. Everything after -- goes to the command.

Prints a table; --out FILE writes JSON with one object per attack and task, the machine and versions. Results in it are
not computed again, so that the script can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import psutil
import torch
from equality import RECIPES, StockAttack, versions
from machine import processor
from stock import build_stock, stock

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import RbenchError
from rbench.schema import Choice, Outcome, ResourceChoice, TaskSpec
from rbench.system import digests
from rbench.system.processes import cores
from rbench.tasks import Example, open_task
from rbench.words.resources import Resources, locate


def main() -> None:
    args = parse()
    if args.start:
        write(args, starts(args))
        return
    registry = Registry()
    task = with_rows(config.load_task(args.task, registry), args.test_rows)
    profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
    rows = open_task(task, args.data).split("test")
    order = np.random.Generator(np.random.PCG64(args.seed)).permutation(len(rows))
    drawn = [rows[i] for i in order[: args.n]]
    warm = [rows[i] for i in order[args.n : args.n + args.warm]]
    blocks = [drawn[i :: args.blocks] for i in range(args.blocks)]
    classifier, _ = EncoderClassifier.load(args.victim, args.device)
    resources = Resources(profile, args.models, device=args.device)
    folder = limited(args, classifier)
    for name in args.recipes:
        if any(r.get("attack") == name and r["task"] == task.name for r in read(args.out)):
            continue
        spec = config.load_attack(Choice(name=name), registry)
        theirs = build_stock(spec, classifier, args.max_length, resources, task)
        places = tuple(locate(profile, spec.needs, args.models).items())
        attack_task = recipes.AttackTask(
            spec, None, task, args.seed, digests.locate_folder(folder), args.victim.name, profile, places
        )
        sides: dict[str, list[dict[str, Any]]] = {"stock": [], "rbench": []}
        different = 0
        one_stock(theirs, warm[:1], spec, task, args.seed, resources)
        for block in blocks:
            with measured(sides["stock"], len(block), children=False) as seen:
                expected = one_stock(theirs, block, spec, task, args.seed, resources)
                seen["queries"] = sum(o.num_queries for o in expected)
            with recipes.Workers(args.workers, recipes.EngineConfig(args.device, args.backend, args.pooled)) as workers:
                list(workers.run(attack_task, warm))
                with measured(sides["rbench"], len(block), children=workers.started) as seen:
                    found = list(workers.run(attack_task, block))
                    seen["queries"] = sum(o.num_queries for o in found)
                backend = workers.backend(attack_task)
            different += differences(name, expected, found)
        row = record(args, name, task.name, backend, sides, different)
        if args.sizes:
            others = [rows[i] for i in order[args.n + args.warm :]]
            row["cells"] = cells(args, attack_task, warm, others)
        write(args, row)
    for row in read(args.out):
        print(line(row))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="mr")
    parser.add_argument("--test-rows", help="attack the rows of this folder of --data instead of the task's test split")
    parser.add_argument("--n", type=int, default=24, help="how many test examples, drawn at random")
    parser.add_argument("--warm", type=int, default=40, help="other examples that rbench attacks first")
    parser.add_argument("--blocks", type=int, default=1, help="turns in which the examples are attacked")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="texts of a cell, each divides the largest")
    parser.add_argument("--rounds", type=int, default=3, help="commands of --start")
    parser.add_argument("--start", nargs=argparse.REMAINDER, help="time `rbench attack` with these arguments")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--victim", type=Path, help="a folder that EncoderClassifier.save wrote")
    parser.add_argument("--max-length", type=int, default=512, help="tokens at which texts are cut, for both sides")
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=cores(), help="processes of rbench")
    parser.add_argument("--pooled", type=int, help="examples under way at once in each")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "throughput.json")
    args = parser.parse_args()
    if args.victim is None and not args.start:
        parser.error("--victim or --start is needed")
    args.models = search_path(args.models, "RBENCH_MODELS")
    args.data = search_path(args.data, "RBENCH_DATA")
    return args


def with_rows(task: TaskSpec, rows: str | None) -> TaskSpec:
    """Return the task with other rows to attack, and the name of these rows."""
    if rows is None:
        return task
    assert task.local is not None
    local = task.local.model_copy(update={"splits": {**task.local.splits, "test": (f"{rows}/test",)}})
    return task.model_copy(update={"name": rows, "local": local})


def limited(args: argparse.Namespace, classifier: Any) -> Path:
    """Copy the victim to a folder for this run, with stock's limit of tokens."""
    folder = Path(tempfile.mkdtemp(prefix="rbench-victim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    classifier.save(folder, {"max_length": args.max_length})
    return folder


def one_stock(
    built: Any, examples: list[Example], spec: Any, task: Any, seed: int, resources: Resources
) -> list[Outcome]:
    with stock(resources):
        return list(recipes.run(lambda: StockAttack(built), examples, spec=spec, task=task, seed=seed))


def cells(
    args: argparse.Namespace, attack_task: recipes.AttackTask, warm: list[Example], others: list[Example]
) -> list[dict[str, Any]]:
    """Return how fast warm processes attack the same texts in cells of each size."""
    found: list[dict[str, Any]] = []
    texts = others[: max(args.sizes)]
    for size in args.sizes:
        rounds = []
        # Processes of their own for each size, because they remember what they were asked about the same texts.
        with recipes.Workers(args.workers, recipes.EngineConfig(args.device, args.backend, args.pooled)) as workers:
            list(workers.run(attack_task, warm))
            for i in range(0, len(texts), size):
                start = time.perf_counter()
                queries = sum(one.num_queries for one in workers.run(attack_task, texts[i : i + size]))
                rounds.append((time.perf_counter() - start, queries))
        total, asked = sum(took for took, _ in rounds), sum(queries for _, queries in rounds)
        found.append(
            {
                "texts": size,
                "cells": len(rounds),
                "seconds_of_a_cell": round(statistics.median(took for took, _ in rounds), 3),
                "queries": asked,
                "queries_per_second": round(asked / total, 1),
            }
        )
    return found


def starts(args: argparse.Namespace) -> dict[str, Any]:
    """Time commands from their start to their first outcome."""
    command = [str(Path(sys.executable).parent / "rbench"), "attack", *args.start]
    seconds, cpu = [], []
    for _ in range(args.rounds + 1):  # the first may fine-tune, and measures back-ends
        before, start = os.times(), time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            first = next((line for line in process.stdout if line.startswith("[1/")), None)
            seconds.append(time.perf_counter() - start)
            process.stdout.read()
        if process.returncode or first is None:
            raise RbenchError(f"{' '.join(command)} ended with {process.returncode} and no outcome")
        after = os.times()
        cpu.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return {
        "command": "rbench attack " + " ".join(args.start),
        "rounds": args.rounds,
        "seconds_to_the_first_outcome": [round(one, 2) for one in seconds[1:]],
        "cpu_seconds_of_the_command": [round(one, 2) for one in cpu[1:]],
    }


@contextmanager
def measured(rows: list[dict[str, Any]], n: int, *, children: bool) -> Iterator[dict[str, Any]]:
    """Measure wall seconds, and the peak memory of this process or of all its children together.

    Pages that children share are counted once for each of them.
    """
    seen: dict[str, Any] = {"n": n, "peak_mb": 0}
    over = threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not over.wait(0.2):
            used = 0
            for process in me.children(recursive=True) if children else (me,):
                try:
                    used += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            seen["peak_mb"] = max(seen["peak_mb"], used >> 20)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    yield seen
    seen["seconds"] = time.perf_counter() - start
    over.set()
    watcher.join()
    rows.append(seen)


def differences(name: str, expected: list[Outcome], found: list[Outcome]) -> int:
    ours = {o.example_id: o for o in found}
    count = 0
    for theirs in expected:
        mine = ours[theirs.example_id]
        if any(getattr(theirs, f) != getattr(mine, f) for f in ("status", "num_queries", "perturbed")):
            count += 1
            print(f"DIFFERENT {name} {theirs.example_id}\n  stock : {theirs.perturbed}\n  rbench: {mine.perturbed}")
    return count


def record(
    args: argparse.Namespace,
    name: str,
    task: str,
    backend: str,
    sides: dict[str, list[dict[str, Any]]],
    different: int,
) -> dict[str, Any]:
    ratios = [s["seconds"] / r["seconds"] for s, r in zip(sides["stock"], sides["rbench"], strict=True)]
    row: dict[str, Any] = {
        "attack": name,
        "task": task,
        "ratio": round(statistics.median(ratios), 2),
        "ratio_blocks": [round(ratio, 2) for ratio in ratios],
        "n": sum(s["n"] for s in sides["stock"]),
        "different": different,
    }
    for who, seen in sides.items():
        row[who] = {
            "examples_per_minute": round(statistics.median(60 * s["n"] / s["seconds"] for s in seen), 2),
            "queries_per_second": round(statistics.median(s["queries"] / s["seconds"] for s in seen), 1),
            "peak_mb": max(s["peak_mb"] for s in seen),
        }
    row |= {
        "victim": args.victim.name,
        "max_length": args.max_length,
        "seed": args.seed,
        "workers": args.workers,
        "warm": args.warm,
        "pooled": args.pooled,
        "backend": backend,
    }
    return row


def read(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def write(args: argparse.Namespace, row: dict[str, Any]) -> None:
    document = {
        "what": "stock TextAttack and rbench in turn on the same examples; see benchmarks/throughput.py",
        "machine": {"processor": processor(), "cores": cores(), "device": args.device, "platform": platform.platform()},
        "threads_stock": torch.get_num_threads(),
        "versions": versions() | {"python": platform.python_version()},
        "rows": [*read(args.out), row],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    partial = args.out.with_suffix(".tmp")
    partial.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    partial.replace(args.out)
    print(line(row), flush=True)


def line(row: dict[str, Any]) -> str:
    if "command" in row:
        return f"{row['command']}: first outcome after {row['seconds_to_the_first_outcome']} s"
    sides = "  ".join(
        f"{who} {row[who]['examples_per_minute']:7.1f} examples/min {row[who]['queries_per_second']:7.1f} queries/s "
        f"{row[who]['peak_mb']:5d} MB"
        for who in ("stock", "rbench")
    )
    small = "".join(
        f"\n    {one['texts']:3} texts: {one['queries_per_second']} queries/s" for one in row.get("cells", ())
    )
    return (
        f"{row['task']:16} {row['attack']:11} {row['ratio']:6.1f}x  {sides}  n {row['n']}, {row['different']} different"
        + small
    )


if __name__ == "__main__":
    try:
        main()
    except RbenchError as error:
        raise SystemExit(f"error: {error}") from error
