"""Tests that a table's metric may be a measure, found by its name: in a suite, from Python and on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.config import load
from rbench.config.measures import find_refusal
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.metrics import MetricCatalogue
from rbench.plan.prepare import Options
from rbench.schema import TableSpec
from rbench.store.runs import RunStore
from rbench.store.texts import strip
from tests.refusals import refusal
from tests.tables.builders import make_job_record
from tests.tables.conftest import make_suite

HITS = '''\
"""Counts successes of each attack job."""

from pydantic import BaseModel, ConfigDict

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.tables import Table
from rbench.tables.aggregate import attacked
from rbench.tables.table import Meaning


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    least: int = 0
    quote: bool = False


class Hits(Measure[Options]):
    """Counts successes of each attack job."""

    def table(self, options, results):
        rows, cells = [], []
        for sample in attacked(results):
            hits = sum(one.status == "succeeded" for one in sample.outcomes)
            if hits >= options.least:
                rows.append((sample.cell.attack, sample.cell.encoder, hits))
                cells.append({"attack": sample.cell.attack, "hits": hits})
        if not rows:
            raise StoreError(f"no attack has {options.least} successes")
        about = Meaning("Hits", "successes of a job", percent=False)
        return Table("hits", ("Attack", "Encoder", "Hits"), tuple(rows), tuple(cells), (),
                     about=about, texts=options.quote)
'''
SUITE = """\
name: mine
encoders: [mini-bert]
tasks: [mini-sentiment]
attacks: [pwws]
num_examples: 20
resources: mini
tables:
  - metric: asr
  - metric: hits
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine" / "measures").mkdir(parents=True)
    (tmp_path / "mine" / "measures" / "hits.py").write_text(HITS)
    return tmp_path / "mine"


@pytest.fixture
def suite(tmp_path: Path, mine: Path) -> Callable[..., Any]:
    """suite(table entries in YAML) -> the suite of a file with these tables, after SUITE."""

    def read(*tables: str) -> Any:
        (tmp_path / "my.yaml").write_text(SUITE + "".join(f"  - {table}\n" for table in tables))
        return load(tmp_path / "my.yaml", registry=Registry([mine])).suite

    return read


