"""The rows of tasks and contrast sets: read once, for the plan and for all jobs of its run.

Rows that are in memory are handed out again while the files that they come from have the contents that they had. So a
run reads each file once, and still sees a file that was exchanged after planning. Rows that are generated never change,
and those of the hub are of the commit that was resolved when they were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rbench.spec import ContrastSpec, TaskSpec
from rbench.system import digests
from rbench.system.slot import Slot

if TYPE_CHECKING:
    from rbench.tasks import ContrastData, TaskData

T = TypeVar("T")


class Rows:
    """Reads rows, and holds those of each task and contrast set.

    Args:
        data_path: data folders, searched first to last.
    """

    def __init__(self, data_path: Sequence[Path]) -> None:
        self._path = tuple(data_path)
        self._tasks: dict[str, Slot[TaskData]] = defaultdict(Slot)
        self._sets: dict[str, Slot[ContrastData]] = defaultdict(Slot)

    def task(self, spec: TaskSpec, sets: Sequence[ContrastData] = ()) -> TaskData:
        """The rows of a task, without those that contrast `sets` keep out of training and validation.

        Raises:
            ResourceError: there are none, or they cannot be read (`rbench.tasks.open_task`).
        """
        from rbench.tasks import files, open_task

        def sources() -> list[Path]:
            own = files.of_task(spec, self._path)
            return own + [path for one in sets for path in files.of_contrast(one.spec, self._path)]

        reserved = [one.reserved for one in sets]
        return _while_unchanged(self._tasks[spec.name], sources, lambda: open_task(spec, self._path, reserved))

    def contrast(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """The bundles of a contrast set of `task`; ResourceError as `rbench.tasks.open_contrast`."""
        from rbench.tasks import files, open_contrast

        return _while_unchanged(
            self._sets[spec.name],
            lambda: files.of_contrast(spec, self._path),
            lambda: open_contrast(spec, task, self._path),
        )


def _while_unchanged(slot: Slot[T], sources: Callable[[], Iterable[Path]], read: Callable[[], T]) -> T:
    """What the slot holds while its sources have the contents that it was read from, else what `read` returns."""
    before = _contents(sources())
    found = slot.get(before, read)
    if _contents(sources()) != before:
        slot.clear()  # a file changed while it was read: what was read is of no known content
    return found


def _contents(files: Iterable[Path]) -> dict[Path, str]:
    """The files with the hashes of their contents, which cost nothing while the file system says that they are old."""
    return {path: digests.of_file(path) for path in files}
