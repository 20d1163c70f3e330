"""Shows the progress of a run: as bars with the time left on a terminal or in a notebook, else as lines for a log file.

Stages call the protocol `Progress` and know nothing of terminals.
"""

from __future__ import annotations

import contextlib
import functools
import html
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from rbench.system.console import console, harmless, is_terminal, tell

Thing = TypeVar("Thing")

EVERY = 30.0
"""Minimal number of seconds between two lines of one job."""
REFRESH_SECONDS = 0.2
"""Minimal number of seconds between two changes of a notebook's output while a job is under way."""
KEPT_LINES = 20
"""Lines that stay below the bars in a notebook: endings of jobs, and notes."""


class Progress(Protocol):
    """Receives the progress of a run, in the thread of the run.

    For each job the calls are `start`, then any number of `update`, then `finish`. `note` may come at any time.
    """

    def start(self, name: str, index: int, count: int) -> None:
        """Begin job `name`, which is number `index` (from 1) of `count` jobs."""

    def update(self, done: int, total: int, text: str = "") -> None:
        """Report that `done` of the current job's `total` steps are done. `text` is the latest finding, a few words."""

    def finish(self, status: str) -> None:
        """End the current job. `status` is `complete`, `failed` or the result in a few words."""

    def note(self, text: str) -> None:
        """Show a message on a line of its own."""


def count_steps(progress: Callable[[int, int, str], None], total: int, text: str = "") -> Callable[[int], None]:
    """Return what is told how many more of `total` are done. It tells `progress` of all that are done, with a text."""
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        progress(done, total, text)

    return count


