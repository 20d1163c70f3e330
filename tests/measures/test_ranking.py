"""The measure `ranking` and attacks on rankings, from a suite to tables and claims."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

import rbench
from rbench import api
from rbench.errors import ResourceError, SuiteError
from rbench.measures import ranking
from rbench.score.ranking import ranking_scores
from rbench.store.runs import RunStore
from rbench.tasks.ranking import DocumentCollection
from tests import reference
from tests.scripts import SCRIPTS, SPACED, text_of, words_of

SUITE: dict[str, Any] = {
    "name": "found",
    "encoders": ["mini-static", "mini-bert-random"],
    "tasks": ["mini-ranking"],
    "attacks": ["textbugger"],
    "evaluate": [{"ranking": {"tasks": ["mini-ranking"]}}],
    "num_examples": 12,
    "resources": {"set": "mini", "masked_lm": "mini-bert-packaged"},
    "tables": ["ranking", "asr", "ndcg_drop"],
    "claims": [
        {"id": "trained", "metric": "ndcg", "higher": "mini-static", "than": "mini-bert-random", "about": "weights"},
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ranking") / "run"
    api.run(SUITE, out=out)
    return out


def test_scores_are_those_of_ranking_by_hand(run: Path) -> None:
    """mini-static's vectors are means of word vectors; ranks are counted here one by one."""
    from rbench import encoders
    from rbench.config import load_encoder
    from rbench.config.registry import Registry
    from rbench.encoders.locate import locate
    from rbench.schema import TaskSpec
    from rbench.tasks import open_task

    data = open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking"))
    of = data.collection
    assert of is not None
    spec = load_encoder("mini-static", Registry())
    encoder = encoders.load(spec, locate(spec).where, kind="ranking")
    queries = data.split("test")
    documents, asked = (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for vectors in (encoder.encode(list(of.texts)).astype(float), encoder.encode([q.texts[0] for q in queries]))
    )
    gains = []
    for query, scores in zip(queries, (asked @ documents.T).astype(np.float32), strict=True):
        order = sorted(of.ids, key=lambda name: (float(scores[of.place[name]]), name), reverse=True)[:10]
        found = sum(1 / np.log2(i + 2) for i, name in enumerate(order) if name in of.relevance[query.id])
        gains.append(found / sum(1 / np.log2(i + 2) for i in range(min(10, len(of.relevance[query.id])))))
    cells = json.loads(api.table(run, metric="ranking", fmt="json"))["cells"]
    mine = next(cell for cell in cells if cell["encoder"] == "mini-static")
    assert mine["value"] == pytest.approx(np.mean(gains), abs=1e-6) and mine["n"] == 200
    assert mine["low"] < mine["value"] < mine["high"]


def test_success_has_wilsons_interval(run: Path) -> None:
    """Student's t has no width where all queries succeed, and leaves 0..1 where few do."""
    lines = api.table(run, metric="ranking", intervals=True).splitlines()
    (mine,) = [line for line in lines if "mini word vectors" in line and line.startswith("|")]
    value, low, high = map(float, re.findall(r"[\d.]+", mine.split("|")[-2]))
    limits = 100 * np.array(proportion_confint(round(value * 2), 200, method="wilson"))  # of 200 queries
    assert (low, high) == pytest.approx(limits, abs=0.005)


def test_a_claim_speaks_of_ndcg(run: Path) -> None:
    (claim,) = api.claims(run)
    (judged,) = claim.judged
    assert claim.verdict == "supported" and judged.verdict == "supported"


