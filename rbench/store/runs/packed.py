"""Read a RUN that `rbench pack` wrote into one file, without unpacking it to the disk.

    RUN.zip
        plan.json           as it is, and so is judged.json
        records.jsonl       the record.json of each job, a line each; the plan's jobs as their keys
        outcomes.parquet    the outcomes of all jobs (`runs.parquet`), also of those under way
        predictions.jsonl   those of all complete jobs, as they are; so are rows.jsonl

Files without content are left out. The seals of plan and records, and the digests in records, say of each file of the
RUN whether it is as it was packed.

A packed RUN may come from somebody else. It is refused as it is opened, before anything in it is unpacked, if a member
is encrypted, no regular file, or there twice, if it has another name than these, if it would become many times larger,
or if the archive has bytes that are of no member. Nothing in it may be of a job that is not the plan's.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, get_args

from pydantic_core import from_json, to_json

from rbench.errors import StoreError
from rbench.schema import Stage
from rbench.store.runs.files import first_error, outcome_line, parsed
from rbench.store.runs.parquet import OutcomesFile
from rbench.system.below import LINE, MEGABYTE, WHOLE, Below, Entry, Kind

PLAN, JUDGED, RECORDS, OUTCOMES = "plan.json", "judged.json", "records.jsonl", "outcomes.parquet"
LINES = ("predictions.jsonl", "rows.jsonl")
"""The files of lines of all jobs together. Each line begins with the key of its job."""
DERIVED = ("tables", "figures", "report.html", "report.parquet")
"""What is computed from the plan and the records, for people. It is no part of a packed RUN: whoever wants it makes it
anew, so a table that was edited goes nowhere."""
RATIO, ALWAYS = 250, 16 * MEGABYTE
"""Most bytes that a packed byte may become, and what any member may become."""
KEPT = 64 * MEGABYTE
"""Most bytes of outcomes that stay in memory once they were decoded. Who reads a RUN asks for most of them several
times: to compare them with the record, for the outcomes, for single fields."""
REMEDY = "Ask for it again, or take it from where it was copied from."
_OLD = "checksums.json"
"""A member of files of earlier versions alone (`store.old_packs`)."""
_KEY = re.compile(r"[0-9a-f]{64}")
_LINE_OF = re.compile(rb'\{"job": ?"([0-9a-f]{64})"')


def opened(root: Path) -> Below:
    """Return what reads a RUN below its folder, or one that is packed. The user named it, so it may be a link."""
    return Packed(root) if root.is_file() else Below(root)


def name_of(root: Path) -> str:
    """Return the name of a RUN: that of its folder, or that of its file without `.zip`."""
    return root.resolve().name.removesuffix(".zip")


def fits(size: int, packed: int) -> bool:
    """Whether so many packed bytes may become so many."""
    return 0 <= size <= max(ALWAYS, RATIO * packed)


def jobs_of(plan: bytes) -> dict[str, Any]:
    """Return the jobs of a plan.json by their keys, as its JSON has them. Raises ValueError where it has none."""
    try:
        return {job["key"]: job for job in parsed(plan)["jobs"]}
    except (KeyError, TypeError) as error:
        raise ValueError("plan.json has no jobs") from error


def record_line(content: bytes, jobs: Mapping[str, Any]) -> bytes:
    """Return a record.json as one line, without a newline, in which a job that is the plan's is a key.

    A job may differ from the plan's in what enters no key, such as a title. Raises ValueError where no line would give
    back the same bytes.
    """
    found = parsed(content)
    for job in (found["job"]["key"], found["job"]):
        line = to_json({**found, "job": job})
        if record_of(line, jobs) == content:
            return line
    raise ValueError("another program has written it in its own way")


def record_of(line: bytes, jobs: Mapping[str, Any]) -> bytes:
    """Return the content of a record.json from its line. Raises ValueError for what `record_line` did not give."""
    try:
        found = parsed(line)
        job = found["job"]
        return to_json({**found, "job": jobs[job] if isinstance(job, str) else job}, indent=1) + b"\n"
    except (LookupError, TypeError) as error:
        raise ValueError("it is of no job of the plan") from error


class Packed(Below):
    """What lies in the packed RUN `root`. All paths begin with `root`, as if it were a folder.

    Methods that read raise OSError and StoreError as those of `Below` do. Methods that write raise StoreError.

    Raises:
        StoreError: the file is no packed RUN, or must not be opened.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        found = root.stat()
        self._archive = _opened(root, found.st_ino, found.st_size, found.st_mtime_ns)

    def kind(self, path: Path) -> Kind | None:
        """Return what has this path; None if nothing has."""
        name = self._name(path)
        return "file" if name in self._archive.files else "folder" if name in self._archive.folders else None

    def stat(self, path: Path) -> os.stat_result:
        """Return the size of a file or folder, and the times of the packed RUN."""
        kind, found = self.kind(path), self.root.stat()
        if kind is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        mode = stat.S_IFREG | 0o444 if kind == "file" else stat.S_IFDIR | 0o555
        size = len(self.read_lined(path)) if kind == "file" else 0
        return os.stat_result((mode, 0, found.st_dev, 1, 0, 0, size, found.st_atime, found.st_mtime, found.st_ctime))

    def entries(self, folder: Path) -> list[Entry]:
        """Return what is in a folder, by name; an empty list if there is no such folder."""
        return sorted(
            Entry(folder / name, kind) for name, kind in self._archive.folders.get(self._name(folder), {}).items()
        )

    def read(self, path: Path, most: int = WHOLE) -> bytes:
        """Return the content of a file of at most so many bytes."""
        if self.kind(path) != "file":
            number = errno.EISDIR if self.kind(path) == "folder" else errno.ENOENT
            raise OSError(number, os.strerror(number), str(path))
        content = self._archive.read(self._name(path))
        if len(content) > most:
            raise self._too_large(path, "has", most)
        return content

    def read_start(self, path: Path, size: int) -> bytes:
        """Return the first bytes of a file."""
        return self.read(path)[:size]

    def read_lined(self, path: Path) -> bytes:
        """Return the content of a file of lines, each of which has at most LINE bytes."""
        content = self.read(path, self.root.stat().st_size * RATIO + ALWAYS)
        if len(content) > LINE and max(map(len, content.split(b"\n"))) > LINE:
            raise self._too_large(path, "has a line of", LINE)
        return content

    def _name(self, path: Path) -> str:
        return "/".join(self._parts(path))

    @contextmanager
    def _folder(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """Refuse: every method of `Below` that writes begins with the descriptor of a folder."""
        remedy = f"Unpack it first: rbench pack {self.root} --unpack"
        raise StoreError(f"{self.root} is packed, and stays as it is. {remedy}")
        yield -1


@lru_cache(maxsize=64)
def _opened(path: Path, *_: int) -> _Archive:
    """Open a packed RUN once, as long as its inode, size and time stay."""
    return _Archive(path)


class _Archive:
    """The members of a packed RUN, and the files of the RUN that they hold."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip = open_zip(path)
        members = self._zip.NameToInfo
        if _OLD in members:
            raise StoreError(
                f"{path} was packed by an earlier version of rbench. Convert it: rbench pack {path} --out NEW.zip"
            )
        with self._refusing(""):
            if strange := sorted(members.keys() - {PLAN, JUDGED, RECORDS, OUTCOMES, *LINES}):
                raise ValueError(f"it holds {strange[0]}, which is no part of a packed RUN")
            self._jobs = jobs_of(self._member(PLAN))
            for key, job in self._jobs.items():
                if not _KEY.fullmatch(key) or job["spec"]["stage"] not in get_args(Stage):
                    raise ValueError(f"its plan has a job with the key {key[:64]!r}, or of a stage that there is not")
            self.files: dict[str, tuple[str, str]] = {PLAN: (PLAN, "")}
            """The files of the RUN: the member that holds each, and the key of its job."""
            if JUDGED in members:
                self.files[JUDGED] = JUDGED, ""
        self._lines = {name: self._split(name) for name in (RECORDS, *LINES) if name in members}
        for name, lines in self._lines.items():
            self._place(name, "record.json" if name == RECORDS else name, lines)
        if OUTCOMES in members:
            with self._refusing(OUTCOMES):
                self._outcomes = OutcomesFile(self._member(OUTCOMES))
            self._place(OUTCOMES, "outcomes.jsonl", self._outcomes.groups)
        self.folders: dict[str, dict[str, Kind]] = {}
        for name in self.files:
            above = name.split("/")
            for depth in range(len(above)):
                kind: Kind = "file" if depth == len(above) - 1 else "folder"
                self.folders.setdefault("/".join(above[:depth]), {})[above[depth]] = kind

    def read(self, name: str) -> bytes:
        """Return a file of the RUN as it was packed. Raises StoreError where it is damaged."""
        member, key = self.files[name]
        with self._refusing(name):
            if member == RECORDS:
                return record_of(self._lines[member][key], self._jobs)
            if member in LINES:
                return self._lines[member][key]
            if member == OUTCOMES:
                return _KEPT.get(self, self._outcomes.groups[key])[key]
            return self._member(member)

    def group(self, number: int) -> dict[str, bytes]:
        """Return the outcomes.jsonl of each job in a row group. Raises ValueError where it is damaged."""
        found: dict[str, bytearray] = {}
        size = 0
        for key, outcome in self._outcomes.outcomes(number):
            line = outcome_line(key, outcome) + b"\n"
            size += len(line)
            if not fits(size, self._path.stat().st_size):
                raise ValueError("it becomes many times larger than the file that holds it")
            found.setdefault(key, bytearray()).extend(line)
        return {key: bytes(content) for key, content in found.items()}

    def _split(self, member: str) -> dict[str, bytes]:
        """Return the lines of each job. Raises StoreError where those of one job are not together."""
        with self._refusing(member):
            lines = self._member(member).split(b"\n")
            if lines.pop():
                raise ValueError("its last line is cut off")
            if member == RECORDS:
                found = {_key_of_record(line): line for line in lines}
                if len(found) < len(lines):
                    raise ValueError("a job has two records")
                return found
            found = {}
            for key, own in groupby(lines, _key_of_line):
                if key in found:
                    raise ValueError(f"the lines of the job {key[:16]} are not together")
                found[key] = b"".join(line + b"\n" for line in own)
            return found

    def _place(self, member: str, own: str, keys: Mapping[str, Any]) -> None:
        for key in keys:
            if key not in self._jobs:
                raise StoreError(f"{self._path / member} holds {key[:16]}, which is of no job of its plan. {REMEDY}")
            self.files[f"{self._jobs[key]['spec']['stage']}/{key[:16]}/{own}"] = member, key

    def _member(self, name: str) -> bytes:
        """Return what a member holds. zipfile stops after as many bytes as the member says, which are checked."""
        if name not in self._zip.NameToInfo:
            raise ValueError(f"it lacks {name}")
        return self._zip.read(name)

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise StoreError(f"{self._path / name} is damaged ({first_error(error)}). {REMEDY}") from error


class _Kept:
    """Row groups that were decoded: of all archives together those asked for last, of KEPT bytes."""

    def __init__(self) -> None:
        self._groups: dict[tuple[_Archive, int], dict[str, bytes]] = {}

    def get(self, archive: _Archive, number: int) -> dict[str, bytes]:
        """Return what is kept, or decode it and keep it."""
        key = archive, number
        found = self._groups.pop(key, None)
        self._groups[key] = found = archive.group(number) if found is None else found  # at the end
        while len(self._groups) > 1 and self.size > KEPT:
            self._groups.pop(next(iter(self._groups)))
        return found

    @property
    def size(self) -> int:
        return sum(len(content) for group in self._groups.values() for content in group.values())


_KEPT = _Kept()

_OF_ZIP = (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, zlib.error)
UNREADABLE = (*_OF_ZIP, ValueError, LookupError, TypeError, AttributeError)
"""What reading a damaged archive raises."""


def _key_of_record(line: bytes) -> str:
    job = from_json(line)["job"]
    return str(job if isinstance(job, str) else job["key"])


def _key_of_line(line: bytes) -> str:
    found = _LINE_OF.match(line)
    if found is None:
        raise ValueError("a line does not begin with the key of its job")
    return found[1].decode()


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive whose members are such as `rbench pack` writes, and was written by nobody else's hand.

    Raises StoreError where it is none, or must not be opened.
    """
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                begun = file.read(4) == b"PK\x03\x04"  # as every file of rbench pack, whose end a copy may lack
            raise StoreError(
                f"{path} is cut short or damaged. Ask for it again, or copy it again."
                if begun
                else f"{path} is a file. Name the folder that `rbench run` wrote, or a file of rbench pack."
            )
        archive = zipfile.ZipFile(path)
        _check_members(archive.infolist())
        _check_edges(archive, path.stat().st_size)
    except UNREADABLE as error:
        raise StoreError(f"{path} is no packed RUN, or must not be opened: {first_error(error)}. {REMEDY}") from error
    return archive


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    """Raise ValueError for a member that `rbench pack` never writes."""
    if len({one.filename for one in members}) < len(members):
        raise ValueError("a name is there twice")
    for one in members:
        if stat.S_IFMT(one.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"{one.filename} is no regular file")
        if one.flag_bits & 1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{one.filename} is encrypted, or compressed in another way than deflate")
        if not fits(one.file_size, one.compress_size):
            raise ValueError(f"{one.filename} would become {one.file_size} bytes of {one.compress_size}")
    for one, other in pairwise(sorted(members, key=lambda one: one.header_offset)):
        # Overlapping members let the same few bytes unpack many times (Fifield 2019, "A better zip bomb").
        if one.header_offset + one.compress_size > other.header_offset:
            raise ValueError(f"{one.filename} and {other.filename} share bytes")


_HEADER, _ENTRY, _END, _END64 = 30, 46, 22, 76
"""Bytes of a member's header, of its entry in the directory, and of the end of a ZIP file: of few and of many members.
"""


def _check_edges(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError where an archive has bytes before its members, between them, or behind its directory.

    `rbench pack` writes none. Programs that look for the start of a file would see another file in them, and checksums
    cover no such bytes.
    """
    place = entries = 0
    for one in sorted(archive.infolist(), key=lambda one: one.header_offset):
        name = len(one.orig_filename.encode("utf-8" if one.flag_bits & 0x800 else "cp437"))
        if one.header_offset != place or one.extra or one.comment:
            raise ValueError(f"it has bytes before {one.filename} or beside it that are of no member")
        place += _HEADER + name + one.compress_size
        entries += _ENTRY + name
    if place != archive.start_dir or size - place - entries not in (_END, _END + _END64) or archive.comment:
        raise ValueError("it has bytes behind its members that are of none")