class SilentProgress:
    """A `Progress` that shows nothing."""

    def start(self, name: str, index: int, count: int) -> None:
        pass

    def update(self, done: int, total: int, text: str = "") -> None:
        pass

    def finish(self, status: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@contextlib.contextmanager
def show_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what receives the progress of the work inside the block.

    Args:
        progress: True: an output of the cell in a notebook, bars on a terminal, and elsewhere a few lines on standard
            error. False or None: nothing is shown. Otherwise it is the receiver itself.
    """
    if not isinstance(progress, bool) and progress is not None:
        yield progress
    elif not progress:
        yield SilentProgress()
    elif in_notebook():
        with NotebookProgress() as notebook:
            yield notebook
    else:
        with watching(quiet=False) as bars:
            yield bars


@contextlib.contextmanager
def watching(quiet: bool) -> Iterator[Progress]:
    """Show progress on standard error inside the block: bars on a terminal, else lines; nothing where it is `quiet`."""
    if quiet:
        yield SilentProgress()
    elif is_terminal(stderr=True):
        bars = ProgressBars(console(stderr=True))
        with bars.display:
            yield bars
    else:
        yield ProgressLines()


@contextlib.contextmanager
def track_items(name: str) -> Iterator[Callable[[Sequence[Thing]], Iterable[Thing]]]:
    """Show progress on standard error over many things other than jobs. Yields `track`: `for thing in track(things)`.

    A terminal shows a bar that disappears at the end. Elsewhere a line is printed at most every `LOOK_EVERY` seconds.
    """
    if is_terminal(stderr=True):
        bars = ProgressBars(console(stderr=True))
        bars.start(name, 1, 1)
        with bars.display:
            yield functools.partial(_report_steps, bars.update)
    else:
        lines = ProgressLines()
        lines.begin(name)
        yield functools.partial(_report_steps, lines.update)


def _report_steps(update: Callable[[int, int], None], things: Sequence[Thing]) -> Iterator[Thing]:
    for done, thing in enumerate(things):
        update(done, len(things))
        yield thing


class ProgressBars:
    """Shows a bar for the whole run and one for the current job, both with the time left. Notes appear above them."""

    def __init__(self, on: Console) -> None:
        self.display = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[text]}", style="dim"),
            console=on,
            transient=True,
        )
        self.all = self.display.add_task("all jobs", total=None, text="", visible=False)
        self.job = self.display.add_task("", total=None, text="", visible=False)
        self.name, self.before, self.started, self.text = "", 0, 0.0, ""

    def start(self, name: str, index: int, count: int) -> None:
        self.name, self.before, self.started, self.text = name, index - 1, time.monotonic(), ""
        self.display.update(self.all, total=count, completed=index - 1, visible=count > 1)
        self.display.reset(self.job, total=None, description=escape(harmless(name)), text="", visible=True)

    def update(self, done: int, total: int, text: str = "") -> None:
        self.text = text or self.text
        self.display.update(self.job, completed=done, total=total, text=escape(harmless(self.text)))
        self.display.update(self.all, completed=self.before + min(done / max(total, 1), 1))

    def finish(self, status: str) -> None:
        self.display.update(self.all, completed=self.before + 1)
        self.display.update(self.job, visible=False)
        self.note(ending_line(self.name, status, time.monotonic() - self.started, self.text))

    def note(self, text: str) -> None:
        self.display.console.print(Text(harmless(text)))


class ProgressLines:
    """Prints a line when a job starts, one when it ends, and between them at most one every `LOOK_EVERY` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.name, self.text = "", ""
        self.started = self.told = 0.0
        self.pace = StepPace(clock)

    def start(self, name: str, index: int, count: int) -> None:
        self.begin(f"[{index}/{count}] {name}")
        tell(f"{self.name}: started")

    def begin(self, name: str) -> None:
        """Set the name that the next lines begin with. Prints nothing."""
        self.name, self.text = name, ""
        self.pace.restart()
        self.started = self.told = self.clock()

    def update(self, done: int, total: int, text: str = "") -> None:
        now = self.clock()
        self.text = text or self.text
        self.pace.update(done)
        if now - self.told < EVERY:
            return
        self.told = now
        seconds = self.pace.left(done, total)
        left = f", {format_duration(seconds)} left" if seconds is not None else ""
        finding = f", {self.text}" if self.text else ""
        tell(f"{self.name}: {done}/{total}{left}{finding}")

    def finish(self, status: str) -> None:
        tell(ending_line(self.name, status, self.clock() - self.started, self.text))

    def note(self, text: str) -> None:
        tell(text)


def ending_line(name: str, status: str, seconds: float, text: str) -> str:
    """Return the line that a job leaves when it ends: its status, its time and its last finding."""
    return f"{name}: {status} in {format_duration(seconds)}" + (f", {text}" if text else "")


def format_duration(seconds: float) -> str:
    """Format seconds for people: `8 s`, `3 min`, `2 h 05 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


PACE_WINDOW = 300.0
"""Seconds that the pace is taken over. Steps that differ, such as texts under attack, are evened out within it."""
_APART = 5.0
"""Least number of seconds between two points that are kept."""


class StepPace:
    """Keeps when which steps were done. A resumed job begins at a step above 0, and only steps done now count.

    Nor does the first step, if it is told alone: libraries and models are loaded before it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points: deque[tuple[int, float]] = deque()
        self._begun = False

    def restart(self) -> None:
        """Forget what was done: another job begins."""
        self._points.clear()
        self._begun = False

    def update(self, done: int) -> None:
        """Say how many steps are done now."""
        now = self._clock()
        if self._points and not self._begun and done > self._points[0][0]:
            self._begun = True
            # Loading libraries and models took most of the first step: the pace is counted from its end.
            if done == self._points[0][0] + 1:
                self._points = deque([(done, now)])
        if not self._points or now - self._points[-1][1] >= _APART:
            self._points.append((done, now))
        while len(self._points) > 1 and now - self._points[1][1] >= PACE_WINDOW:
            self._points.popleft()

    def left(self, done: int, total: int) -> float | None:
        """Return the seconds until `total` steps are done; None where no step was done since the first update."""
        if not self._points or done <= self._points[0][0]:
            return None
        first, since = self._points[0]
        return (self._clock() - since) / (done - first) * (total - done)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (Jupyter, Colab, VS Code). Imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """A `Progress` in the output of a notebook's cell: a bar for all jobs, one for the current job, and the last lines.

    The output changes in place, without ipywidgets. At the end of the context the bars go, and the lines stay.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.name, self.text = "", ""
        self.index = self.count = self.done = self.total = 0
        self.started = self.shown = 0.0
        self.pace = StepPace(clock)
        self.lines: list[str] = []
        self._output: Any = None

    def __enter__(self) -> Self:
        from IPython.display import display

        # tqdm warns of this when libraries import it, and rbench shows its progress without widgets.
        warnings.filterwarnings("ignore", message="IProgress not found")
        self._output = display(self._render(), raw=True, display_id=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.name = ""
        self._show()

    def start(self, name: str, index: int, count: int) -> None:
        self.name, self.text, self.index, self.count = name, "", index, count
        self.done = self.total = 0
        self.pace.restart()
        self.started = self.clock()
        self._show()

    def update(self, done: int, total: int, text: str = "") -> None:
        now = self.clock()
        self.done, self.total, self.text = done, total, text or self.text
        self.pace.update(done)
        if now - self.shown >= REFRESH_SECONDS:
            self._show()

    def finish(self, status: str) -> None:
        line = ending_line(self.name, status, self.clock() - self.started, self.text)
        self.name = ""
        self.note(line)

    def note(self, text: str) -> None:
        self.lines.append(text)
        self._show()

    def _show(self) -> None:
        self.shown = self.clock()
        self._output.update(self._render(), raw=True)

    def _render(self) -> dict[str, str]:
        """Return the output as HTML, and as plain text for front ends without it."""
        gone = len(self.lines) - KEPT_LINES
        lines = [*([f"({gone} lines before)"] if gone > 0 else []), *self.lines[-KEPT_LINES:]]
        bars = self._bars() if self.name else []
        shown = "".join(
            f'<div><progress max="{max(total, 1)}" value="{done}"></progress> {html.escape(harmless(text))}</div>'
            for done, total, text in bars
        )
        shown += "".join(f'<div style="white-space: pre-wrap">{html.escape(harmless(line))}</div>' for line in lines)
        plain = "\n".join([*(text for _, _, text in bars), *lines])
        return {"text/html": f'<div class="rbench-progress">{shown}</div>', "text/plain": plain or "..."}

    def _bars(self) -> list[tuple[int, int, str]]:
        """Return the bars: steps done, all steps, and the text beside them."""
        parts = [f"{self.name}: {self.done}/{self.total}" if self.total else self.name]
        if (left := self.pace.left(self.done, self.total)) is not None:
            parts.append(f"{format_duration(left)} left")
        parts += [self.text] if self.text else []
        job = (self.done, self.total, ", ".join(parts))
        before = self.index - 1
        return [job] if self.count < 2 else [(before, self.count, f"all jobs: {before}/{self.count}"), job]
