from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset

from rbench.config import LoadedSuite, load, load_mapping, load_task
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.schema import TaskSpec
from tests.refusals import nearest, unknown

REGISTRY = Registry()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, **columns: list[Any]) -> Path:
    """Write a table of ten rows; a column of two values is repeated."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame({column: (values * 10)[:10] for column, values in columns.items()}).to_csv(path, index=False)
    return path


def suite(*tasks: Any, **more: Any) -> LoadedSuite:
    data = {
        "name": "s",
        "encoders": ["mini-bert-packaged"],
        "tasks": [*tasks],
        "attacks": ["pwws"],
        "resources": "mini",
    }
    return load_mapping(data | more, registry=REGISTRY)


def one(task: Any) -> TaskSpec:
    loaded = suite(task)
    return loaded.tasks[loaded.suite.tasks[0]]


def wrong(*tasks: Any, **more: Any) -> str:
    with pytest.raises(SuiteError) as raised:
        suite(*tasks, **more)
    return str(raised.value)


def test_what_a_suite_does_not_say_is_guessed_and_noted() -> None:
    write("my.csv", id=[1, 2, 3], review=["good", "bad"], stars=[10, 9])
    loaded = suite("./my.csv")
    assert loaded.suite.tasks == ("my",)
    spec = loaded.tasks["my"]
    assert (spec.kind, spec.columns, spec.labels) == ("single", ("text",), ("9", "10"))
    assert spec.local is not None and spec.local.columns == {"text": "review", "label": "stars"}
    assert loaded.notes == (
        "my: the label is the column `stars` (guessed; say `label` to choose)",
        "my: the text is `review` (guessed; say `text` to choose)",
        "my: the labels are 9 (5 rows), 10 (5 rows) (as the file has them; say `labels` to choose)",
    )


def test_what_a_suite_says_is_not_guessed() -> None:
    write("my.csv", review=["good", "bad"], text=["x", "y"], mood=["sad", "glad"], label=[0, 1])
    options = {"text": "review", "label": "mood", "labels": ["glad", "sad"], "name": "moods", "split": "test"}
    loaded = suite({"./my.csv": options}, num_examples={"moods": 3})
    spec = loaded.tasks["moods"]
    assert spec.labels == ("glad", "sad") and loaded.notes == ()
    assert spec.local is not None and spec.local.columns == {"text": "review", "label": "mood"}
    assert spec.local.split == "test"


@pytest.mark.parametrize(
    ("columns", "options", "kind", "names"),
    [
        ({"Premise": ["a"], "hypothesis": ["b"]}, {}, "nli", ("premise", "hypothesis")),
        ({"sentence1": ["a"], "sentence2": ["b"], "text": ["c"]}, {}, "pair", ("sentence1", "sentence2")),
        ({"q": ["a"], "p": ["b"]}, {"text": ["q", "p"]}, "pair", ("q", "p")),
        ({"q": ["a"], "p": ["b"]}, {"text": ["q", "p"], "kind": "nli"}, "nli", ("premise", "hypothesis")),
        ({"anything": ["a"]}, {}, "single", ("text",)),
        ({"text": ["a"], "review": ["b"]}, {}, "single", ("text",)),
    ],
)
def test_the_kind_follows_from_the_texts(
    columns: dict[str, list[Any]], options: dict[str, Any], kind: str, names: tuple[str, ...]
) -> None:
    write("my.csv", **columns, label=[0, 1])
    spec = one({"my.csv": options} if options else "my.csv")
    assert (spec.kind, spec.columns) == (kind, names)
    renamed = spec.local.columns if spec.local is not None else {}
    chosen = options.get("text", [name for name in columns if name.lower() in names])
    if kind == "nli":
        assert renamed == {ours: theirs for ours, theirs in zip(names, chosen, strict=True) if ours != theirs}


def test_a_score_makes_a_similarity_task() -> None:
    write("my.csv", a=["x"], b=["y"], score=[0.5, 4])
    spec = load_task({"my.csv": {"text": ["a", "b"], "kind": "sts", "scale": [0, 5]}}, REGISTRY)
    assert (spec.kind, spec.labels, spec.scale, spec.metric) == ("sts", (), (0, 5), "spearman")


def test_names_of_labels_that_the_file_states_are_taken() -> None:
    rows = Dataset.from_dict({"text": ["a", "b"], "label": [1, 1]}).cast_column(
        "label", ClassLabel(names=["yes", "no"])
    )
    rows.save_to_disk("saved")
    assert one("./saved").labels == ("yes", "no")


def test_labels_in_another_order_than_the_file_states_are_found_by_name() -> None:
    rows = Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}).cast_column(
        "label", ClassLabel(names=["yes", "no"])
    )
    rows.to_parquet("t.parquet")
    loaded = suite({"t.parquet": {"labels": ["no", "yes", "nay"]}})
    assert "t: no row has the label nay" in loaded.notes


# ----------------------------------------------------------------------------------------------------- names and paths


def test_paths_lead_from_the_suites_file_and_those_of_overrides_from_the_current_folder(here: Path) -> None:
    write("below/my.csv", text=["a", "b"], label=[0, 1])
    write("other.csv", text=["a", "b"], label=[2, 3])
    (here / "below/s.yaml").write_text(
        "encoders: [mini-bert-packaged]\ntasks: [my.csv]\nattacks: [pwws]\nresources: mini\n"
        "profiles: {other: {tasks: ['./none.csv']}}\n"
    )
    assert load("below/s.yaml", registry=REGISTRY).tasks["my"].labels == ("0", "1")
    changed = load("below/s.yaml", registry=REGISTRY, overrides=["tasks=[./other.csv]"])
    assert changed.suite.tasks == ("other",) and changed.tasks["other"].labels == ("2", "3")
    with pytest.raises(SuiteError) as caught:
        load("below/s.yaml", registry=REGISTRY, profile="other")
    assert "s.yaml:5:" in str(caught.value) and "below/none.csv" in str(caught.value)


def test_a_profile_and_an_override_say_other_things_of_the_same_table(here: Path) -> None:
    write("below/my.csv", text=["a", "b"], title=["c", "d"], label=[0, 1], mood=["low", "high"])
    (here / "below/s.yaml").write_text(
        "encoders: [mini-bert-packaged]\ntasks: [{./my.csv: {text: text, label: label}}]\nattacks: [pwws]\n"
        "resources: mini\nprofiles: {other: {tasks: [{./my.csv: {text: title, label: mood}}]}}\n"
    )

    def loaded(**how: Any) -> tuple[Any, ...]:
        spec = load("below/s.yaml", registry=REGISTRY, **how).tasks["my"]
        assert spec.local is not None
        return spec.labels, spec.local.columns.get("text", "text"), spec.local.split

    assert loaded() == (("0", "1"), "text", None)
    assert loaded(profile="other") == (("high", "low"), "title", None)
    changed = ["tasks=[{below/my.csv: {text: title, label: mood, labels: [low, high], split: test}}]"]
    assert loaded(overrides=changed) == (("low", "high"), "title", "test")
    assert loaded(overrides=[*changed, "tasks=[{below/my.csv: {text: text, label: label}}]"]) == loaded()
    data = {"name": "s", "encoders": ["mini-bert-packaged"], "attacks": ["pwws"], "resources": "mini"}
    profiles = {"other": {"tasks": [{"below/my.csv": {"text": "title", "label": "mood"}}]}}
    tasks = [{"below/my.csv": {"text": "text", "label": "label"}}]
    mapped = load_mapping(data | {"tasks": tasks, "profiles": profiles}, registry=REGISTRY, profile="other")
    assert mapped.tasks["my"].labels == ("high", "low")


def test_a_table_named_like_a_task_of_the_registry_gets_another_name() -> None:
    write("mini-nli.csv", text=["a", "b"], label=[0, 1])
    assert suite("mini-nli.csv", "mini-nli").suite.tasks == ("mini-nli-table", "mini-nli")


def test_a_table_that_gets_another_name_says_so() -> None:
    write("data/trec.csv", text=["who", "where"], label=["HUM", "LOC"])
    loaded = suite("data/trec.csv")
    assert loaded.suite.tasks == ("trec-table",)
    said = "trec-table: named so because trec is a task of rbench; to choose: {data/trec.csv: {name: ...}}"
    assert loaded.notes.count(said) == 1
    assert not any("named so" in note for note in suite({"data/trec.csv": {"name": "mine"}}).notes)


@pytest.mark.parametrize("ending", [".jsonl", ".tsv", ".csv.gz"])
def test_a_file_of_no_split_is_renamed_with_its_own_ending(ending: str) -> None:
    Path("data").mkdir()
    Path("data", f"rows{ending}").write_bytes(b"")
    assert f"it has rows{ending}: name one of them, or rename it to test{ending}" in wrong("./data")


@pytest.mark.parametrize("labels", [["['HUM']", "['LOC']"], ['{"a": 1}', '{"a": 2}']])
def test_labels_that_are_lists_are_refused(labels: list[str]) -> None:
    write("my.csv", text=["who", "where"], label=labels)
    assert f"the column `label` holds lists such as {labels[0]}, and a row has one label" in wrong("my.csv")


def test_real_lists_are_refused_like_those_in_a_text() -> None:
    frame = pd.DataFrame({"text": ["who", "where"] * 5, "label": [["HUM"], ["LOC"]] * 5})
    frame.to_parquet("my.parquet")
    frame.to_json("my.jsonl", orient="records", lines=True)
    for name in ("./my.parquet", "./my.jsonl"):
        assert "holds lists such as" in wrong(name)


def test_labels_that_differ_in_case_alone_are_told() -> None:
    write("my.csv", text=["what", "who", "where"], label=["DESC", "HUM", "desc"])
    (said,) = [note for note in suite("my.csv").notes if "in case" in note]
    assert said == "my: the labels DESC and desc differ in case alone; if they are one, write them alike"
    write("my.csv", text=["what", "who"], label=["DESC", "(none)"])
    assert not any("in case" in note for note in suite("my.csv").notes)


def test_names_are_made_of_the_files_and_two_of_one_name_are_refused() -> None:
    write("a b.csv", text=["a", "b"], label=[0, 1])
    write("sub/a-b.csv", text=["a", "b"], label=[0, 1])
    assert suite("a b.csv").suite.tasks == ("a-b",)
    assert "two tables are named a-b: a b.csv and sub/a-b.csv; give one a name" in wrong("a b.csv", "sub/a-b.csv")
    assert suite("a b.csv", {"sub/a-b.csv": {"name": "second"}}).suite.tasks == ("a-b", "second")


def test_a_bare_name_is_never_a_folder() -> None:
    write("mine/test.csv", text=["a", "b"], label=[0, 1])
    said = wrong("mine")
    assert 'unknown task "mine"' in said and said.endswith(". The folder of this name is written ./mine")
    assert suite("./mine").suite.tasks == ("mine",)


# -------------------------------------------------------------------------------------------------------------- errors


def test_what_cannot_be_guessed_is_asked_for_by_naming_the_columns() -> None:
    write("my.csv", a=["x", "y"], b=["x", "y"], c=["x", "y"])
    said = wrong("my.csv")
    assert said.startswith(
        "suite: my.csv: cannot tell which column is the label; there are a, b, c. Name it: --label NAME"
    )
    assert "cannot tell which column is the text; there are a, b, c. Name it: --text" in wrong(
        {"my.csv": {"label": "a"}}
    )
    write("my.csv", review=["x", "y"], comment=["x", "y"], label=[0, 1])
    assert "cannot tell which column is the text; there are review, comment, label" in wrong("my.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"text": "rewiev"}, "my.csv: " + unknown("column", "rewiev", "review")),
        (
            {"text": "same", "label": "review"},
            "the column `review` has 10 different values in 10 rows, which are no labels",
        ),
        ({"label": "same"}, "the column `same` has 1 different values"),
        ({"text": "review", "label": "review"}, "`review` is the label and a text"),
        ({"text": ["review", "same"], "kind": "single"}, "the kind single does not fit 2 texts"),
        ({"text": "review", "kind": "nli"}, "the kind nli does not fit 1 texts"),
        ({"txt": "review"}, unknown("key", "txt", "text")),
        ({"split": "train"}, "split"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    pd.DataFrame({"review": [f"t{i}" for i in range(10)], "same": 1, "label": [0, 1] * 5}).to_csv("my.csv", index=False)
    assert said in wrong({"my.csv": options})


def test_a_column_in_lower_case_goes_before_those_that_differ_only_in_case() -> None:
    write("my.csv", text=["a", "b"], Text=["c", "d"], label=[0, 1], Label=["x", "y"])
    spec = one("my.csv")
    assert spec.labels == ("0", "1") and spec.local is not None and spec.local.columns == {}, (
        "the columns of these names"
    )
    write("my.csv", review=["a", "b"], Label=["x", "y"], LABEL=["x", "y"])
    assert "cannot tell which column is the label; there are review, Label, LABEL" in wrong("my.csv")


def test_labels_that_stand_twice_and_half_characters_in_labels_are_refused() -> None:
    write("my.csv", text=["a", "b"], label=[0, 1])
    assert "labels that stand more than once: a" in wrong({"my.csv": {"labels": ["a", "a"]}})
    rows = [{"text": f"t{i}", "label": "x\ud800" if i % 2 else "y"} for i in range(10)]
    Path("half.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "half.jsonl: a label in the column `label` has half a character" in wrong("half.jsonl")


@pytest.mark.parametrize("name", ["none.jsonl", "none.json"])
def test_a_file_without_rows_is_told_as_such(name: str) -> None:
    Path(name).write_text("[]" if name.endswith(".json") else "")
    assert f"{name}: it has no rows" in wrong(name)


def test_a_missing_file_is_told_with_files_of_similar_names() -> None:
    write("reviews.csv", text=["a", "b"], label=[0, 1])
    assert "review.csv: " in (said := wrong("review.csv")) and nearest("reviews.csv") in said
    assert "is written hf:stanfordnlp/imdb" in wrong("stanfordnlp/imdb")
    for bad in ("./a\0b", "~nosuchuser/x.csv", f"./{'x' * 300}.csv"):
        assert "is not a path" in wrong(bad)
    assert "unknown task" in wrong("x" * 300)
    Path("sheet.xlsx").write_text("x")
    assert "sheet.xlsx: a table ends in .csv, .tsv, .json, .jsonl, .parquet" in wrong("sheet.xlsx")
    Path("broken.json").write_text(json.dumps({"a": 1})[:-1])
    assert "broken.json:1: not JSON" in wrong("broken.json")


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_file_of_few_rows_is_told_that_it_has_few(rows: int) -> None:
    pd.DataFrame({"review": ["x", "y"][:rows], "label": [0, 1][:rows]}).to_csv("my.csv", index=False)
    assert f"different values in {rows} rows, which are no labels" in wrong("my.csv")


@pytest.mark.parametrize(
    ("labels", "notes"),
    [
        (["glad", "sad", "neutral"], ("my: no row has the label neutral",)),
        (["Glad", "SAD"], ()),
        (["no", "yes"], ()),  # where no label stands in the file, its rows may hold numbers
    ],
)
def test_a_label_that_no_row_has_is_named(labels: list[str], notes: tuple[str, ...]) -> None:
    write("my.csv", review=["good", "bad"], mood=["sad", "glad"])
    assert suite({"./my.csv": {"text": "review", "label": "mood", "labels": labels}}).notes == notes
