"""Reads rows from files with one row per line: JSON Lines (`.jsonl`) and plain text (`.txt`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from rbench.config.registry import nearest_names
from rbench.config.tabular import numbered_lines, parse_object
from rbench.errors import ResourceError
from rbench.tasks.clean import SourceRow


def read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number (from 1) and the values by column of each row. Blank lines are skipped.

    A line of a `.txt` file is a row with the single column `text`.

    Raises:
        ResourceError: a line is not UTF-8, or a line of a `.jsonl` file is not a JSON object; names `file:line`.
    """
    for number, text in numbered_lines(path):
        yield number, {"text": text} if path.suffix == ".txt" else parse_object(text, f"{path}:{number}")


def read_corpus(path: Path) -> list[SourceRow]:
    """Read the rows of a file that is a whole corpus. Ids are row numbers, so that renaming the file changes no id.

    Raises:
        ResourceError: as `read`.
    """
    return [SourceRow(f"train:{i}", f"{path}:{line}", values) for i, (line, values) in enumerate(read(path))]


def candidate_places(name: str, data_path: Sequence[Path]) -> tuple[Path, bool, list[Path]]:
    """Return the path that a task names, whether it may lie below a data folder, and the places where it is looked for.

    An absolute path, or one with `..`, does not.
    """
    path = Path(name).expanduser()
    below_data = not path.is_absolute() and ".." not in PurePosixPath(name).parts
    return path, below_data, [path, *(root / path for root in data_path if below_data)]


def find_place(name: str, data_path: Sequence[Path], wanted: str) -> Path:
    """Find a file or folder: a path, or a path below a data folder.

    Args:
        name: the path.
        data_path: the data folders.
        wanted: what looks for it, for the message.

    Raises:
        ResourceError: there is none; names what lies there with similar names.
    """
    path, _, places = candidate_places(name, data_path)
    if (existing := next(filter(Path.exists, places), None)) is not None:
        return existing
    folders = [place.parent for place in places]
    neighbours = [neighbour.name for folder in folders if folder.is_dir() for neighbour in folder.iterdir()]
    close_names = nearest_names(path.name, neighbours)
    hint = f"; did you mean {' or '.join(close_names)}?" if close_names else ""
    raise ResourceError(f"{wanted}: there is no {path.name} in {', '.join(map(str, folders))}{hint}")