def test_outcomes_of_a_query_and_the_metrics_of_rankings(run: Path) -> None:
    store = RunStore(run)
    job = next(job for job in store.plan().attacks if job.parts[0] == "mini-static")
    outcomes = store.outcomes(job)
    assert len(outcomes) == 12 and not any(one.error for one in outcomes)
    fell = [one for one in outcomes if one.status == "succeeded"]
    assert fell and all(one.original_prediction == 1 and one.perturbed_prediction == 0 for one in fell)
    assert all(one.perturbed_score == 0 for one in fell)  # no relevant document is among the first ten
    drop = [
        (one.original_score or 0) - (one.original_score if one.perturbed_score is None else one.perturbed_score or 0)
        for one in outcomes
    ]
    cells = json.loads(api.table(run, metric="ndcg_drop", fmt="json"))["cells"]
    mine = next(cell for cell in cells if cell["encoder"] == "mini-static")
    assert mine["value"] == pytest.approx(np.mean(drop)) and mine["n"] == 12
    asr = json.loads(api.table(run, metric="oracle_asr", fmt="json"))["cells"]
    assert {cell["encoder"] for cell in asr} == {"mini-static", "mini-bert-random"}


def test_a_run_is_verified(run: Path) -> None:
    assert not api.verify(run).findings


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"evaluate": [{"ranking": {"tasks": ["mini-sts"]}}]}, "mini-sts"),
        ({"attacks": ["geometry"]}, "geometry"),
        ({"finetune": ["clean"]}, "mini-ranking"),
        ({"tasks": ["mini-sentiment"], "finetune": ["retriever"]}, "retriever"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as caught:
        api.plan({**SUITE, "claims": [], "tables": ["asr"], **changed}, out=tmp_path / "run")
    assert named in str(caught.value)


def test_a_k_beyond_the_corpus_is_refused_before_any_work(tmp_path: Path) -> None:
    asked = {"evaluate": [{"ranking": {"k": 1000}}], "attacks": [{"textbugger": {"ranking": {"k": 2000}}}]}
    with pytest.raises(ResourceError) as error:
        api.plan({**SUITE, **asked}, out=tmp_path / "run")
    assert "attack textbugger" in str(error.value)
    with pytest.raises(ResourceError) as error:
        api.plan({**SUITE, "attacks": [{"textbugger": {"ranking": {"target": "nobody"}}}]}, out=tmp_path / "run")
    assert "nobody" in str(error.value)


def test_ndcg_equals_that_of_sentence_transformers() -> None:
    """Its evaluator breaks ties otherwise, so that no two documents have the same text here."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    from rbench.encoders import index
    from rbench.encoders.sentence import SentenceEncoder
    from rbench.schema import TaskSpec
    from rbench.score.ranking import ranking_scores
    from rbench.tasks import open_task

    folder = Path(rbench.__file__).parent / "packaged" / "mini-bert-packaged"
    of = open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking")).collection
    assert of is not None
    texts = dict(zip(of.ids, of.texts, strict=True))
    wanted = dict(list(of.relevance.items())[:40])
    asked = {query: texts[next(iter(grades))] for query, grades in wanted.items()}  # documents stand for queries
    corpus = {name: text for name, text in texts.items() if int(name[1:]) < 300}
    corpus |= {name: texts[name] for grades in wanted.values() for name in grades}
    evaluate = InformationRetrievalEvaluator(
        asked, corpus, {query: {*grades} for query, grades in wanted.items()}, ndcg_at_k=[10], mrr_at_k=[10]
    )
    theirs = evaluate(SentenceTransformer(str(folder), device="cpu"))

    encoder, ids = SentenceEncoder.open(folder, pooling="cls"), sorted(corpus, key=str.encode, reverse=True)
    vectors = index.load_document_vectors(encoder, [corpus[name] for name in ids], lambda count: None)
    found = index.rank_documents(
        index.to_unit_length(encoder.encode([*asked.values()])), vectors, 100, [None] * len(asked)
    )
    run = {
        query: {ids[place]: float(score) for place, score in zip(places, scores, strict=True)}
        for query, places, scores in zip(asked, found.places, found.scores, strict=True)
    }
    ours = ranking_scores(run, wanted, [*asked], 10)
    assert 0.1 < ours["ndcg"].mean() == pytest.approx(theirs["cosine_ndcg@10"], abs=1e-4)
    assert ours["mrr"].mean() == pytest.approx(theirs["cosine_mrr@10"], abs=1e-4)


def test_queries_that_are_left_out_are_told_where_the_data_come_by_evaluate_alone(tmp_path: Path) -> None:
    corpus = [{"_id": f"d{i}", "text": f"document {i}"} for i in range(4)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(4)]
    folder = tmp_path / "desk"
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t1\n")
    (tmp_path / "include" / "tasks").mkdir(parents=True)
    task = "{name: desk, title: Desk, kind: ranking, columns: [query], ranking: {folder: desk}}"
    (tmp_path / "include" / "tasks" / "desk.yaml").write_text(task)
    options = api.Options(data=(tmp_path,), include=(tmp_path / "include",), out=tmp_path / "run")
    asked = {"name": "s", "encoders": ["mini-static"], "evaluate": [{"ranking": {"tasks": ["desk"], "k": 2}}]}
    notes = [note for note in api.plan(asked, options).notes if note.startswith("desk: ")]
    assert any(note.startswith("desk: 2 rows ") for note in notes) and "test 2" in notes[0]


def test_ndcg_before_any_attack_has_one_row_for_a_victim() -> None:
    """Each attack of a RUN has it of the same queries, so rows of several attacks would repeat it."""
    run = reference.run("ranking-attack-local")
    table = json.loads(api.table(run, metric="ndcg_before", fmt="json"))
    keys = [(cell["encoder"], cell["task"]) for cell in table["cells"]]
    assert len(keys) == len(set(keys)) == 10
    drop = json.loads(api.table(run, metric="ndcg_drop", fmt="json"))["cells"]
    assert len(drop) == 3 * len(keys)
    assert "textfooler" not in api.table(run, metric="ndcg_before", names=True)


def test_after_a_failed_attack_a_query_counts_at_the_worst_text_that_was_found(run: Path) -> None:
    """Skipped queries stay as they were; leaving the failed ones unchanged, too, would give a higher number."""
    store = RunStore(run)
    outcomes = [one for record in store.records() if record.job.attacking for one in store.outcomes(record.job)]
    cells = json.loads(api.table(run, metric="ndcg_after", fmt="json"))["cells"]
    worst = [one.original_score if one.perturbed_score is None else one.perturbed_score for one in outcomes]
    unchanged = [one.perturbed_score if one.status == "succeeded" else one.original_score for one in outcomes]
    assert np.mean([cell["value"] for cell in cells]) == pytest.approx(np.mean(worst))
    assert np.mean(worst) < np.mean(unchanged)
    page = " ".join(api.table(run, metric="ndcg_after").split())
    assert "also of failed attacks at the worst text found" in page


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_control_finds_in_every_script_what_bm25_on_its_words_finds(script: str) -> None:
    """A query has the words of one document in another order. By the words themselves all queries find theirs."""
    words = words_of(script)
    ids = tuple(f"d{i:02}" for i in range(len(words), 0, -1))
    asked = [f"q{i}" for i in range(len(words))]
    turned = [own[::-1] for own in words]
    relevance = {query: {document: 1} for query, document in zip(asked, ids, strict=True)}
    of = DocumentCollection(ids, tuple(text_of(script, own) for own in words), relevance)
    found = ranking._rank_by_bm25([text_of(script, own) for own in turned], of, asked)
    known = bm25s.BM25(k1=1.2, b=0.75)
    known.index(words, show_progress=False)
    assert all(int(np.argmax(known.get_scores(own))) == i for i, own in enumerate(turned)), "the words alone"
    run = {
        query: {ids[place]: float(score) for place, score in zip(places, scores, strict=True) if np.isfinite(score)}
        for query, places, scores in zip(asked, found.places.tolist(), found.scores, strict=True)
    }
    ndcg = ranking_scores(run, relevance, asked, 10)["ndcg"].mean()
    assert ndcg == pytest.approx(1.0) if script in SPACED else ndcg > 0.9
