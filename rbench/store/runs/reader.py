"""Read what a RUN stores: its plan, and each job's record, outcomes, predictions and rows. Writes nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json

from rbench.errors import StoreError
from rbench.schema import SCHEMA_VERSION, Job, MeasuredRow, Outcome, Plan, Prediction, Record
from rbench.store.runs import files
from rbench.store.runs.files import StoredLine, first_error, make_digest, parse_json, read_lines, unseal
from rbench.store.runs.outcomes import read_line
from rbench.store.runs.packed import DERIVED, open_run
from rbench.system.below import SMALL_BYTES, SafeFolder

OUTCOMES, PREDICTIONS, ROWS = "outcomes.jsonl", "predictions.jsonl", "rows.jsonl"
"""The files of lines beside a record."""
JOB_FILES = ("record.json", OUTCOMES, PREDICTIONS, ROWS)
"""All files of a job."""
PROCESSES = ".processes"
"""The folder in which the processes that run here say so (`rbench.execution.cluster.scheduler`). It is no result."""
PLAN = "plan.json"
JUDGED = "judged.json"
"""What people said of the RUN's texts (`rbench.store.judged`)."""
LOGS = "logs"
"""What trackers write."""
MADE_BY_RBENCH = (*DERIVED, LOGS, JUDGED)
"""What a RUN has beside its plan and the folders of its stages."""
OWN = (PLAN, PROCESSES, *MADE_BY_RBENCH)
"""All that a RUN has beside the folders of its stages."""
LineT = TypeVar("LineT", Prediction, MeasuredRow)
_MAX_NAMED = 3
"""How many damaged lines a message names. It counts the others."""
_REMEDY = "Run the suite again, or take outcomes.jsonl from where the RUN was copied from."
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_LONGEST_NAME = 120
"""Maximum length, because file systems limit it. A longer name is cut and completed with a hash."""


@dataclass(frozen=True)
class StoredRecord:
    """A job's record if it is reliable. If something is wrong, `problem` says what, and the remedy."""

    record: Record | None
    problem: str | None = None


@dataclass(frozen=True)
class OutcomeLines:
    """The lines of one file of a job's outcomes."""

    path: Path
    lines: tuple[StoredLine, ...]

    @property
    def outcomes(self) -> list[Outcome]:
        """The reliable outcomes in the order in which they happened. Only the first outcome of an example counts."""
        by_example: dict[str, Outcome] = {}
        for line in self.lines:
            if line.outcome is not None:
                by_example.setdefault(line.outcome.example_id, line.outcome)
        return list(by_example.values())

    @property
    def damage(self) -> str | None:
        """Which lines are damaged, and how; None if none is."""
        damaged = [f"line {line.number}: {line.problem}" for line in self.lines if line.outcome is None]
        others_note = f"; and {len(damaged) - _MAX_NAMED} more" if len(damaged) > _MAX_NAMED else ""
        lines = "1 line is" if len(damaged) == 1 else f"{len(damaged)} lines are"
        return f"{lines} damaged in {self.path} ({'; '.join(damaged[:_MAX_NAMED])}{others_note})" if damaged else None

    def check_owner(self) -> None:
        """Raise StoreError if a sound line belongs to another job."""
        if (other := next((line for line in self.lines if line.other_job), None)) is not None:
            raise StoreError(
                f"{self.path}:{other.number}: {other.problem}. Choose another --out for this suite, or delete the line."
            )


