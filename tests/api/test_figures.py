"""Tests `api.figure`, the files that `rbench figure` writes, and the figures that a run draws at its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from rbench import api
from rbench.config.registry import Registry
from rbench.config.suite import load
from rbench.errors import SuiteError
from rbench.plan.prepare import Options
from rbench.report.figures import style
from rbench.store.runs import RunStore
from tests.api.builders import SUITE_WITH_TABLES
from tests.cli.conftest import Shell
from tests.refusals import unknown
from tests.tables.builders import make_job_record
from tests.tables.conftest import make_run, make_suite

__all__ = ["make_run"]
MakeRun = Callable[..., RunStore]
BROKEN = """
from rbench.report.figures import RunFigure
from rbench.schema import Strict

class Options(Strict):
    at: int = 0

class Mine(RunFigure[Options]):
    def draw(self, options, results):
        {body}
"""


def user(folder: Path, body: str = "return [][options.at]", name: str = "mine") -> Path:
    (folder / "DIR" / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "DIR" / "figures" / f"{name}.py").write_text(BROKEN.format(body=body))
    return folder / "DIR"


def test_a_notebook_gets_the_figure(make_run: MakeRun) -> None:
    drawn = api.figure(make_run().root, "queries", {"panels": "task"})
    assert isinstance(drawn, Figure) and len(drawn.axes) == 4, "two tasks, and a panel for each of two attacks"


def test_files_lie_beside_the_tables_under_names_that_latex_takes(make_run: MakeRun) -> None:
    run = make_run().root
    assert api.write_figure(run, "queries") == [run / "figures" / f"queries.{fmt}" for fmt in ("pdf", "svg", "png")]
    (path,) = api.write_figure(run, "queries", ["panels=task", "scale=log"], formats=["svg"])
    assert path == run / "figures" / "queries-panels-task-scale-log.svg"
    before = path.read_bytes()
    api.write_figure(run, "queries", ["panels=task", "scale=log"], formats=["svg"])
    assert path.read_bytes() == before


def test_out_is_a_file_or_a_folder(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run().root
    assert api.write_figure(run, "queries", out=tmp_path / "new" / "a.PNG") == [tmp_path / "new" / "a.PNG"]
    assert (tmp_path / "new" / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert api.write_figure(run, "queries", out=tmp_path / "dir", formats=["svg"]) == [tmp_path / "dir" / "queries.svg"]
    assert not (run / "figures").exists()


def test_the_verb_prints_the_files(make_run: MakeRun) -> None:
    run = make_run().root
    result = Shell()("figure", run, "--kind", "queries", "--format", "svg, png")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [str(run / "figures" / f"queries.{fmt}") for fmt in ("svg", "png")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "quries"], "error: " + unknown("figure", "quries", "queries", "curves")),
        (
            ["--kind", "queries", "--option", "panel=task"],
            "--option panel=task: " + unknown("key", "panel", "panels"),
        ),
        (["--kind", "queries", "--option", "panels=mr"], "--option panels=mr: `panels`: expected"),
        (["--kind", "queries", "--option", "panels"], "--option panels: "),
        (["--kind", "queries", "--option", "panels=["], "--option panels=[: "),
        (["--kind", "queries", "--format", "jpg"], 'unknown format of figures "jpg"'),
        (["--kind", "queries", "--out", "a.jpeg"], 'unknown format of figures "jpeg"'),
        (["--kind", "curves"], "error: there is nothing to draw"),
    ],
)
def test_a_mistake_is_one_line_and_makes_no_file(words: list[str], message: str, make_run: MakeRun) -> None:
    run = make_run().root
    result = Shell()("figure", run, *words)
    assert result.exit_code == 2 and not result.stdout
    (line,) = result.stderr.splitlines()[1:]
    assert message in line
    assert not (run / "figures").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    result = Shell()("figure", tmp_path, "--kind", "queries")
    assert result.exit_code == 2 and "is not a RUN" in result.stderr


def test_an_error_in_a_figure_of_ones_own_has_its_line_and_no_traceback(make_run: MakeRun, tmp_path: Path) -> None:
    folder = user(tmp_path)
    result = Shell()("figure", make_run().root, "--kind", "mine", "--include", folder, "--option", "at=1")
    assert result.exit_code == 2
    assert f"error in {folder}/figures/mine.py:10: IndexError: list index out of range" in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_names_are_drawn_as_they_are(make_run: MakeRun) -> None:
    run = make_run(make_suite(encoders=("a<b>&$c$", "__x"))).root
    (svg,) = api.write_figure(run, "queries", formats=["svg"])
    assert "a&lt;b&gt;&amp;$c$" in svg.read_text() and "__x" in svg.read_text()


@pytest.fixture
def mine(tmp_path: Path) -> Callable[..., tuple[Any, Options]]:
    """mine(figures, body): the RUN of a suite whose jobs are all done, and that asks for these figures."""

    def make(figures: str, **module: Any) -> tuple[api.RunResult, list[str]]:
        suite, run = tmp_path / "mine.yaml", tmp_path / "run"
        suite.write_text(f"{SUITE_WITH_TABLES}figures: {figures}\n")
        options = Options(out=run, include=(user(tmp_path, **module),))
        plan = api.plan(suite, options).plan
        store = RunStore(run)
        store.write_plan(plan)
        for job in plan.jobs:
            store.write_record(make_job_record(job))
        notes: list[str] = []
        return api.run(suite, options, progress=Notes(notes)), notes

    return make


class Notes:
    """A progress that keeps its notes."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, text: str) -> None:
        self.notes.append(text)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


