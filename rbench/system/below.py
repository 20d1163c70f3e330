"""Reads, writes and removes below a folder that may come from somebody else, such as a RUN or the cache.

Archives and repositories carry symbolic links, FIFOs and files of any size. So what lies in such a folder is opened
below the descriptor of a folder, one name after the other, and no link is followed. Only regular files are read and
written, and what is read in one piece has a largest size. The folder itself was named by the user: it, and those above
it, may be links.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rbench.errors import StoreError

MEGABYTE = 1 << 20
SMALL_BYTES = 16 * MEGABYTE
"""Most bytes of a record, and of what processes say of themselves."""
WHOLE_BYTES = 256 * MEGABYTE
"""Most bytes of any other file that is read in one piece, such as a plan or a figure. A job's part of a plan has some
kilobytes."""
LINE = 64 * MEGABYTE
"""Most bytes of a line. There may be any number of lines."""
MAX_FOLDERS = 32
"""Most folders on the way to a file. A RUN has about ten."""

Kind = Literal["file", "folder", "symbolic link", "FIFO", "device", "socket"]
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOTSUP}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without O_NONBLOCK, opening a FIFO waits for its other end


class FolderEntry(NamedTuple):
    """What has a name in a folder."""

    path: Path
    kind: Kind


class SafeFolder:
    """What lies below the folder `root`. All paths begin with `root`.

    Every method raises OSError if the operating system refuses something, and StoreError if it meets anything but a
    folder or a regular file, or if a path leaves `root`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    # ------------------------------------------------------------------------------------------------------ to look

    def kind(self, path: Path) -> Kind | None:
        """Return what has this path; None if nothing has. Only what lies above it is opened."""
        try:
            return _kind_of_mode(self.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def stat(self, path: Path) -> os.stat_result:
        """Return what the file system knows of a path. A link is not followed, unless it is the root."""
        if path == self.root:
            return path.stat()
        with self._folder(path.parent) as folder:
            return os.stat(path.name, dir_fd=folder, follow_symlinks=False)

    def entries(self, folder: Path) -> list[FolderEntry]:
        """Return what is in a folder, by name; an empty list if there is no such folder."""
        try:
            with self._folder(folder) as handle, os.scandir(handle) as scan:
                return sorted(FolderEntry(folder / entry.name, _kind_of_entry(entry)) for entry in scan)
        except FileNotFoundError:
            return []

    def walk(self, folder: Path) -> Iterator[FolderEntry]:
        """Yield what is in a folder and in those below it, but the folders themselves."""
        waiting = [folder]
        while waiting:
            current = waiting.pop()
            if len(self._parts(current)) > MAX_FOLDERS:
                raise StoreError(f"{current} lies below more than {MAX_FOLDERS} folders of {self.root}. Remove it.")
            for entry in self.entries(current):
                if entry.kind == "folder":
                    waiting.append(entry.path)
                else:
                    yield entry

    def files(self, folder: Path) -> Iterator[Path]:
        """Yield the regular files in a folder and in those below it. What is neither file nor folder is left out."""
        return (entry.path for entry in self.walk(folder) if entry.kind == "file")

    def check(self, path: Path) -> None:
        """Raise StoreError for the first thing at a path, or below it, that is neither a folder nor a regular file."""
        kind = self.kind(path)
        entries = self.walk(path) if kind == "folder" else [FolderEntry(path, kind)] if kind is not None else []
        for entry in entries:
            if entry.kind not in ("file", "folder"):
                raise self._refused(*entry)

    # ------------------------------------------------------------------------------------------------------ to read

    def read(self, path: Path, most: int = WHOLE_BYTES) -> bytes:
        """Return the content of a file of at most so many bytes."""
        with self._folder(path.parent) as folder, os.fdopen(self._open(folder, path, os.O_RDONLY), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # One byte more than allowed is read, because the file may have grown since its size was asked.
            content = file.read(most + 1) if size <= most else b""
            if max(size, len(content)) > most:
                raise self._refuse_size(path, "has", most)
            return content

    def read_json(self, path: Path) -> dict[str, Any] | None:
        """Return a mapping that a file of at most SMALL bytes holds; None if there is no file, or it holds no such."""
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(self.read(path, SMALL_BYTES))
            return content if isinstance(content, dict) else None
        return None

    def read_start(self, path: Path, size: int) -> bytes:
        """Return the first bytes of a file."""
        with self._folder(path.parent) as folder, os.fdopen(self._open(folder, path, os.O_RDONLY), "rb") as file:
            return file.read(size)

    def open_read(self, path: Path) -> int:
        """Return a descriptor that reads a file."""
        with self._folder(path.parent) as folder:
            return self._open(folder, path, os.O_RDONLY)

    def read_lined(self, path: Path) -> bytes:
        """Return the content of a file of lines, each of which has at most LINE bytes."""
        with self._folder(path.parent) as folder, os.fdopen(self._open(folder, path, os.O_RDONLY), "rb") as file:
            if os.fstat(file.fileno()).st_size > LINE:
                # Newlines are looked for without keeping anything: a giant is refused before it fills the memory.
                length = 0
                while block := os.read(file.fileno(), MEGABYTE):
                    first, last = block.find(b"\n"), block.rfind(b"\n")
                    if length + (len(block) if first < 0 else first) > LINE:
                        raise self._refuse_size(path, "has a line of", LINE)
                    length = length + len(block) if last < 0 else len(block) - last - 1
                file.seek(0)
            return file.read()

    # ----------------------------------------------------------------------------------------------------- to write

    def replace(self, path: Path, content: bytes, *, sync: bool = False) -> None:
        """Replace a file in one step, so that no reader sees a part of it. Its folder is made.

        Args:
            sync: whether the content is to be on the disk, so that it outlives a failure of the machine.
        """
        with self._folder(path.parent, make=True) as folder:
            with suppress(FileNotFoundError):
                self._check_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode)
            temporary = f"{path.name}.{secrets.token_hex(4)}.tmp"  # others may write the same file
            try:
                _write_new(folder, temporary, content, sync=sync)
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                _remove_if_there(folder, temporary)
                raise
            if sync:
                # The file's name is part of the folder, which must reach the disk as well.
                os.fsync(folder)

    def make(self, path: Path, content: bytes) -> bool:
        """Make a file with this content in one step. Returns False if it is there already. Its folder is made."""
        with self._folder(path.parent, make=True) as folder:
            temporary = f".{secrets.token_hex(6)}"
            try:
                _write_new(folder, temporary, content)
                try:
                    # A link fails if the name exists, where a rename would replace the file of a faster process.
                    os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:  # on NFS the link may have been made, and the answer lost
                    return os.stat(temporary, dir_fd=folder, follow_symlinks=False).st_nlink == 2
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    with suppress(FileExistsError):
                        _write_new(folder, path.name, content)  # for a moment readers see an empty file
                        return True
                    return False
                return True
            finally:
                _remove_if_there(folder, temporary)

    def append(self, path: Path) -> int:
        """Return a descriptor that reads a file and appends to it. The file and its folder are made."""
        with self._folder(path.parent, make=True) as folder:
            handle = self._open(folder, path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            if os.fstat(handle).st_nlink > 1:  # its other name may be anywhere
                os.close(handle)
                raise StoreError(f"{path} is a hard link: what is added to it would be added elsewhere too. Remove it.")
            return handle

    def open_new(self, path: Path) -> int:
        """Return a descriptor that writes a new file in the place of an older one. Its folder is made."""
        with self._folder(path.parent, make=True) as folder:
            with suppress(FileNotFoundError):
                self._check_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode)
                os.unlink(path.name, dir_fd=folder)
            return os.open(path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, unless they are there."""
        with self._folder(path, make=True):
            pass

    # ---------------------------------------------------------------------------------------------------- to remove

    def remove(self, path: Path) -> bool:
        """Remove a file. Of a link, the link itself is removed. Returns False if there is nothing."""
        with suppress(FileNotFoundError), self._folder(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)
            return True
        return False

    def remove_tree(self, path: Path, *, ignore_errors: bool = False) -> None:
        """Remove a folder with all that is in it, if it is there. Of links in it, the links themselves are removed.

        Args:
            ignore_errors: whether what the operating system does not remove is left without an error.
        """
        with suppress(FileNotFoundError), self._folder(path.parent) as folder:
            kind = _kind_of_mode(os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode)
            if kind != "folder":
                raise self._refused(path, kind)
            shutil.rmtree(path.name, dir_fd=folder, ignore_errors=ignore_errors)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file or folder another path below the root, in one step. The folder of `to` is there."""
        with self._folder(path.parent) as folder, self._folder(to.parent) as other:
            os.rename(path.name, to.name, src_dir_fd=folder, dst_dir_fd=other)

    # ------------------------------------------------------------------------------------------------------ the way

    def _parts(self, path: Path) -> tuple[str, ...]:
        parts, root_parts = path.parts, self.root.parts
        if parts[: len(root_parts)] != root_parts or ".." in parts[len(root_parts) :]:
            raise StoreError(f"{path} leads out of {self.root}, where a file names it. Remove that file.")
        return parts[len(root_parts) :]

    @contextmanager
    def _folder(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """Yield the descriptor of a folder. With `make`, it is made with those above it."""
        parts = self._parts(path)
        try:
            handle = os.open(self.root, _FOLDER)
        except FileNotFoundError:
            if not make:
                raise
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.root, _FOLDER)
        try:
            for depth, part in enumerate(parts, start=1):
                try:
                    below = self._step(handle, part, make=make)
                except OSError as error:
                    if error.errno in (errno.ENOTDIR, errno.ELOOP):
                        kind = _kind_of_mode(os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode)
                        if kind not in ("file", "folder"):  # a regular file is left to the caller
                            raise self._refused(self.root.joinpath(*parts[:depth]), kind) from error
                    raise
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)

    def _step(self, handle: int, part: str, *, make: bool) -> int:
        try:
            return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
        except FileNotFoundError:
            if not make:
                raise
        with suppress(FileExistsError):  # another process made it meanwhile
            os.mkdir(part, dir_fd=handle)
        return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)

    def _open(self, folder: int, path: Path, flags: int) -> int:
        """Open a regular file. It is looked at before, because opening a device may do something."""
        try:
            self._check_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
        handle = os.open(path.name, flags | _FILE, 0o666, dir_fd=folder)
        try:
            # The opened file is checked again: something else may have replaced it since the first look.
            self._check_regular(path, os.fstat(handle).st_mode)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _check_regular(self, path: Path, mode: int) -> None:
        kind = _kind_of_mode(mode)
        if kind == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if kind != "file":
            raise self._refused(path, kind)

    def _refused(self, path: Path, kind: Kind) -> StoreError:
        if kind == "symbolic link":
            remedy = f"rbench follows none in {self.root}. Put what it stands for in its place, or remove it."
        else:
            remedy = f"rbench opens none in {self.root}. Remove it."
        return StoreError(f"{path} is a {kind}: {remedy}")

    def _refuse_size(self, path: Path, has: str, most: int) -> StoreError:
        return StoreError(
            f"{path} {has} more than {most // MEGABYTE} MB, and rbench writes nothing so large there. Remove it, or "
            f"take it from where {self.root} was copied from."
        )


def _kind_of_mode(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "symbolic link"
    if stat.S_ISFIFO(mode):
        return "FIFO"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _kind_of_entry(entry: os.DirEntry[str]) -> Kind:
    """Return what an entry of a folder is; most file systems tell without a look at the entry itself."""
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "symbolic link" if entry.is_symlink() else _kind_of_mode(entry.stat(follow_symlinks=False).st_mode)


def _write_new(folder: int, name: str, content: bytes, *, sync: bool = False) -> None:
    """Write a file that is not there."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def _remove_if_there(folder: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