class RunReader:
    """What lies in the folder `root`. Every method raises StoreError if something cannot be read."""

    root: Path

    @property
    def parts(self) -> Sequence[RunReader]:
        """What is read as one: this RUN, or several."""
        return (self,)

    def plan(self) -> Plan | None:
        """Return the plan of the last run in this folder; None if there is none. StoreError if it is damaged."""
        path = self.root / PLAN
        content = files.read(path, self.opened())
        if content is None:
            return None
        try:
            plan = Plan.model_validate_json(unseal(content))
            _check_plan_jobs(plan)
        except ValueError as error:
            raise StoreError(
                f"{path} is damaged or from another version of rbench ({first_error(error)}). "
                "Run the suite again to replace it; finished jobs are kept."
            ) from error
        return plan

    def existing_plan(self) -> Plan:
        """Return the plan. Raises StoreError where there is none, for instance because the path is mistyped."""
        plan = self.plan()
        if plan is None:
            raise StoreError(f"{self.root} is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote.")
        return plan

    def folder(self, job: Job) -> Path:
        """Return the folder of this job's record and outcomes. It is always inside `root`."""
        return self.root / job.stage / folder_name(job.key[:16])

    def stored(self, job: Job) -> Job:
        """Return the job as its files name it: another one in a RUN with a label."""
        return job

    def below(self, job: Job) -> SafeFolder:
        """Return the RUN in which the job's folder lies; its files are read and written below it."""
        return self.opened()

    def opened(self) -> SafeFolder:
        """Return what reads the RUN, which may be packed. Raises StoreError if it is a file and no packed RUN."""
        return open_run(self.root)

    def said(self) -> bytes | None:
        """Return what people said of the RUN's texts, as `rbench.store.judged` wrote it; None where nobody was asked.

        Raises StoreError where the file cannot be read.
        """
        return files.read(self.root / JUDGED, self.opened())

    def look(self, job: Job) -> StoredRecord:
        """Check the job's record against the files beside it. Problems of this job are returned, not raised."""
        try:
            record = self._record(job)
            problem = self._find_contradiction(job, record) if record is not None else None
        except StoreError as error:
            record, problem = None, str(error)
        if problem is None:
            return StoredRecord(record)
        return StoredRecord(None, f"{problem} {job.name} counts as not done; the same rbench run makes it again.")

    def record(self, job: Job) -> Record | None:
        """Return the job's record; None if the job has not ended. Raises StoreError if the record is unreliable."""
        stored = self.look(job)
        if stored.problem is not None:
            raise StoreError(stored.problem)
        return stored.record

    def records(self, plan: Plan | None = None) -> list[Record]:
        """Return the reliable records of a plan's jobs, in its order; by default of the plan in this folder.

        Records that an earlier version of the suite left in the folder are not included.
        """
        plan = plan or self.plan()
        stored_records = [self.look(job).record for job in plan.jobs] if plan is not None else []
        return [record for record in stored_records if record is not None]

    def check_owner(self, job: Job) -> None:
        """Raise StoreError if the job's folder holds a sound record of another job: it must not be overwritten."""
        path = self.folder(job) / "record.json"
        with suppress(ValueError):  # a damaged record may be replaced: that repairs it
            other = Record.model_validate_json(unseal(files.read(path, self.below(job), SMALL_BYTES) or b"")).job
            recomputed = Job.make(other.spec, other.parts, other.needs, other.seed)
            if other.key != job.key and other.key == recomputed.key:
                raise StoreError(
                    f"{path} belongs to another job (key {other.key[:16]}) than {job.name} (key {job.key[:16]}): "
                    "their folders have the same name. Choose another --out for this suite."
                )

    def _record(self, job: Job) -> Record | None:
        """Read record.json without looking at the files beside it."""
        path = self.folder(job) / "record.json"
        content = files.read(path, self.below(job), SMALL_BYTES)
        if content is None:
            return None
        try:
            record_json = from_json(unseal(content))
            version = record_json.get("schema_version") if isinstance(record_json, dict) else None
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} has schema version {str(version)[:20]}, and this rbench reads {SCHEMA_VERSION}: "
                    "the rbench that wrote it can read it."
                )
            record = Record.model_validate(record_json)
        except ValueError as error:
            raise StoreError(f"{path} is damaged ({first_error(error)}).") from error
        stored_job_of_files = self.stored(job)
        if record.job.key != stored_job_of_files.key:
            self.check_owner(stored_job_of_files)
            raise StoreError(f"{path} is damaged (its key is not that of its content).")
        return record if stored_job_of_files is job else record.of(job)

    def _find_contradiction(self, job: Job, record: Record) -> str | None:
        """Say what is wrong with the files beside a record; None if they match its digests."""
        digests = {OUTCOMES: record.outcomes, PREDICTIONS: record.predictions, ROWS: record.rows}
        for name, stated_digest in digests.items():
            if stated_digest is None:
                continue
            path, content = self.folder(job) / name, self.content(job, name)
            if content is None and stated_digest.n:
                return f"{path} is missing: the record beside it lists {stated_digest.n} lines."
            if make_digest(content or b"", stated_digest.n, texts=stated_digest.texts) != stated_digest:
                what_differs = f"its {stated_digest.n} lines were changed"
                if name == OUTCOMES:
                    read = self.read(job)
                    damage = f", and {read.damage}" if read.damage else ""
                    what_differs = f"{len(read.outcomes)} of {stated_digest.n} outcomes are there and sound{damage}"
                return f"{path} does not match the record beside it: {what_differs}."
        return None

    def read(self, job: Job) -> OutcomeLines:
        """Read the lines of the job's outcomes, sound and damaged.

        An incomplete last line is left out. Reading writes nothing, so a table can be made while the run goes on.
        """
        return self._read(job, OUTCOMES)

    def _read(self, job: Job, name: str) -> OutcomeLines:
        return OutcomeLines(
            self.folder(job) / name, tuple(read_lines(self.content(job, name) or b"", self.stored(job)))
        )

    def part_files(self, job: Job) -> list[Path]:
        """Return the files of the job's outcomes: outcomes.jsonl, then those of single processes (`runs.parts`)."""
        with files.as_store_error(folder := self.folder(job)):
            paths = [entry.path for entry in self.below(job).entries(folder)]
        outcome_files = [path for path in paths if path.name.startswith("outcomes.") and path.suffix == ".jsonl"]
        return sorted(outcome_files, key=lambda path: (path.name != OUTCOMES, path.name))

    def reads(self, job: Job) -> list[OutcomeLines]:
        """Read the lines of all files of the job's outcomes."""
        return [self._read(job, name) for name in dict.fromkeys((OUTCOMES, *(f.name for f in self.part_files(job))))]

    def content(self, job: Job, name: str = OUTCOMES) -> bytes | None:
        """Return the bytes of one of the job's files as they are; None if there is no file."""
        return files.read(self.folder(job) / name, self.below(job), lined=True)

    def outcomes(self, job: Job) -> list[Outcome]:
        """Return the job's reliable outcomes, one for each example, also those of a job under way.

        Those of a complete job are the ones that its record has a digest of. A process that lost its lease may have
        written once more beside them. Raises StoreError where the file has this digest and a line that is no outcome
        of the job: then it was not rbench that wrote it, and to pass over the line would change numbers in silence.
        """
        by_example: dict[str, Outcome] = {}
        record = None
        with suppress(StoreError):  # whoever asks for the record is told
            record = self._record(job)
        stated_digest = record.outcomes if record is not None and record.status == "complete" else None
        reads = [self.read(job)] if stated_digest is not None else self.reads(job)
        if stated_digest is not None and (damage := reads[0].damage) is not None:
            content = self.content(job) or b""
            if make_digest(content, stated_digest.n, texts=stated_digest.texts) == stated_digest:
                raise StoreError(f"{damage}. {_REMEDY}")
        for read in reads:
            # Of two outcomes of an example the first counts, except one that errored and was tried again.
            for outcome in read.outcomes:
                if by_example.setdefault(outcome.example_id, outcome).status == "errored":
                    by_example[outcome.example_id] = outcome
        return list(by_example.values())

    def predictions(self, job: Job) -> list[Prediction]:
        """Read the predictions; an empty list if the job has written none. Raises StoreError for a damaged line."""
        return self._lines(job, PREDICTIONS, Prediction, "a prediction")

    def rows(self, job: Job) -> list[MeasuredRow]:
        """Read the rows of a measure; an empty list if there are none. Raises StoreError for a damaged line."""
        return self._lines(job, ROWS, MeasuredRow, "a row")

    def _lines(self, job: Job, name: str, model: type[LineT], called: str) -> list[LineT]:
        path = self.folder(job) / name
        models = []
        for number, line in enumerate((self.content(job, name) or b"").split(b"\n")[:-1], start=1):
            try:
                values = parse_json(line)
                key = values.pop("job")
                models.append(model.model_validate(values))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                place_and_error = f"{path}:{number} is not {called} ({first_error(error)})"
                raise StoreError(f"{place_and_error}. Delete the record beside it, and the job runs again.") from error
            if key != self.stored(job).key:
                raise StoreError(
                    f"{path}:{number} belongs to another job (key {str(key)[:16]}) than {job.name}. "
                    "Delete the record beside it, and the job runs again."
                )
        return models


