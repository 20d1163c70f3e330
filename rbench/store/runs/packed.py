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
from rbench.store.runs.files import first_error, outcome_line, parse_json
from rbench.store.runs.parquet import OutcomesFile
from rbench.system.below import LINE, MEGABYTE, WHOLE_BYTES, FolderEntry, Kind, SafeFolder

PLAN, JUDGED, RECORDS, OUTCOMES = "plan.json", "judged.json", "records.jsonl", "outcomes.parquet"
LINE_FILES = ("predictions.jsonl", "rows.jsonl")
"""The files of lines of all jobs together. Each line begins with the key of its job."""
DERIVED = ("tables", "figures", "report.html", "report.parquet")
"""What is computed from the plan and the records, for people. It is no part of a packed RUN: whoever wants it makes it
anew, so a table that was edited goes nowhere."""
RATIO, ALWAYS_FITS = 250, 16 * MEGABYTE
"""Most bytes that a packed byte may become, and what any member may become."""
KEPT = 64 * MEGABYTE
"""Most bytes of outcomes that stay in memory once they were decoded. Who reads a RUN asks for most of them several
times: to compare them with the record, for the outcomes, for single fields."""
REMEDY = "Ask for it again, or take it from where it was copied from."
_OLD_MEMBER = "checksums.json"
"""A member of files of earlier versions alone (`store.old_packs`)."""
_KEY = re.compile(r"[0-9a-f]{64}")
_LINE_START = re.compile(rb'\{"job": ?"([0-9a-f]{64})"')


def open_run(root: Path) -> SafeFolder:
    """Return what reads a RUN below its folder, or one that is packed. The user named it, so it may be a link."""
    return PackedFolder(root) if root.is_file() else SafeFolder(root)


def name_of_run(root: Path) -> str:
    """Return the name of a RUN: that of its folder, or that of its file without `.zip`."""
    return root.resolve().name.removesuffix(".zip")


def fits_ratio(size: int, packed: int) -> bool:
    """Whether so many packed bytes may become so many."""
    return 0 <= size <= max(ALWAYS_FITS, RATIO * packed)


def read_jobs(plan: bytes) -> dict[str, Any]:
    """Return the jobs of a plan.json by their keys, as its JSON has them. Raises one of UNREADABLE if it has none."""
    return {job["key"]: job for job in parse_json(plan)["jobs"]}


def pack_record(content: bytes, jobs: Mapping[str, Any]) -> bytes:
    """Return a record.json as one line, without a newline, in which a job that is the plan's is a key.

    A job may differ from the plan's in what enters no key, such as a title. Raises ValueError where no line would give
    back the same bytes.
    """
    record_json = parse_json(content)
    # First the short form. It gives back the record only where its job is the plan's, byte by byte.
    for job in (record_json["job"]["key"], record_json["job"]):
        line = to_json({**record_json, "job": job})
        if unpack_record(line, jobs) == content:
            return line
    raise ValueError("another program has written it in its own way")


def unpack_record(line: bytes, jobs: Mapping[str, Any]) -> bytes:
    """Return the content of a record.json from its line. Raises ValueError for what `pack_record` did not give."""
    try:
        record_json = parse_json(line)
        job = record_json["job"]
        return to_json({**record_json, "job": jobs[job] if isinstance(job, str) else job}, indent=1) + b"\n"
    except (LookupError, TypeError) as error:
        raise ValueError("it is of no job of the plan") from error


