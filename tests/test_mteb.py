"""Compares STS scores with those of the package mteb, on an exported encoder and the same pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench import api, mini
from rbench.store.runs import Store

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
    (record,) = Store(result.run).records()
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
