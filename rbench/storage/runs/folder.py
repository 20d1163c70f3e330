"""Lock the folder of a RUN for one process at a time, and move its contents aside instead of deleting them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import get_args

from filelock import FileLock, Timeout

from rbench.errors import StoreError
from rbench.spec import Stage
from rbench.storage.runs import files

_LOCK_FILES = {".lock", ".lock.holder"}


class RunFolder:
    """The folder `root`. It is created when it is locked or when something is written."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._lock = FileLock(self.root / ".lock", timeout=0)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other processes that would run in it. Does not wait.

        The operating system releases the lock when the process dies, for whatever reason. Readers need no lock.

        Raises StoreError if the folder is locked or cannot be written.
        """
        holder = self.root / ".lock.holder"
        with files.as_store_error(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                if self._lock.is_locked:  # the end of a nested lock would release the outer one
                    raise Timeout(self._lock.lock_file)
                self._lock.acquire()
            except Timeout:
                raise StoreError(
                    f"{self.root} is in use by {_who(holder)}. Wait for it or choose another --out."
                ) from None
        try:
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            held = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
            files.write(holder, json.dumps(held).encode() + b"\n")
            yield
        finally:
            holder.unlink(missing_ok=True)
            self._lock.release()

    @contextmanager
    def kept_still(self) -> Iterator[None]:
        """Keep other processes from running in the folder while it is copied. Writes nothing. Does not wait.

        A folder without a lock file is not locked: no process has run in it here.

        Raises StoreError if a process runs in the folder.
        """
        if not Path(self._lock.lock_file).exists():
            yield
            return
        try:
            self._lock.acquire()
        except Timeout:
            who = _who(self.root / ".lock.holder")
            raise StoreError(f"{self.root} is in use by {who}. Wait until that run has ended.") from None
        except OSError:  # the lock file cannot be opened for writing, so no process of this user runs here
            yield
            return
        try:
            yield
        finally:
            self._lock.release()

    def set_aside(self) -> Path | None:
        """Move the contents of the folder to `<run>.<timestamp>` beside it and return that; None if it is empty.

        Takes the lock unless it is held already. The lock files stay in the folder. Never deletes.

        Raises StoreError if rbench did not write the folder, or if it is locked or cannot be written.
        """
        with files.as_store_error(self.root):
            found = [path.name for path in self.root.iterdir()] if self.root.exists() else []
        contents = sorted(set(found) - _LOCK_FILES)
        if not contents:
            return None
        if not {"plan.json", *get_args(Stage)} & set(contents):
            raise StoreError(
                f"{self.root} was not written by rbench, so --fresh leaves it alone. Choose another --out."
            )
        aside = files.unused(self.root.with_name(f"{self.root.name}.{datetime.now():%Y%m%d-%H%M%S}"))
        with nullcontext() if self._lock.is_locked else self.lock(), files.as_store_error(aside):
            aside.mkdir()
            for name in contents:
                (self.root / name).rename(aside / name)
        return aside


def _who(holder: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {held['pid']} on {held['host']} since {held['since']}"
    return "another process"
