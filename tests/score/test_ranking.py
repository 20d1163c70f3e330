"""Scores of rankings: equal to trec_eval's on every query, also where documents tie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.encoders import index
from rbench.score.ranking import ranking_scores

pytrec_eval = pytest.importorskip("pytrec_eval")

TIES = st.integers(-2, 2)  # few values, so that many documents have the same score
IDS = st.lists(st.text("abé0", min_size=1, max_size=3), min_size=2, max_size=12, unique=True)


@given(ids=IDS, k=st.integers(1, 12), draw=st.data())
def test_ranks_and_ndcg_are_those_of_trec_eval_with_ties(ids: list[str], k: int, draw: st.DataObject) -> None:
    ids = sorted(ids, key=str.encode, reverse=True)
    numbers = draw.draw(st.lists(TIES, min_size=len(ids), max_size=len(ids)))
    grades = draw.draw(st.dictionaries(st.sampled_from(ids), st.integers(1, 3), min_size=1))
    # A query and documents in the plane whose products are these numbers.
    corpus = np.array([(number / 2, 0.0) for number in numbers], dtype=np.float32)
    query = np.array([(1.0, 0.0)], dtype=np.float32)
    found = index.rank_documents(query, corpus, len(ids), [None])
    run = {"q": {ids[place]: float(score) for place, score in zip(found.places[0], found.scores[0], strict=True)}}
    scores = ranking_scores(run, {"q": grades}, ["q"], k)

    measures = {f"ndcg_cut.{k}", f"recall.{k}", "recip_rank", "map", f"success.{k}"}
    wanted = pytrec_eval.RelevanceEvaluator({"q": grades}, measures).evaluate(run)["q"]
    assert scores["ndcg"][0] == wanted[f"ndcg_cut_{k}"] and scores["recall"][0] == wanted[f"recall_{k}"]
    assert scores["map"][0] == wanted["map"] and scores["success"][0] == wanted[f"success_{k}"]
    first = round(1 / wanted["recip_rank"])
    assert scores["mrr"][0] == (wanted["recip_rank"] if first <= k else 0)

    # What attacks compute of a query, without trec_eval.
    places = np.array([ids.index(name) for name in grades])
    ranks = index.compute_ranks(index.score_documents(query, corpus, [None]), places)
    assert ranks.min() == first
    assert [ids[place] for place in found.places[0]] == [
        name for _, name in sorted(zip(numbers, ids, strict=True), key=lambda one: (-one[0], ids.index(one[1])))
    ]
    ours = index.compute_ndcg(ranks, np.array([*grades.values()], dtype=float), k)
    assert ours[0] == pytest.approx(wanted[f"ndcg_cut_{k}"], abs=1e-12)


def test_the_best_ranking_has_the_ndcg_1_in_whatever_order_its_documents_are_named() -> None:
    rng = np.random.default_rng(1)
    for n in range(1, 40):
        ranks = rng.permutation(n)[None] + 1
        assert 1 - 1e-12 < index.compute_ndcg(ranks, np.ones(n), 10)[0] <= 1


def test_the_first_documents_are_the_same_whatever_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    corpus, queries = (index.to_unit_length(rng.integers(-2, 3, (n, 5))) for n in (501, 40))
    left_out = [i if i % 3 else None for i in range(40)]
    whole = index.rank_documents(queries, corpus, 20, left_out)
    monkeypatch.setattr(index, "PIECE", 7)
    monkeypatch.setattr(index, "MAX_SCORES", 600)
    pieces = index.rank_documents(queries, corpus, 20, left_out)
    assert (pieces.places == whole.places).all() and (pieces.scores == whole.scores).all()
    wide = (queries.astype(float) @ corpus.astype(float).T).astype(np.float32)
    for i, own in enumerate(left_out):
        order = [j for j in np.lexsort((np.arange(501), -wide[i])) if j != own]
        assert order[:20] == whole.places[i].tolist()