def _check_plan_jobs(plan: Plan) -> None:
    """Raise ValueError unless each job is there once, after all that it needs, and has a name of its stage.

    Anybody may have written the plan's file.
    """
    earlier_keys: set[str] = set()
    for job in plan.jobs:
        if len(job.parts) not in job.name_parts:
            raise ValueError(f"a job of the stage {job.stage} has the name {job.name}")
        if job.key in earlier_keys:
            raise ValueError(f"{job.name} has the key of a job above it")
        for role, key in job.needs.items():
            if key not in earlier_keys:
                raise ValueError(f"{job.name} needs as {role} the job {key[:16]}, which is not above it")
        earlier_keys.add(job.key)


def read_columns(store: RunReader, job: Job, record: Record, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return these columns of each outcome of a job, in the order in which the outcomes happened.

    All columns of a line have their declared types, or it is refused. This is many times faster than to make whole
    outcomes, and takes the memory of these columns alone. Checksums of single lines are not compared, because a file
    that has the digest in its record is as it was written.

    Args:
        record: the job's complete record.
        names: names of `outcomes.COLUMNS`. A column that is younger than the file has its default. A text is a list of
            the task's columns.

    Raises:
        StoreError: the outcomes are missing, damaged, of another type or job, or not as many as the record counts.
    """
    path = store.folder(job) / OUTCOMES
    content = store.content(job)
    if content is None:
        raise StoreError(f"{path} is missing. {_REMEDY}")
    stated_digest, key = record.outcomes, store.stored(job).key
    if stated_digest is None or make_digest(content, stated_digest.n, texts=stated_digest.texts) != stated_digest:
        raise StoreError(f"{path} does not match the record beside it. {_REMEDY}")
    values = []
    for number, raw_line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            line = read_line(raw_line)
        except ValueError as error:
            raise StoreError(f"{path}:{number} is no outcome ({first_error(error)}). {_REMEDY}") from error
        if line.job != key:
            raise StoreError(f"{path}:{number} belongs to another job, with the key {line.job[:16]}. {_REMEDY}")
        values.append(tuple(map(line.outcome.__getitem__, names)))
    counted = sum(record.counts.get(name, 0) for name in ("succeeded", "failed", "skipped", "errored", "wordless"))
    if len(values) != counted:
        raise StoreError(f"{path} has {len(values)} outcomes, and the record beside it counts {counted}. {_REMEDY}")
    return values


def folder_name(part: str) -> str:
    """Turn one readable part of a job into a folder name. Percent-encoding keeps different parts different.

    >>> folder_name("bertattack[max_words=10]")
    'bertattack%5Bmax_words=10%5D'
    """
    name = _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), part)
    if not name.strip("."):  # "", "." and ".." would name other folders
        name = name.replace(".", "%2E") or "%"
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{sha256(part.encode()).hexdigest()[:12]}"
    return name
