"""Reads the rows of tasks and contrast sets once, for the plan and for all jobs of its run.

Rows stay in memory and are reused while the content of their files is unchanged. So a run reads each file once, and
still sees a file that was replaced after planning. Generated rows never change. Rows from the hub belong to the commit
that was resolved when they were read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rbench.spec import ContrastSpec, TaskSpec
from rbench.system import digests
from rbench.system.one_slot_cache import OneSlotCache

if TYPE_CHECKING:
    from rbench.tasks import ContrastData, TaskData
    from rbench.tasks.adversarial import AdversarialData

T = TypeVar("T")


class Rows:
    """Reads the rows of each task and contrast set, and keeps them.

    Args:
        data_path: data folders, searched first to last.
    """

    def __init__(self, data_path: Sequence[Path]) -> None:
        self._path = tuple(data_path)
        self._tasks: dict[str, OneSlotCache[TaskData]] = defaultdict(OneSlotCache)
        self._sets: dict[str, OneSlotCache[ContrastData]] = defaultdict(OneSlotCache)
        self._adversarial: dict[Path, OneSlotCache[AdversarialData]] = defaultdict(OneSlotCache)

    def task(
        self, spec: TaskSpec, sets: Sequence[ContrastData] = (), adversarial: Sequence[AdversarialData] = ()
    ) -> TaskData:
        """Return the rows of a task, without those that the sets keep out of training and validation.

        Raises:
            ResourceError: there are no rows, or they cannot be read (`rbench.tasks.open_task`).
        """
        from rbench.tasks import files, open_task

        def sources() -> list[Path]:
            own = files.of_task(spec, self._path)
            own += [path for one in sets for path in files.of_contrast(one.spec, self._path)]
            return own + [path for one in adversarial for path in one.files]

        reserved = [*(one.reserved for one in sets), *(one.reserved for one in adversarial)]
        return _while_unchanged(self._tasks[spec.name], sources, lambda: open_task(spec, self._path, reserved))

    def contrast(self, spec: ContrastSpec, task: TaskSpec) -> ContrastData:
        """Return the bundles of a contrast set of `task`. Raises ResourceError as `rbench.tasks.open_contrast` does."""
        from rbench.tasks import files, open_contrast

        return _while_unchanged(
            self._sets[spec.name],
            lambda: files.of_contrast(spec, self._path),
            lambda: open_contrast(spec, task, self._path),
        )

    def adversarial(self, folder: Path, task: TaskSpec) -> AdversarialData:
        """Return the adversarial set in a folder. Raises ResourceError as `rbench.tasks.adversarial.open_set` does."""
        from rbench.tasks import adversarial

        return _while_unchanged(
            self._adversarial[folder],
            lambda: [path for path in adversarial.files_of(folder) if path.is_file()],
            lambda: adversarial.open_set(folder, task),
        )


def _while_unchanged(slot: OneSlotCache[T], sources: Callable[[], Iterable[Path]], read: Callable[[], T]) -> T:
    """Return the slot's value if the content of its sources is unchanged, else read it again with `read`."""
    before = _contents(sources())
    found = slot.get(before, read)
    if _contents(sources()) != before:
        slot.clear()  # a file changed while it was read, so the content that was read is unknown
    return found


def _contents(files: Iterable[Path]) -> dict[Path, str]:
    """Map files to the hashes of their content. An unchanged file is not read again (`digests`)."""
    return {path: digests.of_file(path) for path in files}
