"""Shows the progress of a call from Python: in a notebook one cell output that changes in place, without ipywidgets."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, Self

from rbench.progress import Progress, Silent
from rbench.progress.bars import Pace, duration, ending, watching
from rbench.system.console import harmless

EVERY = 0.2
"""Minimal number of seconds between two changes of the output while a job is under way."""
KEPT = 20
"""Lines that stay below the bars: endings of jobs, and notes."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook (Jupyter, Colab, VS Code). Imports nothing."""

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Notebook:
    """A `Progress` in the output of a notebook's cell: a bar for all jobs, one for the current job, and the last lines.

    Use it as a context manager: at its end the bars go, and the lines stay.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.name, self.text = "", ""
        self.index = self.count = self.done = self.total = 0
        self.started = self.shown = 0.0
        self.pace = Pace(clock)
        self.lines: list[str] = []
        self._output: Any = None

    def __enter__(self) -> Self:
        from IPython.display import display

        # tqdm warns of this when libraries import it, and rbench shows its progress without widgets.
        warnings.filterwarnings("ignore", message="IProgress not found")
        self._output = display(self._bundle(), raw=True, display_id=True)
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
        if now - self.shown >= EVERY:
            self._show()

    def finish(self, status: str) -> None:
        line = ending(self.name, status, self.clock() - self.started, self.text)
        self.name = ""
        self.note(line)

    def note(self, text: str) -> None:
        self.lines.append(text)
        self._show()

    def _show(self) -> None:
        self.shown = self.clock()
        self._output.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        """Return the output as HTML, and as plain text for front ends without it."""
        gone = len(self.lines) - KEPT
        lines = [*([f"({gone} lines before)"] if gone > 0 else []), *self.lines[-KEPT:]]
        bars = self._bars() if self.name else []
        html = "".join(
            f'<div><progress max="{max(total, 1)}" value="{done}"></progress> {escape(harmless(text))}</div>'
            for done, total, text in bars
        )
        html += "".join(f'<div style="white-space: pre-wrap">{escape(harmless(line))}</div>' for line in lines)
        plain = "\n".join([*(text for _, _, text in bars), *lines])
        return {"text/html": f'<div class="rbench-progress">{html}</div>', "text/plain": plain or "..."}

    def _bars(self) -> list[tuple[int, int, str]]:
        """Return the bars: steps done, all steps, and the text beside them."""
        said = [f"{self.name}: {self.done}/{self.total}" if self.total else self.name]
        if (left := self.pace.left(self.done, self.total)) is not None:
            said.append(f"{duration(left)} left")
        said += [self.text] if self.text else []
        job = (self.done, self.total, ", ".join(said))
        before = self.index - 1
        return [job] if self.count < 2 else [(before, self.count, f"all jobs: {before}/{self.count}"), job]


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what receives the progress of the work inside the block.

    Args:
        progress: True: an output of the cell in a notebook, bars on a terminal, and elsewhere a few lines on standard
            error. False or None: nothing is shown. Otherwise it is the receiver itself.
    """
    if not isinstance(progress, bool) and progress is not None:
        yield progress
    elif not progress:
        yield Silent()
    elif in_notebook():
        with Notebook() as notebook:
            yield notebook
    else:
        with watching(quiet=False) as bars:
            yield bars
