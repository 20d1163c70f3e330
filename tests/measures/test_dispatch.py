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
from rbench.config.measures import refused
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.metrics import Metrics
from rbench.plan.prepare import Options
from rbench.schema import TableSpec
from rbench.store.runs import Store
from rbench.store.texts import strip
from tests.api.test_tables import made_up
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
    store = Store(tmp_path / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        store.write_record(made_up(job))
    result = api.run(tmp_path / "mine.yaml", options)
    assert [text.splitlines()[0] for text in result.tables[1:]] == ["**Hits: successes of a job**"] * 2
    written = {path.stem for path in (tmp_path / "run" / "tables").iterdir()}
    assert written == {"asr", "hits", "hits%5Bquote=true%5D"}, "1000 hits are in no RUN: that table is left out"
    assert api.table(tmp_path / "run", metric="hits", include=[mine]) == result.tables[1]
    assert not (strip(tmp_path / "run") / "tables").exists(), "one of them quotes texts"


def test_options_of_the_suite_hold_on_the_command_line_too(make_run: Callable[..., Store], mine: Path) -> None:
    store = make_run(make_suite(tables=({"metric": "hits", "least": 1000},)), texts=True)
    with pytest.raises(StoreError, match="no attack has 1000 successes"):
        api.table(store.root, metric="hits", include=[mine])
    assert "pwws" in api.table(store.root, metric="hits", include=[mine], least=0)
    shown = CliRunner().invoke(app, ["table", str(store.root), "--metric", "hits", "--include", str(mine)])
    assert shown.exit_code == 2 and "no attack has 1000 successes" in shown.output


def test_a_measure_in_every_format(make_run: Callable[..., Store], mine: Path) -> None:
    store = make_run(texts=True)
    for fmt in ("markdown", "latex", "csv", "json"):
        shown = api.table(store.root, metric="hits", fmt=fmt, include=[mine])
        assert "hits" in shown.lower() and "pwws" in shown


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("{metric: hit}", r'my\.yaml:10:14: unknown metric "hit"; did you mean hits'),
        ("{metric: zzzz}", r'my\.yaml:10:14: unknown metric "zzzz"; valid are: .*asr, .*hits'),
        ("{metric: hits, leest: 2}", r'my\.yaml:10:20: unknown key "leest"; did you mean least\?'),
        ("{metric: hits, least: x}", r"my\.yaml:10:27: `least`: expected a whole number"),
        ("{metric: hits, options: {leest: 2}}", r'my\.yaml:10:30: unknown key "leest"'),
        ("{metric: hits, layout: full}", r"my\.yaml:\d+:\d+: the measure hits has one layout"),
        ("{metric: hits, pick: validation}", r"my\.yaml:10:5: `pick` needs"),
        ("{metric: asr, least: 2}", r'my\.yaml:10:19: unknown key "least"'),
        (
            "{metric: asr, options: {least: 2}}",
            r"my\.yaml:\d+:\d+: `options` are for measures; the metric asr has none",
        ),
    ],
)
def test_what_is_wrong_in_a_table_is_told_with_its_place(suite: Callable[..., Any], table: str, message: str) -> None:
    with pytest.raises(SuiteError, match=message):
        suite(table)


def test_options_stand_beside_the_metric_and_come_back_from_a_stored_plan(suite: Callable[..., Any]) -> None:
    table = suite("{metric: hits, least: 2}").tables[-1]
    assert table == TableSpec(metric="hits", options={"least": 2}) and table.label == "hits[least=2]"
    assert TableSpec.model_validate_json(table.model_dump_json()) == table
    found = refused(TableSpec(metric="hits", layout="by-task"), Metrics())
    assert found is not None and found[0] == "layout" and "one layout" in found[1]


def test_a_measure_is_refused_with_what_it_lacks(mine: Path, make_run: Callable[..., Store]) -> None:
    store = make_run()
    for content, message in [
        (
            "class Options: ...\ndef table(options, results): ...\n",
            r"hits\.py:1:1: a measure is a subclass of .*Measure.*`class Hits\(Measure\)`; see .*add-a-measure\.md",
        ),
        (f"{HITS}\n\nclass More(Measure):\n    pass\n", r"hits\.py:1:1: it defines Hits and More; leave one"),
        (
            HITS.replace("self, options, results", "self, results"),
            r"rbench calls the `table` of a measure as table\(opt",
        ),
        (HITS + "    def run(self, options): ...\n", r"rbench calls the `run` of a measure as run\(options, context\)"),
        (HITS + "    reads = 'attack'\n", r"hits\.py:18:1: `reads` of Hits: Input should be .*'attacks'"),
        (HITS + "    columns = ('n',)\n", r"`columns`\[0\] of Hits: "),
    ]:
        (mine / "measures" / "hits.py").write_text(content)
        with pytest.raises(SuiteError, match=message):
            api.table(store.root, metric="hits", include=[mine])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "return {}['none']",
            r"the measure hits raised KeyError: 'none' \(.*hits\.py, line \d+: return {}\['none'\]\)",
        ),
        ("return [1, 2]", r"hits\.py: `table` returned list, and a measure returns rbench\.tables\.Table"),
    ],
)
def test_a_mistake_in_a_measure_is_told_with_its_line_and_leaves_the_other_tables(
    wrong: str, message: str, tmp_path: Path, mine: Path
) -> None:
    code = HITS.replace("        rows, cells = [], []\n", f"        {wrong}\n        rows, cells = [], []\n")
    assert code != HITS
    (mine / "measures" / "hits.py").write_text(code)
    (tmp_path / "mine.yaml").write_text(SUITE)
    options = Options(out=tmp_path / "run", include=(mine,))
    plan = api.plan(tmp_path / "mine.yaml", options).plan
    store = Store(tmp_path / "run")
    store.write_plan(plan)
    for job in plan.jobs:
        store.write_record(made_up(job))
    assert len(api.run(tmp_path / "mine.yaml", options).tables) == 1
    with pytest.raises(StoreError, match=message):
        api.table(tmp_path / "run", metric="hits", include=[mine])
    shown = CliRunner().invoke(app, ["table", str(tmp_path / "run"), "--metric", "hits", "--include", str(mine)])
    assert shown.exit_code == 2 and "Traceback" not in shown.output


def test_unknown_names_and_layouts_are_refused_from_python(make_run: Callable[..., Store], mine: Path) -> None:
    store = make_run()
    for more, message in [
        ({"metric": "hit"}, 'unknown metric "hit"; did you mean hits'),
        ({"metric": "hits", "layout": "full"}, "the measure hits has one layout"),
        ({"metric": "hits", "pick": "validation"}, "`pick` needs"),
        ({"metric": "asr", "least": 2}, "`options` are for measures"),
    ]:
        with pytest.raises(SuiteError, match=message):
            api.table(store.root, include=[mine], **more)  # type: ignore[arg-type]


def test_measures_are_listed_and_shown(mine: Path) -> None:
    listed = CliRunner().invoke(app, ["list", "measures", "--include", str(mine)])
    assert "hits" in listed.output and "Counts successes of each attack job." in listed.output
    shown = CliRunner().invoke(app, ["list", "measures", "hits", "--include", str(mine)])
    assert "def table(self, options, results)" in shown.output
