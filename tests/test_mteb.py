"""Compares STS scores and rankings with those of the package mteb, on an exported encoder and the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench import api, mini
from rbench.store.runs import RunStore

SUBSETS = ("MSRpar", "OnWN", "SMTnews")
ENCODER = "simcse-mini-packaged"


def pairs() -> list[dict[str, Any]]:
    """Pairs of the embedded world as a copy of STS12 that lacks two subsets."""
    rows = mini.rows("mini-sts", "test")[:150]
    return [{**row, "subset": SUBSETS[i % len(SUBSETS)]} for i, row in enumerate(rows)]


def ours(folder: Path) -> dict[str, float | None]:
    (folder / "sts12").mkdir()
    for split, rows in (("train", mini.rows("mini-sts", "train")[:5]), ("test", pairs())):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "sts12" / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    suite = folder / "suite.yaml"
    suite.write_text(f"encoders: [{ENCODER}]\nevaluate: [sts12]\n", encoding="utf-8")
    result = api.run(str(suite), api.Options(data=(folder,), out=folder / "run", device="cpu"))
    assert not result.failed
    (record,) = RunStore(result.run).records()
    return {score.name: score.value for score in record.scores}


@pytest.mark.nightly
def test_an_exported_encoder_has_the_same_spearman_in_mteb(tmp_path: Path) -> None:
    mteb = pytest.importorskip("mteb", reason="the extra `mteb` is not installed")
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer

    found = ours(tmp_path)
    api.export(ENCODER, tmp_path / "exported")
    model = mteb.SentenceTransformerEncoderWrapper(SentenceTransformer(str(tmp_path / "exported"), device="cpu"))
    for subset in (None, *SUBSETS):
        task = mteb.get_task("STS12")
        rows = [row for row in pairs() if subset in (None, row["subset"])]
        task.dataset, task.data_loaded = {"default": {"test": Dataset.from_list(rows)}}, True
        scores = task.evaluate(model, split="test", encode_kwargs={"batch_size": 32})["default"]
        name = "" if subset is None else f":{subset}"
        for ours_, theirs in (("spearman", "cosine_spearman"), ("pearson", "cosine_pearson")):
            assert found[ours_ + name] == pytest.approx(scores[theirs], abs=5e-5)


@pytest.mark.nightly
def test_rankings_have_the_scores_of_mtebs_evaluator(tmp_path: Path) -> None:
    pytest.importorskip("mteb", reason="the extra `mteb` is not installed")
    from benchmarks.ranking_mteb import by_mteb, by_rbench
    from rbench.schema import TaskSpec
    from rbench.tasks import open_task
    from rbench.tasks.ranking import DocumentCollection

    of = open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking")).collection
    assert of is not None
    # Documents stand for queries, and no two documents have the same text: mteb breaks ties otherwise.
    first = {text: name for name, text in reversed([*zip(of.ids, of.texts, strict=True)])}
    kept = {name: text for text, name in first.items()}
    relevance = {q: {d: g for d, g in own.items() if d in kept} for q, own in [*of.relevance.items()][:40]}
    relevance = {query: own for query, own in relevance.items() if own}
    ids = sorted(kept, key=str.encode, reverse=True)
    part = DocumentCollection(tuple(ids), tuple(kept[name] for name in ids), relevance)
    queries = {query: kept[next(iter(own))] + " indeed" for query, own in relevance.items()}
    api.export(ENCODER, tmp_path / "exported")
    ours, theirs = (by(tmp_path / "exported", part, queries) for by in (by_rbench, by_mteb))
    assert 0.1 < ours["ndcg"] < 1
    for mine, other in (
        ("ndcg", "ndcg_at_10"),
        ("recall", "recall_at_10"),
        ("map", "map_at_1000"),
        ("mrr", "mrr_at_10"),
    ):
        assert ours[mine] == pytest.approx(theirs[other], abs=5e-5)
