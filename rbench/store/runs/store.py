"""Write one RUN: its plan, its tables, and each job's record, outcomes, predictions and rows; or move it aside."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import get_args

from rbench.errors import StoreError
from rbench.schema import Digest, Job, MeasuredRow, Outcome, Plan, Prediction, Record, Stage, Strict
from rbench.store.runs import files
from rbench.store.runs.files import digest, seal, write_line
from rbench.store.runs.packed import Packed
from rbench.store.runs.reader import MADE, OUTCOMES, OWN, PLAN, PREDICTIONS, PROCESSES, ROWS, Reader
from rbench.system.below import SMALL, Below

_SUITE = "suite"
"""The file of PROCESSES with the path of the suite's file, relative to the RUN, so that both may be moved together."""


def folder_path(value: object) -> Path:
    """Return what a call names as a folder or file. Raises StoreError if it is no path."""
    try:
        found = Path(value)  # type: ignore[arg-type]
        if "\0" not in str(found):
            return found
    except TypeError:
        pass
    said = repr(value)
    said = said if len(said) <= 60 else f"{said[:57]}..."
    raise StoreError(f"expected the path of a RUN, the folder that `rbench run` wrote, and not {said}")


class Store(Reader):
    """What a run has written to the folder `root`. The folder is created when something is written.

    Every method raises StoreError if something cannot be read or written.

    Args:
        texts: whether outcomes are written with their texts.
    """

    def __init__(self, root: Path, *, texts: bool = True) -> None:
        self.root, self.texts = Path(root), texts

    def write_plan(self, plan: Plan) -> None:
        """Write the plan. It decides what `records` returns and how tables are laid out."""
        self._write(self.root / "plan.json", seal(plan.model_dump_json(indent=1)))

    def note_suite(self, suite: Path | None) -> None:
        """Write down the file of the suite that runs here, if it has one, for `check_suite`."""
        if suite is not None:
            with suppress(OSError, ValueError):  # ValueError: on another drive. Then nothing is compared.
                place = os.path.relpath(suite.resolve(), self.root.resolve())
                Below(self.root).replace(self.root / PROCESSES / _SUITE, place.encode())

    def check_suite(self, suite: Path | None) -> None:
        """Raise StoreError if the RUN is of another file that is still there and has another content than this one.

        So another file of the same name is not run into the same folder.
        """
        with suppress(OSError, ValueError):
            said = Below(self.root).read(self.root / PROCESSES / _SUITE, SMALL).decode()
            other = Path(os.path.normpath(self.root.resolve() / said))
            if suite is None or other == suite.resolve() or not other.is_file():
                return
            # The RUN may be somebody else's, and name anything: a device, a giant file.
            content, own = (Below(file.parent).read(file, SMALL) for file in (other, suite.resolve()))
            if content != own:
                raise StoreError(
                    f"{self.root} holds the RUN of {other}, and {suite} has the same name. Choose another folder for "
                    "this one: --out DIR; or --fresh, which sets the old results aside"
                )

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
        """Replace all outcomes of a job, also those in the files of single processes; return the record's digest."""
        kept = outcomes if self.texts else [outcome.without_texts() for outcome in outcomes]
        content = b"".join(write_line(job, outcome) + b"\n" for outcome in kept)
        files.write(self.folder(job) / OUTCOMES, content, self.below(job))
        for path in self.part_files(job):
            if path.name != OUTCOMES:
                self.remove(job, path)
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
        files.write(path, content, self.opened())

    def remove(self, job: Job, path: Path) -> None:
        """Remove one of the job's files, if it is there."""
        with files.as_store_error(path):
            self.below(job).remove(path)

    def of_stages(self) -> Iterator[tuple[str, Path]]:
        """Yield the regular files in the folders of stages, each with its stage. Links are left out."""
        below = self.opened()
        for path, kind in below.entries(self.root):
            if kind == "folder" and path.name in get_args(Stage):
                for file in below.files(path):
                    yield path.name, file

    def foreign(self, folders: Iterable[Path]) -> Iterator[str]:
        """Say what in a RUN is neither a folder nor a regular file, with the remedy.

        A RUN may lie in a folder with other things. These are not looked at.

        Args:
            folders: the folders of its jobs.
        """
        below = self.opened()
        if isinstance(below, Packed):
            yield from below.damage()
            return
        for path in (*(self.root / name for name in OWN), *folders):
            try:
                below.check(path)
            except StoreError as error:
                yield str(error)

    def set_aside(self) -> Path | None:
        """Move the RUN to `<run>.<timestamp>` beside it and return that; None if there is none.

        Where the RUN is a mount point, that folder is made inside it. Things that rbench did not write stay where they
        are, for a RUN may lie in a folder with others. No other process may run in the folder. Never deletes.

        Raises StoreError if the folder cannot be read or written.
        """
        with files.as_store_error(self.root):
            entries = Below(self.root).entries(self.root)
            # A folder build/ of a user's project has no results.
            files_of = ((stage, path.name) for stage, path in self.of_stages())
            results = {
                stage
                for stage, name in files_of
                if name == "record.json" or (name.startswith("outcomes") and name.endswith(".jsonl"))
            }
        found = {entry.path.name for entry in entries}
        own = [PLAN, *results, *MADE] if PLAN in found or results else []
        return self._moved([name for name in own if name in found]) if own else None

    def _moved(self, names: list[str]) -> Path:
        name = f"{self.root.resolve().name}.{datetime.now():%Y%m%d-%H%M%S}"
        for place in (files.beside(self.root, name), self.root / name):
            aside = files.unused(place)
            with files.as_store_error(aside):
                aside.mkdir()
                try:
                    for name in names:
                        (self.root / name).rename(aside / name)
                    return aside
                except OSError as error:
                    if error.errno != errno.EXDEV or any(aside.iterdir()):
                        raise
                    aside.rmdir()  # the RUN is a mount point: nothing can be moved out of it
        raise AssertionError("a folder lies on one file system with what it holds")
