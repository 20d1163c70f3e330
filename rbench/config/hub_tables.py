"""Data sets of the Hugging Face Hub that a suite names in place of a task: `tasks: [hf:OWNER/NAME]`.

    hf:OWNER/NAME[:CONFIG][@REVISION]

The data set is saved once into rbench's cache, in a folder whose name has the commit, and is a table of the user's from
there on: columns and labels are guessed, shown and overridable. A branch is asked for at each planning; where the hub
cannot be reached, the copy that was saved last is read. No code of the hub is run.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.tabular import SPLITS
from rbench.errors import ResourceError
from rbench.schema import Origin
from rbench.system import scratch

PREFIX = "hf:"
_FORM = re.compile(r"hf:(?P<id>[^:@\s]+)(?::(?P<config>[^@\s]+))?(?:@(?P<revision>\S+))?")


class HubTable(NamedTuple):
    """A data set of the hub, as a suite names it."""

    id: str
    config: str | None
    revision: str | None

    @property
    def name(self) -> str:
        """The name of its task: the data set's, and its configuration."""
        words = [self.id.rpartition("/")[2], *([self.config] if self.config else [])]
        return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(words))

    def saved(self) -> SavedTable:
        """Return the data set in the cache; see `save_table`."""
        return save_table(self)

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}" + (f":{self.config}" if self.config else "")


class SavedTable(NamedTuple):
    """A data set of the hub in the cache."""

    folder: Path
    notes: tuple[str, ...]
    origin: Origin | None = None
    """The data set of the hub that it is a copy of; None: it is a table of the user's."""
    content: Mapping[str, Any] = {}
    """What is known of it: options of a table, or of a ranking the content of its task's file."""


def ranking_content(folder: Path) -> dict[str, Any]:
    """Return the content of the task of a folder in BEIR's layout."""
    return {"kind": "ranking", "columns": ["query"], "ranking": {"folder": str(folder)}}


def is_hub_table(written: str) -> bool:
    return written.startswith(PREFIX)


def read_name(written: str) -> HubTable:
    """Return the data set that a text names. Raises ResourceError where it is not of the form above."""
    from rbench.system import hub  # loaded for such names alone

    match = _FORM.fullmatch(written)
    if match is None or not hub.is_repo_id(match["id"]):
        raise ResourceError(f"{written}: expected hf:OWNER/NAME, hf:OWNER/NAME:CONFIG, or either with @REVISION")
    return HubTable(match["id"], match["config"], match["revision"])


def save_table(hub_table: HubTable) -> SavedTable:
    """Return the data set in the cache, downloaded first where its commit is not there.

    Raises ResourceError where the hub has no such data set, revision or configuration, or cannot be reached and nothing
    is saved.
    """
    from rbench.system import hub

    root = scratch.default_cache() / "datasets"
    stem = "--".join([*hub_table.id.split("/"), *([hub_table.config] if hub_table.config else [])])
    pinned = hub_table.revision is not None and hub.COMMIT.fullmatch(hub_table.revision) is not None
    if pinned and (folder := root / f"{stem}@{hub_table.revision}").is_dir():
        return _saved(hub_table, folder, str(hub_table.revision))
    try:
        commit = hub.ask(hub_table.id, "dataset", hub_table.revision)
    except hub.HubUnreachable as error:
        earlier = (
            sorted(root.glob(f"{stem}@*"), key=lambda saved_folder: saved_folder.stat().st_mtime) if not pinned else []
        )
        if not earlier:
            raise ResourceError(f"{hub_table} is not in rbench's cache; {error}") from error
        commit = earlier[-1].name.rpartition("@")[2]
        return _saved(hub_table, earlier[-1], commit, f", which was saved before: {error}")
    except ResourceError as error:
        raise ResourceError(f"{hub_table}: {error}") from error
    folder = root / f"{stem}@{commit}"
    if not folder.is_dir():
        save_splits(_download_splits(hub_table, commit), folder)
    return _saved(hub_table, folder, commit)


def _saved(hub_table: HubTable, folder: Path, commit: str, addition: str = "") -> SavedTable:
    note = f"{hub_table} is read at its commit {commit}; @{commit} behind the name pins it{addition}"
    return SavedTable(folder, (note,), Origin(id=hub_table.id, revision=commit, config=hub_table.config))


def _download_splits(hub_table: HubTable, commit: str) -> Mapping[str, Any]:
    """Return the splits of a data set as the datasets library reads them."""
    import inspect

    import datasets

    from rbench.system import hub

    known = inspect.signature(datasets.load_dataset_builder).parameters
    no_code = {"trust_remote_code": False} if "trust_remote_code" in known else {}
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        splits = datasets.load_dataset(hub_table.id, hub_table.config, revision=commit, **no_code)
    except (*hub.failure_types(), datasets.exceptions.DatasetsError, RuntimeError, ValueError) as error:
        message_lines = (str(error).strip() or type(error).__name__).splitlines()
        shown = next((line for line in message_lines if line.strip()), message_lines[0])
        if "Config name is missing" in str(error) and len(message_lines) > 1:
            shown = f"{message_lines[0]} {message_lines[1]} Name one: {hub_table}:CONFIG"
        if "scripts are no longer supported" in str(error) or "trust_remote_code" in str(error):
            shown = "its rows are made by a script, and rbench runs no code from the hub"
        raise ResourceError(f"{hub_table}: {shown}") from error
    return with_labelled_test(dict(splits))


def with_labelled_test(splits: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the splits of a data set with one whose labels are there as `test`.

    Benchmarks such as GLUE hide the labels and scores of the test split: each is -1, the number that no name has. The
    validation split is then the test split, and nothing is left of the hidden one.
    """
    by_name = {SPLITS.get(name, name): name for name in splits}
    if "test" not in by_name or "validation" not in by_name or not _is_hidden(splits[by_name["test"]]):
        return splits
    others = {name: rows for name, rows in splits.items() if name not in (by_name["test"], by_name["validation"])}
    return {**others, "test": splits[by_name["validation"]]}


def _is_hidden(rows: Any) -> bool:
    label_columns = [
        column
        for column, kind in rows.features.items()
        if getattr(kind, "names", None) or getattr(kind, "dtype", "").startswith("float")
    ]
    return any(len(rows) > 0 and set(rows.with_format(None).unique(column)) == {-1} for column in label_columns)


def save_splits(splits: Mapping[str, Any], folder: Path) -> None:
    """Write a data set as one folder, which has its name once it is whole."""
    import datasets

    with scratch.writable_cache(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".saving-", dir=folder.parent))
        try:
            datasets.DatasetDict(splits).save_to_disk(str(unfinished / "set"))
            (unfinished / "set").replace(folder)
        except OSError:
            if not folder.is_dir():  # another process may have been first
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
