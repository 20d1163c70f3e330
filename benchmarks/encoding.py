"""Compares the seconds that rbench and sentence-transformers take to encode the same sentences with the same model.

    python benchmarks/encoding.py --model FOLDER --data DIR --n 10000

Both open the folder, rbench with what the folder's own files state. Sentences are distinct and drawn from the texts of
STS tasks. The two sides encode them in blocks, in turn, and begin in turn, so that other load on the machine affects
both. Before timing starts, each encodes a block of other sentences; rbench measures its back-ends then. Both compute in
float32 with all cores that PyTorch takes. sentence-transformers has its default batch size; --batch-size changes it.

The JSON holds seconds by block, the ratio of sums, the largest difference between vectors, the machine, versions, and
how fast oneDNN's matrix products are relative to PyTorch's for this model's shapes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
from machine import cores, processor
from sentence_transformers import SentenceTransformer
from torch import nn

from rbench import config, encoders
from rbench.config.registry import Registry, search_path
from rbench.encoders.inference import backends
from rbench.encoders.model_metadata import read_fields
from rbench.schema import EncoderSpec
from rbench.tasks import open_task

TOKENS = 768
"""Rows of the products that are compared: 32 sentences of 24 tokens."""
ROUNDS = 20
"""How often each product is computed; the fastest counts."""


def main() -> None:
    args = parse()
    texts = sentences(args.tasks, args.data, args.n + args.block, args.seed)
    warm, texts = texts[: args.block], texts[args.block :]
    spec = EncoderSpec(**{"name": args.model.name, "base": args.model.name, **read_fields(args.model)})
    ours = encoders.load(spec, args.model)
    theirs = SentenceTransformer(str(args.model), device="cpu")

    def rbench(block: Sequence[str]) -> np.ndarray:
        return ours.encode(block, "fastest")

    def stock(block: Sequence[str]) -> np.ndarray:
        return theirs.encode(list(block), batch_size=args.batch_size, show_progress_bar=False)

    for side in (rbench, stock):
        side(warm)
    seconds, apart = compare({"rbench": rbench, "sentence-transformers": stock}, texts, args.block)
    total = {side: sum(found) for side, found in seconds.items()}
    result = {
        "model": args.model.name,
        "sentences": len(texts),
        "tasks": args.tasks,
        "batch_size": args.batch_size,
        "seconds": {side: round(found, 2) for side, found in total.items()},
        "times as fast": round(total["sentence-transformers"] / total["rbench"], 3),
        "largest difference": apart,
        "oneDNN's products relative to PyTorch's": round(products(ours.model), 3),
        "back-end": backends.choose_backend(ours, _vectors, device=torch.device("cpu"), wanted="fastest")[0],
        "blocks": {side: [round(one, 3) for one in found] for side, found in seconds.items()},
        "machine": {"processor": processor(), "cores": cores(), "threads": torch.get_num_threads()},
        "versions": {name: version(name) for name in ("torch", "transformers", "sentence-transformers")},
    }
    print(json.dumps({key: value for key, value in result.items() if key != "blocks"}, indent=2))
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _vectors(encoder: nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    vectors: torch.Tensor = encoder(**inputs)
    return vectors


def compare(
    sides: dict[str, Callable[[Sequence[str]], np.ndarray]], texts: Sequence[str], block: int
) -> tuple[dict[str, list[float]], float]:
    """Encode all texts on each side. Return the seconds of each block, and the largest difference of two vectors."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    apart = 0.0
    for number, start in enumerate(range(0, len(texts), block)):
        vectors = {}
        for side in list(sides)[:: 1 if number % 2 else -1]:
            began = time.perf_counter()
            vectors[side] = sides[side](texts[start : start + block])
            seconds[side].append(time.perf_counter() - began)
        first, second = vectors.values()
        apart = max(apart, float(np.abs(first - second).max()))
    return seconds, apart


def products(network: nn.Module) -> float:
    """Return PyTorch's seconds divided by oneDNN's for one product of each shape that the network has."""
    layers = {tuple(m.weight.shape): m for m in network.modules() if isinstance(m, nn.Linear)}
    total = {"torch": 0.0, "onednn": 0.0}
    with torch.inference_mode():
        for layer in layers.values():
            x = torch.randn(TOKENS, layer.in_features)
            calls: dict[str, Any] = {
                "torch": lambda x=x, layer=layer: nn.functional.linear(x, layer.weight, layer.bias),
                "onednn": lambda x=x, layer=layer: torch.ops.mkldnn._linear_pointwise(
                    x, layer.weight, layer.bias, "none", [], ""
                ),
            }
            best = dict.fromkeys(calls, float("inf"))
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    began = time.perf_counter()
                    call()
                    best[name] = min(best[name], time.perf_counter() - began)
            for name in total:
                total[name] += best[name]
    return total["torch"] / total["onednn"]


def sentences(tasks: Sequence[str], data: Sequence[Path], n: int, seed: int) -> list[str]:
    """Return `n` different sentences of STS tasks, in random order."""
    found: dict[str, None] = {}
    for name in tasks:
        rows = open_task(config.load_task(name, Registry()), data)
        for split in ("train", "validation", "test"):
            found.update((text, None) for example in rows.split(split) for text in example.texts)
    if len(found) < n:
        raise SystemExit(f"{', '.join(tasks)} have {len(found)} different sentences, and {n} are needed; add --tasks")
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(found))[:n]
    texts = list(found)
    return [texts[i] for i in order]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of a SentenceTransformer")
    parser.add_argument("--data", type=Path, action="append", help="folder with data sets; may be repeated")
    parser.add_argument("--tasks", nargs="+", default=["stsb", "sickr"], help="STS tasks whose texts are encoded")
    parser.add_argument("--n", type=int, default=10_000, help="number of sentences")
    parser.add_argument("--block", type=int, default=1_000, help="sentences that one side encodes in its turn")
    parser.add_argument("--batch-size", type=int, default=32, help="of sentence-transformers")
    parser.add_argument("--seed", type=int, default=0, help="draws the sentences")
    parser.add_argument("--out", type=Path, help="write JSON here too, such as benchmarks/results/encoding.json")
    args = parser.parse_args()
    args.data = search_path(args.data or [], "RBENCH_DATA")
    return args


if __name__ == "__main__":
    main()
