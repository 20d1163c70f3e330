"""The measure `poisoning`: passages in a corpus, from a suite to its table, and each of its numbers by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench import api, encoders
from rbench.encoders.hotflip import HotFlip
from rbench.encoders.locate import EMBEDDED_VECTORS
from rbench.errors import JobError, SuiteError
from rbench.measures import EncoderContext, poisoning
from rbench.measures.poisoning import Options
from rbench.schema import EncoderSpec, TaskSpec
from rbench.score.packed import unpack_hits, unpack_numbers
from rbench.score.ranking import ranking_scores
from rbench.store.runs import RunStore
from rbench.tasks import open_task

SUITE: dict[str, Any] = {
    "name": "poisoned",
    "encoders": ["mini-static"],
    "evaluate": [{"poisoning": {"passages": [3, 1], "words": 8, "steps": 16, "candidates": 8}}],
    "resources": {"set": "mini", "masked_lm": "mini-bert-packaged"},
    "tables": ["poisoning"],
    "claims": [
        {"id": "few", "metric": "poisoned", "of": "mini-static", "at_most": 90, "about": "weights"},
        {"id": "one", "metric": "poisoned_fewest", "of": "mini-static", "at_most": 80, "about": "weights"},
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("poisoning") / "run"
    api.run(SUITE, out=out)
    return out


def test_a_table_has_each_number_of_passages_and_each_control(run: Path) -> None:
    cells = json.loads(api.table(run, metric="poisoning", fmt="json"))["cells"]
    assert [(cell["passages"], cell["kind"]) for cell in cells] == [
        *((n, kind) for n in (1, 3) for kind in poisoning.PASSAGE_KINDS),
        (None, "documents"),
    ]
    found = {(cell["passages"], cell["kind"]): cell for cell in cells}
    assert found[3, "hotflip"]["asr"] > found[3, "random"]["asr"] and found[3, "hotflip"]["n"] == 100
    assert found[3, "hotflip"]["cosine"] > found[3, "noise"]["cosine"] > found[3, "random"]["cosine"]
    assert found[3, "hotflip"]["perplexity"] > 10 * found[None, "documents"]["perplexity"]
    assert found[None, "documents"]["dictionary"] == 1
    assert "| HotFlip" in api.table(run, metric="poisoning")


def test_claims_speak_of_the_most_and_of_the_fewest_passages(run: Path) -> None:
    rows = RunStore(run).rows(next(iter(RunStore(run).plan().jobs)))
    hotflip = [row.numbers["reached"] for row in rows if row.names["kind"] == "hotflip"]
    by_id = {claim.claim.id: claim.judged[0] for claim in api.claims(run)}
    values = [judged.difference.value for judged in (by_id["one"], by_id["few"]) if judged.difference is not None]
    assert values == pytest.approx([one / 100 for one in hotflip])


def test_a_run_is_verified(run: Path) -> None:
    assert not api.verify(run).findings


def test_a_masked_lm_is_needed_for_perplexity_alone() -> None:
    assert poisoning.CorpusPoisoning().needs(Options()) == ("word_vectors", "masked_lm")
    assert poisoning.CorpusPoisoning().needs(Options(perplexity=False)) == ("word_vectors",)


def test_a_task_without_documents_is_refused(tmp_path: Path) -> None:
    changed = {"evaluate": [{"poisoning": {"tasks": ["mini-sts"]}}], "claims": []}
    with pytest.raises(SuiteError, match="mini-sts"):
        api.plan({**SUITE, **changed}, out=tmp_path / "run")


# -------------------------------------------------------------------------------------------------- numbers by hand


@cache
def context() -> EncoderContext:
    data = open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking"))
    encoder = encoders.load(
        EncoderSpec(name="words", base=EMBEDDED_VECTORS, pooling="mean"), EMBEDDED_VECTORS, kind="ranking"
    )
    resources: Any = SimpleNamespace(word_vectors={"the", "man"})
    rows = data.split("test")
    return EncoderContext(data.spec, lambda split: rows, ("test",), lambda *at: None, "words", encoder, resources, data)


OPTIONS = Options(passages=(3,), words=8, steps=8, candidates=4, perplexity=False)


def test_what_is_reached_and_what_is_lost_is_that_of_a_ranking_with_the_passages_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[list[str]] = []
    seen = poisoning._measure_visibility
    monkeypatch.setattr(
        poisoning, "_measure_visibility", lambda passages, *more: (written.append(passages), seen(passages, *more))[1]
    )
    of = context()
    rows = poisoning.CorpusPoisoning().run(OPTIONS, of)
    row = next(one for one in rows if one.names["kind"] == "hotflip")
    assert of.data is not None
    collection = of.data.collection
    assert collection is not None
    texts = dict(zip(collection.ids, collection.texts, strict=True))
    poison = {f"!{i}": " ".join(words) for i, words in enumerate(written[0])}  # last of all ids where scores are equal
    everything = {**texts, **poison}
    order = np.random.default_rng(0).permutation(200)
    held = [of.rows("test")[i] for i in sorted(order[100:].tolist())]

    def unit(of_texts: list[str]) -> Any:
        vectors = of.encoder.encode(of_texts).astype(float)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32).astype(float)

    scores = (unit([one.texts[0] for one in held]) @ unit([*everything.values()]).T).astype(np.float32)
    ids, reached, lost = [*everything], [], []
    for query, own in zip(held, scores, strict=True):
        first = sorted(range(len(ids)), key=lambda i: (float(own[i]), ids[i]), reverse=True)[:10]
        reached.append(any(ids[i] in poison for i in first))
        both = []
        for among in (texts, everything):
            run = {query.id: {name: float(one) for name, one in zip(ids, own, strict=True) if name in among}}
            both.append(ranking_scores(run, collection.relevance, [query.id], 10)["ndcg"][0])
        lost.append(both[0] - both[1])
    assert unpack_hits(row.names["reached"], 100).tolist() == reached and 0 < sum(reached) == row.numbers["reached"]
    assert unpack_numbers(row.names["drop"], 100) == pytest.approx(lost, abs=1e-6)
    words = [word for passage in written[0] for word in passage if word.isalpha()]
    assert row.numbers["dictionary"] == pytest.approx(sum(word in ("the", "man") for word in words) / len(words))


def test_controls_have_the_words_that_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[tuple[str, ...]]] = []
    flipped: list[set[int]] = []
    write = HotFlip.write

    def noted(self: HotFlip, *about: Any, **more: Any) -> Any:
        found = write(self, *about, **more)
        flipped.append({*found.places})
        return found

    def seen(passages: list[tuple[str, ...]], *more: Any) -> dict[str, float]:
        written.append(passages)
        return {"dictionary": 1.0}

    monkeypatch.setattr(HotFlip, "write", noted)
    monkeypatch.setattr(poisoning, "_measure_visibility", seen)
    of = context()
    poisoning.CorpusPoisoning().run(OPTIONS, of)
    _, words, noise, drawn, start = written
    asked = {word for one in of.rows("test") for word in one.texts[0].lower().split()}
    assert all(word in asked for passage in words for word in passage)
    for places, moved, first in zip(flipped, noise, start, strict=True):
        assert {i for i, word in enumerate(moved) if word != first[i]} == places != set()
    assert all(len(passage) == 8 for passage in (*noise, *drawn))


def test_too_long_passages_are_refused() -> None:
    with pytest.raises(JobError) as caught:
        poisoning.CorpusPoisoning().run(OPTIONS.model_copy(update={"words": 500}), context())
    assert "500" in str(caught.value)


@pytest.mark.parametrize(
    ("known", "held", "needed"),
    [
        ([[1, 0], [1, 0], [0, 1]], [[1, 0], [0, 1], [0, 1]], 2),  # the first is taken first, and reaches one of three
        ([[1, 0], [1, 0], [0, 1]], [[1, 0], [1, 0], [0, 1]], 1),
        ([[1, 1]], [[0, 0]], None),
    ],
)
def test_passages_are_taken_by_what_they_reach_of_their_own_queries(
    known: list[list[int]], held: list[list[int]], needed: int | None
) -> None:
    assert poisoning.count_needed(np.array(known, bool), np.array(held, bool)) == needed