class PackedFolder(SafeFolder):
    """What lies in the packed RUN `root`. All paths begin with `root`, as if it were a folder.

    Methods that read raise OSError and StoreError as those of `SafeFolder` do. Methods that write raise StoreError.

    Raises:
        StoreError: the file is no packed RUN, or must not be opened.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        file_stat = root.stat()
        self._archive = _open_archive(root, file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns)

    def kind(self, path: Path) -> Kind | None:
        """Return what has this path; None if nothing has."""
        name = self._name(path)
        return "file" if name in self._archive.files else "folder" if name in self._archive.folders else None

    def stat(self, path: Path) -> os.stat_result:
        """Return the size of a file or folder, and the times of the packed RUN."""
        kind, file_stat = self.kind(path), self.root.stat()
        if kind is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        mode = stat.S_IFREG | 0o444 if kind == "file" else stat.S_IFDIR | 0o555
        size = len(self.read_lined(path)) if kind == "file" else 0
        return os.stat_result(
            (mode, 0, file_stat.st_dev, 1, 0, 0, size, file_stat.st_atime, file_stat.st_mtime, file_stat.st_ctime)
        )

    def entries(self, folder: Path) -> list[FolderEntry]:
        """Return what is in a folder, by name; an empty list if there is no such folder."""
        return sorted(
            FolderEntry(folder / name, kind) for name, kind in self._archive.folders.get(self._name(folder), {}).items()
        )

    def read(self, path: Path, most: int = WHOLE_BYTES) -> bytes:
        """Return the content of a file of at most so many bytes."""
        if self.kind(path) != "file":
            number = errno.EISDIR if self.kind(path) == "folder" else errno.ENOENT
            raise OSError(number, os.strerror(number), str(path))
        content = self._archive.read(self._name(path))
        if len(content) > most:
            raise self._refuse_size(path, "has", most)
        return content

    def read_start(self, path: Path, size: int) -> bytes:
        """Return the first bytes of a file."""
        return self.read(path)[:size]

    def read_lined(self, path: Path) -> bytes:
        """Return the content of a file of lines, each of which has at most LINE bytes."""
        content = self.read(path, self.root.stat().st_size * RATIO + ALWAYS_FITS)
        if len(content) > LINE and max(map(len, content.split(b"\n"))) > LINE:
            raise self._refuse_size(path, "has a line of", LINE)
        return content

    def _name(self, path: Path) -> str:
        return "/".join(self._parts(path))

    @contextmanager
    def _folder(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """Refuse: every method of `SafeFolder` that writes begins with the descriptor of a folder."""
        remedy = f"Unpack it first: rbench pack {self.root} --unpack"
        raise StoreError(f"{self.root} is packed, and stays as it is. {remedy}")
        yield -1


@lru_cache(maxsize=64)
def _open_archive(path: Path, *_: int) -> _RunArchive:
    """Open a packed RUN once, as long as its inode, size and time stay."""
    return _RunArchive(path)


class _RunArchive:
    """The members of a packed RUN, and the files of the RUN that they hold."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip = open_zip(path)
        members = self._zip.NameToInfo
        if _OLD_MEMBER in members:
            raise StoreError(
                f"{path} was packed by an earlier version of rbench. Convert it: rbench pack {path} --out NEW.zip"
            )
        with self._as_store_error(""):
            if strange := sorted(members.keys() - {PLAN, JUDGED, RECORDS, OUTCOMES, *LINE_FILES}):
                raise ValueError(f"it holds {strange[0]}, which is no part of a packed RUN")
            self._jobs = read_jobs(self._read_member(PLAN))
            for key, job in self._jobs.items():
                if not _KEY.fullmatch(key) or job["spec"]["stage"] not in get_args(Stage):
                    raise ValueError(f"its plan has a job with the key {key[:64]!r}, or of a stage that there is not")
            self.files: dict[str, tuple[str, str]] = {PLAN: (PLAN, "")}
            """The files of the RUN: the member that holds each, and the key of its job."""
            if JUDGED in members:
                self.files[JUDGED] = JUDGED, ""
        self._lines = {name: self._split_by_job(name) for name in (RECORDS, *LINE_FILES) if name in members}
        for name, lines in self._lines.items():
            self._map_files(name, "record.json" if name == RECORDS else name, lines)
        if OUTCOMES in members:
            with self._as_store_error(OUTCOMES):
                self._outcomes = OutcomesFile(self._read_member(OUTCOMES))
            self._map_files(OUTCOMES, "outcomes.jsonl", self._outcomes.groups)
        self.folders: dict[str, dict[str, Kind]] = {}
        for name in self.files:
            above = name.split("/")
            for depth in range(len(above)):
                kind: Kind = "file" if depth == len(above) - 1 else "folder"
                self.folders.setdefault("/".join(above[:depth]), {})[above[depth]] = kind

    def read(self, name: str) -> bytes:
        """Return a file of the RUN as it was packed. Raises StoreError where it is damaged."""
        member, key = self.files[name]
        with self._as_store_error(name):
            if member == RECORDS:
                return unpack_record(self._lines[member][key], self._jobs)
            if member in LINE_FILES:
                return self._lines[member][key]
            if member == OUTCOMES:
                return _KEPT.get(self, self._outcomes.groups[key])[key]
            return self._read_member(member)

    def group(self, number: int) -> dict[str, bytes]:
        """Return the outcomes.jsonl of each job in a row group. Raises ValueError where it is damaged."""
        contents: dict[str, bytearray] = {}
        size = 0
        for key, outcome in self._outcomes.outcomes(number):
            line = outcome_line(key, outcome) + b"\n"
            size += len(line)
            if not fits_ratio(size, self._path.stat().st_size):
                raise ValueError("it becomes many times larger than the file that holds it")
            contents.setdefault(key, bytearray()).extend(line)
        return {key: bytes(content) for key, content in contents.items()}

    def _split_by_job(self, member: str) -> dict[str, bytes]:
        """Return the lines of each job. Raises StoreError where those of one job are not together."""
        with self._as_store_error(member):
            lines = self._read_member(member).split(b"\n")
            if lines.pop():
                raise ValueError("its last line is cut off")
            if member == RECORDS:
                lines_by_job = {_key_of_record(line): line for line in lines}
                if len(lines_by_job) < len(lines):
                    raise ValueError("a job has two records")
                return lines_by_job
            lines_by_job = {}
            for key, job_lines in groupby(lines, _key_of_line):
                if key in lines_by_job:
                    raise ValueError(f"the lines of the job {key[:16]} are not together")
                lines_by_job[key] = b"".join(line + b"\n" for line in job_lines)
            return lines_by_job

    def _map_files(self, member: str, file_name: str, keys: Mapping[str, Any]) -> None:
        """Note for each job of `keys` that its file `file_name` lies in this member of the archive."""
        for key in keys:
            if key not in self._jobs:
                raise StoreError(f"{self._path / member} holds {key[:16]}, which is of no job of its plan. {REMEDY}")
            self.files[f"{self._jobs[key]['spec']['stage']}/{key[:16]}/{file_name}"] = member, key

    def _read_member(self, name: str) -> bytes:
        """Return what a member holds. zipfile stops after as many bytes as the member says, which are checked."""
        return self._zip.read(name)

    @contextmanager
    def _as_store_error(self, name: str) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise StoreError(f"{self._path / name} is damaged ({first_error(error)}). {REMEDY}") from error


