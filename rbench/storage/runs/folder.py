"""Move a RUN aside instead of deleting it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import get_args

from rbench.spec import Stage
from rbench.storage.runs import files
from rbench.system.below import Below

PROCESSES = ".processes"
"""The folder in which the processes that run here say so (`rbench.storage.team`). It is no result."""
_PLAN = "plan.json"
_MADE = ("tables", "figures", "logs", "report.html", "report.parquet")
"""What is made of a RUN's results, beside its plan and the folders of its stages."""


class RunFolder:
    """The folder `root`. It is created when something is written."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def set_aside(self) -> Path | None:
        """Move the RUN to `<run>.<timestamp>` beside it and return that; None if there is none.

        Where the RUN is a mount point, that folder is made inside it. Things that rbench did not write stay where they
        are, for a RUN may lie in a folder with others. No other process may run in the folder. Never deletes.

        Raises StoreError if the folder cannot be read or written.
        """
        with files.as_store_error(self.root):
            below = Below(self.root)
            entries = below.entries(self.root)
            stages = [one.path for one in entries if one.path.name in get_args(Stage) and one.kind == "folder"]
            results = [path.name for path in stages if any(_results(below, path))]
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


def _results(below: Below, stage: Path) -> Iterator[Path]:
    """Yield the files of results in the folder of a stage. A folder build/ of a user's project has none."""
    for path in below.files(stage):
        if path.name == "record.json" or (path.name.startswith("outcomes") and path.suffix == ".jsonl"):
            yield path
