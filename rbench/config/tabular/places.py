"""Opens a place of rows: one file, a folder with a file for each split, or a folder of the datasets library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rbench.config.tabular import readers
from rbench.config.tabular.readers import Table
from rbench.errors import ResourceError

READERS: Mapping[str, Callable[[Path], Table]] = {
    ".csv": lambda path: readers.read_delimited(path, ","),
    ".tsv": lambda path: readers.read_delimited(path, "\t"),
    ".json": readers.read_json,
    ".jsonl": readers.read_lines,
    ".parquet": readers.read_parquet,
}
"""How a file is read, by its suffix. All but parquet may be packed: `.csv.gz`."""
SPLITS = {
    **{name: name for name in ("train", "validation", "test")},
    **dict.fromkeys(("valid", "val", "dev"), "validation"),
}
"""rbench's names of splits, by the names that files and data sets have."""
_STEM = re.compile(r"(.+?)(?:-(\d{5})-of-(\d{5})(?:-[0-9a-f]{16})?)?")
"""A split's file, or one of several: `train-00000-of-00002.parquet`, as the hub has them; older ones end in a hash."""


@dataclass(frozen=True)
class Place:
    """What a place holds: one table that is not divided (`whole`), or tables by split (train, validation, test)."""

    path: Path
    whole: Table | None
    splits: Mapping[str, Table]
    left_out: tuple[str, ...] = ()
    """Splits of the place that rbench has no use for."""

    @property
    def tables(self) -> list[Table]:
        """All tables, of which there is at least one."""
        return [self.whole] if self.whole is not None else list(self.splits.values())


def suffix_of(name: str) -> str:
    """Return the suffix by which a file is read, without `.gz`. Empty for names of other files."""
    lower = name.lower()
    packed = lower.endswith(".gz")
    suffix = Path(lower.removesuffix(".gz")).suffix
    return suffix if suffix in READERS and not (packed and suffix == ".parquet") else ""


def is_table(name: str) -> bool:
    """Whether the name of a file is that of a table."""
    return bool(suffix_of(name))


def open_place(path: Path) -> Place:
    """Read all rows of a place.

    Raises:
        ResourceError: there is no such place, it has no table or several of one split, or a table cannot be read.
    """
    if path.is_file():
        return Place(path, _read(path), {})
    if readers.is_saved(path):
        return _named(path, readers.read_saved(path))
    found = splits_of(path)
    tables: dict[str, Table] = {}
    for split, files in found.items():  # several files of one split are one table
        first, *others = [_read(file) for file in files]
        rows = [row for table in (first, *others) for row in table.rows]
        tables[split] = Table(first.path, first.columns, rows, first.names) if others else first
    return Place(path, None, tables)


def files_of(path: Path) -> list[Path]:
    """Return the files that `open_place` reads. Raises ResourceError as it does."""
    if path.is_file():
        return [path]
    if readers.is_saved(path):
        return sorted(file for file in path.rglob("*") if file.is_file())
    return [file for files in splits_of(path).values() for file in files]


def splits_of(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each split in a folder: `train.csv`, `test.parquet`, `valid.jsonl` ...

    Raises:
        ResourceError: there is no such folder, it has no such file, a split has several files, or a numbered one is
            missing.
    """
    if not folder.is_dir():
        raise ResourceError(f"{folder}: there is no such file or folder")
    tables = sorted(file for file in folder.iterdir() if file.is_file() and is_table(file.name))
    found: dict[str, dict[str, list[Path]]] = {}
    for file in tables:
        stem, ending = _parted(file.name)
        name = _STEM.fullmatch(stem)
        split = SPLITS.get(name[1].lower()) if name is not None else None
        if split is not None and name is not None:
            whole = f"{name[1]}-of-{name[3]}{ending}" if name[3] else file.name  # what the file is, or is a piece of
            found.setdefault(split, {}).setdefault(whole, []).append(file)
    for split, wholes in found.items():
        if len(wholes) > 1:
            several = ", ".join(file.name for files in wholes.values() for file in files)
            raise ResourceError(f"{folder}: its {split} split has several files ({several}); remove all but one")
        _check_whole(folder, split, next(iter(wholes.values())))
    if not found:
        there = ", ".join(file.name for file in tables[:5])
        hint = (
            f"it has {there}: name one of them, or rename it to test{_parted(tables[0].name)[1]}"
            if there
            else "it has no table"
        )
        raise ResourceError(
            f"{folder}: expected train, validation and test files ({', '.join(READERS)}), or a folder of "
            f"`datasets.save_to_disk`; {hint}"
        )
    return {split: next(iter(found[split].values())) for split in ("train", "validation", "test") if split in found}


def _parted(name: str) -> tuple[str, str]:
    """Return the name of a table without its endings, and these: `train` and `.csv.gz`."""
    ending = suffix_of(name) + (".gz" if name.lower().endswith(".gz") else "")
    return name[: -len(ending)], ending.lower()


def _check_whole(folder: Path, split: str, files: Sequence[Path]) -> None:
    """Raise ResourceError where one of the numbered files of a split is missing, or there twice."""
    numbered = [found for file in files if (found := _STEM.fullmatch(_parted(file.name)[0])) and found[3]]
    if not numbered:
        return
    there, count = [int(found[2]) for found in numbered], int(numbered[0][3])
    if missing := sorted({*range(count)} - {*there}):
        raise ResourceError(
            f"{folder}: its {split} split lacks {len(missing)} of {count} files (number {missing[0]:05d}); put all "
            "numbers of one set there"
        )
    if len(there) != count:
        raise ResourceError(f"{folder}: its {split} split has {len(there)} files numbered as {count}; leave each once")


def _read(path: Path) -> Table:
    suffix = suffix_of(path.name)
    if not suffix:
        raise ResourceError(f"{path}: a table ends in {', '.join(READERS)}, and all but parquet may end in .gz too")
    return READERS[suffix](path)


def _named(path: Path, tables: Mapping[str, Table]) -> Place:
    """Return the place of a folder of the datasets library. A data set with one split is not divided."""
    found: dict[str, Table] = {}
    for name, table in tables.items():
        split = SPLITS.get(name)
        if split is not None and split in found:
            raise ResourceError(f"{path}: its splits {', '.join(tables)} name the {split} split twice; remove one")
        if split is not None:
            found[split] = table
    if len(tables) == 1 and "test" not in found:
        return Place(path, next(iter(tables.values())), {})
    left_out = tuple(name for name in tables if name not in SPLITS)
    if not found:
        raise ResourceError(f"{path}: its splits are {', '.join(tables)}; expected train, validation and test")
    return Place(path, None, found, left_out)
