"""Progress in a notebook: one output that changes in place, escaped, with the last lines kept."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.system.progress import (
    KEPT_LINES,
    REFRESH_SECONDS,
    NotebookProgress,
    ProgressLines,
    SilentProgress,
    in_notebook,
    show_progress,
)
from tests.clock import ManualClock


class Output:
    """Stands in for the handle that IPython's `display` returns."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    found = Output()
    fake = SimpleNamespace(display=lambda bundle, raw, display_id: found)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    return found


def last(output: Output) -> dict[str, str]:
    return output.shown[-1]


def test_a_job_has_a_bar_with_steps_time_left_and_finding(output: Output, clock: ManualClock) -> None:
    with NotebookProgress(clock) as notebook:
        notebook.start("attack/x", 2, 3)
        notebook.update(10, 40)  # a resumed job: only what is done from now on tells its speed
        clock.now = 5
        notebook.update(20, 40, "ASR 50%")
        assert "attack/x: 20/40, 10 s left, ASR 50%" in last(output)["text/plain"]
        assert "all jobs: 1/3" in last(output)["text/plain"]
        assert '<progress max="40" value="20">' in last(output)["text/html"]
        assert '<progress max="3" value="1">' in last(output)["text/html"]
        clock.now = 8
        notebook.finish("complete")
    assert last(output)["text/plain"] == "attack/x: complete in 8 s, ASR 50%"
    assert "<progress" not in last(output)["text/html"]


def test_it_changes_a_few_times_a_second_at_most(output: Output, clock: ManualClock) -> None:
    with NotebookProgress(clock) as notebook:
        notebook.start("a", 1, 1)
        before = len(output.shown)
        for done in range(100):
            notebook.update(done, 100)
        assert len(output.shown) == before
        clock.now += REFRESH_SECONDS
        notebook.update(100, 100)
        assert len(output.shown) == before + 1


def test_one_job_alone_has_one_bar(output: Output, clock: ManualClock) -> None:
    with NotebookProgress(clock) as notebook:
        notebook.start("a", 1, 1)
        assert last(output)["text/html"].count("<progress") == 1


def test_names_and_notes_are_escaped(output: Output, clock: ManualClock) -> None:
    with NotebookProgress(clock) as notebook:
        notebook.start("<script>", 1, 1)
        notebook.update(1, 2, "<b>")
        notebook.note("<img src=x>")
    for bundle in output.shown:
        assert not any(part in bundle["text/html"] for part in ("<script>", "<b>", "<img"))
    assert "&lt;img src=x&gt;" in last(output)["text/html"] and "<img src=x>" in last(output)["text/plain"]


def test_only_the_last_lines_stay(output: Output, clock: ManualClock) -> None:
    with NotebookProgress(clock) as notebook:
        for i in range(KEPT_LINES + 3):
            notebook.note(f"note {i}")
    lines = last(output)["text/plain"].splitlines()
    assert lines[0] == "(3 lines before)" and lines[1] == "note 3" and lines[-1] == f"note {KEPT_LINES + 2}"


def test_an_error_leaves_no_bar(output: Output, clock: ManualClock) -> None:
    with pytest.raises(ValueError), NotebookProgress(clock) as notebook:
        notebook.start("a", 1, 1)
        raise ValueError
    assert "<progress" not in last(output)["text/html"]


def test_where_it_is_shown(monkeypatch: pytest.MonkeyPatch, output: Output) -> None:
    own: Any = SilentProgress()
    with show_progress(own) as progress:
        assert progress is own
    for silent in (False, None):
        with show_progress(silent) as progress:
            assert isinstance(progress, SilentProgress)
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    with show_progress(True) as progress:
        assert isinstance(progress, ProgressLines)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not in_notebook(), "IPython in a terminal has no kernel"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    with show_progress(True) as progress:
        assert isinstance(progress, NotebookProgress)