def test_a_run_writes_a_table_of_a_measure_beside_the_others(tmp_path: Path, mine: Path) -> None:
    options = Options(out=tmp_path / "run", include=(mine,))
    (tmp_path / "mine.yaml").write_text(
        SUITE + "  - {metric: hits, quote: true}\n  - {metric: hits, least: 1000, quote: false}\n"
    )
    plan = api.plan(tmp_path / "mine.yaml", options).plan
    store = RunStore(tmp_path / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        store.write_record(make_job_record(job))
    result = api.run(tmp_path / "mine.yaml", options)
    assert [text.splitlines()[0] for text in result.tables[1:]] == ["**Hits: successes of a job**"] * 2
    written = {path.stem for path in (tmp_path / "run" / "tables").iterdir()}
    assert written == {"asr", "hits", "hits%5Bquote=true%5D"}, "1000 hits are in no RUN: that table is left out"
    assert api.table(tmp_path / "run", metric="hits", include=[mine]) == result.tables[1]
    assert not (strip(tmp_path / "run") / "tables").exists(), "one of them quotes texts"


def test_options_of_the_suite_hold_on_the_command_line_too(make_run: Callable[..., RunStore], mine: Path) -> None:
    store = make_run(make_suite(tables=({"metric": "hits", "least": 1000},)), texts=True)
    with refusal(StoreError, "1000"):
        api.table(store.root, metric="hits", include=[mine])
    for fmt in ("markdown", "latex", "csv", "json"):
        shown = api.table(store.root, metric="hits", fmt=fmt, include=[mine], least=0)
        assert "hits" in shown.lower() and "pwws" in shown
    refused = CliRunner().invoke(app, ["table", str(store.root), "--metric", "hits", "--include", str(mine)])
    assert refused.exit_code == 2 and "no attack has 1000 successes" in refused.output


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("{metric: hit}", "my.yaml:10:14"),
        ("{metric: hits, leest: 2}", "my.yaml:10:20"),
        ("{metric: hits, least: x}", "my.yaml:10:27"),
        ("{metric: hits, options: {leest: 2}}", "my.yaml:10:30"),
        ("{metric: hits, layout: full}", "layout"),
        ("{metric: hits, pick: validation}", "`pick`"),
        ("{metric: asr, least: 2}", "my.yaml:10:19"),
        ("{metric: asr, options: {least: 2}}", "`options`"),
    ],
)
def test_what_is_wrong_in_a_table_is_told_with_its_place(suite: Callable[..., Any], table: str, named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        suite(table)
    assert named in str(caught.value)


def test_options_stand_beside_the_metric_and_come_back_from_a_stored_plan(suite: Callable[..., Any]) -> None:
    table = suite("{metric: hits, least: 2}").tables[-1]
    assert table == TableSpec(metric="hits", options={"least": 2}) and table.label == "hits[least=2]"
    assert TableSpec.model_validate_json(table.model_dump_json()) == table
    found = find_refusal(TableSpec(metric="hits", layout="by-task"), MetricCatalogue())
    assert found is not None and found[0] == "layout" and "one layout" in found[1]


def test_a_measure_is_refused_with_what_it_lacks(mine: Path, make_run: Callable[..., RunStore]) -> None:
    store = make_run()
    for content, named in [
        ("class Options: ...\ndef table(options, results): ...\n", "hits.py:1:1"),
        (f"{HITS}\n\nclass More(Measure):\n    pass\n", "More"),
        (HITS.replace("self, options, results", "self, results"), "`table`"),
        (HITS + "    def run(self, options): ...\n", "`run`"),
        (HITS + "    reads = 'attack'\n", "hits.py:18:1"),
        (HITS + "    columns = ('n',)\n", "`columns`"),
    ]:
        (mine / "measures" / "hits.py").write_text(content)
        with pytest.raises(SuiteError) as caught:
            api.table(store.root, metric="hits", include=[mine])
        assert named in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("return {}['none']", "hits.py:"),
        pytest.param("return [1, 2]", "the measure hits: AttributeError", marks=pytest.mark.nightly),
    ],
)
def test_a_mistake_in_a_measure_is_told_with_its_line_and_leaves_the_other_tables(
    wrong: str, named: str, tmp_path: Path, mine: Path
) -> None:
    code = HITS.replace("        rows, cells = [], []\n", f"        {wrong}\n        rows, cells = [], []\n")
    assert code != HITS
    (mine / "measures" / "hits.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(SUITE)
    options = Options(out=tmp_path / "run", include=(mine,))
    plan = api.plan(tmp_path / "mine.yaml", options).plan
    store = RunStore(tmp_path / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        store.write_record(make_job_record(job))
    assert len(api.run(tmp_path / "mine.yaml", options).tables) == 1
    with pytest.raises(StoreError) as caught:
        api.table(tmp_path / "run", metric="hits", include=[mine])
    assert named in str(caught.value)
    shown = CliRunner().invoke(app, ["table", str(tmp_path / "run"), "--metric", "hits", "--include", str(mine)])
    assert shown.exit_code == 2 and "Traceback" not in shown.output


def test_unknown_names_and_layouts_are_refused_from_python(make_run: Callable[..., RunStore], mine: Path) -> None:
    store = make_run()
    for more in (
        {"metric": "hit"},
        {"metric": "hits", "layout": "full"},
        {"metric": "hits", "pick": "validation"},
        {"metric": "asr", "least": 2},
    ):
        with pytest.raises(SuiteError):
            api.table(store.root, include=[mine], **more)  # type: ignore[arg-type]


def test_measures_are_listed_and_shown(mine: Path) -> None:
    listed = CliRunner().invoke(app, ["list", "measures", "--include", str(mine)])
    assert "hits" in listed.output and "Counts successes of each attack job." in listed.output
    shown = CliRunner().invoke(app, ["list", "measures", "hits", "--include", str(mine)])
    assert "def table(self, options, results)" in shown.output
