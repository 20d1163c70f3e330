"""Measures how far substitutions move an encoder's vectors, beside the distances between texts.

    python benchmarks/substitution_moves.py RUN --texts DATA/mr/all.jsonl --vectors DIR --out substitution_moves.json

RUN is a folder of `rbench run` whose trained encoders are in the cache (RBENCH_CACHE). Texts are drawn with seed 0 from
the file. In each, up to a fifth of the words are replaced at random, once by near words of the word vectors in DIR and
once by synonyms of WordNet (NLTK_DATA). For each encoder: the mean distance between a text's vector and that of the
edited text, divided by the mean distance between two texts, with a 95% bootstrap interval over texts, and its
difference from the first encoder's, paired by text. An encoder whose vectors all lie closer together does not pass for
one that sees past substitutions.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import torch
import transformers
from machine import processor
from numpy.typing import NDArray

from rbench import encoders
from rbench.encoders.vectors import read_vectors
from rbench.schema import PretrainJob
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.train.substituted import substitute_at_random
from rbench.words.resources.lexical import nltk_stopwords, wordnet_synonyms
from rbench.words.substitution.candidates import NeighbourWords
from rbench.words.substitution.options import at_most
from rbench.words.substitution.segmentation import copy_case

SHARE, MOST, DRAWS = 0.2, 10, 2000
Moves = NDArray[np.float64]


class Synonyms:
    """Proposes the one-word synonyms of all senses of a word, from which PWWS chooses."""

    def __init__(self) -> None:
        self._look_up = wordnet_synonyms()

    def __call__(self, slots: Sequence[tuple[str, int, int]]) -> list[list[str]]:
        return [[copy_case(text[a:b], new) for new in self._look_up(text[a:b].lower())] for text, a, b in slots]


def main() -> None:
    args = parse()
    rows = [json.loads(line) for line in args.texts.read_text(encoding="utf-8").splitlines()]
    texts = [str(rows[i]["text"]) for i in np.random.default_rng(0).choice(len(rows), args.n, replace=False)]
    edited = {
        "near": edits(texts, NeighbourWords(read_vectors(args.vectors), candidates=10)),
        "wordnet": edits(texts, Synonyms()),
    }
    found: dict[str, Any] = {}
    first: Mapping[str, Moves] | None = None
    for label, encoder in opened(args.run):
        moves = {name: moved(encoder, texts, others) for name, others in edited.items()}
        first = first or moves
        found[label] = {name: summary(moves[name], first[name]) for name in edited}
        print(label, found[label], flush=True)
        if args.out is not None:
            write(args, len(texts), found)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a RUN whose encoders are in the cache")
    parser.add_argument("--texts", type=Path, required=True, help="a file of JSON lines, each with a `text`")
    parser.add_argument("--vectors", type=Path, required=True, help="a folder with word vectors")
    parser.add_argument("--n", type=int, default=300, help="so many texts")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def edits(texts: Sequence[str], source: Callable[..., list[list[str]]]) -> list[str]:
    torch.manual_seed(0)
    geometry: Any = SimpleNamespace(source=source, stopwords=nltk_stopwords())
    return [found.texts[0] for found in substitute_at_random(geometry, at_most(MOST, SHARE), texts)]


def opened(run: Path) -> list[tuple[str, Any]]:
    """Return the trained encoders of a RUN, in the order of its plan."""
    plan, cache, found = RunStore(run).plan(), WeightCache(default_cache()), []
    for job in plan.jobs if plan is not None else sys.exit(f"{run} is no RUN"):
        if isinstance(job.spec, PretrainJob):
            if not cache.has(job.key):
                sys.exit(f"{job.name}: its weights are not in {cache.root}; run the suite here, or set RBENCH_CACHE")
            spec = job.spec.encoder.model_copy(update={"train": None})
            found.append((job.parts[0], encoders.load(spec, cache.folder(job.key))))
    return found


def moved(encoder: Any, texts: Sequence[str], others: Sequence[str]) -> Moves:
    """Return the distance of each text from its edit, as a share of the mean distance between two texts: (n,)."""
    own, new = (encoder.encode(part).astype(np.float64) for part in (texts, others))
    apart = np.linalg.norm(own[:, None] - own[None], axis=2)
    moves: Moves = np.linalg.norm(own - new, axis=1) / apart[np.triu_indices(len(own), 1)].mean()
    return moves


def summary(moves: Moves, first: Moves) -> dict[str, Any]:
    return {"moved": interval(moves), "less_first": interval(moves - first)}


def interval(values: Moves) -> dict[str, float]:
    rows = np.random.default_rng(0).integers(len(values), size=(DRAWS, len(values)))
    low, high = np.quantile(values[rows].mean(axis=1), (0.025, 0.975))
    return {name: round(float(x), 4) for name, x in (("mean", values.mean()), ("low", low), ("high", high))}


def write(args: argparse.Namespace, count: int, found: Mapping[str, Any]) -> None:
    """Add to the file, under the RUN's name, what was found."""
    before = json.loads(args.out.read_text(encoding="utf-8")) if args.out.exists() else {}
    before[args.run.name] = {
        "command": f"python benchmarks/substitution_moves.py {args.run.name} --texts {args.texts.name} --vectors "
        f"{args.vectors.name} --n {args.n}",
        "machine": {"processor": processor(), "system": platform.system()},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seed": 0,
        "texts": count,
        "encoders": found,
    }
    args.out.write_text(json.dumps(before, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
