"""Noise on pairs and on queries: stored numbers against correlations and rankings that are computed one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from rbench import api
from rbench.config.code import find
from rbench.encoders import load_victim
from rbench.measures._noise import NoiseRows
from rbench.noise import noised
from rbench.schema import MeasuredRow
from rbench.score.packed import pack_numbers, unpack_numbers
from rbench.score.ranking import ranking_scores
from rbench.store.runs import RunStore
from rbench.store.verify import verify
from rbench.store.weights.cache import WeightCache
from rbench.tasks import Example
from tests.measures.builders import select_rows

SUITE = """
name: s
encoders: [simcse-mini-packaged]
tasks: [mini-sts, mini-ranking]
finetune: [cosine, retriever]
resources: mini
figures: [noise]
evaluate: [{noise: {kinds: [drops, upper], degrees: [0.2, 0.6], draws: 2, num_examples: 40}}]
claims:
  - {id: pairs, metric: noise_drop, lower: {task: mini-sts/upper}, than: {task: mini-sts/drops}, for_each: encoder}
  - {id: queries, metric: noise.upper@0.6, of: {task: mini-ranking}, at_least: 0, for_each: encoder}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("scores")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        (folder / "suite.yaml").write_text(SUITE)
        result = api.run("suite.yaml", api.Options(out=folder / "RUN"))
        assert not result.failed
        yield folder


def job_of(run: Path, task: str) -> tuple[Any, Any, list[MeasuredRow]]:
    """A job of noise, its victim, and its rows."""
    store = RunStore(run / "RUN")
    plan = store.plan()
    assert plan is not None
    (job,) = (one for one in plan.jobs if one.what == "noise" and one.parts[1] == task)
    victim, _ = load_victim(WeightCache(run / "cache").folder(plan.job(job.needs["victim"]).key))
    return job, victim, list(store.rows(job))


def sample(job: Any) -> list[Example]:
    import random

    from rbench.tasks import open_task

    rows = open_task(job.measuring.task).split("test")
    return [rows[i] for i in sorted(random.Random(0).sample(range(len(rows)), 40))]


def changed(examples: list[Example], columns: tuple[str, ...], kind: str, degree: float, draw: int) -> list[Any]:
    module = find("noise", kind).open()
    return [
        tuple(
            noised(module, text, degree, f"0/{draw}/{kind}/{column}").text
            for text, column in zip(one.texts, columns, strict=True)
        )
        for one in examples
    ]


def test_the_score_of_pairs_is_spearmans_correlation_draw_by_draw(run: Path) -> None:
    job, scorer, rows = job_of(run, "mini-sts")
    stored, examples = NoiseRows(tuple(rows)), sample(job)
    gold = np.array([one.label for one in examples])
    by_degree: dict[float, list[Any]] = {0.0: [scorer.score_pairs([one.texts for one in examples])]}
    for degree in (0.2, 0.6):
        texts = [changed(examples, job.measuring.task.columns, "drops", degree, draw) for draw in (0, 1)]
        by_degree[degree] = [scorer.score_pairs(pairs) for pairs in texts]
        row = select_rows(rows, kind="drops", degree=f"{degree:g}", draw="1", defence="")[0]
        assert unpack_numbers(row.names["scores"], 40) == pytest.approx(by_degree[degree][1], abs=1e-4)
        tokens = sum(len(scorer.tokenizer(text)["input_ids"]) for pair in texts[1] for text in pair)
        assert row.numbers["tokens"] == tokens
    heights = {at: np.mean([spearmanr(one, gold).statistic for one in own]) for at, own in by_degree.items()}
    for label, value in (("none", heights[0.0]), ("drops@0.2", heights[0.2]), ("drops@0.6", heights[0.6])):
        score, lost = stored.score(label, "noise"), stored.score(label, "noise_drop")
        assert score is not None and lost is not None and score.value == pytest.approx(value, abs=1e-4)
        assert lost.value == pytest.approx(heights[0.0] - value, abs=1e-4)
        assert score.low is not None and score.high is not None and -1 <= score.low < score.value < score.high <= 1
    kind = stored.score("drops", "noise")
    assert kind is not None and kind.value == pytest.approx((heights[0.2] + heights[0.6]) / 2, abs=1e-4)
    worst = [
        max(pair, key=lambda s, g=g: abs(s - g))
        for pair, g in zip(zip(*by_degree[0.6], strict=True), gold, strict=True)
    ]
    score = stored.score("drops@0.6", "noise_worst")
    assert score is not None and score.value == pytest.approx(spearmanr(worst, gold).statistic, abs=1e-4)
    assert score.value < heights[0.6]


