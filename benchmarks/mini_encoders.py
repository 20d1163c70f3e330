"""Run the suite mini-encoders from an empty cache on several instruction sets, and say what holds on all of them.

    python benchmarks/mini_encoders.py --out benchmarks/results/mini-encoders.json

Each run is a fresh process with an empty cache and an empty RUN. The first has the instruction set that the machine
offers, the others a smaller one (`SETS`), which changes the order of sums and so the last digits of everything. The
JSON has for each run its seconds, a digest of what each of a few operations gives there (so that a reader sees that
the instruction set made a difference), and for each cell the ASR by seed, pooled over the seeds, with n; for each pair
of runs how far the cells are apart; and the statements of docs/mini-world.md, each with the runs in which it holds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

from machine import cores, processor

SETS: dict[str, dict[str, str]] = {
    "as the machine offers": {},
    "SSE4": {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default"},
}
"""Environment variables that limit the instructions of oneDNN, MKL and PyTorch, by name."""
HEAVY = ("bae", "bertattack")
"""The attacks whose candidates come from a masked LM without a filter by word vectors."""

Cell = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    runs: dict[str, dict[str, Any]] = {}
    for name, environment in SETS.items():
        runs[name] = run(environment)
        found = summary(runs)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")  # after each, since a run takes minutes
    for text, names in found["statements"].items():
        print(f"{len(names)} of {len(runs)} runs: {text}")


def summary(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the file's content for the runs made so far, by the name of the instruction set."""
    return {
        "machine": {"processor": processor(), "cores": cores(), "platform": platform.platform()},
        "versions": {name: version(name) for name in ("rbench", "torch", "transformers", "textattack", "numpy")},
        "command": "python benchmarks/mini_encoders.py --out FILE",
        "runs": runs,
        "apart": {f"{a} / {b}": apart(runs[a]["cells"], runs[b]["cells"]) for a, b in combinations(runs, 2)},
        "statements": {
            text: [name for name, made in runs.items() if holds(made["cells"])] for text, holds in STATEMENTS.items()
        },
    }


def run(environment: dict[str, str]) -> dict[str, Any]:
    """Run the suite in a fresh process with this environment; return its seconds and cells."""
    with tempfile.TemporaryDirectory() as folder:
        changed = {**os.environ, **environment, "RBENCH_CACHE": f"{folder}/cache"}
        started = time.perf_counter()
        subprocess.run([RBENCH, "run", "mini-encoders", "--out", f"{folder}/run"], env=changed, check=True)
        seconds = time.perf_counter() - started
        operations = json.loads(subprocess.check_output([sys.executable, "-c", OPERATIONS], env=changed))
        made = {"environment": environment, "seconds": round(seconds, 1), "operations": operations}
        return {**made, "cells": cells(Path(folder) / "run")}


OPERATIONS = """
import hashlib, json, torch
torch.manual_seed(0)
x, heads = torch.randn(16, 26, 96), torch.randn(16, 4, 26, 24)
made = {
    "product": x.view(-1, 96) @ torch.randn(96, 192),
    "gelu": torch.nn.functional.gelu(x),
    "layer norm": torch.nn.functional.layer_norm(x, (96,)),
    "attention": torch.nn.functional.scaled_dot_product_attention(heads, heads, heads),
}
print(json.dumps({name: hashlib.sha256(value.numpy().tobytes()).hexdigest()[:12] for name, value in made.items()}))
"""
"""A program that prints digests of what PyTorch computes, in the shapes of the suite's encoders."""

RBENCH = str(Path(sys.executable).parent / "rbench")


def cells(run: Path) -> dict[str, Cell]:
    """Return the counts of each cell (attack, encoder, task) of a RUN, by seed and pooled."""
    found: dict[str, Cell] = {}
    for path in sorted(run.glob("attack/**/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        encoder, task, _, attack = record["job"]["parts"]
        counts = record["counts"]
        cell = found.setdefault(f"{attack}/{encoder}/{task}", {"succeeded": 0, "n": 0, "valid": 0, "by seed": []})
        n = counts["succeeded"] + counts["failed"]
        scores = {score["name"]: score["value"] for score in record["scores"]}
        cell["succeeded"] += counts["succeeded"]
        cell["n"] += n
        cell["valid"] += round((scores.get("oracle_asr") or 0.0) * n)
        cell["by seed"].append(round(100 * counts["succeeded"] / n, 1) if n else None)
    for cell in found.values():
        cell["asr"] = round(100 * cell["succeeded"] / cell["n"], 1)
        cell["oracle-valid asr"] = round(100 * cell["valid"] / cell["n"], 1)
    return found


def apart(one: dict[str, Cell], other: dict[str, Cell]) -> dict[str, float]:
    """Return how far two runs' cells are apart, in points of ASR: pooled over the seeds, and seed by seed."""
    pooled = [abs(one[name]["asr"] - other[name]["asr"]) for name in one]
    seeds = [
        abs(a - b)
        for name in one
        for a, b in zip(one[name]["by seed"], other[name]["by seed"], strict=True)
        if a is not None and b is not None
    ]
    return {
        "pooled, largest": round(max(pooled), 1),
        "pooled, mean": round(sum(pooled) / len(pooled), 1),
        "one seed, largest": round(max(seeds), 1),
        "one seed, mean": round(sum(seeds) / len(seeds), 1),
    }


def _of(found: dict[str, Cell], attacks: Iterable[str]) -> list[Cell]:
    return [cell for name, cell in found.items() if name.split("/")[0] in attacks]


STATEMENTS: dict[str, Callable[[dict[str, Cell]], bool]] = {
    "BAE and BERT-Attack turn more than two in three predictions, in each cell": lambda found: all(
        cell["succeeded"] > 2 / 3 * cell["n"] for cell in _of(found, HEAVY)
    ),
    "at most one in four of their successes keeps its true label, in each cell": lambda found: all(
        cell["valid"] <= cell["succeeded"] / 4 for cell in _of(found, HEAVY)
    ),
    "PWWS's successes all keep their true label": lambda found: all(
        cell["valid"] == cell["succeeded"] for cell in _of(found, ("pwws",))
    ),
}
"""The statements of docs/mini-world.md about the suite, and what each says about the cells of a run."""


if __name__ == "__main__":
    main()
