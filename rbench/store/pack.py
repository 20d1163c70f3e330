"""Write a RUN as one file that can be sent, and as a folder again: `rbench pack`, with and without `--unpack`.

`runs.packed` has the layout. The same RUN gives the same bytes with the same zlib and pyarrow, whenever it is packed.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic_core import from_json, to_json

from rbench.errors import StoreError
from rbench.schema import Outcome, Plan
from rbench.store.multi_run import check_inputs, check_out
from rbench.store.runs import RunStore, files, parquet
from rbench.store.runs.packed import (
    ALWAYS_FITS,
    DERIVED,
    LINE_FILES,
    OUTCOMES,
    RECORDS,
    PackedFolder,
    fits_ratio,
    name_of_run,
    pack_record,
    read_jobs,
)
from rbench.store.runs.reader import JUDGED, LOGS, PLAN, PREDICTIONS, ROWS
from rbench.store.runs.store import folder_path
from rbench.system.below import SafeFolder

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

    All verbs that read a RUN read the file. The RUN is verified first, and not changed. A file that an earlier version
    packed is converted. Call `rbench.api.pack`, which also checks that no process runs in it.

    Raises:
        StoreError: `run` is no RUN, or something in it is damaged; `out` is there, or lies in the RUN, or is not named
            for a file of an earlier version.
    """
    run = folder_path(run)
    if not run.is_file():
        return _pack(run, folder_path(out) if out is not None else files.path_beside(run, f"{run.resolve().name}.zip"))
    from rbench.store import old_packs

    if not old_packs.is_old(run):
        raise StoreError(f"{run} is packed already. To write its folder: rbench pack {run} --unpack")
    if out is None:
        raise StoreError(f"{run} was packed by an earlier version of rbench. Name the new file: --out NEW.zip")
    out = folder_path(out)
    check_out(out, [])
    files.make_folder_of(out)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as place:
        old_packs.unpack(run, folder := Path(place) / name_of_run(run))
        return _pack(folder, out)


def _pack(run: Path, out: Path) -> PackedRun:
    store = RunStore(run)
    check_out(out, [store])
    check_inputs([store], "packed")
    plan = store.plan()
    assert plan is not None
    unfinished = files.path_beside(out, f".{out.name}.{secrets.token_hex(4)}.tmp")
    safe_folder = SafeFolder(out.parent)
    try:
        with files.as_store_error(out):
            with os.fdopen(safe_folder.open_new(unfinished), "wb") as handle:
                with zipfile.ZipFile(handle, "w") as archive:
                    for name, content in _write_members(store, plan):
                        _add_member(archive, name, content)
                handle.flush()
                os.fsync(handle.fileno())
            packed = PackedFolder(unfinished)  # all of it is read again, before it has its name
            sizes = [len(packed.read_lined(path)) for path in packed.files(unfinished)]
            check_out(out, [store])  # another process may have made it meanwhile
            safe_folder.rename(unfinished, out)
    finally:
        safe_folder.remove(unfinished)
    names = {path.name for path, _ in SafeFolder(run).entries(run)}
    return PackedRun(out, len(sizes), sum(sizes), tuple(sorted(names & _LEFT_OUT)))


def unpack(run: Path | str, out: Path | str | None = None) -> PackedRun:
    """Write the files of a packed RUN into a new folder, in which `rbench run` can go on.

    Files are as they were packed, byte for byte, but the outcomes of a job under way are in one file, and outcomes that
    an earlier version wrote are lines of this one.

    The folder is `out`, or beside the file with its name less the ending. It has its name once it is complete. Until
    then it lies beside, and is removed if anything goes wrong.

    Raises:
        StoreError: `run` is no packed RUN, or is damaged; `out` is there.
    """
    store = RunStore(run := folder_path(run))
    below = store.opened()
    if not isinstance(below, PackedFolder):
        raise StoreError(f"{run} is not packed. Name a file that rbench pack wrote.")
    store.existing_plan()
    out = folder_path(out) if out is not None else files.path_beside(run, run.stem)
    check_out(out, [store])
    count = size = 0
    with files.grow_folder(out) as unfinished:
        target = SafeFolder(unfinished)
        for path in below.files(run):
            content = files.read(path, below, lined=True) or b""
            files.write(unfinished / path.relative_to(run), content, target)
            count, size = count + 1, size + len(content)
    return PackedRun(out, count, size)


def _write_members(store: RunStore, plan: Plan) -> Iterator[tuple[str, bytes]]:
    """Yield the members of the packed RUN of a folder: each name with its content."""
    plan_content = _read_present(store, store.root / PLAN)
    yield PLAN, plan_content
    jobs = read_jobs(plan_content)
    lines: dict[str, list[bytes]] = {name: [] for name in (RECORDS, *LINE_FILES)}
    # Filled while Parquet is written, which runs through all outcomes: the records below state these digests.
    digests: dict[str, str] = {}

    def outcomes() -> Iterator[tuple[str, list[Outcome]]]:
        for job in plan.jobs:
            if found := store.outcomes(job):
                packed_content = b"".join(files.write_line(job, outcome) + b"\n" for outcome in found)
                digests[job.key] = sha256(packed_content).hexdigest()
                yield job.key, found

    packed_content = parquet.write_parquet(outcomes())
    if digests:
        yield OUTCOMES, packed_content
    for job in plan.jobs:
        record = store.record(job)
        if record is None:
            continue
        path = store.folder(job) / "record.json"
        packed_content = _read_present(store, path)
        if record.outcomes is not None and job.key in digests:
            packed_content = _renew_digest(packed_content, digests[job.key])
        try:
            lines[RECORDS].append(pack_record(packed_content, jobs) + b"\n")
        except ValueError as error:
            problem = f"{path} cannot be packed: {error}. Delete it, and the same rbench run makes it again."
            raise StoreError(problem) from error
        lines[PREDICTIONS] += [store.content(job, PREDICTIONS) or b""] if record.predictions is not None else []
        lines[ROWS] += [store.content(job, ROWS) or b""] if record.rows is not None else []
    yield from ((name, b"".join(found)) for name, found in lines.items() if any(found))
    if store.opened().kind(store.root / JUDGED) == "file":
        yield JUDGED, _read_present(store, store.root / JUDGED)


def _renew_digest(record: bytes, digest: str) -> bytes:
    """Return a record with the digest of its outcomes as lines of this version.

    Lines of earlier versions lack fields that outcomes got since, or have them in another order. Parquet has a column
    for each, so the lines that come of it are those of this version.
    """
    record_json = from_json(files.unseal(record))
    record_json["outcomes"]["sha256"] = digest
    return files.seal(to_json(record_json, indent=1).decode())


def _read_present(store: RunStore, path: Path) -> bytes:
    content = files.read(path, store.opened(), lined=True)
    if content is None:
        raise StoreError(f"{path} was removed while the RUN was packed. Run the same command again.")
    return content


def _add_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # Date and mode are fixed, so that the same RUN gives the same bytes.
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    fit = len(content) <= ALWAYS_FITS or fits_ratio(len(content), len(zlib.compress(content, 9)))
    info.compress_type = zipfile.ZIP_DEFLATED if fit else zipfile.ZIP_STORED
    archive.writestr(info, content, compresslevel=9)
