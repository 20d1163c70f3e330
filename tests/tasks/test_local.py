from __future__ import annotations

import json
import logging
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import TaskData, locate_task, open_task
from rbench.tasks.lines import read
from tests.refusals import refusal
from tests.scripts import SCRIPTS, text_of, words_of
from tests.tasks.conftest import Write, reviews


def task(**more: Any) -> TaskSpec:
    return TaskSpec(**{"name": "toy", "kind": "single", "columns": ("text",), "labels": ("bad", "good")} | more)


def ids(data: TaskData, split: str) -> list[str]:
    return [example.id for example in data.split(split)]


# --------------------------------------------------------------------------------------------------------- layouts


def test_split_files_are_read_in_order(write: Write, tmp_path: Path) -> None:
    for name, n in (("train", 6), ("validation", 3), ("test", 4)):
        write(f"toy/{name}", reviews(n, name))
    data = open_task(task(), [tmp_path])
    assert data.sizes == {"train": 6, "validation": 3, "test": 4}
    assert data.split("test")[2] == ("test:2", ("test number 2",), 0)
    assert data.dropped == {}
    assert str(tmp_path) in data.origin
    assert locate_task(task(), [tmp_path]) == data.origin


def test_without_a_validation_file_a_tenth_of_train_takes_its_place(write: Write, tmp_path: Path) -> None:
    write("toy/train", reviews(40, "train"))
    write("toy/test", reviews(5, "test"))
    data = open_task(task(), [tmp_path])
    assert data.sizes == {"train": 36, "validation": 4, "test": 5}
    assert not set(ids(data, "train")) & set(ids(data, "validation"))


def test_several_sources_keep_their_folder_in_the_ids(write: Write, tmp_path: Path) -> None:
    write("toy/train", reviews(2, "one"))
    write("more/train", reviews(3, "two"))
    write("toy/validation", reviews(1, "three"))
    write("toy/test", reviews(1, "four"))
    splits = {"train": ("toy/train", "more/train"), "validation": ("toy/validation",), "test": ("toy/test",)}
    data = open_task(task(local={"splits": splits}), [tmp_path])
    assert ids(data, "train") == ["toy/train:0", "toy/train:1", "more/train:0", "more/train:1", "more/train:2"]
    assert ids(data, "test") == ["test:0"]


def test_undivided_data_is_divided_once_and_for_all(write: Write, tmp_path: Path) -> None:
    write("toy/all", reviews(100))
    spec = task(local={"unsplit": {"source": "toy/all"}})
    data = open_task(spec, [tmp_path])
    assert data.sizes == {"train": 81, "validation": 9, "test": 10}
    everything = [example for name in data.sizes for example in data.split(name)]
    assert sorted(int(example.id.removeprefix("all:")) for example in everything) == list(range(100))
    assert open_task(spec, [tmp_path]).fingerprint == data.fingerprint


def test_without_test_rows_the_validation_rows_are_attacked_and_train_gives_validation(
    write: Write, tmp_path: Path
) -> None:
    write("toy/all", reviews(100))
    (tmp_path / "rows.json").write_text(json.dumps([7, 3, 40]))
    rule = {"source": "toy/all", "test_rows": "rows.json"}
    usual = open_task(task(local={"unsplit": rule}), [tmp_path])
    data = open_task(task(local={"unsplit": {**rule, "without_test": True}}), [tmp_path])
    assert ids(data, "test") == ids(usual, "validation")
    assert data.sizes == {"train": 80, "validation": 8, "test": 9}
    assert {*ids(data, "train"), *ids(data, "validation")} == {*ids(usual, "train")}
    assert "without the test rows" in data.origin and "without the test rows" not in usual.origin


def test_listed_rows_are_the_test_split_and_never_trained_on(write: Write, tmp_path: Path) -> None:
    write("toy/all", reviews(50))
    (tmp_path / "rows.json").write_text(json.dumps([7, 3, 40]))
    data = open_task(task(local={"unsplit": {"source": "toy/all", "test_rows": "rows.json"}}), [tmp_path])
    assert ids(data, "test") == ["all:3", "all:7", "all:40"]
    assert data.sizes == {"train": 43, "validation": 4, "test": 3}
    assert "rows.json" in data.origin


