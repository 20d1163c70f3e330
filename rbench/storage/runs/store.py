"""The store of one RUN: its plan, and each job's record, outcomes and predictions."""

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
"""So many damaged lines are named, the others counted."""


@dataclass(frozen=True)
class Found:
    """A job's record, if it can be relied upon; else, where something is wrong, what that is and its remedy."""

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
        """Those that can be relied upon, in the order in which they happened; of an example that is there twice, the
        first."""
        found: dict[str, Outcome] = {}
        for line in self.lines:
            if line.outcome is not None:
                found.setdefault(line.outcome.example_id, line.outcome)
        return list(found.values())

    @property
    def damage(self) -> str | None:
        """Which lines are damaged, and how; None where none is."""
        bad = [f"line {line.number}: {line.problem}" for line in self.lines if line.outcome is None]
        more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        lines = "1 line is" if len(bad) == 1 else f"{len(bad)} lines are"
        return f"{lines} damaged in {self.path} ({'; '.join(bad[:_NAMED])}{more})" if bad else None


@dataclass(frozen=True)
class Resumed:
    """What a job that begins again may build upon."""

    outcomes: list[Outcome]
    notes: tuple[str, ...]
    """What was left out of the file, and why."""


class Store(RunFolder):
    """All that a run has left in the folder `root`. Makes nothing until something is written.

    Args:
        texts: whether outcomes are written with their texts.

    Every method raises StoreError where the folder is locked, or cannot be read or written.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        super().__init__(root)
        self.texts = texts

    # ------------------------------------------------------------------------------------------------------- plan

    def write_plan(self, plan: Plan) -> None:
        """Keep the plan, whole; it decides what `records` returns and how tables are laid out."""
        _write(self.root / "plan.json", plan.model_dump_json(indent=1))

    def plan(self) -> Plan | None:
        """The plan of the last run in this folder, None where nothing was ever run; StoreError if it is damaged."""
        path = self.root / "plan.json"
        content = files.read(path)
        if content is None:
            return None
        try:
            return Plan.model_validate_json(content)
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged or from another version of rbench ({first_error(error)}). "
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

    def look(self, job: Job) -> Found:
        """The job's record, checked against the files beside it; raises nothing that concerns this job alone."""
        try:
            record = self._record(job)
            wrong = self._contradiction(job, record) if record is not None else None
        except StoreError as error:
            record, wrong = None, str(error)
        if wrong is None:
            return Found(record)
        return Found(None, f"{wrong} {job.name} counts as not done; the same rbench run makes it again.")

    def record(self, job: Job) -> Record | None:
        """What the job left behind, None where it has not ended yet; StoreError where that cannot be relied upon."""
        found = self.look(job)
        if found.problem is not None:
            raise StoreError(found.problem)
        return found.record

    def records(self, plan: Plan | None = None) -> list[Record]:
        """The records of a plan's jobs, in its order; by default of the plan in this folder.

        What an earlier version of the suite left in the folder is not among them, nor what cannot be relied upon.
        """
        plan = plan or self.plan()
        found = [self.look(job).record for job in plan.jobs] if plan is not None else []
        return [record for record in found if record is not None]

    def write_record(self, record: Record) -> None:
        """Keep a job's record, whole; an older one of the same job (a failed one, say) is replaced."""
        self.check_owner(record.job)
        kept = record if self.texts else record.without_texts()
        _write(self.folder(record.job) / "record.json", kept.model_dump_json(indent=1))

    def check_owner(self, job: Job) -> None:
        """StoreError where the job's folder holds the sound record of another job, which is not to be overwritten."""
        path = self.folder(job) / "record.json"
        with suppress(ValueError):  # a damaged record is nobody's: replacing it is the repair
            other = Record.model_validate_json(files.read(path) or b"").job
            if other.key != job.key and other.key == _remade(other).key:
                raise StoreError(
                    f"{path} belongs to another job (key {other.key[:16]}) than {job.name} (key {job.key[:16]}): "
                    "their folders have the same name. Choose another --out for this suite."
                )

    def _record(self, job: Job) -> Record | None:
        """What stands in record.json, whatever stands beside it."""
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
        """What is wrong with the files that a record is of; None where they are what its digests say."""
        for name, stated in (("outcomes.jsonl", record.outcomes), ("predictions.jsonl", record.predictions)):
            if stated is None:
                continue
            path = self.folder(job) / name
            content = files.read(path)
            if content is None and stated.n:
                return f"{path} is missing: the record beside it is of {stated.n} lines."
            if digest(content or b"", stated.n, texts=stated.texts) != stated:
                return f"{path} is not what the record beside it is of: {self._difference(job, name, stated.n)}."
        return None

    def _difference(self, job: Job, name: str, stated: int) -> str:
        if name != "outcomes.jsonl":
            return f"its {stated} lines were changed"
        read = self.read(job)
        damage = f", and {read.damage}" if read.damage else ""
        return f"{len(read.outcomes)} of {stated} outcomes are there and sound{damage}"

    # --------------------------------------------------------------------------------------------------- outcomes

    def append(self, job: Job, outcome: Outcome) -> None:
        """Add one outcome to the job's; it is on disk when this returns. A torn last line is cut off first."""
        files.append(
            self.folder(job) / "outcomes.jsonl", write_line(job, outcome if self.texts else outcome.without_texts())
        )

    def read(self, job: Job) -> Read:
        """The lines of the job's outcomes, sound and damaged.

        A torn last line is left out. Reading never writes, so a table may be made while the run goes on.
        """
        path = self.folder(job) / "outcomes.jsonl"
        content = files.read(path) or b""
        stated = None
        with suppress(StoreError):  # a record that cannot be read contradicts nothing
            record = self._record(job)
            stated = record.outcomes if record is not None else None
        contradicted = stated is not None and stated.sha256 != digest(content, 0, texts=True).sha256
        return Read(path, content, tuple(read_lines(content, job, contradicted=contradicted)))

    def outcomes(self, job: Job) -> list[Outcome]:
        """The job's outcomes that can be relied upon, in the order in which they happened; see `Read.outcomes`."""
        return self.read(job).outcomes

    def resume(self, job: Job, wanted: Collection[str] | None = None) -> Resumed:
        """What there is of the outcomes of a job that begins again, before any is added.

        The file is replaced, in one step, by the lines that are kept, in the order in which they happened. Left out
        are damaged lines, second ones of an example, examples that errored, and those that are not `wanted` (ids; None:
        all are). Raises StoreError where a sound line belongs to another job.
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
        notes = [f"{read.damage}: what they were of is done again"] if read.damage else []
        notes += [f"{job.name}: {errored} of its examples errored and are attacked again"] if errored else []
        return Resumed([line.outcome for line in kept.values() if line.outcome is not None], tuple(notes))

    def write_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Keep all outcomes of a job, whole, in place of those that are there; returns the digest for its record."""
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        content = b"".join(write_line(job, outcome) + b"\n" for outcome in kept)
        files.write(self.folder(job) / "outcomes.jsonl", content)
        return _digest(content, kept)

    def seal(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """The digest of the job's outcomes for its record, when the last of `outcomes` is written.

        Raises StoreError unless the file has one line for each of them, which says the same, and no others.
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
        """Keep what a victim said of each text of an evaluation, whole; an older one of the same job is replaced.

        Returns the digest for the job's record.
        """
        self.check_owner(job)
        lines = [json.dumps({"job": job.key, **one.model_dump()}) + "\n" for one in predictions]
        content = "".join(lines).encode()
        files.write(self.folder(job) / "predictions.jsonl", content)
        return digest(content, len(lines), texts=False)

    def predictions(self, job: Job) -> list[Prediction]:
        """What `write_predictions` kept; nothing where the job has not come so far. StoreError for a damaged line."""
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
