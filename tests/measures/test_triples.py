"""Triples beside sentence-transformers and numpy; ties, zero vectors, and kinds that are not sure."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer

from rbench import mini
from rbench.config import load_task
from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.edits import EditKind, Labelled, Replacement, TaggedText
from rbench.errors import JobError
from rbench.measures import EncoderContext, triples
from rbench.mini.oracle import meaning
from rbench.tasks import Example
from rbench.tasks.ranking import DocumentCollection
from tests import tiny

MEASURE = triples.Triples()
TRIPLES = Path(__file__).parents[2] / "benchmarks" / "triples" / "test.jsonl"


def made_of(rows: list[tuple[str, ...]], folder: Path) -> EncoderContext:
    return EncoderContext(
        task=load_task("meaning_triples", registry=Registry()),
        rows=lambda split: [Example(str(i), texts, None) for i, texts in enumerate(rows)],
        splits=("test",),
        progress=lambda done, total, text: None,
        name="tiny",
        encoder=tiny.encoder(folder).eval(),
        resources=None,
        file=lambda kind, name: KINDS.get(name) or open_checked(find(kind, name)),
    )


class Turned(EditKind):
    """Another word in the place of the first."""

    title = "turned"
    labelled = Labelled(40, 40)

    def replacements(self, text: TaggedText) -> list[Replacement]:
        return [text.replaced(0, 0, "awful" if text.lower(0) != "awful" else "good")]


class Doubtful(Turned):
    """The same, and nobody knows whether the meaning changes."""

    labelled = Labelled()


KINDS = {"turned": Turned(), "doubtful": Doubtful()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("tiny") / "bert", 4)


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, ...]]:
    rng = random.Random(5)
    return [tuple(" ".join(rng.choices(tiny.WORDS, k=5)) for _ in range(3)) for _ in range(40)]


def test_margins_and_decisions_are_those_of_sentence_transformers(folder: Path, rows: list[tuple[str, ...]]) -> None:
    module = Transformer(str(folder), max_seq_length=64)
    model = SentenceTransformer(modules=[module, Pooling(module.get_word_embedding_dimension(), "mean")], device="cpu")
    original, kept, changed = (model.encode(list(texts)).astype(float) for texts in zip(*rows, strict=True))

    def cosine(a: Any, b: Any) -> Any:
        return np.array([x @ y / np.sqrt((x @ x) * (y @ y)) for x, y in zip(a, b, strict=True)])

    expected = cosine(original, kept) - cosine(original, changed)
    (row,) = MEASURE.run(triples.Options(), made_of(rows, folder))
    np.testing.assert_allclose(row.values["margin"], expected, atol=1e-5)
    np.testing.assert_array_equal(row.values["kept_nearer"], (expected > 0).astype(float))
    assert 0.2 < np.mean(expected > 0) < 0.8, "both decisions occur"


def test_equal_cosines_count_half_and_a_vector_of_zeros_is_refused(folder: Path) -> None:
    alike = [("good film", "bad film", "bad film"), ("bad film", "bad film", "dull plot")]
    (row,) = MEASURE.run(triples.Options(), made_of(alike, folder))
    assert list(np.asarray(row.values["kept_nearer"])) == [0.5, 1.0]
    assert np.isnan(triples.compute_margins(np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2)))).all()


def test_a_kind_that_is_not_sure_is_shown_and_decides_nothing(folder: Path, rows: list[tuple[str, ...]]) -> None:
    context = made_of([one[:1] for one in rows], folder)
    options = triples.Options(task="mr", edits=("turned", "doubtful"), noise=("typos",), degree=0.5)
    found = {row.names["kind"]: row for row in MEASURE.run(options, context)}
    assert [*found] == ["sure kinds", "turned", "doubtful (uncertain)"]
    np.testing.assert_array_equal(found["sure kinds"].values["margin"], found["turned"].values["margin"])
    doubtful = [*MEASURE.run(options.model_copy(update={"edits": ("doubtful",)}), context)]
    assert [row.names["kind"] for row in doubtful] == ["doubtful (uncertain)"]


def test_an_original_with_several_triples_counts_once(folder: Path) -> None:
    shared = [("good film", "good film", "dull plot"), ("good film", "bad film", "bad film"), ("bad", "good", "bad")]
    (row,) = MEASURE.run(triples.Options(), made_of(shared, folder))
    assert list(np.asarray(row.values["kept_nearer"])) == [0.75, 0.0] and row.values["triples"] == 3


def test_of_pairs_with_gold_scores_the_more_similar_partner_is_the_kept_one(folder: Path) -> None:
    pairs = [("a", "b", 5.0), ("a", "c", 2.0), ("d", "a", 1.5), ("b", "e", 4.5)]
    found = set(triples._read_triples(triples.Options(), load_task("mini-sts", registry=Registry()), labelled(pairs)))
    # c and d differ by half a point for a, and so do a and e for b: people do not tell them apart.
    assert found == {("a", "b", "c"), ("a", "b", "d")}


def test_of_pairs_with_classes_labels_say_what_keeps_and_what_changes(folder: Path) -> None:
    task = load_task("mini-nli", registry=Registry())
    entailed, neutral, contradicted = range(3)
    pairs = [("p", "e", entailed), ("p", "n", neutral), ("p", "c", contradicted), ("q", "e", entailed)]
    options = triples.Options(task="mini-nli", kept="entailment", changed="contradiction")
    assert [*triples._read_triples(options, task, labelled(pairs))] == [("p", "e", "c")]
    MEASURE.splits(options, task)
    with pytest.raises(ValueError) as caught:
        MEASURE.splits(options.model_copy(update={"changed": "against"}), task)
    assert "against" in str(caught.value)


def labelled(pairs: list[tuple[str, str, float]]) -> list[Example]:
    return [Example(str(i), (first, second), label) for i, (first, second, label) in enumerate(pairs)]


def test_a_passage_of_a_ranking_stands_beside_its_edit(folder: Path) -> None:
    """The passage that says the opposite should fall below it. Passages are read with a prompt of their own."""
    passages = DocumentCollection(
        ("2", "1", "0"), ("dull plot", "bad film", "good film"), {"q": {"0": 1, "2": 1}, "r": {"1": 2}}
    )
    context = made_of([], folder)
    context.encoder.settings = context.encoder.settings.model_copy(update={"document": "the "})
    context = replace(
        context,
        task=load_task("mini-ranking", registry=Registry()),
        rows=lambda split: [Example("q", ("good plot",), None), Example("r", ("bad",), None)],
        data=SimpleNamespace(collection=passages),  # type: ignore[arg-type]
    )
    options = triples.Options(task="mini-ranking", edits=("turned",))
    sure, turned = MEASURE.run(options, context)
    expected = [("good plot", "good film", "awful film"), ("good plot", "dull plot", "awful plot")]
    expected += [("bad", "bad film", "awful film")]
    assert [*triples._make_triples(context, "turned", context.rows("test"), options)] == expected
    encoder = context.encoder
    queries, kept, changed = zip(*expected, strict=True)
    vectors = [encoder.encode([*queries]), *(encoder.for_documents().encode([*texts]) for texts in (kept, changed))]
    margins = triples.compute_margins(*(texts.astype(float) for texts in vectors))
    np.testing.assert_allclose(sure.values["margin"], [margins[:2].mean(), margins[2]], atol=1e-6)
    assert not np.allclose(vectors[1], encoder.encode([*kept]))
    np.testing.assert_array_equal(sure.values["margin"], turned.values["margin"])
    with pytest.raises(ValueError):
        MEASURE.splits(triples.Options(task="mini-ranking"), context.task)


def test_what_is_no_triple_is_refused() -> None:
    task = tiny.data(2, 2, 2).spec
    for options in (triples.Options(), triples.Options(edits=("negation",))):
        with pytest.raises(ValueError):
            MEASURE.splits(options, task)
    wide = replace_columns(task, ("a", "b"))
    with pytest.raises(ValueError):
        MEASURE.splits(triples.Options(edits=("negation",), noise=("typos",)), wide)


def replace_columns(task: Any, columns: tuple[str, ...]) -> Any:
    return task.model_copy(update={"columns": columns})


def test_without_triples_there_is_no_number(folder: Path) -> None:
    with pytest.raises(JobError):
        list(MEASURE.run(triples.Options(), replace(made_of([], folder))))


def test_triples_of_the_embedded_world_keep_and_change_the_meaning() -> None:
    rows = mini.rows("mini-triples", "test")
    assert len(rows) > 400
    for row in rows[:40]:
        original, kept, changed = (str(row[name]) for name in triples.COLUMNS)
        assert kept != original and meaning(kept) == meaning(original) != meaning(changed)
        assert mini.oracle("mini-sentiment", [kept]) == 1 - int(mini.oracle("mini-sentiment", [changed]) or 0)


def test_the_committed_triples_have_three_different_texts_each() -> None:
    rows = [json.loads(line) for line in TRIPLES.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 48 and all(len({row[name] for name in triples.COLUMNS}) == 3 for row in rows)