@pytest.mark.parametrize("content", ["{}", "[1.5]", "[99]", "nonsense", "[" * 100_000])
def test_a_list_of_rows_that_does_not_fit_is_refused(content: str, write: Write, tmp_path: Path) -> None:
    write("toy/all", reviews(10))
    (tmp_path / "rows.json").write_text(content)
    with pytest.raises(ResourceError) as caught:
        open_task(task(local={"unsplit": {"source": "toy/all", "test_rows": "rows.json"}}), [tmp_path])
    assert "rows.json" in str(caught.value)


def test_the_first_complete_folder_wins_and_files_are_not_mixed(write: Write, tmp_path: Path) -> None:
    write("one/toy/train", reviews(5, "one"))
    for name in ("train", "validation", "test"):
        write(f"two/toy/{name}", reviews(2, f"two {name}"))
    data = open_task(task(), [tmp_path / "one", tmp_path / "two", tmp_path / "none"])
    assert data.sizes["train"] == 2


def test_columns_may_have_other_names(write: Write, tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", [{"review": f"{name} text", "stars": "good"}])
    data = open_task(task(local={"columns": {"text": "review", "label": "stars"}}), [tmp_path])
    assert data.split("test") == [("test:0", ("test text",), 1)]


# ------------------------------------------------------------------------------------------------------- not found


def test_nothing_found_says_where_it_looked_and_what_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as error:
        open_task(task(), [tmp_path])
    for words in (
        "`toy`",
        str(tmp_path),
        "toy/train.jsonl + toy/validation.jsonl",
        "text, label",
        "--data",
        "RBENCH_DATA",
    ):
        assert words in str(error.value)


def test_a_nearly_complete_copy_is_named(write: Write, tmp_path: Path) -> None:
    write("toy/train", reviews(5))
    for look in (open_task, locate_task):
        with pytest.raises(ResourceError) as caught:
            look(task(), [tmp_path])
        assert "but not toy/test.jsonl" in str(caught.value)


def test_a_task_on_the_hub_says_why_it_cannot_be_downloaded(tmp_path: Path) -> None:
    hub = {"id": "someone/toy", "revision": "main", "splits": {"test": "test"}, "columns": {}}
    with pytest.raises(ResourceError) as caught:
        open_task(task(hub=hub), [tmp_path])
    assert "someone/toy" in str(caught.value) and "HF_HUB_OFFLINE" in str(caught.value)


@pytest.mark.parametrize("source", ["../secret/train", "/etc/train", "toy", "toy/../../x", ".git/config"])
def test_a_source_cannot_leave_the_data_folder(source: str, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        open_task(task(local={"splits": {"test": (source,)}}), [tmp_path])
    assert repr(source) in str(caught.value)


def test_a_list_of_rows_cannot_leave_the_data_folder(write: Write, tmp_path: Path) -> None:
    write("data/toy/all", reviews(10))
    (tmp_path / "rows.json").write_text("[1]")
    with refusal(ResourceError, "test_rows"):
        open_task(task(local={"unsplit": {"source": "toy/all", "test_rows": "../rows.json"}}), [tmp_path / "data"])


# ------------------------------------------------------------------------------------------------------- bad lines


def lines(write: Write, tmp_path: Path, *test: Any, **more: Any) -> TaskData:
    """A task whose test file has these lines; row by row beside good training data."""
    write("toy/train", reviews(4, "train"))
    write("toy/validation", reviews(2, "validation"))
    write("toy/test", test)
    return open_task(task(**more), [tmp_path])


GOOD = {"text": "fine", "label": 1}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"text": "x"', ""),
        ("null", ""),
        ({"txt": "x", "label": 1}, "`txt`"),
        ({"text": "x"}, "`label`"),
        ({"text": 5, "label": 1}, "`text`"),
        ({"text": "a\ud800b", "label": 1}, "`text`"),
        ("[" * 100_000, ""),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line: Any, named: str, write: Write, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        lines(write, tmp_path, GOOD, line)
    assert "test.jsonl:2: " in str(caught.value) and named in str(caught.value)


def test_bytes_that_are_no_text_are_named(write: Write, tmp_path: Path) -> None:
    lines(write, tmp_path, GOOD)
    (tmp_path / "toy/test.jsonl").write_bytes(b'{"text": "fine", "label": 1}\n{"text": "\xff", "label": 1}\n')
    with pytest.raises(ResourceError) as caught:
        open_task(task(), [tmp_path])
    assert "test.jsonl:2: " in str(caught.value)


def test_empty_texts_and_strange_labels_are_counted_and_placed(write: Write, tmp_path: Path) -> None:
    strange = [{"text": "x", "label": label} for label in (-1, 2, None, "awful", 0.5, True, "nan", [1])]
    empty = [{"text": " \t", "label": 0}, {"text": None, "label": 0}]
    data = lines(
        write, tmp_path, GOOD, *strange, *empty, {"text": " ok ", "label": "bad"}, {"text": "so", "label": "1"}
    )
    assert data.dropped == {"test: label outside the map": 8, "test: text is empty": 2}
    assert data.where["test: text is empty"] == [f"{tmp_path}/toy/test.jsonl:{n}" for n in (10, 11)]
    assert len(data.where["test: label outside the map"]) == 5
    assert data.split("test") == [("test:0", ("fine",), 1), ("test:11", ("ok",), 0), ("test:12", ("so",), 1)]


@pytest.mark.parametrize("digits", [25, 309, 310, 401, 4000])
@pytest.mark.parametrize("kind", ["single", "sts"])
def test_a_label_too_large_for_a_number_is_none(kind: str, digits: int, write: Write, tmp_path: Path) -> None:
    large = 10 ** (digits - 1)
    pair = {"columns": ("a", "b"), "labels": (), "kind": "sts"} if kind == "sts" else {}
    row = {"a": "x", "b": "y", "text": "x"}
    key = "score" if kind == "sts" else "label"
    for name in ("train", "validation"):
        write(f"toy/{name}", [row | {"text": name, "a": name, key: 1}])
    write("toy/test", [row | {"text": "z", "a": "z", key: 1}, row | {key: large}, row | {key: str(large)}])
    left = 0 if kind == "sts" and digits < 310 else 2
    assert open_task(task(**pair), [tmp_path]).dropped == ({"test: label outside the map": left} if left else {})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
surrogates = st.text(st.characters(), max_size=6)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(anything | surrogates, anything | surrogates, st.sampled_from(["single", "sts", "unlabelled"]))
def test_whatever_a_row_holds_is_an_example_or_is_named(
    write: Write, tmp_path: Path, text: Any, label: Any, kind: str
) -> None:
    spec = task(kind=kind, labels=("bad", "good") if kind == "single" else (), columns=("text",))
    good = {"text": "fine", "label": 1, "score": 1}
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", [good | {"text": name}, {"text": text, "label": label, "score": label}])
    try:
        data = open_task(spec, [tmp_path])
    except ResourceError as error:
        assert "test.jsonl:2" in str(error) or "train.jsonl:2" in str(error)
    else:
        assert all(len(example.texts[0].encode()) for split in data.examples.values() for example in split)


def test_a_misspelt_label_is_told_with_its_place_and_what_was_meant(write: Write, tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": "calm" if n % 2 else "angry"} for n in range(400)]
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", rows if name == "train" else rows[:2])
    with pytest.raises(ResourceError) as caught:
        open_task(task(labels=("calm", "agnry")), [tmp_path])
    assert str(caught.value) == (
        f"{tmp_path}/toy/train.jsonl:1: the label 'angry' is none of task `toy`, which has calm, agnry. 200 of 400 "
        "rows of its train split have other labels, and none has the label agnry; did you mean 'angry'?"
    )


@pytest.mark.parametrize(("rows", "few"), [(400, 5), (700, 7)])
def test_a_few_strange_labels_in_a_split_without_one_of_the_labels_are_left_out(
    rows: int, few: int, write: Write, tmp_path: Path
) -> None:
    """Few are five, or a hundredth of the rows."""

    def opened(strange: int) -> TaskData:
        labels = ["odd"] * strange + ["calm"] * (rows - strange)
        write("toy/train", [{"text": f"text {n}", "label": label} for n, label in enumerate(labels)])
        return open_task(task(labels=("calm", "angry")), [tmp_path])

    for name in ("validation", "test"):
        write(f"toy/{name}", [{"text": "another", "label": "calm"}])
    assert opened(few).dropped == {"train: label outside the map": few}
    with pytest.raises(ResourceError):
        opened(few + 1)


def test_nothing_left_is_an_error(write: Write, tmp_path: Path) -> None:
    with refusal(ResourceError, "test.jsonl:1"):
        lines(write, tmp_path, {"text": "x", "label": -1})
    with pytest.raises(ResourceError):
        lines(write, tmp_path)


def test_a_byte_order_mark_blank_lines_and_odd_separators_do_no_harm(write: Write, tmp_path: Path) -> None:
    lines(write, tmp_path, GOOD)
    (tmp_path / "toy/test.jsonl").write_bytes(
        b'\xef\xbb\xbf{"text": "one", "label": 1}\r\n\n' + '{"text": "two\u2028\x85three", "label": 0}'.encode()
    )
    data = open_task(task(), [tmp_path])
    assert [example.texts[0] for example in data.split("test")] == ["one", "two\u2028\x85three"]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=12
)
@given(rows=st.lists(st.dictionaries(text, values, min_size=1)), escaped=st.booleans())
def test_what_is_written_as_json_lines_is_read_again(rows: list[dict[str, Any]], escaped: bool, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\n".join(json.dumps(row, ensure_ascii=escaped) for row in rows).encode())
    assert list(read(path)) == list(enumerate(rows, start=1))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_with_their_place(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    try:
        rows = list(read(path))
    except ResourceError as error:
        assert str(error).startswith(f"{path}:")
    else:
        assert all(isinstance(row, dict) for _, row in rows)


# ----------------------------------------------------------------------------------------------- leaks, fingerprints


def test_training_rows_that_are_also_in_test_are_left_out(write: Write, tmp_path: Path) -> None:
    write("toy/train", [{"text": t, "label": 0} for t in ("A fine, FILM!", "a fine film again", "other")])
    write("toy/validation", [{"text": "a fine film", "label": 0}])
    write("toy/test", [{"text": "a fine film", "label": 1}])
    data = open_task(task(), [tmp_path])
    assert data.dropped == {"train: also in test": 1}
    assert data.where == {"train: also in test": [f"{tmp_path}/toy/train.jsonl:1"]}
    assert ids(data, "train") == ["train:1", "train:2"]
    assert data.sizes["validation"] == 1


@pytest.mark.parametrize("script", SCRIPTS)
def test_in_every_script_the_same_text_leaks_and_another_does_not(script: str, write: Write, tmp_path: Path) -> None:
    """Texts of which many differ by combining marks alone; one leaks, stored decomposed in train."""
    every = [text_of(script, own) for own in words_of(script)]
    train, test = every[:40], [*every[40:], every[0]]
    write("toy/train", [{"text": unicodedata.normalize("NFD", text) + "!", "label": 0} for text in train])
    write("toy/validation", [{"text": "another", "label": 0}])
    write("toy/test", [{"text": unicodedata.normalize("NFC", text), "label": 1} for text in test])
    data = open_task(task(), [tmp_path])
    assert data.dropped == {"train: also in test": 1}
    assert data.where == {"train: also in test": [f"{tmp_path}/toy/train.jsonl:1"]}


def test_a_label_of_the_test_split_that_nothing_teaches_is_named_with_its_place(write: Write, tmp_path: Path) -> None:
    three = task(labels=("bad", "good", "GOOD"))
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(8)]
    write("toy/train", rows)
    write("toy/validation", [{"text": "another", "label": 0}])
    write("toy/test", [{"text": f"test {i}", "label": i % 3} for i in range(6)])
    data = open_task(three, [tmp_path])
    assert data.untaught == {"GOOD": (2, f"{tmp_path}/toy/test.jsonl:3")} and not data.teaches_too_little
    write("toy/test", [{"text": f"test {i}", "label": i % 3} for i in range(18)])
    assert open_task(three, [tmp_path]).teaches_too_little
    for split, taught in (("train", rows), ("validation", [{"text": "another", "label": 0}])):
        write(f"toy/{split}", [*taught, {"text": "GREAT", "label": 2}])
        assert not open_task(three, [tmp_path]).untaught, "validation rows may have been taken out of train"
        write(f"toy/{split}", taught)


def test_scores_at_both_ends_of_the_scale_are_kept(write: Write, tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", [{"one": name, "two": "c", "score": score} for score in (-0.01, 0, 5, 5.01)])
    data = open_task(task(kind="sts", columns=("one", "two"), labels=(), scale=(0, 5)), [tmp_path])
    assert [example.label for example in data.split("test")] == [0, 5]
    assert data.dropped["test: score outside the scale"] == 2


@pytest.mark.parametrize(("kind", "leaks"), [("paraphrase", 2), ("sts", 2), ("nli", 1)])
def test_order_of_a_pair_counts_where_it_means_something(kind: str, leaks: int, write: Write, tmp_path: Path) -> None:
    def pair(one: str, two: str) -> dict[str, Any]:
        return {"one": one, "two": two, "label": 0, "score": 0}

    write("toy/train", [pair("a b", "c"), pair("c", "a b"), pair("c", "d")])
    write("toy/validation", [pair("v", "w")])
    write("toy/test", [pair("c!", "A-B")])
    labels = () if kind == "sts" else ("bad", "good")
    data = open_task(task(kind=kind, columns=("one", "two"), labels=labels), [tmp_path])
    assert data.dropped == {"train: also in test": leaks}


@pytest.mark.parametrize("texts", [("!!!", "???"), ("👍", "👎"), ("…", "—")])
def test_texts_without_letters_leak_only_when_they_are_the_same(
    texts: tuple[str, str], write: Write, tmp_path: Path
) -> None:
    write("toy/train", [{"text": t, "label": 0} for t in (*texts, "x")])
    write("toy/validation", reviews(1))
    write("toy/test", [{"text": texts[0], "label": 0}])
    assert ids(open_task(task(), [tmp_path]), "train") == ["train:1", "train:2"]


def test_conflicts_are_counted_and_left_alone(write: Write, tmp_path: Path) -> None:
    data = lines(write, tmp_path, GOOD, {"text": "Fine.", "label": 0}, {"text": "fine", "label": 1})
    assert data.conflicts == {"train": 0, "validation": 0, "test": 1}
    assert data.sizes["test"] == 3


def test_scores_are_read_as_numbers(write: Write, tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", [{"one": name, "two": "b", "score": s} for s in (3.25, 5, "nan", None)])
    data = open_task(task(kind="sts", columns=("one", "two"), labels=(), metric="spearman"), [tmp_path])
    assert [example.label for example in data.split("test")] == [3.25, 5.0]
    assert data.conflicts == dict.fromkeys(("train", "validation", "test"), 0), "two scores are no conflict"


def test_an_unlabelled_corpus_needs_no_labels(write: Write, tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write(f"toy/{name}", [{"text": name}])
    assert open_task(task(kind="unlabelled", labels=()), [tmp_path]).split("train")[0].label is None


def test_fingerprint_follows_the_examples_and_nothing_else(write: Write, tmp_path: Path) -> None:
    first = lines(write, tmp_path, GOOD)
    elsewhere = tmp_path / "b"
    for name in ("train", "validation", "test"):
        (elsewhere / "toy").mkdir(parents=True, exist_ok=True)
        (elsewhere / f"toy/{name}.jsonl").write_bytes((tmp_path / f"toy/{name}.jsonl").read_bytes() + b"\n\n")
    assert open_task(task(title="Another title"), [elsewhere]).fingerprint == first.fingerprint
    assert lines(write, tmp_path, {"text": "fine", "label": 0}).fingerprint != first.fingerprint
    assert lines(write, tmp_path, {"text": "fine ones", "label": 1}).fingerprint != first.fingerprint
    moved = lines(write, tmp_path, {"text": "", "label": 1}, GOOD)
    assert moved.sizes == first.sizes and moved.fingerprint != first.fingerprint, "seeds draw examples by their ids"


def test_fingerprint_does_not_depend_on_the_order_in_which_splits_are_named(write: Write, tmp_path: Path) -> None:
    first = lines(write, tmp_path, GOOD)
    named = {name: (f"toy/{name}",) for name in ("test", "validation", "train")}
    other = open_task(task(local={"splits": named}), [tmp_path])
    assert [*other.sizes] != [*first.sizes] and other.fingerprint == first.fingerprint


def test_an_unknown_split_is_named_with_those_there_are(write: Write, tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        lines(write, tmp_path, GOOD).split("dev")
    assert "train, validation, test" in str(caught.value)


def test_rows_read_are_compared_with_the_published_number_before_any_is_left_out(write: Write, tmp_path: Path) -> None:
    write("toy/train", [*reviews(6), {"text": "", "label": 0}])
    write("toy/validation", reviews(2, "scene"))
    write("toy/test", reviews(3, "plot"))
    published = task(sizes={"train": 7, "validation": 2, "test": 5})
    data = open_task(published, [tmp_path])
    assert data.sizes["train"] == 6 and data.unlike_published == {"test": (3, 5)}
    assert open_task(task(), [tmp_path]).unlike_published == {}
    assert open_task(task(), [tmp_path]).fingerprint == data.fingerprint


def test_what_is_left_out_is_logged(write: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="rbench"):
        lines(write, tmp_path, GOOD, {"text": "", "label": 1})
    assert re.search(r"\b1 rows .*test: ", caplog.text)
