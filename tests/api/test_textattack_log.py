"""The CSV log: what TextAttack's own logger writes for the same results, with an id before it."""

from __future__ import annotations

import csv
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rbench
from rbench import api
from rbench import recipes as _ready  # noqa: F401  (before textattack is imported)
from rbench.api.results import LOG_COLUMNS, AttackResult, write_textattack_csv
from rbench.errors import StoreError
from rbench.schema import Outcome, TaskSpec
from rbench.store.runs import RunStore
from tests.api.builders import MIXED_RESULT, make_outcome, make_result
from tests.tables.conftest import make_run as make_run

PAIR = TaskSpec(name="texts", kind="pair", columns=("premise", "hypothesis"), labels=("negative", "positive"))


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_each_example_has_a_row_with_its_id(tmp_path: Path) -> None:
    rows = read(write_textattack_csv(MIXED_RESULT, tmp_path / "log.csv"))
    assert tuple(rows[0]) == ("id", *LOG_COLUMNS)
    assert [row["id"] for row in rows] == ["0", "1", "2", "3"]
    assert [row["result_type"] for row in rows] == ["Successful", "Failed", "Skipped", "Errored"]
    assert rows[0]["original_text"] == "a [[good]] film"
    assert (rows[0]["original_output"], rows[0]["perturbed_output"], rows[0]["ground_truth_output"]) == ("1", "0", "1")
    assert rows[2]["perturbed_text"] == rows[2]["original_text"] == "a good film"
    assert rows[2]["perturbed_output"] == "0", "a skipped text keeps its prediction"
    assert rows[0]["num_queries"] == "10" and rows[0]["original_score"] == ""
    assert len(pd.read_csv(tmp_path / "log.csv")) == 4


def test_no_text_is_a_formula_of_a_spreadsheet(tmp_path: Path) -> None:
    made = make_result(make_outcome(0, "failed", original=("=cmd|' /C calc'!A0",)))
    (row,) = read(write_textattack_csv(made, tmp_path / "log.csv"))
    assert row["original_text"] == "'=cmd|' /C calc'!A0"


def logged(made: AttackResult, tmp_path: Path) -> dict[str, Any]:
    """What TextAttack's logger writes for the first outcome of a result."""
    from textattack.attack_results import SuccessfulAttackResult
    from textattack.loggers import CSVLogger
    from textattack.shared import AttackedText

    one = made.outcomes[0]
    assert one.original is not None and one.perturbed is not None

    def attacked(texts: tuple[str, ...]) -> Any:
        named = OrderedDict(zip(made.task.columns, texts, strict=True))
        return AttackedText(texts[0] if len(texts) == 1 else named)

    before, after = attacked(one.original), attacked(one.perturbed)
    after.attack_attrs["original_index_map"] = np.arange(before.num_words)

    def goal(text: Any, output: int | None) -> Any:
        colour = {"get_text_color_input": lambda: "red", "get_text_color_perturbed": lambda: "green"}
        return SimpleNamespace(attacked_text=text, output=output, score=0.5, ground_truth_output=one.label, **colour)

    stock = SuccessfulAttackResult.__new__(SuccessfulAttackResult)
    stock.original_result, stock.perturbed_result = goal(before, 1), goal(after, 0)
    stock.num_queries = one.num_queries
    logger = CSVLogger(str(tmp_path / "stock.csv"))
    logger.log_attack_result(stock)
    logger.flush()
    return read(tmp_path / "stock.csv")[0]


@pytest.mark.parametrize(
    "made",
    [
        make_result(
            make_outcome(0, "succeeded", original=("It's a good, good film.",), perturbed=("It's a fine, good movie.",))
        ),
        make_result(
            make_outcome(
                0, "succeeded", original=("a man sleeps", "he is awake"), perturbed=("a man sleeps", "he is up")
            ),
            task=PAIR,
        ),
    ],
    ids=["one text", "two texts"],
)
def test_it_is_what_textattack_writes(made: AttackResult, tmp_path: Path) -> None:
    stock = logged(made, tmp_path)
    (ours,) = read(write_textattack_csv(made, tmp_path / "ours.csv"))
    assert tuple(stock) == LOG_COLUMNS
    assert {name: ours[name] for name in LOG_COLUMNS if "score" not in name} == {
        name: value for name, value in stock.items() if "score" not in name
    }


def test_words_that_were_added_or_left_out_are_marked(tmp_path: Path) -> None:
    made = make_result(
        make_outcome(0, "succeeded", original=("a very good film",), perturbed=("a good film that lasts",))
    )
    (row,) = read(write_textattack_csv(made, tmp_path / "log.csv"))
    assert row["original_text"] == "a [[very]] good film" and row["perturbed_text"] == "a good film [[that]] [[lasts]]"


def test_a_word_that_was_split_is_marked_and_none_behind_it(tmp_path: Path) -> None:
    texts = ("I liked this film", "and the end"), ("I l iked this film", "the ending")
    made = make_result(make_outcome(0, "succeeded", original=texts[0], perturbed=texts[1]), task=PAIR)
    (row,) = read(write_textattack_csv(made, tmp_path / "log.csv"))
    old, new = row["original_text"].split("<SPLIT>"), row["perturbed_text"].split("<SPLIT>")
    assert old == ["[[[[Premise]]]]: I [[liked]] this film", "[[[[Hypothesis]]]]: [[and]] the [[end]]"]
    assert new == ["[[[[Premise]]]]: I [[l]] [[iked]] this film", "[[[[Hypothesis]]]]: the [[ending]]"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_textattack_csv(MIXED_RESULT, tmp_path / "no" / "log.csv")


def test_a_run_has_the_names_of_its_cells(make_run: Any, tmp_path: Path) -> None:
    store: RunStore = make_run(texts=True)
    rows = read(rbench.write_textattack_csv(store.root, tmp_path / "log.csv"))
    frame = rbench.load_results(store.root)
    assert len(rows) == len(frame)
    keys = ("encoder", "finetune", "task", "attack", "seed", "example_id")
    there = {tuple(str(value) for value in row) for row in frame[[*keys]].itertuples(index=False)}
    assert {tuple(row[key if key != "example_id" else "id"] for key in keys) for row in rows} == there


def test_a_run_without_texts_is_refused(make_run: Any, tmp_path: Path) -> None:
    store: RunStore = make_run(texts=True)
    api.strip(store.root, tmp_path / "stripped")
    with pytest.raises(StoreError):
        write_textattack_csv(tmp_path / "stripped", tmp_path / "log.csv")
    assert not (tmp_path / "log.csv").exists()


def test_an_outcome_without_a_prediction_has_empty_outputs(tmp_path: Path) -> None:
    one = Outcome(example_id="0", status="errored", original=("x",), label=0, error="T\nValueError: x")
    (row,) = read(write_textattack_csv(make_result(one), tmp_path / "log.csv"))
    assert row["original_output"] == row["perturbed_output"] == row["perturbed_text"] == ""


def test_a_run_without_outcomes_is_refused_and_not_written_as_an_empty_file(make_run: Any, tmp_path: Path) -> None:
    store: RunStore = make_run()
    with pytest.raises(StoreError):
        write_textattack_csv(store.root, tmp_path / "log.csv")
    assert not (tmp_path / "log.csv").exists()
