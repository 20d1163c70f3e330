"""Store one RUN: its plan, its tables, and each job's record, outcomes and predictions."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from rbench.errors import StoreError
from rbench.spec import SCHEMA_VERSION, Digest, Job, Outcome, Plan, Prediction, Record
from rbench.storage.runs import files
from rbench.storage.runs.folder import RunFolder
from rbench.storage.runs.lines import Line, digest, first_error, read_lines, write_line
from rbench.storage.runs.names import folder_name

_NAMED = 3
"""How many damaged lines a message names. It counts the others."""


@dataclass(frozen=True)
class Found:
    """A job's record if it is reliable. If something is wrong, `problem` says what, and the remedy."""

    record: Record | None
    problem: str | None = None


@dataclass(frozen=True)
class Read:
    """The lines of a job's outcomes.jsonl."""

    path: Path
    content: bytes
    lines: tuple[Line, ...]

    @property
    def outcomes(self) -> list[Outcome]:
        """The reliable outcomes in the order in which they happened. Only the first outcome of an example counts."""
        found: dict[str, Outcome] = {}
        for line in self.lines:
            if line.outcome is not None:
                found.setdefault(line.outcome.example_id, line.outcome)
        return list(found.values())

    @property
    def damage(self) -> str | None:
        """Which lines are damaged, and how; None if none is."""
        bad = [f"line {line.number}: {line.problem}" for line in self.lines if line.outcome is None]
        more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        lines = "1 line is" if len(bad) == 1 else f"{len(bad)} lines are"
        return f"{lines} damaged in {self.path} ({'; '.join(bad[:_NAMED])}{more})" if bad else None


@dataclass(frozen=True)
class Resumed:
    """The outcomes that a job keeps when it starts again."""

    outcomes: list[Outcome]
    notes: tuple[str, ...]
    """What was removed from the file, and why."""


