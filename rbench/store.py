"""Records and outcomes on disk: atomic, resumable, lockable.

    RUN/plan.json                                                  what the suite asked for
    RUN/.lock                                                      held by the process that runs it
    RUN/<stage>/<readable parts>/seed<k>-<key8>/record.json        written once, when the job is over
    RUN/<stage>/<readable parts>/seed<k>-<key8>/outcomes.jsonl     one line an attacked example, appended as it happens
    RUN/<stage>/<readable parts>/seed<k>-<key8>/predictions.jsonl  one line a text of a contrast set, written at once

A process may be killed at any moment. A record is there whole or not at all; of the outcomes at most the last line is
torn, and that example is simply attacked again. Each line and each record names the job that it belongs to, so two jobs
whose folders happen to have the same name are never taken for one another.

The store does not run, score or print anything, and knows nothing of weights, which lie in the cache.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import get_args

from filelock import FileLock, Timeout
from pydantic import ValidationError

from rbench.errors import StoreError
from rbench.spec import SCHEMA_VERSION, Job, Outcome, Plan, Prediction, Record, Stage, Strict

_LOCK_FILES = {".lock", ".lock.holder"}
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_LONGEST = 120
"""File systems limit a folder's name: beyond so many characters it is cut and completed with a hash."""


def folder_name(part: str) -> str:
    """One readable part of a job as a folder name: percent-encoded, so that different parts never share a name.

    >>> folder_name("bertattack[max_words=10]")
    'bertattack%5Bmax_words=10%5D'
    """
    name = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), part)
    if not name.strip("."):  # "", "." and ".." mean other folders
        name = name.replace(".", "%2E") or "%"
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}~{sha256(part.encode()).hexdigest()[:12]}"
    return name


class _Line(Strict):
    """One line of outcomes.jsonl."""

    job: str
    outcome: Outcome


