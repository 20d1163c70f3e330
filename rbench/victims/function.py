"""Asks a Python function of the user's: `module:function`, from the current folder or an installed package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbench.errors import AnswerError, JobError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.system.own_code import describe_error, failing_in
from rbench.victims.answers import AnswerClient, Text
from rbench.victims.scores import Row, ScoreReader, to_plain

# Part of the key of every job that asks a function (config/versions.py): raise it if what the function gets, or how its
# rows are read, changes.
VERSION = 1

POOLED_EXAMPLES = 64
"""Examples that are attacked at once: functions are fastest with full batches."""


def open_function(spec: VictimSpec, task: TaskSpec, folder: Path | None = None) -> AnswerClient:
    """Import the function of a victim. It is not called yet.

    The function gets a list of at most `batch_size` texts: strings, or tuples of strings where the task has several
    columns. It returns as many rows: lists, arrays or tensors of numbers in the order of the task's labels, or mappings
    from label to number, or lists of `{label: ..., score: ...}`.

    Args:
        folder: comes first on Python's path while the function is imported and called; None: the current folder.

    Raises:
        ResourceError: there is no such module or function, or its import fails. The message has the user's own line.
    """
    assert spec.function is not None
    folder = (folder or Path.cwd()).resolve()
    return wrap_function(import_function(spec.function, folder), spec, task, folder)


def wrap_function(function: Callable[[list[Any]], Any], spec: VictimSpec, task: TaskSpec, folder: Path) -> AnswerClient:
    """Wrap an imported function as an `AnswerClient`. `spec` says how; its name of the function is for messages.

    Args:
        folder: as in `open_function`.
    """
    reader = ScoreReader(task.labels, spec.labels, spec.scores, in_task_order=True)
    return AnswerClient(
        spec, task.labels, len(task.columns), _FunctionCalls(spec, function, reader, folder), POOLED_EXAMPLES
    )


class _FunctionCalls:
    def __init__(
        self, spec: VictimSpec, function: Callable[[list[Any]], Any], reader: ScoreReader, folder: Path
    ) -> None:
        self.spec, self.function, self.reader, self.folder = spec, function, reader, folder

    def __call__(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        size = self.spec.batch_size
        rows: list[Row | AnswerError] = []
        with first_on_path(self.folder):
            for start in range(0, len(texts), size):
                rows += self._batch(texts[start : start + size])
        return rows

    def _batch(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        try:
            returned = self.function([text[0] if len(text) == 1 else text for text in texts])
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # also SystemExit: it may end its example, but not the run
            if len(texts) > 1:  # one of them may be to blame
                return [row for text in texts for row in self._batch([text])]
            failed = AnswerError(f"{self.spec.function} raised {describe_error(error, self.folder)}")
            failed.__cause__ = error
            return [failed]
        return [self.reader.read_or_error(raw) for raw in self._rows(returned, len(texts))]

    def _rows(self, returned: Any, count: int) -> list[Any]:
        rows = to_plain(list(returned) if isinstance(returned, Iterator) else returned)
        if not isinstance(rows, list) or len(rows) != count:
            what = f"{len(rows)} rows" if isinstance(rows, list) else f"a {type(returned).__name__}"
            raise JobError(
                f"victim {self.spec.name}: {self.spec.function} returned {what} for {count} texts; it must return a "
                "list, array or tensor with one row of probabilities for each text that it gets"
            )
        return rows


@contextmanager
def first_on_path(folder: Path) -> Iterator[None]:
    """Put a folder first on Python's path inside the block."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def import_function(where: str, folder: Path) -> Callable[[list[Any]], Any]:
    """Import `module:function`, with a folder first on Python's path. Raises ResourceError as `open_function` does."""
    module_name, _, path = where.partition(":")
    remedy = f"It is imported from {folder}, or from an installed package"
    # A script without a `__main__` guard may exit.
    with first_on_path(folder), failing_in(where, remedy=remedy, also=(SystemExit,)):
        importlib.invalidate_caches()
        attribute: Any = importlib.import_module(module_name)
        for name in path.split("."):
            attribute = getattr(attribute, name)
    function: Callable[[list[Any]], Any] = attribute
    return function
