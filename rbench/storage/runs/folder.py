"""Move the contents of a RUN aside instead of deleting them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import get_args

from rbench.errors import StoreError
from rbench.spec import Stage
from rbench.storage.runs import files

PROCESSES = ".processes"
"""The folder in which the processes that run here say so (`rbench.storage.team`). It is no result."""
_OF_EARLIER_VERSIONS = {".lock", ".lock.holder"}


class RunFolder:
    """The folder `root`. It is created when something is written."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def set_aside(self) -> Path | None:
        """Move the contents of the folder to `<run>.<timestamp>` beside it and return that; None if it is empty.

        No other process may run in the folder. Never deletes.

        Raises StoreError if rbench did not write the folder, or if it cannot be written.
        """
        with files.as_store_error(self.root):
            found = [path.name for path in self.root.iterdir()] if self.root.exists() else []
        contents = sorted(set(found) - {PROCESSES} - _OF_EARLIER_VERSIONS)
        if not contents:
            return None
        if not {"plan.json", *get_args(Stage)} & set(contents):
            raise StoreError(
                f"{self.root} was not written by rbench, so --fresh leaves it alone. Choose another --out."
            )
        name = f"{self.root.resolve().name}.{datetime.now():%Y%m%d-%H%M%S}"
        aside = files.unused(files.beside(self.root, name))
        with files.as_store_error(aside):
            aside.mkdir()
            for name in contents:
                (self.root / name).rename(aside / name)
        return aside
