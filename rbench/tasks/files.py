"""Finds the files that `open_task` and `open_contrast` read rows from. Nothing is read here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rbench.spec import ContrastSpec, TaskSpec
from rbench.tasks import lines, local, parts, tables


def of_task(spec: TaskSpec, data_path: Sequence[Path]) -> list[Path]:
    """Return the files of a task's rows. The list is empty where rows are generated or come from the hub.

    Raises:
        ResourceError: the task is a corpus file or a table, and it is not there.
    """
    if spec.generator is not None:
        return []
    if spec.local is not None and spec.local.file is not None:
        corpus = tables.is_corpus(spec)
        return [lines.find(spec.local.file, data_path)] if corpus else tables.files(spec, data_path)
    if spec.parts:
        return [path for part in spec.parts for path in parts.files(part, data_path)]
    found = local.find(spec, data_path)
    if found is None:
        return []
    root, layout = found
    paths = [path for source in layout.sources for path in local.source_files(root, source)]
    rule = layout.unsplit
    listed = root / rule.test_rows if rule is not None and rule.test_rows is not None else None
    return [*paths, *([listed] if listed is not None and listed.is_file() else [])]


def of_contrast(spec: ContrastSpec, data_path: Sequence[Path]) -> list[Path]:
    """Return the file of a contrast set's rows. The list is empty where they are generated or no data folder has it."""
    if spec.local is None or spec.generator is not None:
        return []
    found = (path for root in data_path for path in local.source_files(root, spec.local) if path.is_file())
    return [path for path in [next(found, None)] if path is not None]
