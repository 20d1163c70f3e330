"""Tables in plans: what their jobs' keys hold, and which splits they must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.errors import ResourceError
from rbench.plan.prepare import Options, Prepared, prepare_loaded

ROWS = pd.DataFrame({"text": [f"film {i}" for i in range(40)], "label": ["good", "bad"] * 20})


def prepared(task: Any) -> Prepared:
    suite = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": [task], "attacks": ["pwws"], "resources": "mini"}
    return prepare_loaded(load_mapping({**suite, "num_examples": 2}, registry=Registry()), Options())


def test_keys_hold_the_rows_and_no_path(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    ROWS.to_csv(tmp_path / "my.csv", index=False)
    ROWS.to_parquet(tmp_path / "there/my.parquet")
    first, second = prepared(str(tmp_path / "my.csv")), prepared(str(tmp_path / "there/my.parquet"))
    assert [job.key for job in first.plan.jobs] == [job.key for job in second.plan.jobs]
    assert first.notes[0] == "my: the label is the column `label` (guessed; say `label` to choose)"
    ROWS.replace({"film 3": "another"}).to_csv(tmp_path / "my.csv", index=False)
    assert not {job.key for job in prepared(str(tmp_path / "my.csv")).plan.jobs} & {job.key for job in first.plan.jobs}


def test_an_encoder_is_not_fine_tuned_on_test_rows(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "test.csv", index=False)
    whole = {str(tmp_path / "test.csv"): {"split": "test"}}
    with pytest.raises(
        ResourceError, match=r"fine-tuned on the task test, and it has no train split .*leave `split: test`"
    ):
        prepared(whole)
    with pytest.raises(ResourceError, match=r"no train split .*add a train file beside the others"):
        prepared(str(tmp_path))
