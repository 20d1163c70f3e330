"""Tests the labels of encoders without a file: short, different from each other, and safe as file names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rbench.schema.unlisted import is_path, label_meant, labels, short_name

PLACES = st.lists(
    st.one_of(
        st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4).map(
            lambda parts: "/" + "/".join(part.replace("/", "x").replace("\0", "x") for part in parts)
        ),
        st.from_regex(r"[a-c]{1,2}/[a-c.]{1,2}", fullmatch=True),
    ),
    max_size=6,
    unique=True,
)


@pytest.mark.parametrize(
    ("places", "taken", "expected"),
    [
        (["/home/me/mine"], [], ["mine"]),
        (["intfloat/e5-base-v2"], [], ["e5-base-v2"]),
        (["/a/one/best", "/a/two/best"], [], ["one-best", "two-best"]),
        (["/x/a/b/m", "/y/a/b/m", "/z/m"], [], ["x-a-b-m", "y-a-b-m", "z-m"]),
        (["intfloat/e5", "/home/e5"], [], ["intfloat-e5", "home-e5"]),
        (["/home/minilm"], ["minilm"], ["home-minilm"]),
        (["/home/MiniLM"], ["minilm"], ["home-MiniLM"]),
        (["/home/my model (2)", "/home/._hidden"], [], ["my-model-2", "hidden"]),
        (["/home/模型"], [], ["模型"]),
        (["/"], [], ["encoder"]),
        (["/a b", "/a-b"], [], ["a-b-2", "a-b-3"]),
    ],
)
def test_a_label_is_as_much_of_the_path_as_it_takes(places: list[str], taken: list[str], expected: list[str]) -> None:
    assert labels(places, taken) == dict(zip(places, expected, strict=True))


@given(PLACES, st.sets(st.from_regex(r"[a-c]{1,2}", fullmatch=True)))
def test_labels_differ_from_each_other_and_from_names_and_are_safe(places: list[str], taken: set[str]) -> None:
    made = labels(places, taken)
    assert [*made] == places
    folded = [label.casefold() for label in made.values()]
    assert len({*folded}) == len(folded) and not {*folded} & taken
    assert all(re.fullmatch(r"\w[\w.+-]*", label) for label in made.values())
    assert labels(reversed(places), taken).keys() == made.keys()


@given(PLACES)
@example(["/"])
@example(["/."])
def test_a_label_stands_for_its_place_again(places: list[str]) -> None:
    made = labels(places, ())
    for place, label in made.items():
        if not re.search(r"-\d+$", label) and "[" not in place:
            assert label_meant(place, {label}) == label


def test_a_text_means_the_label_that_it_has_in_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"minilm", "mine", "one-best", "two-best", "mine[pooling=mean]", "intfloat-e5"}
    (tmp_path / "one").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    for text, label in {
        "minilm": "minilm",
        "./mine": "mine",
        "/elsewhere/mine": "mine",
        "./mine[pooling=mean]": "mine[pooling=mean]",
        "./best": "one-best",
        "../two/best": "two-best",
        "intfloat/e5": "intfloat-e5",
        # What means nothing there stays as it is, and so does what means two.
        "./mine[pooling=cls]": "./mine[pooling=cls]",
        "best": "best",
        "other/e5": "other/e5",
    }.items():
        assert label_meant(text, known) == label, text
    assert label_meant("/one/best", {"best", "one-best"}) == "/one/best"


def test_a_path_is_told_from_a_name() -> None:
    assert all(map(is_path, ("./mine", "../mine", "/mine", "~/mine", "~", ".", "..", "mine/")))
    assert not any(map(is_path, ("mine", "owner/mine", ".mine", "a/b/c", "")))


def test_the_name_in_keys_is_the_last_part() -> None:
    assert short_name("/home/me/my model") == short_name("/elsewhere/my model") == "my-model"
    assert short_name("intfloat/e5-base-v2") == "e5-base-v2"
