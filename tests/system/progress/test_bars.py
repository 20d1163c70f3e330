"""Progress: lines are few and say the time left; bars live on a terminal only."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rbench.system import progress as module
from rbench.system.progress import ProgressBars, ProgressLines, SilentProgress, format_duration, track_items, watching
from tests.clock import ManualClock


def test_lines_at_start_and_end_and_one_each_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    lines = ProgressLines(clock)
    lines.start("attack/x", 2, 5)
    lines.update(50, 200)  # a resumed job: only what is done from now on tells its speed
    for done in range(51, 101):
        clock.now += 1
        lines.update(done, 200, f"ASR {done}%")
    lines.finish("complete")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "[2/5] attack/x: started",
        "[2/5] attack/x: 80/200, 2 min left, ASR 80%",
        "[2/5] attack/x: complete in 50 s, ASR 100%",
    ]


def test_each_job_starts_its_own_half_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    lines = ProgressLines(clock)
    for index in (1, 2):
        lines.start(f"job{index}", index, 2)
        clock.now += 20
        lines.update(1, 2)
        lines.finish("failed")
    lines.note("a note")
    assert capsys.readouterr().err.splitlines() == [
        "[1/2] job1: started",
        "[1/2] job1: failed in 20 s",
        "[2/2] job2: started",
        "[2/2] job2: failed in 20 s",
        "a note",
    ]


def test_tracking_yields_everything_and_says_little(capsys: pytest.CaptureFixture[str]) -> None:
    with track_items("reading") as track:
        assert list(track(["a", "b"])) == ["a", "b"]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_tracking_is_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(module, "is_terminal", lambda stderr=False: True)
    monkeypatch.setattr(
        module, "console", lambda stderr=False: Console(file=file, force_terminal=True, width=140, color_system=None)
    )
    with track_items("reading") as track:
        assert list(track(range(3))) == [0, 1, 2]
    assert "reading" in file.getvalue() and "2/3" in file.getvalue() and "\n" not in file.getvalue().rstrip()[-1:]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (8.4, "8 s"),
        (99, "99 s"),
        (100, "2 min"),
        (3599, "60 min"),
        (7500, "2 h 05 min"),
        (90000, "25 h 00 min"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_bars_show_job_and_run_and_leave_a_line_a_job() -> None:
    file = io.StringIO()
    shown = ProgressBars(Console(file=file, force_terminal=True, width=140, color_system=None))
    with shown.display:
        for index in (1, 2):
            shown.start(f"attack/[x]{index}", index, 2)
            shown.update(30, 100, "ASR [50%]")
            shown.display.refresh()
            shown.finish("complete")
        shown.note("[note]\x1b[2J")
    text = file.getvalue()
    assert "30/100" in text
    assert "1/2" in text
    assert "attack/[x]1: complete in 0 s, ASR [50%]" in text
    assert "[note]\\x1b[2J" in text


def test_how_one_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    with watching(quiet=True) as progress:
        assert isinstance(progress, SilentProgress)
    with watching(quiet=False) as progress:
        assert isinstance(progress, ProgressLines)
    monkeypatch.setattr(module, "is_terminal", lambda stderr=False: True)
    monkeypatch.setattr(module, "console", lambda stderr=False: Console(file=io.StringIO(), force_terminal=True))
    with watching(quiet=False) as progress:
        assert isinstance(progress, ProgressBars)
