"""Tests retrofitted encoders: the formula against a linear solver, which words move, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from scipy.sparse import csr_array

from rbench import encoders
from rbench.encoders.vectors import WordVectors
from rbench.errors import JobError
from rbench.schema import EncoderSpec
from rbench.train.loop import pretrain
from rbench.train.objectives.retrofit import (
    NEEDS,
    Options,
    RetrofitTraining,
    link_nearest,
    link_synonyms,
    solve_retrofit,
    words_by_form,
)
from tests.recipes import substitution_toy as toy
from tests.train import bases

TEXTS = toy.sentences(np.random.default_rng(0), 40)[0]
EMBEDDINGS = "embeddings.word_embeddings.weight"


def spec(base: Path, **options: Any) -> EncoderSpec:
    return bases.spec("retrofit", base, "mean", steps=None, options=options)


def made(base: Path, out: Path, resources: Any = None, **options: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """The weights that are saved, and the scores."""
    scores = pretrain(spec(base, **options), base, TEXTS, out, seed=0, resources=resources or toy.resources())
    return load_file(out / "model.safetensors"), scores


# -------------------------------------------------------------------------------------------------------- the formula


@given(st.integers(0, 999), st.integers(1, 9), st.floats(0, 100))
def test_embeddings_solve_the_equations_of_the_paper(seed: int, words: int, strength: float) -> None:
    """Setting the derivative of its Psi to 0, with beta_ij = strength / degree, gives a linear system."""
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((words, words)) < 0.4, 1)
    links = (links | links.T).astype(float)
    own = rng.normal(size=(words, 3)).astype(np.float32)
    system = np.eye(words)
    for i, degree in enumerate(links.sum(axis=1)):
        if degree:
            system[i] = -strength * links[i] / degree
            system[i, i] = 1 + strength
    expected = np.linalg.solve(system, own.astype(float))
    found = solve_retrofit(own, csr_array(links), strength)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    alone = links.sum(axis=1) == 0
    assert np.array_equal(found[alone], own[alone]) and found.dtype == own.dtype


def test_the_equations_are_those_of_the_smallest_psi() -> None:
    """Where all words have as many neighbours, no other embeddings have a smaller Psi (the paper's objective)."""
    from scipy.optimize import minimize

    ring = np.zeros((5, 5))
    for i in range(5):
        ring[i, (i + 1) % 5] = ring[i, (i - 1) % 5] = 1.0
    own = np.random.default_rng(1).normal(size=(5, 2))

    def psi(flat: Any) -> float:
        q = flat.reshape(5, 2)
        far = ((q[:, None] - q[None]) ** 2).sum(axis=2)
        return float(((q - own) ** 2).sum() + (3.0 / 2 * ring * far).sum() / 2)  # each pair of neighbours counts once

    expected = minimize(psi, own.ravel(), tol=1e-12).x.reshape(5, 2)
    np.testing.assert_allclose(solve_retrofit(own, csr_array(ring), 3.0), expected, atol=1e-4)


@given(st.integers(0, 999), st.integers(1, 12), st.integers(1, 5), st.floats(-1, 1))
def test_neighbours_are_the_nearest_words_in_either_direction(seed: int, words: int, count: int, least: float) -> None:
    unit = np.random.default_rng(seed).normal(size=(words, 4))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    expected = np.zeros((words, words))
    for i in range(words):
        others = sorted((j for j in range(words) if j != i), key=lambda j: -(unit[i] @ unit[j]))
        for j in others[:count]:
            if unit[i] @ unit[j] >= least:
                expected[i, j] = expected[j, i] = 1
    assert np.array_equal(link_nearest(unit, count, least).toarray(), expected)


# --------------------------------------------------------------------------------------------------- which words move


def test_only_words_of_one_piece_with_neighbours_move(toy_base: Path, tmp_path: Path) -> None:
    before = load_file(toy_base / "model.safetensors")
    after, scores = made(toy_base, tmp_path / "out")
    tokenizer = toy.bert_tokenizer()
    words = [word for group in toy.GROUPS for word in group if word != "superb"]
    expected = tokenizer.convert_tokens_to_ids(words)
    changed = np.flatnonzero((before[EMBEDDINGS] != after[EMBEDDINGS]).any(axis=1))
    assert [*changed] == sorted(expected), "neither stop words, pieces of words nor special tokens"
    assert all(np.array_equal(before[key], after[key]) for key in before if key != EMBEDDINGS)
    assert scores["words_moved"] == len(expected)
    change = np.linalg.norm(after[EMBEDDINGS][expected] - before[EMBEDDINGS][expected], axis=1).mean()
    assert scores["moved"] == pytest.approx(
        change / np.linalg.norm(before[EMBEDDINGS][expected], axis=1).mean(), rel=1e-3
    )
    sizes = [len([w for w in group if w != "superb"]) for group in toy.GROUPS]
    assert scores["neighbours"] == pytest.approx(sum(n * (n - 1) for n in sizes) / sum(sizes)), "each its whole group"


@pytest.mark.nightly
def test_a_near_word_in_place_of_a_word_moves_the_vector_less(toy_base: Path, tmp_path: Path) -> None:
    _, scores = made(toy_base, tmp_path / "out", strength=4.0)
    made(toy_base, tmp_path / "random", strength=4.0, neighbours="random")
    one, other = "the film is good and lovely.", "the movie seems great and neat."

    def distance(where: Path) -> float:
        a, b = encoders.load(spec(toy_base).model_copy(update={"train": None}), where).encode([one, other])
        return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    assert distance(tmp_path / "out") < 0.5 * distance(toy_base)
    assert distance(tmp_path / "out") < 0.7 * distance(tmp_path / "random")
    a, b = (
        encoders.load(spec(toy_base).model_copy(update={"train": None}), where).encode(TEXTS)
        for where in (toy_base, tmp_path / "out")
    )
    cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert scores["cosine"] == pytest.approx(float(cosines.mean()), abs=1e-5) and scores["texts"] == len(TEXTS)


@pytest.mark.nightly
def test_the_control_moves_as_many_words_to_others(toy_base: Path, tmp_path: Path) -> None:
    near_words, scores = made(toy_base, tmp_path / "near")
    any_words, others = made(toy_base, tmp_path / "random", neighbours="random")
    again, _ = made(toy_base, tmp_path / "again", neighbours="random")
    assert others["words_moved"] == scores["words_moved"] and others["neighbours"] == scores["neighbours"]
    assert not np.allclose(near_words[EMBEDDINGS], any_words[EMBEDDINGS])
    assert np.array_equal(any_words[EMBEDDINGS], again[EMBEDDINGS])


def test_a_strength_of_0_moves_nothing_and_the_bounds_reach_the_graph(toy_base: Path, tmp_path: Path) -> None:
    still, scores = made(toy_base, tmp_path / "none", strength=0.0)
    assert np.array_equal(still[EMBEDDINGS], load_file(toy_base / "model.safetensors")[EMBEDDINGS])
    assert scores["moved"] == 0 and scores["cosine"] == pytest.approx(1.0, abs=1e-6)
    _, few = made(toy_base, tmp_path / "few", candidates=1)
    _, close = made(toy_base, tmp_path / "close", min_cosine=0.92)
    assert few["neighbours"] < scores["neighbours"] and close["words_moved"] < scores["words_moved"]


def test_words_move_among_those_of_their_form() -> None:
    ((ids, words),) = words_by_form(toy.bert_tokenizer(), toy.STOPWORDS)
    assert {*words} == {*toy.WORDS, "super", "un"} - {"superb", "unseen"} - toy.STOPWORDS
    assert toy.bert_tokenizer().convert_ids_to_tokens(ids.tolist()) == words
    tokenizer = toy.roberta_tokenizer()
    found = {
        tuple(tokenizer.convert_ids_to_tokens(ids.tolist())): words
        for ids, words in words_by_form(tokenizer, toy.STOPWORDS)
    }
    spaced = next(pieces for pieces in found if "Ġgood" in pieces)
    bare = next(pieces for pieces in found if "good" in pieces)
    capital = next(pieces for pieces in found if "B" in pieces)
    assert len(found) == 3 and {f"Ġ{word}" for word in toy.GOOD} <= {*spaced} and {*toy.GOOD} <= {*bare}
    assert found[spaced] == [piece.removeprefix("Ġ") for piece in spaced] and all(len(piece) == 1 for piece in capital)


def test_synonyms_are_neighbours_in_both_directions() -> None:
    lexicon = {"good": ["Fine", "good", "nice"], "fine": [], "bad": ["poor"], "poor": ["bad"]}
    found = link_synonyms(["good", "fine", "bad", "poor", "odd"], lambda word: lexicon.get(word, []))
    expected = np.zeros((5, 5))
    for i, j in ((0, 1), (2, 3)):
        expected[i, j] = expected[j, i] = 1
    assert np.array_equal(found.toarray(), expected)
    assert not link_synonyms(["odd"], lambda word: []).toarray().any()


def test_a_lexicon_may_stand_in_place_of_the_vectors_or_beside_them(toy_base: Path, tmp_path: Path) -> None:
    resources = toy.resources()
    resources.synonyms = lambda word: {"good": ["bad"], "very": ["super"]}.get(word, [])
    one = SimpleNamespace(stopwords=resources.stopwords, synonyms=resources.synonyms)  # it opens no vectors
    before = load_file(toy_base / "model.safetensors")[EMBEDDINGS]
    weights, scores = made(toy_base, tmp_path / "synonyms", one, source="synonyms", strength=1.0)
    good, bad = toy.bert_tokenizer().convert_tokens_to_ids(["good", "bad"])
    assert scores["words_moved"] == 4 and scores["neighbours"] == 1
    np.testing.assert_allclose(weights[EMBEDDINGS][good], (2 * before[good] + before[bad]) / 3, atol=1e-4)
    _, both = made(toy_base, tmp_path / "both", resources, source="both")
    _, vectors = made(toy_base, tmp_path / "vectors")
    assert both["words_moved"] == vectors["words_moved"] + 2
    needs = RetrofitTraining().needs
    assert needs(Options(source="synonyms")) == ("synonyms", "stopwords")
    assert needs(Options()) == ("word_vectors", "stopwords") and needs(Options(source="both")) == NEEDS


# ---------------------------------------------------------------------------------------------------- what is refused


def test_a_retrofitting_that_moves_nothing_is_refused(toy_base: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="min_cosine"):
        made(toy_base, tmp_path / "b", min_cosine=1.0)
    other = SimpleNamespace(word_vectors=WordVectors(["zebra"], np.ones((1, 2), np.float32)), stopwords=frozenset())
    with pytest.raises(JobError):
        made(toy_base, tmp_path / "c", other)
