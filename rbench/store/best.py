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
from rbench.schema.space import Key, Known
from rbench.store.runs import files
from rbench.system.below import MEGABYTE

MOST = 64 * MEGABYTE
"""Most bytes of the file."""
_PATIENCE = 600
"""Seconds that are waited for another process that writes the file."""
_NAMED = 20
"""How many damaged lines a message names."""


class Changed(NamedTuple):
    """How many entries a file has now, how many of them are new, and how many have fewer words than before."""

    entries: int
    new: int
    lowered: int


def read(path: Path) -> dict[Key, Known]:
    """Return the entries of a file; none where there is no file.

    Raises StoreError, with a line for each mistake, if it is damaged or too large.
    """
    found: dict[Key, Known] = {}
    said = []
    for number, line in enumerate((files.read(path, most=MOST) or b"").splitlines(), start=1):
        try:
            one = Known.model_validate_json(line)
            if found.setdefault(one.key, one) is not one:
                raise ValueError("a line above it is of the same victim, text and space")
        except ValueError as error:
            said.append(
                f"{path}:{number} is no entry ({files.first_error(error)}). Delete the line; rbench judge best RUN..."
            )
    if said:
        raise StoreError("\n".join(f"{one} finds again what is in RUNs." for one in said[:_NAMED]))
    return found


def raised(path: Path, found: Iterable[Known], false: Collection[Key] = ()) -> Changed:
    """Take entries into a file: those of new texts, and those with fewer words than what it has.

    Args:
        found: entries that were checked.
        false: the keys of entries of the file that proved false. They are removed before.

    The file is locked meanwhile, and replaced in one step. If nothing changes, it is left alone.

    Raises StoreError if it is damaged, would be too large, or cannot be written or locked.
    """
    files.make_folder_of(path)
    try:
        with files.as_store_error(path), filelock.FileLock(f"{path}.lock", timeout=_PATIENCE):
            before = read(path)
            known = {key: one for key, one in before.items() if key not in false}
            for one in sorted(found, key=lambda one: (one.words, one.queries)):
                if one.key not in known or one.words < known[one.key].words:
                    known[one.key] = one
            content = "".join(known[key].model_dump_json() + "\n" for key in sorted(known)).encode()
            if len(content) > MOST:
                raise StoreError(f"{path} would have more than {MOST:,} bytes. Keep some RUNs in another: --to FILE")
            if known != before:
                files.write(path, content)
    except filelock.Timeout as error:
        raise StoreError(f"{path} is being written by another process. Try again when it has ended.") from error
    return Changed(
        len(known), len(known.keys() - before.keys()), sum(known.get(key, one) != one for key, one in before.items())
    )
