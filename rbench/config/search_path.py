"""Makes search paths: folders given by flags, then those of an environment variable that is written like PATH."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def search_path(flag_values: Iterable[Path | str], env_name: str) -> tuple[Path, ...]:
    """Return the folders to search, first to last, each once, with `~` expanded.

    An empty variable counts as unset. An empty entry in it is skipped and never means the current folder.
    """
    entries = (entry.strip() for entry in os.environ.get(env_name, "").split(os.pathsep))
    found = [Path(value).expanduser() for value in (*flag_values, *filter(None, entries))]
    return tuple(dict.fromkeys(found))
