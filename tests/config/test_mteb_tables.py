"""Tasks of mteb as tasks: mteb's own task classes over local data, one of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest

from rbench.config import load_mapping
from rbench.config.mteb_tables import read_mteb_name
from rbench.config.registry import Registry
from rbench.errors import ResourceError, SuiteError
from rbench.tasks import TaskData, open_task

mteb = pytest.importorskip("mteb", reason="the extra `mteb` is not installed")
NAMES = datasets.ClassLabel(names=["card", "transfer"])


def classified(n: int, word: str) -> datasets.Dataset:
    values = {"text": [f"{word} {i}" for i in range(n)], "label": [i % 2 for i in range(n)], "label_text": ["x"] * n}
    return datasets.Dataset.from_dict(values).cast_column("label", NAMES)


def pairs(n: int, **more: list[Any]) -> datasets.Dataset:
    texts = {name: [f"{name} {i}" for i in range(n)] for name in ("sentence1", "sentence2")}
    return datasets.Dataset.from_dict(texts | more)


LISTS = {"sentence1": [["a", "b", "c", "d"]], "sentence2": [["e", "f", "g", "h"]], "labels": [[0, 1, 1, 0]]}
DOCUMENTS = [{"id": f"d{i}", "title": "t", "text": f"x {i}"} for i in range(12)]
DATA: dict[str, Any] = {
    "Banking77Classification": {"train": classified(20, "seen"), "test": classified(8, "new")},
    "STSBenchmark": {"test": pairs(5, score=[0.0, 1.0, 2.5, 4.0, 5.0], genre=["news"] * 5)},
    "TwitterURLCorpus": {"test": datasets.Dataset.from_dict(LISTS)},
    "NFCorpus": {
        "default": {
            "test": {
                "corpus": datasets.Dataset.from_list(DOCUMENTS),
                "queries": datasets.Dataset.from_list([{"id": "q1", "text": "what"}, {"id": "q2", "text": "why"}]),
                "relevant_docs": {"q1": {"d1": 2, "d3": 1}, "q2": {"d2": 1}},
                "top_ranked": None,
            }
        }
    },
}


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mteb's tasks, whose rows are those of DATA."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path))
    original = mteb.get_task

    def get_task(name: str, **how: Any) -> Any:
        task = original(name, **how)
        task.dataset, task.data_loaded = DATA.get(name), name in DATA
        return task

    monkeypatch.setattr(mteb, "get_task", get_task)


def opened(entry: Any, **suite: Any) -> tuple[TaskData, tuple[str, ...]]:
    content = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": [entry], **suite}
    loaded = load_mapping(content, registry=Registry())
    (spec,) = loaded.tasks.values()
    return open_task(spec), loaded.notes


ATTACKED = {"attacks": ["pwws"], "resources": "mini"}


def test_a_classification_has_the_columns_and_splits_of_its_metadata(local: None) -> None:
    data, notes = opened("mteb:Banking77Classification", **ATTACKED)
    assert (data.spec.kind, data.spec.labels) == ("single", ("card", "transfer"))
    assert data.sizes["test"] == 8 and data.split("test")[3].texts == ("new 3",) and data.split("test")[3].label == 1
    revision = mteb.get_task("Banking77Classification").metadata.dataset["revision"]
    assert revision in " ".join(notes) and revision in str(data.spec.local and data.spec.local.file)


def test_a_similarity_has_scores_and_their_scale(local: None) -> None:
    data, _ = opened("mteb:STSBenchmark", **ATTACKED)
    assert (data.spec.kind, data.spec.scale) == ("sts", (0, 5))
    assert [row.label for row in data.split("test")] == [0.0, 1.0, 2.5, 4.0, 5.0]


def test_pairs_in_lists_are_rows(local: None) -> None:
    data, _ = opened("mteb:TwitterURLCorpus", **ATTACKED)
    assert data.spec.kind == "paraphrase" and data.split("test")[1].texts == ("b", "f")
    assert [row.label for row in data.split("test")] == [0, 1, 1, 0]


def test_a_retrieval_has_documents_and_relevance(local: None) -> None:
    data, _ = opened("mteb:NFCorpus", **ATTACKED)
    assert data.spec.kind == "ranking" and len(data.collection.ids) == 12
    assert [row.texts for row in data.split("test")] == [("what",), ("why",)]
    assert {query: {*found} for query, found in data.collection.relevance.items()} == {"q1": {"d1", "d3"}, "q2": {"d2"}}


@pytest.mark.parametrize(
    ("entry", "named"), [("mteb:NoSuchTask", "NoSuchTask"), ("mteb:ArxivClusteringP2P", "Clustering")]
)
def test_what_cannot_be_read_is_told(entry: str, named: str, local: None) -> None:
    with pytest.raises(SuiteError) as caught:
        opened(entry, **ATTACKED)
    assert named in str(caught.value)


def test_subsets_are_named(local: None) -> None:
    assert read_mteb_name("mteb:STS17:en-en") == ("STS17", "en-en")
    with pytest.raises(ResourceError):
        read_mteb_name("mteb:a b")