def test_the_score_of_queries_is_trec_evals_ndcg(run: Path) -> None:
    job, retriever, rows = job_of(run, "mini-ranking")
    examples = sample(job)
    texts = [query for (query,) in changed(examples, ("query",), "drops", 0.2, 1)]
    ids = [one.id for one in examples]
    vectors = retriever.encoder.encode(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = vectors.astype(np.float64) @ np.asarray(retriever.corpus, dtype=np.float64).T
    ranked = {
        query: {name: float(score) for name, score in zip(retriever.ids, own, strict=True) if name != query}
        if retriever.without_own
        else dict(zip(retriever.ids, map(float, own), strict=True))
        for query, own in zip(ids, found, strict=True)
    }
    (row,) = select_rows(rows, kind="drops", degree="0.2", draw="1", defence="")
    values = ranking_scores(ranked, retriever.relevance, ids, 10)["ndcg"]
    assert unpack_numbers(row.names["ndcg"], 40) == pytest.approx(values, abs=1e-3) and len({*values}) > 2
    draws = [unpack_numbers(one.names["ndcg"], 40) for one in select_rows(rows, kind="drops", degree="0.6", defence="")]
    stored = NoiseRows(tuple(rows))
    for name, joined in (("noise", np.mean), ("noise_worst", np.min)):
        score = stored.score("drops@0.6", name)
        assert score is not None and score.value == pytest.approx(joined(draws, axis=0).mean())


def test_one_table_has_all_tasks_and_says_which_score(run: Path) -> None:
    assert not verify(run / "RUN").damaged
    shown = api.table(run / "RUN", metric="noise")
    assert "| Task | Score | Fine-tuning | Noise |" in " ".join(shown.split()) and "Score under noise" in shown
    noted = api.table(run / "RUN", metric="noise", notes="full")
    assert "(mini-sts: Spearman's correlation, mini-ranking: nDCG@10)" in " ".join(noted.split())
    assert (run / "RUN" / "figures" / "noise.svg").exists()
    said = {one.claim.id: one for one in api.claims(run / "RUN")}
    (pairs,), (_,) = said["pairs"].judged, said["queries"].judged
    assert pairs.difference is not None
    upper = pairs.difference.value
    assert upper is not None and upper < 0, "the tokenizer lowers its input, so capitals cost nothing"


def test_the_report_has_the_table_and_the_curves(run: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto((run / "RUN" / "report.html").as_uri())
    cells = page.locator("#part-measures table tbody tr").first.locator("td").all_inner_texts()
    assert cells[:4] == ["mini STS", "Spearman's correlation", "Cosine", "none"]
    shown = api.table(run / "RUN", metric="noise", names=True)
    assert cells[4] in shown and float(cells[4]) > 20
    assert page.locator("#part-curves img").evaluate("image => image.naturalWidth") > 400
    assert page.locator("#part-curves img").is_visible() and not page.locator("#part-compare").is_visible()
    assert page.locator("nav a").all_inner_texts() == ["Verdicts", "Measures", "Curves", "Provenance"]
    page.locator("#part-measures summary").click()
    assert "drops: a letter is left out; upper: a word in capitals." in page.locator("#part-measures").inner_text()
    assert errors == []
    page.close()


def test_a_correlation_of_equal_scores_has_no_value() -> None:
    def row(kind: str, scores: list[float], **more: str) -> MeasuredRow:
        names = {"kind": kind, "degree": "0" if kind == "none" else "1", "draw": "0", "defence": ""}
        return MeasuredRow(names={**names, "scores": pack_numbers(scores), **more}, numbers={"n": len(scores)})

    gold = pack_numbers([1.0, 2.0, 3.0, 4.0])
    rows = NoiseRows((row("none", [1, 2, 3, 4], gold=gold), row("drops", [2, 2, 2, 2])))
    assert rows.score("drops@1", "noise") is None and rows.score("drops", "noise") is None
    assert rows.score("drops@1", "noise_drop") is None and rows.score("drops@1", "noise_worst") is None
    score = rows.score("none", "noise")
    assert score is not None and score.value == pytest.approx(1.0)
