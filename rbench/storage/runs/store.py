"""Write one RUN: its plan, its tables, and each job's record, outcomes, predictions and rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.errors import StoreError
from rbench.spec import Digest, Job, MeasuredRow, Outcome, Plan, Prediction, Record, Strict
from rbench.storage.runs import files
from rbench.storage.runs.folder import RunFolder
from rbench.storage.runs.lines import Line, digest, read_lines, write_line
from rbench.storage.runs.reader import OUTCOMES, PREDICTIONS, ROWS, Reader


@dataclass(frozen=True)
class Resumed:
    """The outcomes that a job keeps when it starts again."""

    outcomes: list[Outcome]
    notes: tuple[str, ...]
    """What was removed from the file, and why."""


class Store(Reader, RunFolder):
    """What a run has written to the folder `root`. The folder is created when something is written.

    Every method raises StoreError if the folder is locked, or cannot be read or written.

    Args:
        texts: whether outcomes are written with their texts.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        RunFolder.__init__(self, root)
        self.texts = texts

    def write_plan(self, plan: Plan) -> None:
        """Write the plan. It decides what `records` returns and how tables are laid out."""
        _write(self.root / "plan.json", plan.model_dump_json(indent=1))

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

    def write_record(self, record: Record) -> None:
        """Write a job's record. It replaces an older one of the same job, such as a failed one."""
        self.check_owner(record.job)
        kept = record if self.texts else record.without_texts()
        _write(self.folder(record.job) / "record.json", kept.model_dump_json(indent=1))

    def append(self, job: Job, outcome: Outcome) -> None:
        """Append one outcome of the job. It is on disk when this returns. An incomplete last line is cut off first."""
        files.append(self.folder(job) / OUTCOMES, write_line(job, outcome if self.texts else outcome.without_texts()))

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
        read.check_owner()
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
        files.write(self.folder(job) / OUTCOMES, content)
        return _digest(content, kept)

    def seal(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Return the digest of the job's outcomes for its record, once all `outcomes` are written.

        Raises StoreError unless the file holds exactly these outcomes, one line each.
        """
        path = self.folder(job) / OUTCOMES
        content = files.read(path) or b""
        found = [line.outcome for line in read_lines(content, job)]
        there = sorted(outcome.model_dump_json() for outcome in found if outcome is not None)
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        torn = content.rpartition(b"\n")[2]
        if torn or None in found or there != sorted(outcome.model_dump_json() for outcome in kept):
            raise StoreError(f"{path} changed while the run was under way; run the same command again.")
        return _digest(content, kept)

    def write_predictions(self, job: Job, predictions: Sequence[Prediction]) -> Digest:
        """Write the victim's prediction for each text of a contrast set, replacing older ones of the same job.

        Returns the digest for the job's record.
        """
        return self._write_lines(job, PREDICTIONS, predictions)

    def write_rows(self, job: Job, rows: Sequence[MeasuredRow]) -> Digest:
        """Write the rows of a measure, replacing older ones of the same job. Returns the digest for its record."""
        return self._write_lines(job, ROWS, rows)

    def _write_lines(self, job: Job, name: str, lines: Sequence[Strict]) -> Digest:
        self.check_owner(job)
        written = [json.dumps({"job": job.key, **one.model_dump()}) + "\n" for one in lines]
        content = "".join(written).encode()
        files.write(self.folder(job) / name, content)
        return digest(content, len(written), texts=False)


def _digest(content: bytes, outcomes: Sequence[Outcome]) -> Digest:
    return digest(content, len(outcomes), texts=any(outcome.original is not None for outcome in outcomes))


def _write(path: Path, text: str) -> None:
    files.write(path, text.encode() + b"\n")
