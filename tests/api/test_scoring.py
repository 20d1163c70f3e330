"""Scores of single items that other tools write: read, paired, and compared as scipy and a bootstrap compare them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import rbench
from rbench.cli import app
from rbench.errors import RbenchError, ResourceError, StoreError

N = 200
RANDOM = np.random.default_rng(11)
HARD = RANDOM.random(N)
ONE = (HARD + RANDOM.normal(0, 0.2, N) < 0.60).astype(float)
OTHER = (HARD + RANDOM.normal(0, 0.2, N) < 0.70).astype(float)
DOCUMENTS = [f"document {i // 5}" for i in range(N)]


def lm_eval(path: Path, values: Sequence[float], *, salt: str = "") -> Path:
    """Write samples as lm-eval does: a line for each document and filter."""
    lines = []
    for i in reversed(range(len(values))):
        for name, value in (("strict-match", values[i]), ("flexible-extract", 1.0)):
            lines.append(
                {
                    "doc_id": i,
                    "doc": {"question": f"q{i}", "document": DOCUMENTS[i]},
                    "target": "7",
                    "arguments": {"gen_args_0": {"arg_0": f"q{i}"}},
                    "resps": [["7"]],
                    "filtered_resps": ["7"],
                    "filter": name,
                    "metrics": ["exact_match"],
                    "doc_hash": f"{salt}{i:08x}",
                    "exact_match": value,
                }
            )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def table(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_samples_of_lm_eval_are_compared_as_mcnemar_and_a_bootstrap_do(tmp_path: Path) -> None:
    a, b = lm_eval(tmp_path / "samples_a.jsonl", ONE), lm_eval(tmp_path / "samples_b.jsonl", OTHER)
    found = rbench.compare_scores(a, b)
    only = int(((ONE == 1) & (OTHER == 0)).sum()), int(((ONE == 0) & (OTHER == 1)).sum())
    assert found.means == (ONE.mean(), OTHER.mean()) and found.score == "exact_match,strict-match"
    assert found.difference.p == pytest.approx(stats.binomtest(only[0], sum(only)).pvalue)
    random, differences = np.random.default_rng(0), OTHER - ONE
    means = [differences[random.integers(0, N, N)].mean() for _ in range(4000)]
    assert [found.difference.low, found.difference.high] == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=0.012)
    assert found.difference.smallest is not None and 0.05 < found.difference.smallest < 0.2
    assert "flexible-extract" in " ".join(found.notes)
    assert rbench.compare_scores(a, b, score="exact_match,flexible-extract").difference.value == 0


def test_documents_are_clusters_of_samples(tmp_path: Path) -> None:
    a, b = lm_eval(tmp_path / "a.jsonl", ONE), lm_eval(tmp_path / "b.jsonl", OTHER)
    found = rbench.compare_scores(a, b, cluster="document")
    by_hand = pd.Series(OTHER - ONE).groupby(DOCUMENTS).mean()  # of equal size, so their means are the sample
    assert found.clusters == 40 and found.difference.p == pytest.approx(stats.ttest_1samp(by_hand, 0).pvalue)
    assert found.difference == rbench.compare_scores(ONE, OTHER, cluster=DOCUMENTS).difference


def test_an_item_without_a_document_is_refused(tmp_path: Path) -> None:
    """It would be of one cluster with all others that have none."""
    rows = [{"id": i, "score": i % 2, "document": f"d{i // 4}" if i else ""} for i in range(20)]
    path = table(tmp_path / "a.csv", rows)
    with pytest.raises(ResourceError) as refused:
        rbench.compare_scores(path, path)
    assert f"{path}:2" in str(refused.value)


def test_documents_that_are_not_the_same_are_refused(tmp_path: Path) -> None:
    a, b = lm_eval(tmp_path / "a.jsonl", ONE), lm_eval(tmp_path / "b.jsonl", OTHER, salt="x")
    with pytest.raises(StoreError):
        rbench.compare_scores(a, b)


def test_a_table_of_numbers_is_a_paired_t_test(tmp_path: Path) -> None:
    x = RANDOM.normal(size=50)
    y = x + RANDOM.normal(0.1, 0.3, 50)
    a = table(tmp_path / "a.csv", [{"name": f"i{i}", "ndcg": v} for i, v in enumerate(x)])
    b = table(tmp_path / "b.csv", [{"name": f"i{i}", "ndcg": v} for i, v in reversed([*enumerate(y)])])
    found, expected = rbench.compare_scores(a, b), stats.ttest_rel(y, x)
    interval = expected.confidence_interval()
    assert found.difference.p == pytest.approx(expected.pvalue)
    assert (found.difference.low, found.difference.high) == pytest.approx((interval.low, interval.high))
    frames = (pd.DataFrame({"id": range(50), "score": v, "group": [i // 2 for i in range(50)]}) for v in (x, y))
    assert rbench.compare_scores(*frames).clusters == 25


def test_seeds_are_draws_of_their_own(tmp_path: Path) -> None:
    """Three seeds that each move all items alike say less than three times as many items."""
    moved = {"0": 0.0, "1": 0.4, "2": 0.8}
    rows = [(i, s, float(RANDOM.normal())) for s in moved for i in range(30)]
    a = table(tmp_path / "a.csv", [{"id": i, "seed": s, "score": v} for i, s, v in rows])
    b = table(tmp_path / "b.csv", [{"id": i, "seed": s, "score": v + moved[s]} for i, s, v in rows])
    found = rbench.compare_scores(a, b).difference
    assert found.seeds == 3 and found.value == pytest.approx(0.4)
    low, high = stats.t.interval(0.95, 2, 0.4, stats.sem([0.0, 0.4, 0.8]))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05) and found.p is not None and found.p > 0.05


def test_logs_of_inspect_are_read_as_json_and_as_csv(tmp_path: Path) -> None:
    def log(name: str, values: Sequence[float]) -> Path:
        samples = [
            {"id": i, "epoch": e, "scores": {"match": {"value": "C" if v == e == 1 else "I"}}}
            for i, v in enumerate(values)
            for e in (1, 2)
        ]
        path = tmp_path / name
        path.write_text(json.dumps({"version": 2, "status": "success", "eval": {}, "samples": samples}))
        return path

    found = rbench.compare_scores(log("a.json", ONE), log("b.json", OTHER))
    assert found.means == (ONE.mean() / 2, OTHER.mean() / 2) and "several times" in " ".join(found.notes)
    graded = ["I", "C"]
    tables = [
        table(
            tmp_path / name,
            [{"sample_id": f"s{i}", "epoch": 1, "score_match": graded[int(v)]} for i, v in enumerate(values)],
        )
        for name, values in (("a.csv", ONE), ("b.csv", OTHER))
    ]
    assert rbench.compare_scores(*tables).difference == rbench.compare_scores(ONE, OTHER).difference


def test_logs_of_textattack_are_read(tmp_path: Path) -> None:
    def log(name: str, kinds: str) -> Path:
        names = {"S": "Successful", "F": "Failed", "K": "Skipped"}
        rows = [
            {
                "original_text": f"the [[film]] {i}" if kind == "S" else f"the film {i}",
                "perturbed_text": "",
                "num_queries": 10.0 + i,
                "result_type": names[kind],
            }
            for i, kind in enumerate(kinds)
        ]
        return table(tmp_path / name, rows)

    a, b = log("a.csv", "SSSFFK"), log("b.csv", "FFSFKF")
    aua = rbench.compare_scores(a, b)
    assert (aua.score, aua.means, aua.difference.n) == ("aua", (2 / 6, 4 / 6), 6)
    asr = rbench.compare_scores(a, b, score="asr")
    assert (asr.means, asr.difference.n) == ((3 / 4, 1 / 4), 4), "a skipped text was not attacked"


def test_predictions_of_mteb_are_scored_by_gold(tmp_path: Path) -> None:
    def predictions(name: str, content: Any) -> Path:
        path = tmp_path / name
        about = {"model_name": "m", "revision": "r"}
        path.write_text(json.dumps({"mteb_model_meta": about, "default": {"test": content}}))
        return path

    labels = table(tmp_path / "labels.csv", [{"label": v} for v in (0, 1, 1, 0)])
    a, b = predictions("a.json", [[0, 1, 0, 0], [0, 1, 0, 0]]), predictions("b.json", [[0, 1, 1, 0], [0, 0, 1, 0]])
    with pytest.raises(ResourceError):
        rbench.compare_scores(a, b)
    found = rbench.compare_scores(a, b, gold=labels)
    assert (found.means, found.difference.seeds) == ((0.75, 0.875), 2), "experiments are draws"
    split = datasets.Dataset.from_dict(
        {"label": [0, 1, 1, 0]}, features=datasets.Features({"label": datasets.ClassLabel(names=["neg", "pos"])})
    )
    split.to_parquet(tmp_path / "labels.parquet")
    assert rbench.compare_scores(a, b, gold=tmp_path / "labels.parquet").means == found.means
    with pytest.raises(ResourceError):
        rbench.compare_scores(labels, labels, gold=labels)
    qrels = table(
        tmp_path / "qrels.csv",
        [{"query-id": "q1", "corpus-id": "d1", "score": 1}, {"query-id": "q2", "corpus-id": "d2", "score": 1}],
    )
    a = predictions("ra.json", {"q1": {"d1": 0.9, "d2": 0.1}, "q2": {"d1": 0.9, "d2": 0.1}})
    b = predictions("rb.json", {"q1": {"d1": 0.9, "d2": 0.1}, "q2": {"d1": 0.1, "d2": 0.9}})
    found = rbench.compare_scores(a, b, gold=qrels)
    assert found.means == pytest.approx(((1 + 1 / np.log2(3)) / 2, 1.0)) and found.score == "ndcg@10"


def test_scores_by_query_are_read(tmp_path: Path) -> None:
    for name, value in (("a.json", 0.5), ("b.json", 0.7)):
        content = {f"q{i}": {"ndcg_cut_10": value * (1 + i), "map": 0.1} for i in range(4)}
        (tmp_path / name).write_text(json.dumps(content))
    found = rbench.compare_scores(tmp_path / "a.json", tmp_path / "b.json")
    assert (found.score, found.means) == ("ndcg_cut_10", pytest.approx((1.25, 1.75)))


WRONG = {
    "no_number.csv": "id,score\n1,high\n",
    "no_score.csv": "id,text\n1,fine\n",
    "other_ids.csv": "id,score\nz,1\n",
    "empty.csv": "id,score\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_cannot_be_compared_are_refused(name: str, tmp_path: Path) -> None:
    fine = table(tmp_path / "fine.csv", [{"id": 1, "score": 1}, {"id": 2, "score": 0}])
    (tmp_path / name).write_text(WRONG[name])
    with pytest.raises(RbenchError) as caught:
        rbench.compare_scores(fine, tmp_path / name, score="score" if "number" in name else None)
    assert name in str(caught.value)


def test_numbers_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError):
        rbench.compare_scores([1, 0], [0, 1], cluster=["a", "b", "c"])
    with pytest.raises(ResourceError):
        rbench.compare_scores([1, "high"], [0, 1])


def test_the_command_line_prints_the_table(tmp_path: Path) -> None:
    a, b = lm_eval(tmp_path / "a.jsonl", ONE), lm_eval(tmp_path / "b.jsonl", OTHER)
    words = ["compare", str(a), str(b), "--cluster", "document", "--format", "json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    (cell,) = json.loads(result.stdout)["cells"]
    found = rbench.compare_scores(a, b, cluster="document").difference
    assert (cell["difference"], cell["p"], cell["smallest"]) == (found.value, found.p, found.smallest)
    refused = CliRunner().invoke(app, ["compare", str(tmp_path), "--score", "acc"])
    assert refused.exit_code == 2 and "two files of scores" in refused.output


def test_folders_that_lm_eval_wrote_are_told_from_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "model").mkdir(parents=True)
        lm_eval(tmp_path / name / "model" / "samples_gsm8k.jsonl", ONE)
    refused = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert refused.exit_code == 2
    assert "samples_gsm8k.jsonl" in refused.output
