"""nDCG@10 of one encoder by rbench and by mteb's retrieval evaluator, on the same queries and documents.

    python -m benchmarks.ranking_mteb FOLDER --data DATA [--tasks boolq_ranking perspectrum_ranking] [--out FILE]

FOLDER is a sentence-transformers model, which rbench reads as the model's own files say (rbench's encoder file of the
same model may cut texts elsewhere). mteb encodes with sentence-transformers and searches by itself; it scores with
pytrec_eval, as rbench does. Of documents with equal scores it may keep others among the first 1,000.
"""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.machine import cores, processor
from rbench.tasks.ranking import DocumentCollection


def by_mteb(folder: Path, of: DocumentCollection, queries: dict[str, str]) -> dict[str, float]:
    """Return what mteb's evaluator says of a model: `ndcg_at_10`, `recall_at_10`, `map_at_1000` and the like."""
    import mteb
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    task: Any = mteb.get_task("SciFact")  # any task of retrieval; its rows are replaced
    corpus = [{"id": name, "title": "", "text": text} for name, text in zip(of.ids, of.texts, strict=True)]
    asked = [{"id": name, "text": text} for name, text in queries.items()]
    rows = {
        "corpus": Dataset.from_list(corpus),
        "queries": Dataset.from_list(asked),
        "relevant_docs": {query: dict(grades) for query, grades in of.relevance.items()},
        "top_ranked": None,
    }
    task.dataset, task.data_loaded = {"default": {"test": rows}}, True
    model = mteb.SentenceTransformerEncoderWrapper(SentenceTransformer(str(folder), device="cpu"))
    scores = task.evaluate(model, split="test", encode_kwargs={"batch_size": 32})["default"]
    return {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}


def by_rbench(folder: Path, of: DocumentCollection, queries: dict[str, str]) -> dict[str, float]:
    """Return rbench's scores of the same model: `ndcg`, `recall`, `mrr`, `map` and `success`."""
    import rbench

    documents = dict(zip(of.ids, of.texts, strict=True))
    found = rbench.rank(str(folder), queries, documents, of.relevance, progress=False)
    return {name: float(own.mean()) for name, own in found.scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=["boolq_ranking", "perspectrum_ranking"])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "ranking_mteb.json")
    args = parser.parse_args()

    from rbench.config.entries import load_task
    from rbench.config.registry import Registry
    from rbench.tasks import open_task

    found = {}
    for name in args.tasks:
        data = open_task(load_task(name, Registry()), [args.data])
        assert data.collection is not None
        queries = {one.id: one.texts[0] for one in data.split("test")}
        ours, theirs = (by(args.folder, data.collection, queries) for by in (by_rbench, by_mteb))
        found[name] = {
            "queries": len(queries),
            "documents": len(data.collection.ids),
            "rbench": {"ndcg@10": ours["ndcg"], "recall@10": ours["recall"], "map": ours["map"]},
            "mteb": {
                "ndcg@10": theirs["ndcg_at_10"],
                "recall@10": theirs["recall_at_10"],
                "map": theirs["map_at_1000"],
            },
        }
        print(name, json.dumps(found[name], indent=1), flush=True)
    about = {
        "model": args.folder.name,
        "versions": {name: version(name) for name in ("mteb", "sentence-transformers", "torch", "transformers")},
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
    }
    args.out.write_text(json.dumps({"tasks": found, **about}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
