"""The check of an encoder's vectors: false alarms, and what it says of planted changes, on vectors made here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from rbench.errors import JobError, StoreError
from rbench.gate import vector_baseline as baselines
from rbench.gate.vector_baseline import ABSENT, ROUNDS, VectorBaseline, build_vector_baseline
from rbench.gate.vector_check import ALL, LENGTHS, VectorCheck, check_vectors, describe_variation
from rbench.gate.watched_texts import DOCUMENTS, NOISED, QUERIES, SHORT, STORIES, WORDS, build_texts, hash_texts

DIM = 48
Vectors = NDArray[np.float64]


def word_vectors(seed: int, texts: list[str]) -> dict[str, Vectors]:
    rng = np.random.default_rng(seed)
    return {word: rng.standard_normal(DIM) for word in sorted({word for text in texts for word in text.split()})}


def encode(seed: int = 0, longest: int = 10**9, normalize: bool = True) -> Vectors:
    """Vectors of all texts: the mean of the vectors of their words, up to a number of words."""
    texts = [text.text for text in build_texts()]
    by_word = word_vectors(seed, texts)
    vectors = np.stack([np.mean([by_word[word] for word in text.split()[:longest]], axis=0) for text in texts])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else vectors


def noisy(vectors: Vectors, size: float, rng: np.random.Generator) -> Vectors:
    scale = size * np.linalg.norm(vectors, axis=1, keepdims=True) / math.sqrt(DIM)
    return vectors + scale * rng.standard_normal(vectors.shape)


def made(*rounds: Vectors) -> VectorBaseline:
    return build_vector_baseline("encoder", [list(vectors) for vectors in rounds])


def exact(vectors: Vectors) -> VectorBaseline:
    return made(*[vectors] * ROUNDS)


def checked(baseline: VectorBaseline, vectors: Vectors, **how: float) -> VectorCheck:
    return check_vectors(baseline, list(vectors), **how)


def failed(check: VectorCheck) -> set[str]:
    return {row.name for row in check.rows if row.verdict == "failed"}


def test_the_texts_are_the_ones_of_stored_baselines() -> None:
    """A change of a text makes every stored baseline useless."""
    texts = build_texts()
    assert hash_texts() == "666cf74cc902a5c9" and len(texts) == 131 == len({text.text for text in texts})
    assert all(len(text.text.split()) == text.words for text in texts if text.story is not None)
    sizes = {SHORT: len(DOCUMENTS) + len(QUERIES), **dict.fromkeys(NOISED, 10)}
    sizes |= {group: STORIES * len(lengths) for group, lengths in WORDS.items()}
    assert {group: sum(text.group == group for text in texts) for group in sizes} == sizes


def test_a_service_that_varies_raises_no_more_false_alarms_than_alpha() -> None:
    vectors, rng, checks, alarms, alpha = encode(), np.random.default_rng(1), 40, 0, 0.05
    for _ in range(checks):
        baseline = made(*(noisy(vectors, 0.05, rng) for _ in range(ROUNDS)))
        alarms += checked(baseline, noisy(vectors, 0.05, rng), alpha=alpha).verdict == "failed"
    assert alarms <= stats.binom.ppf(0.999, checks, alpha)


def test_replicas_of_other_precision_are_one_service() -> None:
    rng = np.random.default_rng(2)
    replicas = np.stack([encode(), noisy(encode(), 0.1, rng)])

    def answer() -> Vectors:
        return replicas[rng.integers(2, size=len(build_texts())), np.arange(len(build_texts()))]

    alarms = [checked(made(*(answer() for _ in range(ROUNDS))), answer()).verdict for _ in range(25)]
    assert alarms == ["passed"] * 25


def test_lengths_that_vary_while_a_baseline_is_made_are_no_change() -> None:
    vectors, rng = encode(), np.random.default_rng(5)

    def answer() -> Vectors:
        return vectors * rng.uniform(0.8, 1.2, (len(vectors), 1))

    assert checked(made(*(answer() for _ in range(ROUNDS))), answer()).verdict == "passed"
    assert failed(checked(exact(vectors), answer())) == {LENGTHS}


def test_p_is_the_binomial_tail_corrected_by_holm() -> None:
    vectors = encode()
    now = vectors.copy()
    changed = [i for i, text in enumerate(build_texts()) if text.group == NOISED[0]][:4]
    now[changed] = noisy(vectors[changed], 0.1, np.random.default_rng(3))
    rows = {row.name: row for row in checked(exact(vectors), now).rows}
    assert (rows[NOISED[0]].changed, rows[ALL].changed, rows[SHORT].changed, rows[LENGTHS].n) == (4, 4, 0, 131)
    tail = stats.binom.sf(3, 10, 1 / ROUNDS)
    assert rows[NOISED[0]].p == pytest.approx(min(1.0, 10 * tail), rel=1e-9)
    assert checked(exact(vectors), now).verdict == "passed"  # of ten, four are no proof


def test_small_differences_pass_and_the_tolerance_says_which() -> None:
    vectors, rng = encode(), np.random.default_rng(4)
    now = noisy(vectors, 0.008, rng)  # 1 - cosine of some 3e-5
    assert checked(exact(vectors), now).verdict == "passed"
    assert failed(checked(exact(vectors), now, tolerance=1e-6)) >= {SHORT, ALL}
    assert failed(checked(exact(vectors), noisy(vectors, 0.05, rng), tolerance=1e-2)) == set()


@pytest.mark.parametrize(
    ("now", "rows", "said"),
    [
        ({"seed": 1}, {SHORT, ALL, *NOISED, *WORDS}, "another model"),
        ({"longest": 100}, {*[*WORDS][1:]}, "up to 90 to 110 words, and read more than 600"),
        ({"longest": 400}, {[*WORDS][3]}, "up to 350 to 420 words, and read more than 600"),
        ({"normalize": False}, {LENGTHS}, "no longer normalised"),
    ],
    ids=["another model", "shorter", "a little shorter", "normalisation"],  # the order of a set differs by process
)
def test_what_changed_is_told(now: dict[str, int], rows: set[str], said: str) -> None:
    check = checked(exact(encode()), encode(**now))
    assert failed(check) == rows
    assert check.verdict == "failed" and said in check.said
    assert ("normalised" in check.said) is (now == {"normalize": False})
    assert ("maximum length" in check.said) is ("longest" in now)


def test_normalisation_that_is_new_and_a_factor_are_told_apart() -> None:
    raw = encode(normalize=False)
    assert "normalised now" in checked(exact(raw), encode()).said
    scaled = checked(exact(raw), 3 * raw)
    assert failed(scaled) == {LENGTHS} and "normalised" not in scaled.said


def test_a_longer_maximum_length_is_told() -> None:
    check = checked(exact(encode(longest=200)), encode(longest=400))
    assert failed(check) >= {[*WORDS][3]} and SHORT not in failed(check)
    assert "up to 350 to 420 words, and read up to 170 to 210" in check.said


def test_texts_that_are_cleaned_in_another_way() -> None:
    vectors = encode()
    now = vectors.copy()
    accents = [i for i, text in enumerate(build_texts()) if text.group == NOISED[2]]
    now[accents] = encode(seed=1)[accents]
    check = checked(exact(vectors), now)
    assert failed(check) == {NOISED[2]} and NOISED[2] in check.changes[0]


def test_a_little_noise_in_all_vectors_is_another_precision_and_changes_no_ranking() -> None:
    vectors = encode()
    check = checked(exact(vectors), noisy(vectors, 0.03, np.random.default_rng(5)))
    assert "precision" in check.said and SHORT in failed(check) and 0 < check.replaced < 3
    rows = {row.name: row for row in check.rows}
    assert rows[SHORT].cosine == pytest.approx(1 - 0.03**2 / 2, abs=1e-4)


def test_half_of_the_servers_changed() -> None:
    vectors, rng = encode(), np.random.default_rng(6)
    now = np.where(rng.random((len(vectors), 1)) < 0.5, encode(seed=1), vectors)
    check = checked(exact(vectors), now)
    assert ALL in failed(check) and "one of several servers" in check.said and "maximum length" not in check.said


def test_refused_texts_and_another_width_are_changes() -> None:
    vectors = encode()
    refusing = [
        None if len(text.text.split()) > 400 else vector for text, vector in zip(build_texts(), vectors, strict=True)
    ]
    check = check_vectors(exact(vectors), refusing)
    assert failed(check) == {[*WORDS][3]} and "12 of 131 texts are refused" in check.said
    wide = check_vectors(exact(vectors), [np.ones(3 * DIM)] * len(vectors))
    assert wide.changes == (f"vectors have {3 * DIM} numbers, and had {DIM}: another model",)
    always = build_vector_baseline("encoder", [refusing] * ROUNDS)
    assert check_vectors(always, refusing).verdict == "passed"
    assert failed(check_vectors(always, list(vectors))) == {[*WORDS][3]}


def test_a_baseline_is_read_as_it_was_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    baseline = made(*(noisy(encode(), 0.05, rng) for _ in range(ROUNDS)))
    for name in ("b.json", "b.json.gz"):
        baselines.write(baseline, tmp_path / name)
        assert baselines.read(tmp_path / name) == baseline
    assert (tmp_path / "b.json.gz").stat().st_size < (tmp_path / "b.json").stat().st_size < 30_000
    assert "131 of 131 texts" in describe_variation(baseline)
    assert "same vectors" in describe_variation(exact(encode()))
    (tmp_path / "b.json").write_text((tmp_path / "b.json").read_text().replace("encoder", "another", 1))
    with pytest.raises(StoreError):
        baselines.read(tmp_path / "b.json")
    baselines.write(baseline.model_copy(update={"texts": "0" * 16}), tmp_path / "old.json")
    with pytest.raises(StoreError):
        baselines.read(tmp_path / "old.json")


def test_stored_distances_are_not_smaller_than_measured_ones() -> None:
    """A replica that was seen once must not seem farther away the second time."""
    vectors = encode()
    other = noisy(vectors, 0.03, np.random.default_rng(8))
    baseline = made(vectors, vectors, vectors, other)
    assert checked(baseline, other).rows[-2].changed == 0 and 1e-4 < max(baseline.turns) < 1e-2 < ABSENT


def test_what_can_be_no_baseline_is_refused() -> None:
    texts = len(build_texts())
    with pytest.raises(JobError):
        build_vector_baseline("encoder", [[None] * texts] * ROUNDS)
    with pytest.raises(JobError):
        build_vector_baseline("encoder", [[np.full(4, np.nan)] * texts] * ROUNDS)
    with pytest.raises(JobError):
        build_vector_baseline("encoder", [[np.ones(3 + i % 2) for i in range(texts)]] * ROUNDS)
