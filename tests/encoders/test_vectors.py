from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rbench.encoders.vectors import WordVectors, read_counterfitted, read_vectors
from rbench.errors import ResourceError
from tests.refusals import refusal

MATRICES = hnp.arrays(np.float32, st.tuples(st.integers(2, 60), st.integers(1, 5)), elements=st.floats(-4, 4, width=16))


@given(MATRICES, st.integers(1, 70))
def test_neighbours_are_the_nearest_others_ties_by_index(matrix: Any, k: int) -> None:
    vectors = WordVectors([f"w{i}" for i in range(len(matrix))], matrix)
    for i in (0, len(matrix) - 1):
        distance = ((matrix.astype(np.float64) - matrix[i]) ** 2).sum(axis=1)
        order = [j for j in np.lexsort((np.arange(len(matrix)), distance)) if j != i][:k]
        assert vectors.nearest_ids(i, k).tolist() == order


def test_many_words_give_the_same_neighbours_as_brute_force() -> None:
    matrix = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    vectors = WordVectors([str(i) for i in range(3000)], matrix)
    for i in (0, 17, 2999):
        distance = ((matrix.astype(np.float64) - matrix[i]) ** 2).sum(axis=1)
        for k in (5, 60, 100):
            assert vectors.nearest_ids(i, k).tolist() == np.argsort(distance, kind="stable")[1 : k + 1].tolist()


def test_cosines_and_unknown_words() -> None:
    vectors = WordVectors(["a", "b", "c", "a"], np.array([[2, 0], [0, 3], [1, 1], [9, 9]], dtype=np.float32))
    assert vectors.index["a"] == 0  # the first of two rows counts
    assert dict(vectors.most_similar(0, 3)) == pytest.approx({1: 0, 2: 0.5**0.5, 3: 0.5**0.5})
    assert "a" in vectors and "x" not in vectors


@pytest.mark.parametrize(
    ("words", "matrix"),
    [(["a"], np.zeros((2, 3))), (["a"], np.zeros(3)), (["a"], np.full((1, 2), np.nan))],
)
def test_what_does_not_fit_is_refused(words: list[str], matrix: Any) -> None:
    with pytest.raises(ResourceError):
        WordVectors(words, matrix.astype(np.float32))


WORDS = ["good", "na\u00efve", "New-York", "'s"]
ROWS = np.array([[1, -2.5], [0.25, 3], [0, 0.5], [-1, 1]], dtype=np.float32)


def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "vectors.npy", ROWS.astype(np.float16))
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return tmp_path


def text(tmp_path: Path, header: str = "4 2\n") -> Path:
    lines = [f"{word} {row[0]} {row[1]}" for word, row in zip(WORDS, ROWS, strict=True)]
    (tmp_path / "w2v.txt").write_text(header + "\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def binary(tmp_path: Path) -> Path:
    rows = zip(WORDS, ROWS, strict=True)
    (tmp_path / "w2v.bin").write_bytes(b"4 2\n" + b"".join(w.encode() + b" " + r.tobytes() + b"\n" for w, r in rows))
    return tmp_path


@pytest.mark.parametrize("write", [folder, text, binary])
def test_all_three_ways_of_writing_them_are_read(tmp_path: Path, write: Any) -> None:
    place = write(tmp_path)
    vectors = read_vectors(place)
    assert vectors.words == WORDS
    np.testing.assert_array_equal(vectors.matrix, ROWS)
    if write is not folder:
        assert read_vectors(next(place.iterdir())).words == WORDS


def test_a_text_without_header_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("good 1 2 3\nNew York 4 5 6\n")
    assert read_vectors(tmp_path).words == ["good", "New York"]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", b"2 2\ngood 1 2\nbad 1 two\n", "a.txt:3: "),
        ("a.txt", b"2 2\ngood 1 2\n1 2\n", "a.txt:3: "),
        ("a.txt", b"", "a.txt"),
        ("a.bin", b"hello\n", "a.bin"),
        ("a.bin", b"9000000000 300\nx", "a.bin"),
        ("a.bin", b"2 2\ngood 12345678bad 1234567", "a.bin"),
    ],
)
def test_damage_is_named_with_its_place(tmp_path: Path, name: str, content: bytes, place: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ResourceError, match=place):
        read_vectors(tmp_path)


def test_a_folder_without_vectors_says_what_belongs_there(tmp_path: Path) -> None:
    with refusal(ResourceError, "vectors.npy", "words.txt"):
        read_vectors(tmp_path)


def test_numpy_files_with_objects_in_them_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "words.txt").write_text("a\n")
    with refusal(ResourceError, "vectors.npy"):
        read_vectors(tmp_path)


# ------------------------------------------------------------------------------------------ TextAttack's own vectors


def counterfitted(tmp_path: Path, index: Any) -> Path:
    np.save(tmp_path / "paragram.npy", ROWS)
    np.save(tmp_path / "nn.npy", np.array([[0, 2, 1], [1, 3, 0], [2, 0, 1], [3, 1, 2]]))
    (tmp_path / "wordlist.pickle").write_bytes(pickle.dumps(index, protocol=2))
    return tmp_path


def test_textattacks_vectors_come_with_its_table_of_neighbours(tmp_path: Path) -> None:
    vectors = read_counterfitted(counterfitted(tmp_path, {w: i for i, w in reversed(list(enumerate(WORDS)))}))
    assert vectors.words == WORDS
    assert vectors.nearest_ids(0, 2).tolist() == [2, 1]
    assert len(vectors.nearest_ids(0, 3)) == 3  # beyond the table: computed


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/rbench-was-here",)


@pytest.mark.parametrize("index", [{"good": Evil()}, ["good"], {"good": 99}, {"good": "zero"}])
def test_a_word_list_that_is_more_than_words_and_numbers_is_not_unpickled(tmp_path: Path, index: Any) -> None:
    with pytest.raises(ResourceError):
        read_counterfitted(counterfitted(tmp_path, index))
    assert not Path("/tmp/rbench-was-here").exists()
