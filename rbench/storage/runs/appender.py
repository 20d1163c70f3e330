"""Append lines to a file of one writer. Each line is written at once, and lines are synced to the disk in groups.

A process that is killed loses no line. If the machine fails, at most the last group is lost; its examples are attacked
again. A sync for each line would cost 8% of the time of an attack on a GPU, and more on network disks.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from rbench.storage.runs import files
from rbench.system.below import Below

GROUP = 32
"""Most lines that are not synced yet."""
DELAY = 0.25
"""Most seconds that a line waits for its sync."""


class Appender:
    """Appends to `path` in the folder `below`, which no other process writes. The file is made with the first line.

    All methods raise StoreError if the file cannot be written; `append` also for a sync that failed meanwhile.
    """

    def __init__(self, path: Path, below: Below) -> None:
        self.path, self._below = path, below
        self._handle: int | None = None
        self._waiting = 0
        self._failed: OSError | None = None
        self._lock = threading.Lock()
        self._first, self._closed = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def append(self, line: bytes) -> None:
        """Add a line (without its newline). Readers see it when this returns. An incomplete last line is cut off."""
        with files.as_store_error(self.path):
            if self._failed is not None:
                raise self._failed
            if self._handle is None:
                self._open()
            self._write(line + b"\n")
            with self._lock:
                self._waiting += 1
                full = self._waiting >= GROUP
            if full:
                self._sync()
            else:
                self._first.set()

    def close(self) -> None:
        """Sync what waits, and close the file."""
        self._closed.set()
        self._first.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._handle is not None:
            with files.as_store_error(self.path):
                try:
                    self._sync()
                finally:
                    os.close(self._handle)
                    self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        self._handle = self._below.append(self.path)
        files.cut_torn_line(self._handle)
        self._thread = threading.Thread(target=self._sync_later, name="rbench sync", daemon=True)
        self._thread.start()

    def _write(self, content: bytes) -> None:
        """Write all of a line. If a part of it is all that fits on the disk, take that part back."""
        assert self._handle is not None
        end = os.fstat(self._handle).st_size
        try:
            written = 0
            while written < len(content):
                written += os.write(self._handle, content[written:])
        except OSError:
            os.ftruncate(self._handle, end)
            raise

    def _sync(self) -> None:
        with self._lock:
            if self._waiting and self._handle is not None:
                os.fsync(self._handle)
                self._waiting = 0

    def _sync_later(self) -> None:
        while True:
            self._first.wait()
            self._first.clear()
            if self._closed.wait(DELAY):
                return
            try:
                self._sync()
            except OSError as error:
                self._failed = error
                return