class _DecodedGroups:
    """Row groups that were decoded: of all archives together those asked for last, of KEPT bytes."""

    def __init__(self) -> None:
        self._groups: dict[tuple[_RunArchive, int], dict[str, bytes]] = {}

    def get(self, archive: _RunArchive, number: int) -> dict[str, bytes]:
        """Return what is kept, or decode it and keep it."""
        key = archive, number
        contents = self._groups.pop(key, None)
        self._groups[key] = contents = archive.group(number) if contents is None else contents  # at the end
        # A dictionary keeps the order of insertion, so its first group is the one that was not asked for longest.
        while len(self._groups) > 1 and self.size > KEPT:
            self._groups.pop(next(iter(self._groups)))
        return contents

    @property
    def size(self) -> int:
        return sum(len(content) for group in self._groups.values() for content in group.values())


_KEPT = _DecodedGroups()

_ZIP_ERRORS = (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, zlib.error)
UNREADABLE = (*_ZIP_ERRORS, ValueError, LookupError, TypeError, AttributeError)
"""What reading a damaged archive raises."""


def _key_of_record(line: bytes) -> str:
    job = from_json(line)["job"]
    return str(job if isinstance(job, str) else job["key"])


def _key_of_line(line: bytes) -> str:
    match = _LINE_START.match(line)
    if match is None:
        raise ValueError("a line does not begin with the key of its job")
    return match[1].decode()


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive whose members are such as `rbench pack` writes, and was written by nobody else's hand.

    Raises StoreError where it is none, or must not be opened.
    """
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                is_cut_off = file.read(4) == b"PK\x03\x04"  # as every file of rbench pack, whose end a copy may lack
            raise StoreError(
                f"{path} is cut short or damaged. Ask for it again, or copy it again."
                if is_cut_off
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
    if len({member.filename for member in members}) < len(members):
        raise ValueError("a name is there twice")
    for member in members:
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"{member.filename} is no regular file")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename} is encrypted, or compressed in another way than deflate")
        if not fits_ratio(member.file_size, member.compress_size):
            raise ValueError(f"{member.filename} would become {member.file_size} bytes of {member.compress_size}")
    for member, next_member in pairwise(sorted(members, key=lambda member: member.header_offset)):
        # Overlapping members let the same few bytes unpack many times (Fifield 2019, "A better zip bomb").
        if member.header_offset + member.compress_size > next_member.header_offset:
            raise ValueError(f"{member.filename} and {next_member.filename} share bytes")


_HEADER_BYTES, _ENTRY_BYTES, _END_BYTES, _END64_BYTES = 30, 46, 22, 76
"""Bytes of a member's header, of its entry in the directory, and of the end of a ZIP file: of few and of many members.
"""


def _check_edges(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError where an archive has bytes before its members, between them, or behind its directory.

    `rbench pack` writes none. Programs that look for the start of a file would see another file in them, and checksums
    cover no such bytes.
    """
    place = directory_size = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        name_size = len(member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437"))
        if member.header_offset != place or member.extra or member.comment:
            raise ValueError(f"it has bytes before {member.filename} or beside it that are of no member")
        place += _HEADER_BYTES + name_size + member.compress_size
        directory_size += _ENTRY_BYTES + name_size
    if (
        place != archive.start_dir
        or size - place - directory_size not in (_END_BYTES, _END_BYTES + _END64_BYTES)
        or archive.comment
    ):
        raise ValueError("it has bytes behind its members that are of none")