def test_a_run_draws_the_figures_of_its_suite(
    mine: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(style, "FORMATS", ("svg",))
    result, notes = mine("[queries, {queries: {scale: log}}]")
    names = ["queries.svg", "queries-scale-log.svg"]
    assert [path.name for path in result.figures] == names
    assert sorted(path.name for path in (tmp_path / "run" / "figures").iterdir()) == sorted(names)
    assert not any("figure" in note for note in notes)


@pytest.mark.parametrize(
    ("figures", "body", "said"),
    [
        (
            "[{mine: {at: 3}}]",
            "return [][options.at]",
            "figures/mine.py:10: IndexError: list index out of",
        ),
        ("[mine]", "return options", "figures/mine.py: TypeError: `draw` returned Options"),
    ],
)
def test_a_figure_that_fails_is_a_note(figures: str, body: str, said: str, mine: Callable[..., Any]) -> None:
    result, notes = mine(figures, body=body)
    assert not result.failed and result.tables and not result.figures
    (note,) = (note for note in notes if "no figure" in note)
    assert said in note and "\n" not in note


@pytest.mark.parametrize(
    ("figures", "line", "message"),
    [
        ("[quries]", "11:11", unknown("figure", "quries", "queries")),
        ("[{queries: {panels: all}}]", "11:30", "`panels`: expected"),
        ("[{queries: {pannels: task}}]", "11:22", unknown("key", "pannels", "panels")),
        ("[queries, queries]", "11:20", "`figures` lists queries"),
        ("[mine]", "DIR/figures/mine.py", "draw(options, results)"),
        ("[empty]", "DIR/figures/empty.py", "a figure is a subclass of rbench.report.figures.RunFigure"),
    ],
)
def test_a_suite_is_refused_with_the_place(figures: str, line: str, message: str, tmp_path: Path) -> None:
    suite = tmp_path / "mine.yaml"
    suite.write_text(f"{SUITE_WITH_TABLES}figures: {figures}\n")
    folder = user(tmp_path)
    (folder / "figures" / "empty.py").write_text("")
    (folder / "figures" / "mine.py").write_text(
        BROKEN.replace("(self, options, results)", "(self, results)").format(body="pass")
    )
    with pytest.raises(SuiteError) as error:
        load(suite, registry=Registry([folder]))
    (said,) = str(error.value).splitlines()
    assert line in said and message in said
