"""What a run tells whoever watches it: which job is under way, how far it is, what it found.

The stages speak to this protocol and know nothing of terminals; the command line implements it (rbench/cli/bars.py).
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called from the run's own thread, in the order start, update ..., finish for each job; notes come at any time."""

    def start(self, name: str, index: int, count: int) -> None:
        """Job `name` begins, the `index`-th (from 1) of `count`."""

    def update(self, done: int, total: int, text: str = "") -> None:
        """`done` of the current job's `total` steps are done; `text` is its latest finding, a few words."""

    def finish(self, status: str) -> None:
        """The current job ended: `complete`, `failed` or a few words of its result."""

    def note(self, text: str) -> None:
        """Something worth a line of its own."""


class Silent:
    """A Progress that says nothing."""

    def start(self, name: str, index: int, count: int) -> None:
        pass

    def update(self, done: int, total: int, text: str = "") -> None:
        pass

    def finish(self, status: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass
