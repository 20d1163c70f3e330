"""Keep what is known to fool victims in one file, a line an entry. It only ever rises: words become fewer, never more.
What proves false when it is asked again is removed.

The file may come from anybody, so it is read as such: of bounded size, each line checked, each mistake named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import filelock

from rbench.errors import StoreError
from rbench.schema.space import Key, KnownAdversarial
from rbench.store.runs import files
from rbench.system.below import MEGABYTE

MOST = 64 * MEGABYTE
"""Most bytes of the file."""
_PATIENCE_SECONDS = 600
"""Seconds that are waited for another process that writes the file."""
_MAX_NAMED = 20
"""How many damaged lines a message names."""


class EntryChanges(NamedTuple):
    """How many entries a file has now, how many of them are new, and how many have fewer words than before."""

    entries: int
    new: int
    lowered: int


def read_entries(path: Path) -> dict[Key, KnownAdversarial]:
    """Return the entries of a file; none where there is no file.

    Raises StoreError, with a line for each mistake, if it is damaged or too large.
    """
    entries: dict[Key, KnownAdversarial] = {}
    mistakes = []
    for number, line in enumerate((files.read(path, most=MOST) or b"").splitlines(), start=1):
        try:
            entry = KnownAdversarial.model_validate_json(line)
            if entries.setdefault(entry.key, entry) is not entry:
                raise ValueError("a line above it is of the same victim, text and space")
        except ValueError as error:
            mistakes.append(
                f"{path}:{number} is no entry ({files.first_error(error)}). Delete the line; rbench judge best RUN..."
            )
    if mistakes:
        raise StoreError("\n".join(f"{entry} finds again what is in RUNs." for entry in mistakes[:_MAX_NAMED]))
    return entries


def raise_entries(path: Path, checked: Iterable[KnownAdversarial], false: Collection[Key] = ()) -> EntryChanges:
    """Take entries into a file: those of new texts, and those with fewer words than what it has.

    Args:
        checked: entries that were checked.
        false: the keys of entries of the file that proved false. They are removed before.

    The file is locked meanwhile, and replaced in one step. If nothing changes, it is left alone.

    Raises StoreError if it is damaged, would be too large, or cannot be written or locked.
    """
    files.make_folder_of(path)
    try:
        with files.as_store_error(path), filelock.FileLock(f"{path}.lock", timeout=_PATIENCE_SECONDS):
            # Read under the lock: another process may have raised entries since these were checked.
            entries_before = read_entries(path)
            entries = {key: entry for key, entry in entries_before.items() if key not in false}
            for entry in sorted(checked, key=lambda entry: (entry.words, entry.queries)):
                if entry.key not in entries or entry.words < entries[entry.key].words:
                    entries[entry.key] = entry
            content = "".join(entries[key].model_dump_json() + "\n" for key in sorted(entries)).encode()
            if len(content) > MOST:
                raise StoreError(f"{path} would have more than {MOST:,} bytes. Keep some RUNs in another: --to FILE")
            if entries != entries_before:
                files.write(path, content)
    except filelock.Timeout as error:
        raise StoreError(f"{path} is being written by another process. Try again when it has ended.") from error
    return EntryChanges(
        len(entries),
        len(entries.keys() - entries_before.keys()),
        sum(entries.get(key, entry) != entry for key, entry in entries_before.items()),
    )
