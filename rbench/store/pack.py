"""Write a RUN as one file that can be sent, and as a folder again: `rbench pack`, with and without `--unpack`.

`runs.packed` has the layout. The same RUN gives the same bytes with the same zlib, whenever it is packed.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic_core import to_json

import rbench
from rbench.errors import StoreError
from rbench.schema import Plan
from rbench.store.multi_run import check_inputs, check_out
from rbench.store.runs import Store, files
from rbench.store.runs.packed import (
    ALWAYS,
    CHECKSUMS,
    COLUMNS,
    DERIVED,
    RECORDS,
    SHARED,
    Content,
    Packed,
    fits,
    jobs_of,
    record_line,
    record_of,
    to_columns,
)
from rbench.store.runs.reader import FILES, JUDGED, LOGS, PLAN
from rbench.store.runs.store import folder_path
from rbench.system.below import Below

_LEAST_SHARED = 256
"""Fewest bytes of values that are stored once for several files."""
_LEFT_OUT = {*DERIVED, LOGS}
"""What follows from a RUN's results, and what nobody needs who only reads them."""


@dataclass(frozen=True)
class PackedRun:
    """What was packed or unpacked."""

    path: Path
    """The new file or folder."""
    files: int
    size: int
    """Bytes of all files of the RUN."""
    left_out: tuple[str, ...] = ()
    """The names of folders and files of the RUN that are not in the packed one."""


def pack(run: Path | str, out: Path | str | None = None) -> PackedRun:
    """Write a RUN as one file, `out` or RUN.zip beside it. The file has its name once it is complete.

    All verbs that read a RUN read the file. The RUN is verified first, and not changed. Call `rbench.api.pack`, which
    also checks that no process runs in it.

    Raises:
        StoreError: `run` is no RUN, or something in it is damaged; `out` is there, or lies in the RUN.
    """
    store = Store(run := folder_path(run))
    if isinstance(store.opened(), Packed):
        raise StoreError(f"{run} is packed already. To write its folder: rbench pack {run} --unpack")
    out = folder_path(out) if out is not None else files.beside(run, f"{run.resolve().name}.zip")
    check_out(out, [store])
    check_inputs([store], "packed")
    plan = store.plan()
    assert plan is not None
    partial = files.beside(out, f".{out.name}.{secrets.token_hex(4)}.tmp")
    beside = Below(out.parent)
    try:
        with files.as_store_error(out):
            with os.fdopen(beside.create(partial), "wb") as written:
                with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
                    writer = _Writer(file, jobs_of(_content(store, run / PLAN)))
                    for path in _files(store, plan):
                        writer.add(path.relative_to(run).as_posix(), _content(store, path))
                    writer.close()
                written.flush()
                os.fsync(written.fileno())
            check_out(out, [store])  # another process may have made it meanwhile
            beside.rename(partial, out)
    finally:
        beside.remove(partial)
    own = {path.name for path, _ in Below(run).entries(run)}
    return PackedRun(out, len(writer.stated), writer.size, tuple(sorted(own & _LEFT_OUT)))


def unpack(run: Path | str, out: Path | str | None = None) -> PackedRun:
    """Write the files of a packed RUN into a new folder, byte for byte as they were packed.

    The folder is `out`, or beside the file with its name less the ending. It has its name once it is complete. Until
    then it lies beside, and is removed if anything goes wrong.

    Raises:
        StoreError: `run` is no packed RUN, or is damaged; `out` is there.
    """
    store = Store(run := folder_path(run))
    below = store.opened()
    if not isinstance(below, Packed):
        raise StoreError(f"{run} is not packed. Name a file that rbench pack wrote.")
    if store.plan() is None:
        raise StoreError(f"{run} is no packed RUN: it has no plan.json.")
    out = folder_path(out) if out is not None else files.beside(run, run.stem)
    check_out(out, [store])
    count = size = 0
    with files.growing(out) as unfinished:
        target = Below(unfinished)
        for path in below.files(run):
            content = files.read(path, below, lined=True) or b""
            files.write(unfinished / path.relative_to(run), content, target)
            count, size = count + 1, size + len(content)
    return PackedRun(out, count, size)


