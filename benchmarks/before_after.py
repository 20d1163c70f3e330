"""Compares the speed of attacks of an earlier checkout and of this one, on the same examples, victim and resources.

    python benchmarks/before_after.py --before CHECKOUT --task mr --victim FOLDER --models DIR --data DIR

Each side is a process of its own, with --workers worker processes that stay, as in a long run. The examples are drawn
at random and divided into blocks, which both sides attack in turn, so that other load on the machine affects both.
Which side is first alternates. Before timing starts, each side attacks --warm other examples. Outcomes are compared.

Prints a line for each attack; --out FILE writes JSON. Attacks in it are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import processor

RECIPES = ("textfooler", "textbugger", "pwws", "bae", "bertattack")
WARM_UP = -1
"""The block of the examples that are attacked before timing starts."""
THIS = Path(__file__).resolve().parents[1]


def main() -> None:
    args = parse()
    if args.side:
        serve(args)
        return
    sides = {"before": start(args.before), "after": start(THIS)}
    document = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {"rows": []}
    for recipe in args.recipes:
        if any((row["attack"], row["task"]) == (recipe, args.task) for row in document["rows"]):
            continue
        for process in sides.values():
            ask(process, {"recipe": recipe, "block": WARM_UP})
        answers: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
        for block in range(args.blocks):
            for name in ("before", "after") if block % 2 else ("after", "before"):
                answers[name].append(ask(sides[name], {"recipe": recipe, "block": block}))
        row = compare(recipe, args, answers)
        document["rows"].append(row)
        print(json.dumps(row), flush=True)
        args.out.write_text(json.dumps(document | about(args), indent=1) + "\n", encoding="utf-8")
    for process in sides.values():
        process.stdin.close()
        process.wait()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout with which this one is compared")
    parser.add_argument("--task", default="mr")
    parser.add_argument("--victim", type=Path, required=True, help="a folder that EncoderClassifier.save wrote")
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES))
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--warm", type=int, default=12)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--resources", default="local", help="a resource set")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--backend", default="onednn", help="what computes networks; fixed, so that both use the same")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "before_after.json")
    parser.add_argument("--side", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def start(checkout: Path) -> Any:
    """Start the process of one side. It runs this file with the package of the checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout.resolve())}
    command = [sys.executable, __file__, *sys.argv[1:], "--side"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def ask(process: Any, question: dict[str, Any]) -> dict[str, Any]:
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    while not (answer := process.stdout.readline()).startswith("{"):
        if not answer:
            raise RuntimeError("one side ended; its error is above")
    return json.loads(answer)  # type: ignore[no-any-return]


def serve(args: argparse.Namespace) -> None:
    """Answer questions on standard input: attack a block with a recipe, and say how long it took."""
    import numpy as np

    from rbench import config, recipes
    from rbench.config.registry import Registry, search_path
    from rbench.schema import Choice, ResourceChoice
    from rbench.system import digests
    from rbench.tasks import open_task
    from rbench.words.resources import locate

    registry = Registry()
    task = config.load_task(args.task, registry)
    profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
    rows = open_task(task, search_path(args.data, "RBENCH_DATA")).split("test")
    order = np.random.Generator(np.random.PCG64(args.seed)).permutation(len(rows))
    drawn, warm = ([rows[i] for i in order[a : a + n]] for a, n in ((0, args.n), (args.n, args.warm)))
    with recipes.Workers(args.workers, recipes.EngineConfig("cpu", args.backend, None)) as workers:
        for line in sys.stdin:
            question = json.loads(line)
            spec = config.load_attack(Choice(name=question["recipe"]), registry)
            places = tuple(locate(profile, spec.needs, search_path(args.models, "RBENCH_MODELS")).items())
            victim = digests.locate_folder(args.victim)
            attack_task = recipes.AttackTask(spec, None, task, args.seed, victim, args.victim.name, profile, places)
            block = question["block"]
            begin = time.perf_counter()
            outcomes = list(workers.run(attack_task, warm if block == WARM_UP else drawn[block :: args.blocks]))
            seconds = time.perf_counter() - begin
            by_id = {o.example_id: (o.status, o.num_queries, o.perturbed) for o in outcomes}
            print(json.dumps({"seconds": seconds, "outcomes": by_id}), flush=True)


def compare(recipe: str, args: argparse.Namespace, answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Compare both sides, given what each answered for each block."""
    before, after = ({k: v for block in answers[name] for k, v in block["outcomes"].items()} for name in answers)
    queries = sum(num_queries for _, num_queries, _ in after.values())
    seconds = {name: [block["seconds"] for block in blocks] for name, blocks in answers.items()}
    ratios = [old / new for old, new in zip(seconds["before"], seconds["after"], strict=True)]
    return {
        "attack": recipe,
        "task": args.task,
        "victim": args.victim.name,
        "n": len(after),
        "queries": queries,
        "outcomes_that_differ": sum(before[example_id] != after[example_id] for example_id in after),
        "seconds": {name: [round(of_block, 2) for of_block in by_block] for name, by_block in seconds.items()},
        "queries_per_second": {name: round(queries / sum(by_block), 1) for name, by_block in seconds.items()},
        "times_as_fast_by_block": [round(ratio, 2) for ratio in ratios],
        "times_as_fast": round(statistics.median(ratios), 2),
    }


def about(args: argparse.Namespace) -> dict[str, Any]:
    packages = ("textattack", "torch", "transformers", "tokenizers", "nltk")
    return {
        "what": "attacks of an earlier checkout and of this one, in turn; see benchmarks/before_after.py",
        "machine": {"processor": processor(), "platform": platform.platform(), "cores": os.cpu_count()},
        "versions": {package: version(package) for package in packages} | {"python": platform.python_version()},
        "workers": args.workers,
        "backend": args.backend,
        "resources": args.resources,
    }


if __name__ == "__main__":
    main()
