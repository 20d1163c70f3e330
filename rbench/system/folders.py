"""Makes the folder of a file that a user asks for."""

from __future__ import annotations

from pathlib import Path

from rbench.errors import StoreError


def make_folder_of(file: Path) -> None:
    """Make the folder that the file is to stand in, with those above it.

    Raises:
        StoreError: it cannot be made, for instance because a file has its name.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{file}: the folder cannot be made: {error.strerror} ({error.filename})") from error