def _files(store: Store, plan: Plan) -> Iterator[Path]:
    """Yield the files of a RUN, those of each job together, in the order of the plan."""
    yield store.root / PLAN
    for job in plan.jobs:
        names = {*FILES, *(path.name for path in store.part_files(job))}
        yield from (path for name in sorted(names) if store.opened().kind(path := store.folder(job) / name) == "file")
    if store.opened().kind(store.root / JUDGED) == "file":
        yield store.root / JUDGED


def _content(store: Store, path: Path) -> bytes:
    content = files.read(path, store.opened(), lined=True)
    if content is None:
        raise StoreError(f"{path} was removed while the RUN was packed. Run the same command again.")
    return content


@dataclass
class _Shared:
    """Values of columns that several files have. The first file has them itself: that others follow is known later."""

    values: list[bytes] = field(default_factory=list)
    """As JSON, in the order of their places."""
    places: dict[bytes, int | None] = field(default_factory=dict)
    """By the hash of the values of all files; None for those of one file only."""

    def replaced(self, column: Any) -> Any:
        """Return a column in which values that an earlier file has are replaced by their place."""
        if "fields" in column:
            return {"fields": {name: self.replaced(one) for name, one in column["fields"].items()}}
        if "lengths" in column:
            return {name: self.replaced(one) for name, one in column.items()}
        content = to_json(column["values"]) if "values" in column else b""
        if len(content) < _LEAST_SHARED:
            return column
        key = sha256(content).digest()
        if key not in self.places:
            self.places[key] = None
            return column
        place = self.places[key]
        if place is None:
            place = self.places[key] = len(self.values)
            self.values.append(content)
        return {"shared": place}


@dataclass
class _Writer:
    """Adds files of a RUN to a packed one."""

    file: zipfile.ZipFile
    jobs: Mapping[str, Any]
    """Those of the plan, by key."""
    stated: dict[str, Content] = field(default_factory=dict)
    records: list[bytes] = field(default_factory=list)
    shared: _Shared = field(default_factory=_Shared)

    @property
    def size(self) -> int:
        """Bytes of all files that were added."""
        return sum(content.size for content in self.stated.values())

    def add(self, name: str, content: bytes) -> None:
        """Add a file, in the form that takes the least space and gives back the same bytes."""
        self.stated[name] = Content(size=len(content), sha256=sha256(content).hexdigest())
        folder, _, own = name.rpartition("/")
        if own == "record.json" and (line := record_line(content, self.jobs)) is not None:
            self.records.append(line)
            return
        columns = to_columns(content) if own in COLUMNS else None
        if columns is not None:
            # A large file of shared values alone would be taken for a bomb, so it has them itself.
            for lines in (self.shared.replaced(columns["lines"]), columns["lines"]):
                if self._write(f"{folder}/{COLUMNS[own]}", to_json({**columns, "lines": lines}), len(content)):
                    return
        self._write(name, content, len(content))

    def close(self) -> None:
        """Add the shared values, the records and the checksums."""
        if self.shared.values:
            data = b"[" + b",".join(self.shared.values) + b"]"
            self._write(SHARED, data, len(data))
        if self.records:
            becomes = sum(len(record_of(line, self.jobs)) for line in self.records)
            self._write(RECORDS, b"".join(line + b"\n" for line in self.records), becomes)
        found = {name: content.model_dump() for name, content in self.stated.items()}
        said = json.dumps({"rbench": rbench.__version__, "files": found}, indent=1).encode()
        self._write(CHECKSUMS, said, len(said))

    def _write(self, name: str, data: bytes, becomes: int) -> bool:
        """Add a member. Returns False, and adds none, where so many bytes of the RUN would be taken for a bomb.

        Args:
            becomes: how many bytes of the RUN it holds.
        """
        packed = len(zlib.compress(data, 9)) if max(len(data), becomes) > ALWAYS else len(data)
        stored = not fits(max(len(data), becomes), packed)
        if stored and not fits(becomes, len(data)):
            return False
        # Date and mode are fixed, so that the same RUN gives the same bytes.
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        info.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        self.file.writestr(info, data)
        return True
