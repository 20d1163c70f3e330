"""Attack queries of a corpus of 100,000 made-up documents: memory, and time beside that of encoding and products alone.

    python -m benchmarks.ranking [--queries 1000] [--documents 100000] [--out benchmarks/results/ranking.json]

Documents are eight words of the embedded world, drawn by a seed, and a query is half of the words of one of them. The
encoder has one layer of 384 and random weights, and TextFooler takes its words from the embedded world. `bare` is the
CPU time of the same run inside the network and inside the products of vectors: whatever the attack does besides, its
search, constraints and rankings, is the rest. Memory is the largest resident set of the process.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.machine import cores, processor

ENCODER = """title: One layer of 384, random weights
pooling: mean
architecture: {hidden_size: 384, num_hidden_layers: 1, num_attention_heads: 6, intermediate_size: 1536}
control: true
licence: none
"""
WORDS = 8


class Clock:
    """Adds up the CPU seconds inside functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def around(self, name: str, function: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        def timed(*args: Any, **more: Any) -> Any:
            begun = time.process_time()
            found = function(*args, **more)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun
            self.calls[name] = self.calls.get(name, 0) + size(*args)
            return found

        return timed


def texts(documents: int, queries: int) -> tuple[dict[str, str], dict[str, str], dict[str, list[str]]]:
    """Return documents, queries and what is relevant to them."""
    from rbench.mini import lexical

    known = sorted(word for word in lexical.word_vectors()[0] if word.isalpha() and len(word) > 2)
    rng = random.Random(0)
    made = {f"d{i}": " ".join(rng.sample(known, WORDS)) for i in range(documents)}
    named = {f"q{i}": f"d{rng.randrange(documents)}" for i in range(queries)}
    asked = {query: " ".join(sorted(rng.sample(made[d].split(), WORDS // 2))) for query, d in named.items()}
    return made, asked, {query: [document] for query, document in named.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ranking.json")
    args = parser.parse_args()

    import rbench
    from rbench.encoders import index
    from rbench.recipes.attacked.ranking import RetrieverVictim

    documents, queries, relevance = texts(args.documents, args.queries)
    clock: Clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "encoders").mkdir()
        (Path(folder) / "encoders" / "one-layer.yaml").write_text(ENCODER, encoding="utf-8")
        options: dict[str, Any] = {"include": folder, "progress": False, "k": 10}
        begun = time.process_time()
        clean = rbench.rank("one-layer", queries, documents, relevance, **options)
        first = time.process_time() - begun
        forward = clock.around("encoding", RetrieverVictim._forward, lambda victim, rows: len(rows))
        RetrieverVictim._forward = forward  # type: ignore[method-assign]
        index.score_documents = clock.around("products", index.score_documents, lambda asked, *more: len(asked))  # type: ignore[assignment]
        begun = time.process_time()
        found = rbench.rank(
            "one-layer",
            queries,
            documents,
            relevance,
            attack="textfooler",
            resources="mini",
            num_examples=None,
            **options,
        )
        attacked = time.process_time() - begun
    bare = sum(clock.seconds.values())
    summary = found.summary.set_index("score")["value"]
    said = {
        "documents": args.documents,
        "queries": args.queries,
        "ndcg_before": float(clean.scores["ndcg"].mean()),
        "ndcg_after": float(summary["ndcg_after"]),
        "asked": clock.calls,
        "cpu_seconds": {
            "clean rankings, and the corpus where the cache lacks it": first,
            "attack": attacked,
            **clock.seconds,
        },
        "times_bare": attacked / bare,
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "versions": {name: version(name) for name in ("torch", "transformers", "numpy")},
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
    }
    print(json.dumps(said, indent=1))
    args.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