class Store(RunFolder):
    """What a run has written to the folder `root`. The folder is created when something is written.

    Every method raises StoreError if the folder is locked, or cannot be read or written.

    Args:
        texts: whether outcomes are written with their texts.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        super().__init__(root)
        self.texts = texts

    # ------------------------------------------------------------------------------------------------------- plan

    def write_plan(self, plan: Plan) -> None:
        """Write the plan. It decides what `records` returns and how tables are laid out."""
        _write(self.root / "plan.json", plan.model_dump_json(indent=1))

    def plan(self) -> Plan | None:
        """Return the plan of the last run in this folder; None if there is none. StoreError if it is damaged."""
        path = self.root / "plan.json"
        content = files.read(path)
        if content is None:
            return None
        try:
            return Plan.model_validate_json(content)
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged or from another version of rbench ({first_error(error)}). "
                "Run the suite again to replace it; finished jobs are kept."
            ) from error

    def write_table(self, name: str, text: str) -> Path:
        """Write a table under this file name. It replaces an older one, which stays if the writing fails."""
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
        """Return the folder of this job's record and outcomes. It is always inside `root`."""
        parts = (folder_name(part) for part in job.parts)
        return self.root.joinpath(job.stage, *parts, f"seed{job.seed}-{folder_name(job.key[:8])}")

    def look(self, job: Job) -> Found:
        """Check the job's record against the files beside it. Problems of this job are returned, not raised."""
        try:
            record = self._record(job)
            wrong = self._contradiction(job, record) if record is not None else None
        except StoreError as error:
            record, wrong = None, str(error)
        if wrong is None:
            return Found(record)
        return Found(None, f"{wrong} {job.name} counts as not done; the same rbench run makes it again.")

    def record(self, job: Job) -> Record | None:
        """Return the job's record; None if the job has not ended. Raises StoreError if the record is unreliable."""
        found = self.look(job)
        if found.problem is not None:
            raise StoreError(found.problem)
        return found.record

    def records(self, plan: Plan | None = None) -> list[Record]:
        """Return the reliable records of a plan's jobs, in its order; by default of the plan in this folder.

        Records that an earlier version of the suite left in the folder are not included.
        """
        plan = plan or self.plan()
        found = [self.look(job).record for job in plan.jobs] if plan is not None else []
        return [record for record in found if record is not None]

    def write_record(self, record: Record) -> None:
        """Write a job's record. It replaces an older one of the same job, such as a failed one."""
        self.check_owner(record.job)
        kept = record if self.texts else record.without_texts()
        _write(self.folder(record.job) / "record.json", kept.model_dump_json(indent=1))

    def check_owner(self, job: Job) -> None:
        """Raise StoreError if the job's folder holds a sound record of another job: it must not be overwritten."""
        path = self.folder(job) / "record.json"
        with suppress(ValueError):  # a damaged record may be replaced: that repairs it
            other = Record.model_validate_json(files.read(path) or b"").job
            if other.key != job.key and other.key == _remade(other).key:
                raise StoreError(
                    f"{path} belongs to another job (key {other.key[:16]}) than {job.name} (key {job.key[:16]}): "
                    "their folders have the same name. Choose another --out for this suite."
                )

    def _record(self, job: Job) -> Record | None:
        """Read record.json without looking at the files beside it."""
        path = self.folder(job) / "record.json"
        content = files.read(path)
        if content is None:
            return None
        try:
            found = from_json(content)
            version = found.get("schema_version") if isinstance(found, dict) else None
            if version is None:
                raise ValueError("it has no schema version")
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} has schema version {str(version)[:20]}, and this rbench reads {SCHEMA_VERSION}: "
                    "the rbench that wrote it can read it."
                )
            record = Record.model_validate(found)
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({first_error(error)}).") from error
        if record.job.key != job.key:
            self.check_owner(job)
            raise StoreError(f"{path} is damaged (its key is not that of its content).")
        return record

    def _contradiction(self, job: Job, record: Record) -> str | None:
        """Say what is wrong with the files beside a record; None if they match its digests."""
        for name, stated in (("outcomes.jsonl", record.outcomes), ("predictions.jsonl", record.predictions)):
            if stated is None:
                continue
            path = self.folder(job) / name
            content = files.read(path)
            if content is None and stated.n:
                return f"{path} is missing: the record beside it lists {stated.n} lines."
            if digest(content or b"", stated.n, texts=stated.texts) != stated:
                return f"{path} does not match the record beside it: {self._difference(job, name, stated.n)}."
        return None

    def _difference(self, job: Job, name: str, stated: int) -> str:
        if name != "outcomes.jsonl":
            return f"its {stated} lines were changed"
        read = self.read(job)
        damage = f", and {read.damage}" if read.damage else ""
        return f"{len(read.outcomes)} of {stated} outcomes are there and sound{damage}"

    # --------------------------------------------------------------------------------------------------- outcomes

    def append(self, job: Job, outcome: Outcome) -> None:
        """Append one outcome of the job. It is on disk when this returns. An incomplete last line is cut off first."""
        files.append(
            self.folder(job) / "outcomes.jsonl", write_line(job, outcome if self.texts else outcome.without_texts())
        )

    def read(self, job: Job) -> Read:
        """Read the lines of the job's outcomes, sound and damaged.

        An incomplete last line is left out. Reading writes nothing, so a table can be made while the run goes on.
        """
        path = self.folder(job) / "outcomes.jsonl"
        content = files.read(path) or b""
        stated = None
        with suppress(StoreError):  # an unreadable record has no digest to compare with
            record = self._record(job)
            stated = record.outcomes if record is not None else None
        contradicted = stated is not None and stated.sha256 != digest(content, 0, texts=True).sha256
        return Read(path, content, tuple(read_lines(content, job, contradicted=contradicted)))

    def content(self, job: Job) -> bytes | None:
        """Return the bytes of the job's outcomes.jsonl as they are; None if there is no file."""
        return files.read(self.folder(job) / "outcomes.jsonl")

    def outcomes(self, job: Job) -> list[Outcome]:
        """Return the job's reliable outcomes in the order in which they happened; see `Read.outcomes`."""
        return self.read(job).outcomes

    def resume(self, job: Job, wanted: Collection[str] | None = None) -> Resumed:
        """Clean up the outcomes of a job that starts again, and return those that are kept.

        The kept lines replace the file in one step, in the order in which they happened. Removed are damaged lines,
        repeated examples, examples that errored, and examples that are not in `wanted`.

        Args:
            wanted: ids of examples; None keeps all.

        Raises:
            StoreError: a sound line belongs to another job.
        """
        read = self.read(job)
        if (other := next((line for line in read.lines if line.other_job), None)) is not None:
            raise StoreError(
                f"{read.path}:{other.number}: {other.problem}. Choose another --out for this suite, or delete the line."
            )
        kept: dict[str, Line] = {}
        errored = 0
        for line in read.lines:
            if line.outcome is None or (wanted is not None and line.outcome.example_id not in wanted):
                continue
            if line.outcome.status == "errored":
                errored += 1
            else:
                kept.setdefault(line.outcome.example_id, line)
        content = b"".join(line.raw + b"\n" for line in kept.values())
        if content != read.content:
            files.write(read.path, content)
        notes = [f"{read.damage}: their examples are done again"] if read.damage else []
        notes += [f"{job.name}: {errored} of its examples errored and are attacked again"] if errored else []
        return Resumed([line.outcome for line in kept.values() if line.outcome is not None], tuple(notes))

    def write_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Replace all outcomes of a job; return the digest for its record."""
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        content = b"".join(write_line(job, outcome) + b"\n" for outcome in kept)
        files.write(self.folder(job) / "outcomes.jsonl", content)
        return _digest(content, kept)

    def seal(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Return the digest of the job's outcomes for its record, once all `outcomes` are written.

        Raises StoreError unless the file holds exactly these outcomes, one line each.
        """
        path = self.folder(job) / "outcomes.jsonl"
        content = files.read(path) or b""
        found = [line.outcome for line in read_lines(content, job)]
        there = sorted(outcome.model_dump_json() for outcome in found if outcome is not None)
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        torn = content.rpartition(b"\n")[2]
        if torn or None in found or there != sorted(outcome.model_dump_json() for outcome in kept):
            raise StoreError(f"{path} changed while the run was under way; run the same command again.")
        return _digest(content, kept)

    # ------------------------------------------------------------------------------------------------- predictions

    def write_predictions(self, job: Job, predictions: Sequence[Prediction]) -> Digest:
        """Write the victim's prediction for each text of a contrast set, replacing older ones of the same job.

        Returns the digest for the job's record.
        """
        self.check_owner(job)
        lines = [json.dumps({"job": job.key, **one.model_dump()}) + "\n" for one in predictions]
        content = "".join(lines).encode()
        files.write(self.folder(job) / "predictions.jsonl", content)
        return digest(content, len(lines), texts=False)

    def predictions(self, job: Job) -> list[Prediction]:
        """Read the predictions; an empty list if the job has written none. Raises StoreError for a damaged line."""
        path = self.folder(job) / "predictions.jsonl"
        found = []
        for number, line in enumerate((files.read(path) or b"").split(b"\n")[:-1], start=1):
            try:
                values = from_json(line)
                key = values.pop("job")
                found.append(Prediction.model_validate(values))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                what = f"{path}:{number} is not a prediction ({first_error(error)})"
                raise StoreError(f"{what}. Delete the record beside it, and the job runs again.") from error
            if key != job.key:
                raise StoreError(
                    f"{path}:{number} belongs to another job (key {str(key)[:16]}) than {job.name}. "
                    "Delete the record beside it, and the job runs again."
                )
        return found


def _remade(job: Job) -> Job:
    return Job.make(job.spec, job.parts, job.needs, job.seed)


def _digest(content: bytes, outcomes: Sequence[Outcome]) -> Digest:
    return digest(content, len(outcomes), texts=any(outcome.original is not None for outcome in outcomes))


def _write(path: Path, text: str) -> None:
    files.write(path, text.encode() + b"\n")
