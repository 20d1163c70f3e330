"""Move a RUN aside instead of deleting it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import get_args

from rbench.errors import StoreError
from rbench.spec import Stage
from rbench.storage.runs import files
from rbench.system.below import Below

PROCESSES = ".processes"
"""The folder in which the processes that run here say so (`rbench.storage.team`). It is no result."""
_PLAN = "plan.json"
_MADE = ("tables", "figures", "logs", "report.html", "report.parquet")
"""What is made of a RUN's results, beside its plan and the folders of its stages."""
OWN = (_PLAN, PROCESSES, *_MADE)
"""All that a RUN has beside the folders of its stages."""


def folder_path(value: object) -> Path:
    """Return what a call names as a folder or file. Raises StoreError if it is no path."""
    try:
        found = Path(value)  # type: ignore[arg-type]
        if "\0" not in str(found):
            return found
    except TypeError:
        pass
    raise StoreError(f"expected the path of a RUN, the folder that `rbench run` wrote, and not {_shown(value)}")


def _shown(value: object) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."


class RunFolder:
    """The folder `root`. It is created when something is written."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def of_stages(self) -> Iterator[tuple[str, Path]]:
        """Yield the regular files in the folders of stages, each with its stage. Links are left out."""
        below = Below(self.root)
        for path, kind in below.entries(self.root):
            if kind == "folder" and path.name in get_args(Stage):
                for file in below.files(path):
                    yield path.name, file

    def foreign(self, folders: Iterable[Path]) -> Iterator[str]:
        """Say what in a RUN is neither a folder nor a regular file, with the remedy.

        A RUN may lie in a folder with other things. These are not looked at.

        Args:
            folders: the folders of its jobs.
        """
        below = Below(self.root)
        for path in (*(self.root / name for name in OWN), *folders):
            try:
                below.check(path)
            except StoreError as error:
                yield str(error)

    def set_aside(self) -> Path | None:
        """Move the RUN to `<run>.<timestamp>` beside it and return that; None if there is none.

        Where the RUN is a mount point, that folder is made inside it. Things that rbench did not write stay where they
        are, for a RUN may lie in a folder with others. No other process may run in the folder. Never deletes.

        Raises StoreError if the folder cannot be read or written.
        """
        with files.as_store_error(self.root):
            entries = Below(self.root).entries(self.root)
            results = {stage for stage, path in self.of_stages() if _is_result(path.name)}
        found = {entry.path.name for entry in entries}
        own = [_PLAN, *results, *_MADE] if _PLAN in found or results else []
        return self._moved([name for name in own if name in found]) if own else None

    def _moved(self, names: list[str]) -> Path:
        name = f"{self.root.resolve().name}.{datetime.now():%Y%m%d-%H%M%S}"
        for place in (files.beside(self.root, name), self.root / name):
            aside = files.unused(place)
            with files.as_store_error(aside):
                aside.mkdir()
                try:
                    for name in names:
                        (self.root / name).rename(aside / name)
                    return aside
                except OSError as error:
                    if error.errno != errno.EXDEV or any(aside.iterdir()):
                        raise
                    aside.rmdir()  # the RUN is a mount point: nothing can be moved out of it
        raise AssertionError("a folder lies on one file system with what it holds")


def _is_result(name: str) -> bool:
    """Whether a file of this name is a result. A folder build/ of a user's project has none."""
    return name == "record.json" or (name.startswith("outcomes") and name.endswith(".jsonl"))
