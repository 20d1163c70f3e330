"""Tests RUNs with labels (`before=RUN`): all verbs that read several RUNs show both, and no RUN changes."""

from __future__ import annotations

import csv
import html
import io
import re
import shlex
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from tests.api.report_pages import read_missing_parts, read_report_data
from tests.report.conftest import write_run
from tests.stored import read_folder


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Two RUNs of one suite; as jobs are the same, so are their keys."""
    return [f"{label}={write_run(tmp_path / label)}" for label in ("before", "after")]


def test_every_encoder_stands_there_with_both_labels(runs: list[str], tmp_path: Path) -> None:
    stored = read_folder(tmp_path / "before"), read_folder(tmp_path / "after")
    names = [f"{name} ({label})" for label in ("before", "after") for name in ("minilm", "bert_b")]
    said = api.table(runs, names=True)
    assert all(name in said for name in names)
    alone = [float(row["value"]) for row in _cells(str(tmp_path / "before"))]
    assert [float(row["value"]) for row in _cells(runs)] == [*alone, *alone]
    assert {*api.load_results(runs)["encoder"]} == {*names}
    (page, *_) = api.report(runs, tmp_path / "both.html")
    assert all(name in page.read_text() for name in names)
    site = api.site(runs, tmp_path / "site").index
    assert all(name in site.read_text() for name in names)
    assert (read_folder(tmp_path / "before"), read_folder(tmp_path / "after")) == stored


def test_a_report_compares_an_encoder_with_itself_first_and_says_where_the_runs_differ(tmp_path: Path) -> None:
    runs = [
        f"{of}={write_run(tmp_path / of, require=wanted)}" for of, wanted in (("before", None), ("after", "healthy"))
    ]
    (page,) = api.report(runs, tmp_path / "both.html")
    first, text = read_report_data(page)["pairs"][0], html.unescape(page.read_text())
    assert (first["one"], first["other"]) == ("minilm (before)", "minilm (after)") and not read_missing_parts(page)
    assert re.search(r'<p class="dim">`require: healthy` of .* holds for all', text)
    commands = re.findall(r'<code class="command">(.*?)</code>', text)
    assert [shlex.split(one)[-1] for one in commands] == ["before", "after"]


def _cells(run: str | list[str]) -> list[dict[str, str]]:
    """The rows of the full table with a value, those of `before` first, in the order of the RUN."""
    rows = csv.DictReader(io.StringIO(api.table(run, layout="full", fmt="csv")))
    return sorted((row for row in rows if row["value"]), key=lambda row: "(after)" in row["encoder"])


def test_compare_takes_names_with_and_without_the_label(runs: list[str]) -> None:
    for between in (("minilm", "minilm"), ("minilm (before)", "minilm (after)")):
        found = api.compare(*runs, between=between)
        assert (found.one, found.other) == ("minilm (before)", "minilm (after)")
        assert all(cell.difference.value == 0 for cell in found.cells)


def test_wrong_labels_are_told_in_one_line(runs: list[str], tmp_path: Path) -> None:
    for given, named in (
        ([runs[0], runs[1].replace("after=", "before=")], "before"),
        ([runs[0], runs[0].replace("before=", "after=", 1)], runs[0].removeprefix("before=")),
        (["a[b]=x"], "a[b]"),
    ):
        with pytest.raises(StoreError) as caught:
            api.table(given)
        (line,) = str(caught.value).splitlines()
        assert named in line
    with pytest.raises(StoreError):
        api.report(runs[0])


def test_a_path_that_is_there_has_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "seed=1")
    monkeypatch.chdir(tmp_path)
    assert "minilm" in (said := api.table("seed=1", names=True)) and "(seed)" not in said
