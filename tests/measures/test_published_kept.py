"""Published shares are a labelled prior with their sources, and enter no number of a RUN."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.measures.published_kept import FILE
from tests.raters import mini_run


def test_the_table_has_its_sources_and_the_attacks_of_the_run_alone(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", attacks=("textfooler", "pwws"))
    (cell,) = json.loads(api.table(run, metric="published_kept", fmt="json"))["cells"]
    assert (cell["attack"], cell["kept"], cell["unperturbed"], cell["published"]) == ("textfooler", 0.87, 0.92, True)
    assert "arXiv:2109.04385" in cell["source"]
    page = api.table(run, metric="published_kept", notes="full")
    assert "A prior" in page and "Source 1: Ratings of Mozes" in page and "87.0" in page
    assert "Source 1: Ratings of Mozes" in api.table(run, metric="published_kept"), "also where notes are brief"
    with pytest.raises(StoreError, match="is not judged"):
        api.table(run, metric="valid_asr")


def test_where_nothing_is_published_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no published share is known here .*rbench judge export"):
        api.table(mini_run(tmp_path / "run", attacks=("pwws",)), metric="published_kept")


def test_each_rate_has_a_source_texts_and_raters() -> None:
    found = json.loads(FILE.read_text(encoding="utf-8"))
    for rate in found["rates"]:
        assert (
            0 < rate["kept"] < 1 and rate["texts"] and rate["raters"] and "arXiv:" in found["sources"][rate["source"]]
        )
    assert {rate["source"] for rate in found["rates"]} == found["sources"].keys()
