"""Measures how an attack's cost grows with examples and changes with workers and back-ends, and where its time goes.

    python benchmarks/scaling.py --task mr --victim FOLDER --models DIR --data DIR

growth   seconds and peak memory for 50, 100, 200 and 400 examples of TextFooler. Seconds should be linear, and memory
         flat once caches are full.
grid     seconds per example for each combination of processes, examples under way at once in each, and back-end. Each
         is measured in fresh processes.
profile  the share of each network in an attack's time in one process with one thread, and the rate of the victim's
         forward passes compared with this machine's rate of matrix products

Prints results; --out FILE writes them as JSON with machine and versions.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from equality import RECIPES, versions
from machine import processor
from throughput import limited, measured

from rbench import config, recipes
from rbench.config.registry import Registry, search_path
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import Network, backends
from rbench.recipes.engine import AttackEngine
from rbench.schema import Choice, ResourceChoice
from rbench.system import digests
from rbench.system.processes import cores
from rbench.tasks import Example, open_task
from rbench.words.resources import locate

SIZES = (50, 100, 200, 400)


def main() -> None:
    args = parse()
    registry = Registry()
    task = config.load_task(args.task, registry)
    profile = config.load_resources(ResourceChoice(profile=args.resources), registry)
    rows = open_task(task, args.data).split("test")
    order = np.random.Generator(np.random.PCG64(args.seed)).permutation(len(rows))
    examples = [rows[i] for i in order]
    classifier, _ = EncoderClassifier.load(args.victim)
    victim = limited(args, classifier)

    def cell(name: str) -> recipes.AttackTask:
        spec = config.load_attack(Choice(name=name), registry)
        places = tuple(locate(profile, spec.needs, args.models).items())
        return recipes.AttackTask(
            spec, None, task, args.seed, digests.locate_folder(victim), args.victim.name, profile, places
        )

    parts: dict[str, Any] = {"grid": grid, "profile": profiles, "growth": growth}
    document: dict[str, Any] = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    document |= {
        "what": "rbench alone; see benchmarks/scaling.py",
        "task": args.task,
        "victim": args.victim.name,
        "max_length": args.max_length,
        "machine": {"processor": processor(), "cores": cores(), "platform": platform.platform()},
        "versions": versions() | {"python": platform.python_version()},
    }
    for part in args.parts:
        document[part] = parts[part](cell, examples)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="mr")
    parser.add_argument("--parts", nargs="+", default=["grid", "profile", "growth"])
    parser.add_argument("--victim", type=Path, required=True)
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--resources", default="local")
    parser.add_argument("--models", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "scaling.json")
    args = parser.parse_args()
    args.models = search_path(args.models, "RBENCH_MODELS")
    args.data = search_path(args.data, "RBENCH_DATA")
    return args


def one(cell: recipes.AttackTask, examples: list[Example], count: int, config: recipes.EngineConfig) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    with recipes.Workers(count, config) as workers:
        list(workers.run(cell, [examples[-1]._replace(id=f"warm-{i}") for i in range(4 * count + 8)]))
        with measured(seen, len(examples), children=count > 1) as row:
            row["queries"] = sum(o.num_queries for o in workers.run(cell, examples))
    return row


def growth(cell: Any, examples: list[Example]) -> list[dict[str, Any]]:
    found = []
    for n in SIZES:
        row = one(cell("textfooler"), examples[:n], cores(), recipes.EngineConfig())
        row["seconds_per_query"] = round(row["seconds"] / row["queries"], 5)
        found.append(row | {"seconds": round(row["seconds"], 1)})
        print("growth", found[-1], flush=True)
    return found


def grid(cell: Any, examples: list[Example]) -> list[dict[str, Any]]:
    found = []
    usable = backends.usable(torch.device("cpu"))
    best = usable[-1]
    cases = [(1, 1, best)] + [(cores(), pooled, best) for pooled in (1, 4, 16)]
    cases += [(cores(), 4, name) for name in usable[:-1]]
    for count, pooled, backend in cases:
        row = one(cell("textfooler"), examples[:60], count, recipes.EngineConfig(backend=backend, pooled=pooled))
        case = {"attack": "textfooler", "workers": count, "pooled": pooled, "backend": backend, "n": 60}
        found.append(case | {"seconds_per_example": round(row["seconds"] / 60, 4), "peak_mb": row["peak_mb"]})
        print("grid", found[-1], flush=True)
    return found


def profiles(cell: Any, examples: list[Example]) -> dict[str, Any]:
    torch.set_num_threads(1)
    seconds: dict[str, float] = {}
    tokens: dict[str, int] = {}
    whole = Network._whole

    def timed(self: Network, rows: Any) -> Any:
        start = time.perf_counter()
        answer = whole(self, rows)
        kind = self.name.split(" ")[0]
        seconds[kind] = seconds.get(kind, 0.0) + time.perf_counter() - start
        tokens[kind] = tokens.get(kind, 0) + sum(len(ids) for ids, _ in rows)
        return answer

    Network._whole = timed  # type: ignore[method-assign]
    rates = {name: matmul(name) for name in ("torch", "onednn")}
    found: dict[str, Any] = {"gflops_matmul_one_thread": rates, "attacks": []}
    engine = AttackEngine(recipes.EngineConfig())
    for name in RECIPES:
        list(engine.run(cell(name), examples[-6:]))
        seconds.clear(), tokens.clear()
        start = time.perf_counter()
        list(engine.run(cell(name), examples[:30]))
        total = time.perf_counter() - start
        victim, _ = engine._victim(cell(name))
        gflop = tokens["victim"] * flop_per_token(victim.classifier) / 1e9
        row = {"attack": name, "n": 30, "seconds": round(total, 2), "backend": victim.network.backend}
        row["share"] = {kind: round(value / total, 3) for kind, value in seconds.items()}
        row["share"]["rest"] = round(1 - sum(seconds.values()) / total, 3)
        row["victim_gflops"] = round(gflop / seconds["victim"], 1)
        row["victim_share_of_matmul_rate"] = round(gflop / seconds["victim"] / max(rates.values()), 2)
        found["attacks"].append(row)
        print("profile", row, flush=True)
    Network._whole = whole  # type: ignore[method-assign]
    return found


def flop_per_token(classifier: Any) -> float:
    """Count operations per token of the linear layers in the transformer's layers. Attention products are left out."""
    layers = classifier.encoder.model.encoder
    return 2.0 * sum(m.weight.numel() for m in layers.modules() if isinstance(m, torch.nn.Linear))


def matmul(name: str) -> float:
    """Measure GFLOP/s of the largest matrix product of a MiniLM layer, with 512 tokens at a time."""
    layer, x = torch.nn.Linear(384, 1536), torch.randn(512, 384)
    product = backends._replace_linear(backends._OneDnnLinear if name == "onednn" else backends._SteadyLinear, layer)
    with torch.inference_mode():
        for _ in range(50):
            product(x)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < 2:
            product(x)
            count += 1
    return round(count * 2 * x.numel() * 1536 / (time.perf_counter() - start) / 1e9, 1)


if __name__ == "__main__":
    main()
