"""How long each kind of noise takes for 100,000 texts of 20 words at degree 0.1, on one core, beside tokenising them.

    python benchmarks/noise_speed.py MODEL [--texts 100000] [--out benchmarks/results/noise_speed.json]

MODEL is the folder of a model with a tokenizer. The texts are made: words of English, drawn by a seed, with what each
kind needs (capitals, marks, contractions, homophones, dates and numbers). Seconds are of the process's own CPU time,
the median of three runs. The tokenizer works on one thread, as the noise does.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import cores, processor

from rbench.config.code import find
from rbench.config.registry import Registry
from rbench.noise import noised

WORDS = (
    "the of and a to in is it that was for on are with as at be this have from or one had by but not what all were "
    "when we there can an your which their said if do will each about how up out them then she many some so these "
    "would other into has more her two like him see time could no make than first been its who now people my made over "
    "did down only way find use may water long little very after called just where most know"
)
MORE = ("don't", "it's", "they are", "cannot", "12", "2026-11-27", "20,000", "café", "Anna", "film,", "great.")


def sentences(n: int) -> list[str]:
    """Return n texts of 20 words, of which one in ten is one of MORE."""
    rng, words = random.Random(0), WORDS.split()
    return [
        " ".join(rng.choice(MORE) if rng.random() < 0.1 else rng.choice(words) for _ in range(20)).capitalize() + "."
        for _ in range(n)
    ]


def seconds(work: Callable[[], Any]) -> float:
    """Return the median CPU time of three runs."""
    found = []
    for _ in range(3):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from transformers import AutoTokenizer

    texts = sentences(args.texts)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokenising = seconds(lambda: tokenizer(texts))
    found = {}
    for name in Registry().names("noise"):
        kind: Any = find("noise", name).open()
        found[name] = seconds(lambda kind=kind: [noised(kind, text, 0.1, "0") for text in texts])
        print(f"{name:13} {found[name]:6.2f} s  {found[name] / tokenising:5.2f} of tokenising", flush=True)
    slowest = max(found, key=lambda name: found[name])
    print(f"tokenising    {tokenising:6.2f} s; slowest: {slowest}")
    if args.out is not None:
        told = {
            "texts": args.texts,
            "words": 20,
            "degree": 0.1,
            "tokenizer": type(tokenizer).__name__,
            "tokenising_seconds": round(tokenising, 2),
            "seconds": {name: round(value, 2) for name, value in found.items()},
            "slowest": slowest,
            "slowest_over_tokenising": round(found[slowest] / tokenising, 2),
            "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("rbench", "transformers", "tokenizers", "num2words")},
        }
        args.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
