"""Asks a Python function of the user's: `module:function`, from the current folder or an installed package."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rbench.errors import AnswerError, JobError, ResourceError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.system.own_code import told
from rbench.victims.answers import Answers, Text
from rbench.victims.scores import Reader, Row, plain

VERSION = 1

POOLED = 64
"""Examples that are attacked at once: functions are fastest with full batches."""


def open_function(spec: VictimSpec, task: TaskSpec, folder: Path | None = None) -> Answers:
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
    return answers_of(imported(spec.function, folder), spec, task, folder)


def answers_of(function: Callable[[list[Any]], Any], spec: VictimSpec, task: TaskSpec, folder: Path) -> Answers:
    """Return what asks a function that is there. `spec` says how; its name of the function is for messages.

    Args:
        folder: as in `open_function`.
    """
    reader = Reader(task.labels, spec.labels, spec.scores, in_task_order=True)
    return Answers(spec, task.labels, len(task.columns), _Called(spec, function, reader, folder), POOLED)


class _Called:
    def __init__(self, spec: VictimSpec, function: Callable[[list[Any]], Any], reader: Reader, folder: Path) -> None:
        self.spec, self.function, self.reader, self.folder = spec, function, reader, folder

    def __call__(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        size = self.spec.batch_size
        rows: list[Row | AnswerError] = []
        with importable(self.folder):
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
            failed = AnswerError(f"{self.spec.function} raised {told(error, self.folder)}")
            failed.__cause__ = error
            return [failed]
        return [self.reader.tried(raw) for raw in self._rows(returned, len(texts))]

    def _rows(self, returned: Any, count: int) -> list[Any]:
        rows = plain(list(returned) if isinstance(returned, Iterator) else returned)
        if not isinstance(rows, list) or len(rows) != count:
            what = f"{len(rows)} rows" if isinstance(rows, list) else f"a {type(returned).__name__}"
            raise JobError(
                f"victim {self.spec.name}: {self.spec.function} returned {what} for {count} texts; it must return a "
                "list, array or tensor with one row of probabilities for each text that it gets"
            )
        return rows


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Put a folder first on Python's path inside the block."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def imported(where: str, folder: Path) -> Callable[[list[Any]], Any]:
    """Import `module:function`, with a folder first on Python's path. Raises ResourceError as `open_function` does."""
    module_name, colon, path = where.partition(":")
    if not (colon and path and all(part.isidentifier() for part in module_name.split("."))):
        raise ResourceError(f"{where!r} is not `module:function`, such as `predict:probabilities`")
    with importable(folder):
        module = _module(where, module_name, folder)
    _refuse_another(module_name, module, folder)
    try:
        function = functools.reduce(getattr, path.split("."), module)
    except AttributeError:
        callables = sorted(name for name, value in vars(module).items() if callable(value) and name[0] != "_")
        there = f"; it has {', '.join(callables[:10])}" if callables else ""
        raise ResourceError(f"{module.__file__} has no function {path}{there}") from None
    if not callable(function):
        raise ResourceError(f"{where} is a {type(function).__name__}, not a function that takes a list of texts")
    return function  # type: ignore[no-any-return]


def _module(where: str, name: str, folder: Path) -> Any:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ResourceError(
                f"there is no module {name} for {where}, neither in {folder} nor installed; run rbench in the folder "
                f"of {name.partition('.')[0]}.py"
            ) from None
        raise ResourceError(f"{where} cannot be imported: {told(error, folder)}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, from a script without a `__main__` guard
        raise ResourceError(f"{where} cannot be imported: {told(error, folder)}") from error


def _refuse_another(name: str, module: Any, folder: Path) -> None:
    """Refuse a module that was imported before under the name of the user's file."""
    mine = folder.joinpath(*name.split("."))
    wanted = next((file for file in (mine.with_suffix(".py"), mine / "__init__.py") if file.is_file()), None)
    if wanted is not None and Path(getattr(module, "__file__", None) or "").resolve() != wanted.resolve():
        raise ResourceError(f"{wanted} has the name of another module, {name}; rename the file")
