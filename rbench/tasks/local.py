"""Finds and reads a task's local copy: JSON Lines in `<folder>/<split>.jsonl` under a data folder.

A source that ends in `.txt` is that file, with one text per line. `<folder>/*` means all `.jsonl` and `.txt` files of a
folder.

Layouts are tried in order, and the first whose files all exist is used:

1. the split files that the task's `local.splits` names;
2. the undivided file that `local.unsplit` names, divided by the seeded rule of `split.divide_in_three`;
3. `<task>/train.jsonl`, `<task>/validation.jsonl`, `<task>/test.jsonl`; without a validation file a seeded tenth of the
   training rows takes its place (`split.draw_holdout`). A corpus (kind `unlabelled`) has only `<task>/train.jsonl`.

Data folders are searched first to last. All files of a layout come from one folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import StrictInt, TypeAdapter

from rbench.errors import ResourceError
from rbench.schema import TEXT_FILES, TaskSpec, Unsplit, is_text_file
from rbench.system import named
from rbench.system.own_code import failing_in
from rbench.tasks import lines, split
from rbench.tasks.clean import SourceRow

SOURCE_FORM = re.compile(r"([A-Za-z0-9][\w.+-]*/)+(\*|[A-Za-z0-9][\w.+-]*)", re.ASCII)
"""The form of sources, `<folder>/<file stem>`. No leading dots and no empty parts: no source leaves the data folder."""


@dataclass(frozen=True)
class LocalLayout:
    """The files of the splits under a data folder: sources by split, or one undivided source."""

    splits: Mapping[str, tuple[str, ...]]
    unsplit: Unsplit | None = None

    @property
    def sources(self) -> list[str]:
        """All sources of the layout, each once, without holdout suffixes."""
        named = [self.unsplit.source] if self.unsplit else [name for names in self.splits.values() for name in names]
        return list(dict.fromkeys(split.strip_holdout(name)[0] for name in named))

    def missing(self, root: Path) -> list[Path]:
        """Return the layout's files that do not exist under `root`."""
        paths: list[Path] = []
        for source in self.sources:
            paths += source_files(root, source) or [root / file_of_source(source)]
        return [path for path in paths if not path.is_file()]


def list_layouts(spec: TaskSpec) -> list[LocalLayout]:
    """Return the layouts that a local copy of `spec` may have, in order of preference."""
    possible = []
    if spec.local is not None and spec.local.splits:
        possible.append(LocalLayout(spec.local.splits))
    if spec.local is not None and spec.local.unsplit is not None:
        possible.append(LocalLayout({}, spec.local.unsplit))
    if spec.of_kind.label_column is None:
        return [*possible, LocalLayout({"train": (f"{spec.name}/train",)})]
    usual = {name: (f"{spec.name}/{name}",) for name in ("train", "validation", "test")}
    with_holdout = usual | {"validation": (f"{spec.name}/train{split.HOLDOUT_SUFFIX}",)}
    return [*possible, LocalLayout(usual), LocalLayout(with_holdout)]


def find_copy(spec: TaskSpec, data_path: Sequence[Path]) -> tuple[Path, LocalLayout] | None:
    """Return the first data folder with a complete copy, and its layout. Return None where no folder has one."""
    for root in data_path:
        for layout in list_layouts(spec):
            if not layout.missing(root):
                return root, layout
    return None


def describe_partial(spec: TaskSpec, data_path: Sequence[Path]) -> str:
    """Say which files an incomplete copy lacks, as the start of a sentence. Empty where no folder has any of them."""
    for root in data_path:
        # The first of these that has a file is the one that lacks the fewest; of several the preferred one, because
        # `sorted` is stable.
        for layout in sorted(list_layouts(spec), key=lambda layout: len(layout.missing(root))):
            missing = layout.missing(root)
            if len(missing) < len(layout.sources):
                names = ", ".join(str(path.relative_to(root)) for path in missing)
                return f"{root} has some of its files but not {names}; "
    return ""


