"""Tests contrast sets: which rows form a bundle, what is left out and counted, and what is kept out of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import rbench
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.schema import ContrastSpec, TaskSpec
from rbench.tasks import local, open_task
from rbench.tasks.contrast import locate_contrast, open_contrast
from tests.tasks.conftest import Write

TASK = TaskSpec(name="ask", kind="pair", columns=("question", "passage"), labels=("no", "yes"))
FOLDER = Path(rbench.__file__).parent / "contrast"
FILES = sorted(FOLDER.glob("*.yaml"))


def spec(**more: Any) -> ContrastSpec:
    given: dict[str, Any] = {
        "name": "asked",
        "task": "ask",
        "local": "asked/test",
        "original": {"question": "q", "passage": "{title} -- {text}", "label": "a"},
        "perturbed": {"question": "q2", "passage": "{title} -- {text}", "label": "a2"},
    }
    return ContrastSpec.model_validate(given | more)


def row(pair: str, q: str, q2: str, a: int | str, a2: int | str, text: str = "Snow is white.") -> dict[str, Any]:
    return {"pair_id": pair, "title": "Snow", "text": text, "q": q, "q2": q2, "a": a, "a2": a2}


ROWS = [
    row("x-0", "is snow white", "is snow black", 1, 0),
    row("x-1", "Is snow white?", "is snow pale", 1, 1),  # the same original in other writing, and an edit that keeps it
    row("y-0", "is snow red", "is snow white", 0, 1),
    row("y-1", "is snow red", "Is snow white!", "no", "yes"),  # repeats an edit of its bundle
    row("y-2", "is snow red", "is snow unk", 0, 2),
    row("z-0", "is snow cold", "is snow cold", 1, 0),  # the same text under another label
    row("e-0", "is snow wet", " ", 1, 0),
]


def test_rows_of_one_original_are_a_bundle(write: Write, tmp_path: Path) -> None:
    write("asked/test", ROWS)
    data = open_contrast(spec(), TASK, [tmp_path])
    assert [bundle.id for bundle in data.rows] == ["x-0", "y-0", "z-0"]
    first = data.rows[0]
    assert first.original == ("x-0:original", ("is snow white", "Snow -- Snow is white."), 1)
    assert [edit.id for edit in first.edits] == ["x-0", "x-1"]
    assert [edit.label for edit in data.rows[1].edits] == [1, 1]
    assert sum(len(bundle.members) for bundle in data.rows) == 3 + 5


def test_a_value_that_is_missing_makes_the_text_empty_and_is_no_word_in_it(write: Write, tmp_path: Path) -> None:
    write("asked/test", [*ROWS, row("n-0", "is snow new", "is snow old", 1, 0) | {"title": None}])
    data = open_contrast(spec(), TASK, [tmp_path])
    assert [bundle.id for bundle in data.rows] == ["x-0", "y-0", "z-0"]


def test_a_number_is_the_label_of_that_name(write: Write, tmp_path: Path) -> None:
    write(
        "asked/test", [row("x", "is snow white", "is snow black", 2, 1), row("y", "is it cold", "is it hot", "1", "2")]
    )
    data = open_contrast(spec(), TASK.model_copy(update={"labels": ("1", "2")}), [tmp_path])
    assert [(one.original.label, [edit.label for edit in one.edits]) for one in data.rows] == [(1, [0]), (0, [1])]


def test_the_same_text_under_two_labels_is_two_originals(write: Write, tmp_path: Path) -> None:
    write(
        "asked/test", [row("x", "is snow white", "is snow red", 1, 0), row("y", "is snow white", "is snow red", 0, 1)]
    )
    data = open_contrast(spec(), TASK, [tmp_path])
    assert [(bundle.id, bundle.original.label) for bundle in data.rows] == [("x", 1), ("y", 0)]


def test_a_row_is_left_out_for_one_reason_that_of_its_original_first(write: Write, tmp_path: Path) -> None:
    rows = [row("x", " ", "is snow red", 1, 0), row("y", " ", "is snow red", 1, 7), row("z", "is snow red", " ", 7, 1)]
    write("asked/test", [*rows, ROWS[0]])
    data = open_contrast(spec(), TASK, [tmp_path])
    assert data.dropped == {"text is empty": 2, "label outside the map": 1}
    assert [len(data.where[reason]) for reason in data.dropped] == [2, 1]


def test_what_is_unlike_the_rest_is_counted(write: Write, tmp_path: Path) -> None:
    write("asked/test", ROWS)
    data = open_contrast(spec(), TASK, [tmp_path])
    assert data.counts == {
        "bundles": 3,
        "edits": 5,
        "edits_label_changed": 4,
        "edits_label_kept": 1,
        "edits_same_text": 1,
        "edits_repeated": 1,
    }
    assert data.dropped == {"label outside the map": 1, "text is empty": 1}
    assert data.where["label outside the map"][0].endswith("test.jsonl:5")


def test_the_content_alone_makes_the_fingerprint(write: Write, tmp_path: Path) -> None:
    write("one/asked/test", ROWS)
    write("two/asked/test", ROWS)
    write("three/asked/test", [*ROWS[:-1], row("e-0", "is snow wet", "is snow dry", 1, 0)])
    prints = [open_contrast(spec(), TASK, [tmp_path / name]).fingerprint for name in ("one", "two", "three")]
    assert prints[0] == prints[1] != prints[2]


def test_a_row_without_an_id_has_its_number_for_it(write: Write, tmp_path: Path) -> None:
    null, none = row("", "is snow white", "is snow black", 1, 0), row("", "is snow red", "is snow white", 0, 1)
    del none["pair_id"]
    write("asked/test", [null | {"pair_id": None}, none, row("x", "is snow wet", "is snow dry", 1, 0)])
    data = open_contrast(spec(), TASK, [tmp_path])
    assert [bundle.id for bundle in data.rows] == ["row 0", "row 1", "x"]
    assert [bundle.original.id for bundle in data.rows] == ["row 0:original", "row 1:original", "x:original"]


# ------------------------------------------------------------------------------------------------------- clusters


def of_source(source: Any, *given: Any) -> dict[str, Any]:
    return row(*given) | {"source": source}


def test_bundles_of_one_source_are_a_cluster_and_its_text_is_not_told(write: Write, tmp_path: Path) -> None:
    rows = [
        of_source("snow", "a", "is snow white", "is snow black", 1, 0),
        of_source("ice", "b", "is ice white", "is ice black", 1, 0),
        of_source("snow", "c", "is snow red", "is snow white", 0, 1),
        of_source("mud", "d", "is snow red", "is snow cold", 0, 1),  # a bundle is where its first row is
        of_source(None, "e", "is mud wet", "is mud dry", 1, 0),
        of_source(None, "f", "is rain wet", "is rain dry", 1, 0),
    ]
    write("asked/test", rows)
    data = open_contrast(spec(cluster="source"), TASK, [tmp_path])
    assert [(bundle.id, bundle.cluster) for bundle in data.rows] == [
        ("a", "a"),
        ("b", "b"),
        ("c", "a"),
        ("e", "e"),
        ("f", "f"),
    ]
    assert data.counts["bundles"] == 5 and data.counts["clusters"] == 4
    plain = open_contrast(spec(), TASK, [tmp_path])
    assert {bundle.cluster for bundle in plain.rows} == {None} and "clusters" not in plain.counts


def test_clusters_are_in_the_fingerprint_and_what_they_are_called_is_not(write: Write, tmp_path: Path) -> None:
    def fingerprint(*sources: str, **more: Any) -> str:
        texts = [("is snow white", "is snow black"), ("is ice white", "is ice black"), ("is mud wet", "is mud dry")]
        write("asked/test", [of_source(s, f"{i}", *texts[i], 1, 0) for i, s in enumerate(sources)])
        return open_contrast(spec(**more), TASK, [tmp_path]).fingerprint

    assert fingerprint(*"xxy") == fingerprint(*"yyy"), "without `cluster` the column is not looked at"
    by_source = {"cluster": "source"}
    assert fingerprint(*"xxy", **by_source) == fingerprint(*"aab", **by_source)
    assert len({fingerprint(*"xxy"), *(fingerprint(*s, **by_source) for s in ("xxy", "xyy", "xyz"))}) == 4


def test_a_set_without_its_column_of_clusters_is_refused(write: Write, tmp_path: Path) -> None:
    write("asked/test", ROWS)
    with pytest.raises(ResourceError) as caught:
        open_contrast(spec(cluster="source"), TASK, [tmp_path])
    assert "test.jsonl:1" in str(caught.value) and "`source`" in str(caught.value)


# ------------------------------------------------------------------------------------------------------- leakage


def asked(n: int, text: str) -> list[dict[str, Any]]:
    return [{"question": f"is it {i}", "passage": f"{text} {i}", "label": i % 2} for i in range(n)]


@pytest.fixture
def leaking(write: Write, tmp_path: Path) -> Path:
    """A task that trains on an original, on an edit, and on another question about the set's passage."""
    passage = "Snow -- Snow is white."
    leaks = [
        {"question": "is snow white", "passage": passage, "label": 1},
        {"question": "IS SNOW BLACK", "passage": passage, "label": 0},
        {"question": "is snow soft", "passage": passage, "label": 1},
        {"question": "is snow hard", "passage": "Snow is white.", "label": 0},
    ]
    write("asked/test", ROWS)
    write("ask/train", [*asked(5, "train"), *leaks])
    write("ask/validation", [*asked(3, "validation"), leaks[0]])
    write("ask/test", [*asked(3, "test"), leaks[1]])
    return tmp_path


