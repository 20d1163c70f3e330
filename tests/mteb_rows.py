"""mteb's own task classes over rows of the embedded world, one of each kind, in place of those of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import datasets
import pytest

from rbench import mini

LABELS = datasets.ClassLabel(names=["negative", "positive"])
NAMES = ("Banking77Classification", "STSBenchmark", "TwitterURLCorpus", "NFCorpus")
"""A classification, a similarity, pairs and a retrieval."""


def give_rows(monkeypatch: pytest.MonkeyPatch, rows: Mapping[str, Any]) -> None:
    """Let mteb's tasks of these names have these rows."""
    import mteb

    original = mteb.get_task

    def get_task(name: str, **how: Any) -> Any:
        task = original(name, **how)
        task.dataset, task.data_loaded = rows.get(name), name in rows
        return task

    monkeypatch.setattr(mteb, "get_task", get_task)


def make_rows() -> dict[str, Any]:
    """Rows of the embedded world as mteb has them: 40 to train on, and few to test on."""
    sentiment = {split: mini.rows("mini-sentiment", split)[:n] for split, n in (("train", 60), ("test", 40))}
    classified = {
        split: datasets.Dataset.from_list([{"text": row["text"], "label": row["label"]} for row in rows]).cast_column(
            "label", LABELS
        )
        for split, rows in sentiment.items()
    }
    pairs = mini.rows("mini-sts", "test")[:60]
    texts = [{name: row[name] for name in ("sentence1", "sentence2")} for row in pairs]
    scored = [{**text, "score": float(row["score"])} for text, row in zip(texts, pairs, strict=True)]
    alike = [{**text, "labels": int(row["score"] > 3)} for text, row in zip(texts, pairs, strict=True)]
    documents = list(dict.fromkeys(row["sentence1"] for row in pairs))
    queries = list(dict.fromkeys(row["sentence2"] for row in pairs))[:15]
    place = {text: f"d{i}" for i, text in enumerate(documents)}
    relevant: dict[str, dict[str, int]] = {}
    for row in pairs:
        if row["sentence2"] in queries:
            relevant.setdefault(f"q{queries.index(row['sentence2'])}", {})[place[row["sentence1"]]] = 1
    ranked = {
        "corpus": datasets.Dataset.from_list([{"id": name, "title": "", "text": text} for text, name in place.items()]),
        "queries": datasets.Dataset.from_list([{"id": f"q{i}", "text": text} for i, text in enumerate(queries)]),
        "relevant_docs": relevant,
        "top_ranked": None,
    }
    return {
        "Banking77Classification": datasets.DatasetDict(classified),
        "STSBenchmark": datasets.DatasetDict(
            {"validation": datasets.Dataset.from_list(scored[40:]), "test": datasets.Dataset.from_list(scored[:40])}
        ),
        "TwitterURLCorpus": datasets.DatasetDict({"test": datasets.Dataset.from_list(alike)}),
        "NFCorpus": {"default": {"test": ranked}},
    }
