"""The interface through which a run reports its progress: the current job, the steps done, and findings.

Stages call this protocol and know nothing of terminals. `bars` implements it for terminals and log files, `notebook`
for notebooks, and chooses.
"""

from __future__ import annotations

from typing import Protocol


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


class Silent:
    """A `Progress` that shows nothing."""

    def start(self, name: str, index: int, count: int) -> None:
        pass

    def update(self, done: int, total: int, text: str = "") -> None:
        pass

    def finish(self, status: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass
