"""Scores of one encoder by rbench and by mteb, on the same rows: a similarity, a classification, pairs, a retrieval.

    python -m benchmarks.mteb_equality FOLDER --data DATA [--rows N] [--out FILE]

FOLDER is a sentence-transformers model. mteb encodes with sentence-transformers. The rows are local copies below DATA,
given to mteb's own task classes, so that nothing is downloaded: STS-B and AG News to the tasks that mteb has of them,
MRPC to TwitterURLCorpus and the ranking of Perspectrum to SciFact, whose kinds they have. Three sides:

- `mteb`: mteb's evaluators on mteb's wrapper of sentence-transformers. Their rounding of retrieval scores to five
  digits is switched off.
- `measure mteb`: the same evaluators on rbench's encoder, as `rbench run` stores it. The classification is mteb's
  protocol: ten logistic regressions, each on 8 training texts of each label.
- `measure sts`, `measure ranking`: rbench's own formulas.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.machine import cores, processor

TASKS = {"stsb": "STSBenchmark", "ag_news": "NewsClassification", "mrpc": "TwitterURLCorpus"}
RANKING, RANKED = "perspectrum_ranking", "SciFact"


def make_rows(data_folder: Path, most: int | None) -> dict[str, Any]:
    """Return the rows of each task as mteb has them, by mteb's names.

    Args:
        most: the most test rows of a task; of the retrieval a fifth as many queries, with their relevant documents and
            so many others. None: all.
    """
    from datasets import ClassLabel, Dataset, DatasetDict

    rows = {}
    for name, of_mteb in TASKS.items():
        data = _open(name, data_folder)
        splits = {}
        for split in ("train", "test") if name == "ag_news" else ("test",):
            examples = data.split(split)[: most if split == "test" else None]
            columns = {column: [row.texts[i] for row in examples] for i, column in enumerate(_columns(name))}
            labels = [row.label for row in examples]
            splits[split] = Dataset.from_dict({**columns, _label(name): labels})
            if name == "ag_news":
                splits[split] = splits[split].cast_column("label", ClassLabel(names=list(data.spec.labels)))
        rows[of_mteb] = DatasetDict(splits)
    data = _open(RANKING, data_folder)
    documents = data.collection
    assert documents is not None
    queries = data.split("test")[: most and most // 5]
    relevance = {row.id: dict(documents.relevance[row.id]) for row in queries}
    kept = {*documents.ids[:most], *(name for grades in relevance.values() for name in grades)}
    corpus = [pair for pair in zip(documents.ids, documents.texts, strict=True) if pair[0] in kept]
    ranked = {
        "corpus": Dataset.from_list([{"id": name, "title": "", "text": text} for name, text in corpus]),
        "queries": Dataset.from_list([{"id": row.id, "text": row.texts[0]} for row in queries]),
        "relevant_docs": relevance,
        "top_ranked": None,
    }
    return rows | {RANKED: {"default": {"test": ranked}}}


def _open(name: str, data_folder: Path) -> Any:
    from rbench.config.entries import load_task
    from rbench.config.registry import Registry
    from rbench.tasks import open_task

    return open_task(load_task(name, Registry()), [data_folder])


def _columns(name: str) -> tuple[str, ...]:
    return ("text",) if name == "ag_news" else ("sentence1", "sentence2")


def _label(name: str) -> str:
    return {"stsb": "score", "ag_news": "label", "mrpc": "labels"}[name]


def by_mteb(folder: Path) -> dict[str, dict[str, float]]:
    """Return mteb's scores of the model, by mteb's name of the task."""
    import mteb
    from mteb._evaluators import retrieval_metrics
    from sentence_transformers import SentenceTransformer

    retrieval_metrics.round = lambda value, digits=None: value if digits else round(value)
    model = mteb.SentenceTransformerEncoderWrapper(SentenceTransformer(str(folder), device="cpu"))
    options: dict[str, Any] = {"split": "test", "encode_kwargs": {"batch_size": 32, "show_progress_bar": False}}
    return {name: mteb.get_task(name).evaluate(model, **options)["default"] for name in (*TASKS.values(), RANKED)}


def by_rbench(folder: Path, data_folder: Path, out: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the scores that a RUN stores of the model, by measure and task."""
    from rbench import api
    from rbench.store.runs import RunStore

    suite = {
        "name": "mteb-equality",
        "encoders": [str(folder.resolve())],
        "evaluate": [
            "stsb",
            {"ranking": {"tasks": [f"mteb:{RANKED}"]}},
            {"mteb": {"tasks": [f"mteb:{name}" for name in (*TASKS.values(), RANKED)]}},
        ],
    }
    result = api.run(suite, out=out, data=data_folder, device="cpu")
    if result.failed:
        raise SystemExit(f"the run failed: {result.failed}")
    store, found = RunStore(out), {}
    for record in store.records():
        job = record.job
        scores = {score.name: score.value for score in record.scores if score.value is not None}
        if job.what == "ranking":
            scores = {name: value for name, value in next(iter(store.rows(job))).numbers.items() if value is not None}
        found[job.what, job.spec.task.name] = scores
    return found


def give_rows(rows: Mapping[str, Any]) -> None:
    """Let mteb's tasks have these rows."""
    import mteb

    original = mteb.get_task

    def get_task(name: str, **how: Any) -> Any:
        task = original(name, **how)
        task.dataset, task.data_loaded = rows[name], True
        return task

    mteb.get_task = get_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, help="the most test rows of a task (default: all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mteb_equality.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["RBENCH_CACHE"] = str(Path(scratch) / "cache")  # or rows that mteb loaded from the hub would be read
        rows = make_rows(args.data, args.rows)
        give_rows(rows)
        similarity = Path(scratch) / "data" / "stsb"
        similarity.mkdir(parents=True)
        for split in ("train", "validation", "test"):
            lines = (args.data / "stsb" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
            (similarity / f"{split}.jsonl").write_text("".join(lines[: args.rows]), encoding="utf-8")
        ours, theirs = by_rbench(args.folder, similarity.parent, Path(scratch) / "run"), by_mteb(args.folder)
    tasks: dict[str, Any] = {}
    for data_name, name in {**TASKS, RANKING: RANKED}.items():
        ranked = rows[RANKED]["default"]["test"]
        parts = ranked["queries"] if name == RANKED else rows[name]["test"]
        main_score = float(theirs[name]["main_score"])
        sides = {"mteb": main_score, "measure mteb": ours["mteb", name]["main_score"]}
        if data_name == "stsb":
            sides["measure sts"] = ours["sts", "stsb"]["spearman"]
        if data_name == RANKING:
            sides["measure ranking"] = ours["ranking", RANKED]["ndcg"]
        tasks[data_name] = {
            "task class of mteb": name,
            "n": len(parts),
            **({"documents": len(ranked["corpus"])} if name == RANKED else {}),
            "main score": sides,
            "largest difference": max(abs(value - main_score) for value in sides.values()),
        }
        print(data_name, json.dumps(tasks[data_name], indent=1), flush=True)
    about = {
        "model": args.folder.name,
        "versions": {
            name: version(name) for name in ("mteb", "sentence-transformers", "torch", "transformers", "scikit-learn")
        },
        "machine": {"processor": processor(), "cores": cores(), "system": platform.system()},
    }
    args.out.write_text(json.dumps({"tasks": tasks, **about}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