def read(root: Path, layout: LocalLayout) -> dict[str, list[SourceRow]]:
    """Read the rows of each split.

    Ids are `<file stem>:<row>`. Where a split has several files, the folder stands in front.

    Raises:
        ResourceError: a file is not JSON Lines, or the list of test rows does not fit the data.
    """
    if layout.unsplit is not None:
        return _divide_rows(root, layout.unsplit)
    named_sources = {name for names in layout.splits.values() for name in names}
    files: dict[Path, list[tuple[int, dict[str, Any]]]] = {}
    rows: dict[str, list[SourceRow]] = {}
    for part, names in layout.splits.items():
        paths = [(name, path) for name in names for path in source_files(root, split.strip_holdout(name)[0])]
        rows[part] = []
        for name, path in paths:
            file_rows = files.setdefault(path, [])
            if not file_rows:
                file_rows.extend(lines.read(path))
            source = str(path.relative_to(root)).removesuffix(".jsonl")
            prefix = source if len(paths) > 1 else source.rsplit("/", 1)[1]
            rows[part] += [
                SourceRow(f"{prefix}:{number}", f"{path}:{file_rows[number][0]}", file_rows[number][1])
                for number in split.select_rows(name, named_sources, len(file_rows))
            ]
    return rows


def list_files(root: Path, layout: LocalLayout) -> list[Path]:
    """Return the files of a layout, with the list of test rows if it is there."""
    paths = [path for source in layout.sources for path in source_files(root, source)]
    rule = layout.unsplit
    listed = root / rule.test_rows if rule is not None and rule.test_rows is not None else None
    return [*paths, *([listed] if listed is not None and listed.is_file() else [])]


def describe_copy(root: Path, layout: LocalLayout) -> str:
    """Describe where the data comes from, for people."""
    if layout.unsplit is None:
        parts = "; ".join(f"{part}: {' + '.join(names)}" for part, names in layout.splits.items())
        return f"local {root} ({parts})"
    rule = layout.unsplit
    is_listed = rule.test_rows is not None and (root / rule.test_rows).is_file()
    test_note = f"test: the rows of {rule.test_rows}" if is_listed else f"test: {rule.test:.0%}"
    then_validation = f"{rule.validation:.0%} validation"
    without_test_note = "; without the test rows: validation rows in their place" if rule.without_test else ""
    return (
        f"local {root} ({rule.source}, divided by seed {rule.seed}; {test_note}, then "
        f"{then_validation}{without_test_note})"
    )


def file_of_source(source: str) -> str:
    """Return a source's file relative to the data folder: `mr/train.jsonl` for `mr/train`."""
    return source if is_text_file(source) else f"{source}.jsonl"


def source_files(root: Path, source: str) -> list[Path]:
    """Return the file of a source `<folder>/<stem>`, even if missing, or the existing files of `<folder>/*` by name.

    Raises:
        ResourceError: the source is not written so.
    """
    if not SOURCE_FORM.fullmatch(source):
        raise ResourceError(f"a local source is written <folder>/<file without .jsonl>, not {source!r}")
    path = root / file_of_source(source)
    if source.endswith("/*"):
        return sorted(file for file in path.parent.glob("*") if file.suffix in TEXT_FILES)
    return [path]


def _divide_rows(root: Path, rule: Unsplit) -> dict[str, list[SourceRow]]:
    (path,) = source_files(root, rule.source)
    file_rows = list(lines.read(path))
    with failing_in(root / str(rule.test_rows)):
        parts = split.divide_in_three(
            len(file_rows),
            seed=rule.seed,
            validation=rule.validation,
            test=rule.test,
            test_rows=_read_test_rows(root, rule),
        )
    if rule.without_test:
        held_out = set(split.draw_holdout(len(parts["train"])))
        train_rows = [row for k, row in enumerate(parts["train"]) if k not in held_out]
        parts = {
            "train": train_rows,
            "validation": [parts["train"][k] for k in sorted(held_out)],
            "test": parts["validation"],
        }
    stem = rule.source.rsplit("/", 1)[1]
    return {
        part: [SourceRow(f"{stem}:{n}", f"{path}:{file_rows[n][0]}", file_rows[n][1]) for n in numbers]
        for part, numbers in parts.items()
    }


def _read_test_rows(root: Path, rule: Unsplit) -> list[int] | None:
    if rule.test_rows is None:
        return None
    path = root / rule.test_rows
    if Path(rule.test_rows).name != rule.test_rows:
        raise ResourceError(f"`test_rows` must name a file directly in the data folder, not {rule.test_rows!r}")
    if not path.is_file():
        return None
    with failing_in(path):
        return TypeAdapter(list[StrictInt]).validate_json(named.read(path))
