"""Reads the rows of tasks and sets once, for the plan and for all jobs of its run.

Rows stay in memory and are reused while the content of their files is unchanged. So a run reads each file once, and
still sees a file that was replaced after planning. Generated rows never change. Rows from the hub belong to the commit
that was resolved when they were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rbench.schema import AskedSet, ContrastSpec, TaskSpec
from rbench.system import digests
from rbench.system.one_slot_cache import OneSlotCache

if TYPE_CHECKING:
    from rbench.tasks import SetData, TaskData

ValueT = TypeVar("ValueT")


class RowCache:
    """Reads the rows of each task and set, and keeps them.

    Args:
        data_path: data folders, searched first to last.
    """

    def __init__(self, data_path: Sequence[Path]) -> None:
        self._path = tuple(data_path)
        self._tasks: dict[str, OneSlotCache[TaskData]] = defaultdict(OneSlotCache)
        self._sets: dict[str, OneSlotCache[SetData]] = defaultdict(OneSlotCache)

    def task(self, spec: TaskSpec, sets: Sequence[SetData] = ()) -> TaskData:
        """Return the rows of a task, without those that the sets keep out of training and validation.

        Raises:
            ResourceError: there are no rows, or they cannot be read (`rbench.tasks.open_task`).
        """
        from rbench.tasks import open_task
        from rbench.tasks.data import list_task_files

        def sources() -> list[Path]:
            set_files = (path for set_data in sets for path in set_data.files if path.is_file())
            return [*list_task_files(spec, self._path), *set_files]

        reserved = [set_data.reserved for set_data in sets]
        return _while_unchanged(self._tasks[spec.name], sources, lambda: open_task(spec, self._path, reserved))

    def set(self, asked: AskedSet, task: TaskSpec) -> SetData:
        """Return the rows of a set of `task`: a contrast set, or an adversarial set in a folder.

        Raises:
            ResourceError: as `rbench.tasks.contrast.open_contrast` and `rbench.tasks.adversarial.open_set` do.
        """
        from rbench.tasks import adversarial, contrast

        spec, folder = asked.set, asked.folder
        if isinstance(spec, ContrastSpec):
            return _while_unchanged(
                self._sets[spec.name],
                lambda: contrast.find_files(spec, self._path),
                lambda: contrast.open_contrast(spec, task, self._path),
            )
        assert folder is not None
        return _while_unchanged(
            self._sets[str(folder)],
            lambda: [path for path in adversarial.set_files(folder) if path.is_file()],
            lambda: adversarial.open_set(folder, task),
        )


def _while_unchanged(
    slot: OneSlotCache[ValueT], sources: Callable[[], Iterable[Path]], read: Callable[[], ValueT]
) -> ValueT:
    """Return the slot's value if the content of its sources is unchanged, else read it again with `read`."""
    before = _content_hashes(sources())
    value = slot.get(before, read)
    if _content_hashes(sources()) != before:
        slot.clear()  # a file changed while it was read, so the content that was read is unknown
    return value


def _content_hashes(files: Iterable[Path]) -> dict[Path, str]:
    """Map files to the hashes of their content. An unchanged file is not read again (`digests`)."""
    return {path: digests.of_file(path) for path in files}
