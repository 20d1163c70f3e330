"""Tables in plans: what their jobs' keys hold, and which splits they must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rbench.config import load_mapping, load_task
from rbench.config.registry import Registry
from rbench.errors import PlanError, ResourceError
from rbench.plan.prepare import Options, PreparedSuite, prepare_loaded
from rbench.tasks import open_task

ROWS = pd.DataFrame({"text": [f"film {i}" for i in range(40)], "label": ["good", "bad"] * 20})


def prepared(task: Any) -> PreparedSuite:
    suite = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": [task], "attacks": ["pwws"], "resources": "mini"}
    return prepare_loaded(load_mapping({**suite, "num_examples": 2}, registry=Registry()), Options())


def test_keys_hold_the_rows_and_no_path(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    ROWS.to_csv(tmp_path / "my.csv", index=False)
    ROWS.to_parquet(tmp_path / "there/my.parquet")
    first, second = prepared(str(tmp_path / "my.csv")), prepared(str(tmp_path / "there/my.parquet"))
    assert [job.key for job in first.plan.jobs] == [job.key for job in second.plan.jobs]
    assert first.notes[0].startswith("my: ") and "`label`" in first.notes[0]
    ROWS.replace({"film 3": "another"}).to_csv(tmp_path / "my.csv", index=False)
    assert not {job.key for job in prepared(str(tmp_path / "my.csv")).plan.jobs} & {job.key for job in first.plan.jobs}


def test_an_encoder_is_not_fine_tuned_on_test_rows(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "test.csv", index=False)
    whole = {str(tmp_path / "test.csv"): {"split": "test"}}
    with pytest.raises(ResourceError):
        prepared(whole)
    with pytest.raises(ResourceError):
        prepared(str(tmp_path))


def test_a_label_that_train_lacks_is_refused_where_encoders_learn_and_noted_where_it_is_rare(tmp_path: Path) -> None:
    def folder(odd: int) -> str:
        ROWS.to_csv(tmp_path / "train.csv", index=False)
        rows = ROWS.replace({"text": "film"}, "other", regex=True)
        rows.loc[rows.index < odd, "label"] = "zzz"
        rows.to_csv(tmp_path / "test.csv", index=False)
        return str(tmp_path)

    said = f"{tmp_path}/test.csv:2: label zzz has no row in train, and {{}} in test"
    with pytest.raises(ResourceError) as caught:
        prepared(folder(20))
    assert said.format(20) in str(caught.value)
    assert any(said.format(2) in note for note in prepared(folder(2)).notes), "a rare class"
    spec = load_task(folder(20), Registry())
    assert open_task(spec).sizes["test"] == 40, "a classifier that exists needs no train rows"


def test_too_few_test_rows_are_told_with_those_that_were_left_out(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "train.csv", index=False)
    rows = ROWS.replace({"text": "film"}, "other", regex=True)
    rows.loc[2:, "text"] = ""
    rows.to_csv(tmp_path / "test.csv", index=False)
    suite = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": [str(tmp_path)], "attacks": ["pwws"]}
    loaded = load_mapping({**suite, "resources": "mini", "num_examples": 9}, registry=Registry())
    with pytest.raises(PlanError) as caught:
        prepare_loaded(loaded, Options())
    assert "38 of its 40" in str(caught.value)
