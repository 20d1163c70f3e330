"""`rbench.rank`: documents ranked by any encoder, scores by query, and attacks on the queries."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from statsmodels.stats.proportion import proportion_confint

import rbench
from rbench.errors import JobError, RbenchError
from rbench.schema import TaskSpec
from rbench.score.ranking import ranking_scores
from rbench.tasks import open_task

WORDS = ("film", "bus", "dog", "shop", "rain")
DOCUMENTS = {f"d{i}": f"a {word} and a {WORDS[i - 1]}" for i, word in enumerate(WORDS)}
QUERIES = {"q0": "the film", "q1": "the dog", "q2": "a bus", "q3": "nothing"}
RELEVANCE: dict[str, Any] = {"q0": ["d0"], "q1": {"d2": 2, "d3": 1}, "q2": {"d3": 1, "d4": 0}}


def counts(texts: list[str]) -> list[list[float]]:
    """Counts of words, and a bit of each, so that no vector is 0. What is first in a document counts more."""
    return [[text.split()[:2].count(word) + 0.5 * text.split().count(word) + 0.01 for word in WORDS] for text in texts]


def ranked(**more: Any) -> Any:
    return rbench.rank(counts, QUERIES, DOCUMENTS, RELEVANCE, **{"k": 2, "progress": False, **more})


def test_scores_are_those_of_cosines_by_query() -> None:
    result = ranked()
    vectors = {name: np.array(own) for name, own in zip(DOCUMENTS, counts([*DOCUMENTS.values()]), strict=True)}
    run = {
        name: {d: float(np.float32(v @ own / np.linalg.norm(v) / np.linalg.norm(own))) for d, own in vectors.items()}
        for name, v in zip(QUERIES, map(np.array, counts([*QUERIES.values()])), strict=True)
    }
    judged = {"q0": {"d0": 1}, "q1": {"d2": 2, "d3": 1}, "q2": {"d3": 1}}
    expected = ranking_scores(run, judged, [*judged], 2)
    assert [one.id for one in result.queries] == ["q0", "q1", "q2"]  # q3 has no relevant document
    for name, own in expected.items():
        assert result.scores[name].tolist() == pytest.approx(own.tolist())
    assert result.frame["found"][1] == ["d2", "d3"]  # a dog and a bus; a shop and a dog
    ndcg = result.summary.set_index("score").loc["ndcg"]
    assert ndcg["value"] == pytest.approx(expected["ndcg"].mean()) and ndcg["n"] == 3
    assert "ndcg" in repr(result) and "3 queries, k = 2" in repr(result)
    success = result.summary.set_index("score").loc["success"]
    limits = proportion_confint(expected["success"].sum(), 3, method="wilson")
    assert (success["low"], success["high"]) == pytest.approx(limits)


def test_queries_and_documents_may_have_functions_of_their_own() -> None:
    asked: list[int] = []

    def documents(texts: list[str]) -> np.ndarray[Any, Any]:
        asked.append(len(texts))
        return np.array(counts(texts))

    result = rbench.rank((counts, documents), QUERIES, DOCUMENTS, RELEVANCE, k=2)
    assert asked == [5] and result.scores["ndcg"].tolist() == ranked().scores["ndcg"].tolist()


def test_an_attack_changes_words_of_queries() -> None:
    result = ranked(attack={"textbugger": {"query_budget": 30}}, resources="mini", k=1)
    assert result.attacked is not None
    outcomes = {one.example_id: one for one in result.attacked.outcomes}
    assert [*outcomes] == ["q0", "q1", "q2"] and not any(one.error for one in outcomes.values())
    assert outcomes["q2"].status == "skipped"  # its document is not the first
    fell = outcomes["q0"]
    assert fell.status == "succeeded" and fell.perturbed_score == 0 and fell.perturbed != ("the film",)
    frame = result.frame.set_index("query")
    assert frame["status"]["q0"] == "succeeded" and frame["ndcg_after"]["q0"] == 0
    summary = result.summary.set_index("score")["value"]
    assert summary["ndcg_after"] < summary["ndcg_before"] == pytest.approx(result.scores["ndcg"].mean())
    statuses = [one.status for one in outcomes.values()]
    fell, attacked = statuses.count("succeeded"), len(statuses) - statuses.count("skipped")
    asr = result.summary.set_index("score").loc["asr"]
    assert (asr["low"], asr["high"]) == pytest.approx(proportion_confint(fell, attacked, method="wilson"))
    assert 0 < summary["asr"] <= 1


def test_a_sample_of_queries_is_attacked() -> None:
    result = ranked(attack="textbugger", resources="mini", num_examples=1)
    assert result.attacked is not None and len(result.attacked.outcomes) == 1
    assert result.frame["status"].notna().sum() == 1


def test_an_encoder_by_name_gives_what_a_run_gives() -> None:
    of = open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking"))
    assert of.collection is not None
    documents = dict(zip(of.collection.ids, of.collection.texts, strict=True))
    queries = {one.id: one.texts[0] for one in of.split("test")}
    result = rbench.rank("mini-static", queries, documents, of.collection.relevance, attack="pwws", resources="mini",
                         num_examples=6, progress=False)  # fmt: skip
    assert 0.3 < result.scores["ndcg"].mean() < 1 and not math.isnan(result.scores["ndcg"].sum())
    assert result.attacked is not None and len(result.attacked.outcomes) == 6
    assert not any(one.error for one in result.attacked.outcomes)


def test_an_encoder_reads_queries_and_documents_with_its_prompts_for_rankings(tmp_path: Path) -> None:
    sizes = "hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 24"
    plain = f"licence: none\ncontrol: true\npooling: mean\narchitecture: {{{sizes}}}\n"
    (tmp_path / "encoders").mkdir()
    for name, more in (("plain", ""), ("prompted", 'prompt: {ranking: "the film: ", document: "the bus: "}\n')):
        (tmp_path / "encoders" / f"{name}.yaml").write_text(f"title: {name}\n{plain}{more}", encoding="utf-8")
    encode = rbench.load_encoder("plain", include=tmp_path).encode
    both = (
        lambda texts: encode(["the film: " + text for text in texts]),
        lambda texts: encode(["the bus: " + text for text in texts]),
    )
    given, k = (QUERIES, DOCUMENTS, RELEVANCE), 2
    expected = rbench.rank(both, *given, k=k).scores["map"].tolist()
    assert rbench.rank("prompted", *given, k=k, include=tmp_path).scores["map"].tolist() == expected
    assert rbench.rank("plain", *given, k=k, include=tmp_path).scores["map"].tolist() != expected


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"relevance": {"q0": ["d9"]}}, "relevance['q0']['d9']"),
        ({"relevance": {"q9": ["d1"]}}, "relevance['q9']['d1']"),
        ({"relevance": {"q0": {"d1": 0.5}}}, "0.5"),
        ({"documents": {**DOCUMENTS, "d7": 7}}, "documents['d7']"),
        ({"attack": "geometry"}, "gradients"),
        ({"attack": "textfuler"}, "textfooler"),
        ({"encoder": "mini-statik"}, "mini-static"),
        ({"kk": 3}, "kk"),
    ],
)
def test_mistakes_are_told_with_their_place(changed: dict[str, Any], named: str) -> None:
    given = {"encoder": counts, "queries": QUERIES, "documents": DOCUMENTS, "relevance": RELEVANCE, "k": 2}
    with pytest.raises(RbenchError) as caught:
        rbench.rank(**{**given, **changed})
    assert named in str(caught.value)


@pytest.mark.parametrize("answer", [lambda texts: [[1.0]], lambda texts: [[math.nan]] * len(texts)])
def test_a_function_without_vectors_is_told(answer: Any) -> None:
    with pytest.raises(JobError):
        rbench.rank(answer, QUERIES, DOCUMENTS, RELEVANCE, k=2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_tensors_of_any_type_are_vectors(dtype: torch.dtype) -> None:
    def encode(texts: list[str]) -> torch.Tensor:
        return torch.tensor(counts(texts)).to(dtype).requires_grad_()

    def same(texts: list[str]) -> Any:
        return encode(texts).detach().double().numpy()

    one, other = (rbench.rank(of, QUERIES, DOCUMENTS, RELEVANCE, k=2, progress=False) for of in (encode, same))
    assert one.found == other.found
    assert {name: own.tolist() for name, own in one.scores.items()} == {n: o.tolist() for n, o in other.scores.items()}