def test_rows_of_the_set_are_neither_trained_on_nor_selected_by(leaking: Path) -> None:
    reserved = open_contrast(spec(), TASK, [leaking]).reserved
    plain, data = open_task(TASK, [leaking]), open_task(TASK, [leaking], [reserved])
    assert plain.sizes == {"train": 8, "validation": 4, "test": 4}, "one is in the test split anyway"
    assert data.sizes == {"train": 7, "validation": 3, "test": 4}
    assert data.dropped == {"train: also in test": 1, "train: also in asked": 1, "validation: also in asked": 1}
    assert data.fingerprint != plain.fingerprint
    assert [e.texts[0] for e in data.split("train")][-2:] == ["is snow soft", "is snow hard"]


def test_rows_that_share_a_column_are_not_either_where_the_set_says_so(leaking: Path) -> None:
    shares = {"passage": ["{title} -- {text}", "{text}"]}
    reserved = open_contrast(spec(shares=shares), TASK, [leaking]).reserved
    data = open_task(TASK, [leaking], [reserved])
    assert data.sizes == {"train": 5, "validation": 3, "test": 4}
    assert data.dropped["train: also in asked"] == 3


def test_each_of_two_sets_counts_what_it_keeps_out_whatever_the_other_does(leaking: Path, write: Write) -> None:
    write("other/test", [ROWS[0], row("s", "is snow soft", "is snow firm", 1, 0)])
    sets = [spec(), spec(name="other", local="other/test")]
    reserved = [open_contrast(one, TASK, [leaking]).reserved for one in sets]
    alone = [open_task(TASK, [leaking], [one]).dropped for one in reserved]
    for order in (reserved, reserved[::-1]):
        data = open_task(TASK, [leaking], order)
        assert data.dropped == alone[0] | alone[1], "one row is in both"
        assert [e.texts[0] for e in data.split("train")][-1] == "is snow hard"
        assert data.sizes == {"train": 6, "validation": 3, "test": 4}
    assert [one[f"train: also in {name}"] for one, name in zip(alone, ("asked", "other"), strict=True)] == [1, 2]


