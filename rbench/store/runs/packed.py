"""Read a RUN that `rbench pack` wrote into one file, without unpacking it to the disk.

    RUN.zip
        checksums.json                       the size and sha256 of each file of the RUN, in the order of the plan
        plan.json                            as it is, and so is judged.json
        records.jsonl                        the record.json of each job, a line each; the plan's jobs as their keys
        <folder of a job>/outcomes.json      the columns of outcomes.jsonl; so of predictions and rows
        shared.json                          values of columns that several files have, each once

A packed RUN may come from somebody else. It is refused as it is opened, before anything in it is unpacked, if a member
is encrypted, no regular file, or there twice, if it lies elsewhere than in the RUN, if it would become many times
larger, or if the archive has bytes that are of no member. Each file that is read is compared with its checksum.

A file of JSON lines becomes columns and back, byte for byte (`to_columns`, `from_columns`). Columns take a fraction of
the space when compressed. The values that one field has in all lines are stored together, in one of five ways:

    {"same": V}                          all lines have the value V
    {"fields": {NAME: COLUMN, ...}}      values are objects with the same names in one order: a column for each name
    {"lengths": COLUMN, "items": COLUMN} values are lists of objects or null: their lengths, and a column of all objects
    {"values": [V, ...]}                 anything else
    {"shared": I}                        the same, where another file has the same values: their place in shared.json

All encoders are asked about the same texts, so texts, ids, labels and gold scores are the same in many files.
A file of columns is one object of `n`, the number of lines, `style`, how lines were written, and `lines`, their column.
The checksums of outcomes follow from their content, so they are not stored but computed again.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import islice, pairwise, repeat
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from rbench.errors import StoreError
from rbench.schema import Strict
from rbench.store.runs.files import checksum, first_error, parsed
from rbench.system.below import DEPTH, LINE, MEGABYTE, WHOLE, Below, Entry, Kind

CHECKSUMS, RECORDS, SHARED = "checksums.json", "records.jsonl", "shared.json"
DERIVED = ("tables", "figures", "report.html", "report.parquet")
"""What is computed from the plan and the records, for people. It is no part of a packed RUN: whoever wants it makes it
anew, so a table that was edited goes nowhere. Older packed RUNs hold some, which is passed over."""
COLUMNS = {f"{name}.jsonl": f"{name}.json" for name in ("outcomes", "predictions", "rows")}
"""The files of a job that are stored as columns, each with the name of its columns."""
RATIO, ALWAYS = 250, 16 * MEGABYTE
"""Most bytes that a packed byte may become, and what any member may become."""
MEMBERS = 1_000_000
"""Most members."""
KEPT = 64 * MEGABYTE
"""Most bytes of files that stay in memory once they were unpacked. Who reads a RUN asks for most of them several times:
to compare them with the record, for the outcomes, for single fields."""
_REMEDY = "Ask for it again, or take it from where it was copied from."


class Content(Strict):
    """What a packed RUN says of one file of the RUN."""

    size: int
    sha256: str


class Checksums(Strict):
    """The content of checksums.json."""

    rbench: str
    """The version that packed the RUN."""
    files: dict[str, Content]
    """By the path in the RUN. Files that are lines of records.jsonl are in the order of these lines."""


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


def record_line(content: bytes, jobs: Mapping[str, Any]) -> bytes | None:
    """Return a record.json as one line, without a newline, in which a job that is the plan's is a key.

    A job may differ from the plan's in what enters no key, such as a title. None where no line would give back the same
    bytes.
    """
    try:
        found = from_json(content)
        for job in (found["job"]["key"], found["job"]):
            line = to_json({**found, "job": job})
            if record_of(line, jobs) == content:
                return line
    except (ValueError, LookupError, TypeError):
        pass
    return None


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
        size = self._archive.files[self._name(path)].size if kind == "file" else 0
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
        if self._archive.files[self._name(path)].size > most:
            raise self._too_large(path, "has", most)
        return self._archive.read(self._name(path))

    def read_start(self, path: Path, size: int) -> bytes:
        """Return the first bytes of a file."""
        return self.read(path)[:size]

    def read_lined(self, path: Path) -> bytes:
        """Return the content of a file of lines, each of which has at most LINE bytes."""
        content = self.read(path, self.root.stat().st_size * RATIO + ALWAYS)
        if len(content) > LINE and max(map(len, content.split(b"\n"))) > LINE:
            raise self._too_large(path, "has a line of", LINE)
        return content

    def check_names(self, own: Collection[str], folders: Iterable[Path]) -> None:
        """Raise StoreError for a file that lies neither in a job's folder nor in what a RUN has beside these.

        Args:
            own: the names of files and folders beside those of jobs.
            folders: the folders of the plan's jobs.
        """
        known = {self._name(folder) for folder in folders}
        for name in self._archive.files:
            if name.partition("/")[0] not in own and name.rpartition("/")[0] not in known:
                raise StoreError(f"{self.root} holds {name}, which is of no job of its plan. {_REMEDY}")

    def damage(self) -> Iterator[str]:
        """Say which files are not as they were packed. Reads all of them anew."""
        for name in self._archive.files:
            try:
                self._archive.unpacked(name)
            except (StoreError, OSError) as error:
                yield str(error)

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


class _Kept:
    """Files that were unpacked, by archive and name: of all archives together those asked for last, of KEPT bytes."""

    def __init__(self) -> None:
        self._contents: dict[tuple[_Archive, str], bytes] = {}
        self._size = 0

    def get(self, archive: _Archive, name: str) -> bytes:
        """Return what is kept, or unpack it and keep it."""
        key = archive, name
        content = self._contents.pop(key, None)
        if content is None:
            content = archive.unpacked(name)
            self._size += len(content)
        self._contents[key] = content  # at the end
        while self._size > KEPT:
            self._size -= len(self._contents.pop(next(iter(self._contents))))
        return content


_KEPT = _Kept()


class _Archive:
    """The members of a packed RUN, and the files of the RUN that they hold."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            if not zipfile.is_zipfile(path):
                with self._path.open("rb") as file:
                    begun = file.read(4) == b"PK\x03\x04"  # as every file of rbench pack, whose end a copy may lack
                raise StoreError(
                    f"{path} is cut short or damaged. Ask for it again, or copy it again."
                    if begun
                    else f"{path} is a file. Name the folder that `rbench run` wrote, or a file of rbench pack."
                )
            self._zip = zipfile.ZipFile(path)
            self._members = {one.filename: one for one in _checked(self._zip.infolist())}
            _check_edges(self._zip, path.stat().st_size)
            stated = Checksums.model_validate(parsed(self._member(CHECKSUMS))).files
            self.files = {name: file for name, file in stated.items() if name.partition("/")[0] not in DERIVED}
            self.folders: dict[str, dict[str, Kind]] = {}
            for name in self.files:
                _check_name(name)
                above = name.split("/")
                for depth in range(len(above)):
                    kind: Kind = "file" if depth == len(above) - 1 else "folder"
                    self.folders.setdefault("/".join(above[:depth]), {})[above[depth]] = kind
            self._places = dict(self._placed())
            self._check_all_listed({name for name in self._members if name not in stated})
            self._check_sizes()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError, zlib.error) as error:
            raise StoreError(
                f"{path} is no packed RUN, or must not be opened: {first_error(error)}. {_REMEDY}"
            ) from error

    def read(self, name: str) -> bytes:
        """Return a file of the RUN as it was packed. Raises StoreError where it is damaged."""
        return _KEPT.get(self, name)

    def unpacked(self, name: str) -> bytes:
        """Unpack a file and compare it with its checksum. Raises StoreError where it is damaged."""
        member, stated = self._places[name], self.files[name]
        try:
            if isinstance(member, int):
                content = record_of(self._records[member], self._jobs)
            elif member == name:
                content = self._member(member)
            else:
                content = self._of_columns(member, stated.size)
            if len(content) != stated.size or sha256(content).hexdigest() != stated.sha256:
                raise ValueError("it is not what was packed")
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            OSError,
            EOFError,
            zlib.error,
            IndexError,
        ) as error:
            raise StoreError(f"{self._path / name} is damaged ({first_error(error)}). {_REMEDY}") from error
        return content

    def _of_columns(self, member: str, size: int) -> bytes:
        content = bytearray()
        for line in from_columns(self._member(member), self._shared, size):
            content += line
            if len(content) > size:
                raise ValueError(f"it is larger than its {size} bytes")
        return bytes(content)

    @cached_property
    def _jobs(self) -> dict[str, Any]:
        return jobs_of(self._member("plan.json"))

    @cached_property
    def _shared(self) -> list[list[Any]]:
        found: list[list[Any]] = parsed(self._member(SHARED)) if SHARED in self._members else []
        return found

    @cached_property
    def _records(self) -> list[bytes]:
        lines = self._member(RECORDS).split(b"\n")
        if lines.pop() or len(lines) != sum(isinstance(place, int) for place in self._places.values()):
            raise ValueError(f"{RECORDS} has not a line for each record")
        return lines

    def _member(self, name: str) -> bytes:
        """Return what a member holds. zipfile stops after as many bytes as the member says, which are checked."""
        if name not in self._members:
            raise ValueError(f"it lacks {name}")
        return self._zip.read(self._members[name])

    def _placed(self) -> Iterator[tuple[str, str | int]]:
        """Yield for each file its member, or its line in the records."""
        line = 0
        for name in self.files:
            folder, _, own = name.rpartition("/")
            columns = f"{folder}/{COLUMNS[own]}" if own in COLUMNS else None
            if columns in self._members:
                yield name, columns
            elif name in self._members:
                yield name, name
            elif own == "record.json":
                yield name, line
                line += 1
            else:
                raise ValueError(f"it lacks {name}")

    def _check_all_listed(self, unlisted: Collection[str]) -> None:
        """Raise ValueError for a member that is no file of the RUN: nothing would read it, and nobody check it."""
        known = {CHECKSUMS, RECORDS, SHARED, *(place for place in self._places.values() if isinstance(place, str))}
        if strange := sorted({*unlisted} - known):
            raise ValueError(f"it holds {strange[0]}, of which {CHECKSUMS} says nothing")

    def _check_sizes(self) -> None:
        """Raise ValueError where files would be many times larger than the members that hold them."""
        records = 0
        for name, member in self._places.items():
            size = self.files[name].size
            if isinstance(member, int):
                records += size
            elif not fits(size, self._members[member].compress_size):
                raise ValueError(f"{name} says that it has {size} bytes")
        if records and not fits(records, self._members[RECORDS].compress_size if RECORDS in self._members else 0):
            raise ValueError(f"its records say that they have {records} bytes")
        total, packed = sum(file.size for file in self.files.values()), self._path.stat().st_size
        if total > max(WHOLE, RATIO * packed):
            raise ValueError(f"it says that it has {total} bytes, and is packed into {packed}")