class Store:
    """All that a run has left in the folder `root`. Makes nothing until something is written.

    Every method raises StoreError where the folder is damaged, locked, or cannot be read or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._lock = FileLock(self.root / ".lock", timeout=0)

    # ------------------------------------------------------------------------------------------------------- plan

    def write_plan(self, plan: Plan) -> None:
        """Keep the plan, whole; it decides what `records` returns and how tables are laid out."""
        _write(self.root / "plan.json", plan.model_dump_json(indent=1))

    def plan(self) -> Plan | None:
        """The plan of the last run in this folder, or None where nothing was ever run."""
        path = self.root / "plan.json"
        text = _read(path)
        if text is None:
            return None
        try:
            return Plan.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"{path} is damaged or from another version of rbench ({_first(error)}). "
                "Run the suite again to write it anew; finished jobs are kept."
            ) from error

    def write_table(self, name: str, text: str) -> Path:
        """Keep a table under this file name, whole; an older one is replaced, and stands where this one fails."""
        path = self.root / "tables" / name
        try:
            _write(path, text.rstrip("\n"))
        except StoreError as error:
            raise StoreError(
                f"{error} The results in {self.root} are kept: `rbench table {self.root}` prints the table, and the "
                "same `rbench run` writes it once there is room."
            ) from error
        return path

    # ---------------------------------------------------------------------------------------------------- records

    def folder(self, job: Job) -> Path:
        """Where this job's record and outcomes lie; always inside `root`."""
        parts = (folder_name(part) for part in job.parts)
        return self.root.joinpath(job.stage, *parts, f"seed{job.seed}-{folder_name(job.key[:8])}")

    def record(self, job: Job) -> Record | None:
        """What the job left behind, or None where it has not ended yet."""
        path = self.folder(job) / "record.json"
        text = _read(path)
        if text is None:
            return None
        try:
            content = json.loads(text)
            version = content.get("schema_version") if isinstance(content, dict) else None
            if version is None:
                raise ValueError("it has no schema version")
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} has schema version {version}, this rbench reads {SCHEMA_VERSION}. "
                    "Read it with the rbench that wrote it, or start over with --fresh."
                )
            record = Record.model_validate(content)
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({_first(error)}). Delete it, and the job runs again.") from error
        _same_job(path, record.job.key, job)
        return record

    def records(self, plan: Plan | None = None) -> list[Record]:
        """The records of a plan's jobs, in its order; by default of the plan in this folder.

        What an earlier version of the suite left in the folder is not among them.
        """
        plan = plan or self.plan()
        found = [self.record(job) for job in plan.jobs] if plan is not None else []
        return [record for record in found if record is not None]

    def done(self, plan: Plan) -> set[str]:
        """Keys of the plan's jobs that need not run again. A failed job is not done."""
        return {record.job.key for record in self.records(plan) if record.status == "complete"}

    def write_record(self, record: Record) -> None:
        """Keep a job's record, whole; an older one of the same job (a failed one, say) is replaced."""
        path = self.folder(record.job) / "record.json"
        self._check_owner(record.job)
        _write(path, record.model_dump_json(indent=1))

    # --------------------------------------------------------------------------------------------------- outcomes

    def append(self, job: Job, outcome: Outcome) -> None:
        """Add one outcome to the job's; it is on disk when this returns. A torn last line is cut off first."""
        path = self.folder(job) / "outcomes.jsonl"
        line = _Line(job=job.key, outcome=outcome).model_dump_json()
        with _as_store_error(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab+") as file:
                _cut_torn_line(file.fileno())
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    def outcomes(self, job: Job) -> list[Outcome]:
        """The job's outcomes in the order in which they happened; where an example occurs twice, the first.

        A torn last line is left out. Reading never writes, so a table may be made while the run goes on.
        """
        path = self.folder(job) / "outcomes.jsonl"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}.") from error
        found: dict[str, Outcome] = {}
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            outcome = _parse(line, f"{path}:{number}", job)
            found.setdefault(outcome.example_id, outcome)
        return list(found.values())

    # ------------------------------------------------------------------------------------------------- predictions

    def write_predictions(self, job: Job, predictions: Sequence[Prediction]) -> None:
        """Keep what a victim said of each text of an evaluation, whole; an older one of the same job is replaced."""
        self._check_owner(job)
        lines = (json.dumps({"job": job.key, **one.model_dump()}) for one in predictions)
        _write(self.folder(job) / "predictions.jsonl", "\n".join(lines))

    def predictions(self, job: Job) -> list[Prediction]:
        """What `write_predictions` kept; nothing where the job has not come so far."""
        path = self.folder(job) / "predictions.jsonl"
        text = _read(path)
        found = []
        for number, line in enumerate((text or "").splitlines(), start=1):
            try:
                values = json.loads(line)
                key = values.pop("job")
                found.append(Prediction.model_validate(values))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = f"{path}:{number} is not a prediction ({_first(error)})"
                raise StoreError(f"{what}. Delete the record beside it, and the job runs again.") from error
            _same_job(f"{path}:{number}", key, job)
        return found

    def _check_owner(self, job: Job) -> None:
        """Refuse a folder that holds the record of another job, before anything in it is overwritten."""
        path = self.folder(job) / "record.json"
        text = _read(path)
        with suppress(ValueError, KeyError, TypeError):  # a damaged record is nobody's: replacing it is the repair
            _same_job(path, json.loads(text or "")["job"]["key"], job)

    # ------------------------------------------------------------------------------------------------ whole folder

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder against other processes that would run in it; does not wait.

        The system lets go when the process dies, however it dies. Readers need no lock.
        """
        holder = self.root / ".lock.holder"
        with _as_store_error(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                if self._lock.is_locked:  # a lock within the lock would let go too early
                    raise Timeout(self._lock.lock_file)
                self._lock.acquire()
            except Timeout:
                raise StoreError(
                    f"{self.root} is in use by {_who(holder)}. Wait for it or choose another --out."
                ) from None
        try:
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            _write(holder, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}))
            yield
        finally:
            holder.unlink(missing_ok=True)
            self._lock.release()

    def set_aside(self) -> Path | None:
        """Move all that the folder holds to `<run>.<timestamp>` beside it; None where it holds nothing.

        May be called with the lock held, which stays where it is; else takes it meanwhile. Refuses a folder that rbench
        did not write. Never deletes.
        """
        with _as_store_error(self.root):
            found = [path.name for path in self.root.iterdir()] if self.root.exists() else []
        contents = sorted(set(found) - _LOCK_FILES)
        if not contents:
            return None
        if not {"plan.json", *get_args(Stage)} & set(contents):
            raise StoreError(
                f"{self.root} was not written by rbench, so --fresh leaves it alone. Choose another --out."
            )
        aside = _unused(self.root.with_name(f"{self.root.name}.{datetime.now():%Y%m%d-%H%M%S}"))
        with nullcontext() if self._lock.is_locked else self.lock(), _as_store_error(aside):
            aside.mkdir()
            for name in contents:
                (self.root / name).rename(aside / name)
        return aside


# -------------------------------------------------------------------------------------------------------- small parts


@contextmanager
def _as_store_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path} is damaged (not UTF-8). Delete it, and run the suite again.") from error


def _write(path: Path, text: str) -> None:
    """Replace the file in one step: after a crash it holds the old text or the new one, never a part."""
    temporary = path.with_name(f"{path.name}.tmp")
    with _as_store_error(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                file.write(text.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unused(path: Path) -> Path:
    """`path`, or the first of `path-2`, `path-3` ... that does not exist."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def _cut_torn_line(handle: int, block: int = 65536) -> None:
    """Cut a file after its last newline, reading backwards from its end."""
    end = size = os.fstat(handle).st_size
    while end:
        start = max(0, end - block)
        os.lseek(handle, start, os.SEEK_SET)
        newline = os.read(handle, end - start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)


def _parse(line: bytes, place: str, job: Job) -> Outcome:
    try:
        parsed = _Line.model_validate_json(line)
    except ValueError as error:
        raise StoreError(
            f"{place} is not an outcome ({_first(error)}). Delete this line, and its example is attacked again."
        ) from error
    _same_job(place, parsed.job, job)
    return parsed.outcome


def _same_job(place: Path | str, key: object, job: Job) -> None:
    if key != job.key:
        raise StoreError(
            f"{place} belongs to another job (key {str(key)[:16]}) than {job.name} (key {job.key[:16]}): "
            "their folders have the same name. Choose another --out for this suite."
        )


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}".removeprefix(": ")
    return str(error)


def _who(holder: Path) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(holder.read_text(encoding="utf-8"))
        return f"process {held['pid']} on {held['host']} since {held['since']}"
    return "another process"