def test_a_set_without_a_leak_changes_no_fingerprint(leaking: Path, write: Write) -> None:
    write("asked/test", [row("n-0", "is snow new", "is snow old", 1, 0, "Nobody knows.")])
    reserved = open_contrast(spec(), TASK, [leaking]).reserved
    assert open_task(TASK, [leaking], [reserved]).fingerprint == open_task(TASK, [leaking]).fingerprint


# ----------------------------------------------------------------------------------------------- what is refused


def test_a_set_that_is_not_there_says_where_it_comes_from(tmp_path: Path) -> None:
    for look in (
        lambda: open_contrast(spec(source="a paper"), TASK, [tmp_path]),
        lambda: locate_contrast(spec(source="a paper"), [tmp_path]),
    ):
        with pytest.raises(ResourceError) as caught:
            look()
        for words in (
            "`asked`",
            str(tmp_path),
            "asked/test.jsonl",
            "on the hub",
            "published as a paper",
            "--data",
            "q2",
        ):
            assert words in str(caught.value)


@pytest.mark.parametrize("pair", ["7", 7])
def test_a_repeated_id_is_named_with_both_its_places(write: Write, tmp_path: Path, pair: Any) -> None:
    rows = [row(pair, "is snow white", "is snow black", 1, 0), row("7", "is snow red", "is snow white", 0, 1)]
    path = write("asked/test", rows)
    with pytest.raises(ResourceError) as caught:
        open_contrast(spec(), TASK, [tmp_path])
    assert f"{path}:2: " in str(caught.value) and f"{path}:1" in str(caught.value)


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_an_id_that_is_no_text_is_refused_before_it_is_to_be_stored(name: Any, write: Write, tmp_path: Path) -> None:
    write("asked/test", [ROWS[0], ROWS[2] | {"pair_id": name}])
    with pytest.raises(ResourceError) as caught:
        open_contrast(spec(), TASK, [tmp_path])
    assert "test.jsonl:2" in str(caught.value)


def test_a_set_of_which_nothing_is_left_is_refused(write: Write, tmp_path: Path) -> None:
    write("asked/test", [row("a", "one", "two", 7, 7)])
    with pytest.raises(ResourceError):
        open_contrast(spec(), TASK, [tmp_path])


def test_a_set_has_one_origin() -> None:
    with pytest.raises(ValueError):
        spec(generator="mini-nli")


# --------------------------------------------------------------------------------------------------- rbench's own


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_a_contrast_set_of_a_task_that_names_one(path: Path) -> None:
    own = ContrastSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    task = TaskSpec.model_validate(
        yaml.safe_load((FOLDER.parent / "tasks" / f"{own.task}.yaml").read_text(encoding="utf-8"))
    )
    assert own.name == path.stem and own.title and own.licence
    assert set(own.original) == set(own.perturbed) == {*task.columns, "label"}
    assert set(own.shares) <= set(task.columns)
    assert task.contrast in {file.stem for file in FILES}
    if own.local is not None:
        assert local.SOURCE_FORM.fullmatch(own.local)
        assert own.source.startswith("github.com/") and own.reference
    assert any("bundle" in note for note in own.notes), "what a bundle is, below every table"


def test_the_papers_four_tasks_have_contrast_sets() -> None:
    registry = Registry()
    named = {
        name: yaml.safe_load(registry.path("tasks", name).read_text()).get("contrast")
        for name in ("imdb", "snli", "perspectrum", "boolq")
    }
    assert named == {name: f"contrast_{name}" for name in named}
    assert "contrast_imdb_cad" in registry.names("contrast")