def _checked(members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the members in the order of their places. Raises ValueError for one that `rbench pack` never writes."""
    if len(members) > MEMBERS:
        raise ValueError(f"it has {len(members)} members")
    if len({one.filename for one in members}) < len(members):
        raise ValueError("a name is there twice")
    for one in members:
        _check_name(one.filename)
        if stat.S_IFMT(one.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"{one.filename} is no regular file")
        if one.flag_bits & 1 or one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{one.filename} is encrypted, or compressed in another way than deflate")
        if not fits(one.file_size, one.compress_size):
            raise ValueError(f"{one.filename} would become {one.file_size} bytes of {one.compress_size}")
    found = sorted(members, key=lambda one: one.header_offset)
    for one, other in pairwise(found):
        # Overlapping members let the same few bytes unpack many times (Fifield 2019, "A better zip bomb").
        if one.header_offset + one.compress_size > other.header_offset:
            raise ValueError(f"{one.filename} and {other.filename} share bytes")
    return found


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


def _check_name(name: str) -> None:
    """Raise ValueError for a name that would lead out of a folder, on any system."""
    parts = name.split("/")
    if len(parts) > DEPTH or any(part in ("", ".", "..") for part in parts) or set(name) & set("\\:\0"):
        raise ValueError(f"it holds the name {name[:100]!r}")


_STYLES: dict[str, Callable[[Any], bytes]] = {
    "compact": to_json,  # outcomes, as pydantic writes them
    "spaced": lambda line: json.dumps(line).encode(),  # predictions and rows
}
_CHECK = "check"


def to_columns(content: bytes) -> dict[str, Any] | None:
    """Return the columns of a file of JSON lines; None where their JSON would not give back the same bytes."""
    lines = content.split(b"\n")
    if len(lines) < 2 or lines.pop():
        return None
    try:
        values = [from_json(line) for line in lines]
    except ValueError:
        return None
    if not all(isinstance(line, dict) for line in values):
        return None
    if all(_CHECK in line and line[_CHECK] == _check_of(line) for line in values):
        for line in values:
            line[_CHECK] = None
    for style in _STYLES:
        columns = {"n": len(values), "style": style, "lines": _column(values)}
        try:
            # Columns are used only if they restore the same bytes; anything unforeseen is stored as it is.
            if b"".join(from_columns(to_json(columns))) == content:
                return columns
        except ValueError:  # a number that JSON cannot say, or text that is no Unicode
            continue
    return None


def from_columns(columns: bytes, shared: Sequence[Sequence[Any]] = (), most: int = LINE) -> Iterator[bytes]:
    """Yield the lines of a file, each with its newline.

    Raises ValueError for what `to_columns` did not write, and before a line is made with which all of them would have
    more than `most` bytes by what they repeat.

    Args:
        columns: JSON of the columns.
        shared: the values that they have in common with other files.
        most: bytes of the file.
    """
    try:
        found = parsed(columns)
        n, write, column = found["n"], _STYLES[found["style"]], found["lines"]
        # Each line, and each object in a list, has at least a byte of its own, or a shared value.
        left = len(columns) + sum(map(len, shared))
        if not 0 <= n <= left:
            raise ValueError(f"{n} lines do not fit into {left} bytes")
        values = _values(column, left, most, shared)
        for _ in range(n):
            line, repeated = next(values)
            most -= repeated
            if most < 0:
                raise ValueError("it repeats more bytes than it has")
            if _CHECK in line and line[_CHECK] is None:
                line[_CHECK] = _check_of(line)
            yield write(line) + b"\n"
    except (LookupError, TypeError, AttributeError, RecursionError, StopIteration) as error:
        raise ValueError(f"no columns: {type(error).__name__} {error}") from error


def _check_of(line: dict[str, Any]) -> str | None:
    return checksum(line["job"], line["outcome"]) if line.keys() == {"job", _CHECK, "outcome"} else None


def _column(values: list[Any]) -> dict[str, Any]:
    if len(values) > 1 and len({to_json(value) for value in values}) == 1:
        return {"same": values[0]}
    if values and all(isinstance(value, dict) for value in values) and len({tuple(value) for value in values}) == 1:
        return {"fields": {name: _column([value[name] for value in values]) for name in values[0]}}
    if all(value is None or isinstance(value, list) for value in values):
        items = [item for value in values for item in value or ()]
        if items and all(isinstance(item, dict) for item in items):
            lengths = [None if value is None else len(value) for value in values]
            return {"lengths": _column(lengths), "items": _column(items)}
    return {"values": values}


def _values(column: dict[str, Any], most: int, room: int, shared: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, int]]:
    """Yield the values of a column, each with the bytes of its JSON that have no bytes of their own in the columns.

    A column that is always the same has no end. Lists have at most `most` objects in all, and a list is not made where
    its objects repeat more than `room` bytes.
    """
    if "same" in column:
        yield from repeat((column["same"], len(to_json(column["same"]))))
    elif "shared" in column:
        yield from ((value, len(to_json(value))) for value in shared[column["shared"]])
    elif "fields" in column:
        names = list(column["fields"])
        own = sum(len(name) for name in names)
        for row in zip(*(_values(column["fields"][name], most, room, shared) for name in names), strict=False):
            yield dict(zip(names, (value for value, _ in row), strict=True)), own + sum(size for _, size in row)
    elif "lengths" in column:
        items = _values(column["items"], most, room, shared)
        for length, _ in _values(column["lengths"], most, room, shared):
            most -= length or 0
            if most < 0 or (length is not None and length < 0):
                raise ValueError("lists have more objects than there is room for")
            made, repeated = [], 0
            for value, size in islice(items, length or 0):
                made.append(value)
                repeated += size
                if repeated > room:
                    raise ValueError("a list repeats more bytes than the file has")
            yield None if length is None else made, repeated
    else:
        yield from ((value, 0) for value in column["values"])
