"""Write one RUN: its plan, its tables, and each job's record, outcomes, predictions and rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rbench.errors import StoreError
from rbench.spec import Digest, Job, MeasuredRow, Outcome, Plan, Prediction, Record, Strict
from rbench.storage.runs import files
from rbench.storage.runs.folder import RunFolder
from rbench.storage.runs.lines import digest, write_line
from rbench.storage.runs.reader import OUTCOMES, PREDICTIONS, ROWS, Reader
from rbench.storage.runs.sealed import seal
from rbench.system.below import Below


class Store(Reader, RunFolder):
    """What a run has written to the folder `root`. The folder is created when something is written.

    Every method raises StoreError if something cannot be read or written.

    Args:
        texts: whether outcomes are written with their texts.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        RunFolder.__init__(self, root)
        self.texts = texts

    def write_plan(self, plan: Plan) -> None:
        """Write the plan. It decides what `records` returns and how tables are laid out."""
        self._write(self.root / "plan.json", seal(plan.model_dump_json(indent=1)))

    def write_table(self, name: str, text: str) -> Path:
        """Write a table under this file name. It replaces an older one, which stays if the writing fails."""
        path = self.root / "tables" / name
        try:
            self._write(path, text.rstrip("\n").encode() + b"\n")
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
        self._write(self.folder(record.job) / "record.json", seal(kept.model_dump_json(indent=1)))

    def write_outcomes(self, job: Job, outcomes: Sequence[Outcome]) -> Digest:
        """Replace all outcomes of a job; return the digest for its record."""
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        content = b"".join(write_line(job, outcome) + b"\n" for outcome in kept)
        files.write(self.folder(job) / OUTCOMES, content, self.below(job))
        return digest(content, len(kept), texts=any(outcome.original is not None for outcome in kept))

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
        files.write(self.folder(job) / name, content, self.below(job))
        return digest(content, len(written), texts=False)

    def _write(self, path: Path, content: bytes) -> None:
        files.write(path, content, Below(self.root))
