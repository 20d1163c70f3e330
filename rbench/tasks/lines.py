"""Reads rows from files with one row per line: JSON Lines (`.jsonl`) and plain text (`.txt`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from rbench.config.registry import nearest
from rbench.config.tabular import lines_of, object_of
from rbench.errors import ResourceError
from rbench.schema import TEXT_FILES
from rbench.tasks.clean import Row


def read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number (from 1) and the values by column of each row. Blank lines are skipped.

    A line of a `.txt` file is a row with the single column `text`.

    Raises:
        ResourceError: a line is not UTF-8, or a line of a `.jsonl` file is not a JSON object; names `file:line`.
    """
    for number, text in lines_of(path):
        yield number, {"text": text} if path.suffix == ".txt" else object_of(text, f"{path}:{number}")


def corpus(path: Path) -> list[Row]:
    """Read the rows of a file that is a whole corpus. Ids are row numbers, so that renaming the file changes no id.

    Raises:
        ResourceError: as `read`, or the file has no row.
    """
    rows = [Row(f"train:{i}", f"{path}:{line}", values) for i, (line, values) in enumerate(read(path))]
    if not rows:
        raise ResourceError(
            f'{path}: the corpus is empty; expected one text a line, or {{"text": ...}} in a .jsonl file'
        )
    return rows


def places_of(name: str, data_path: Sequence[Path]) -> tuple[Path, bool, list[Path]]:
    """Return the path that a task names, whether it may lie below a data folder, and the places where it is looked for.

    An absolute path, or one with `..`, does not.
    """
    path = Path(name).expanduser()
    inside = not path.is_absolute() and ".." not in PurePosixPath(name).parts
    return path, inside, [path, *(root / path for root in data_path if inside)]


def find(name: str, data_path: Sequence[Path]) -> Path:
    """Find the corpus file `name`: a path, or a path below a data folder.

    Raises:
        ResourceError: there is no such file; names files in its folder with similar names.
    """
    path, inside, places = places_of(name, data_path)
    if (found := next(filter(Path.is_file, places), None)) is not None:
        return found
    looked = ", ".join(str(folder) for folder in (path.parent, *(data_path if inside else ())))
    there = [p.name for p in path.parent.iterdir() if p.suffix in TEXT_FILES] if path.parent.is_dir() else []
    close = nearest(path.name, there)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    raise ResourceError(f"corpus {name}: there is no such file in {looked}{hint}")
