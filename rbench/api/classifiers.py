"""Reads how the command line names classifiers that exist."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rbench.errors import SuiteError
from rbench.load.registry import Registry
from rbench.load.victims import FUNCTION, named_by_file
from rbench.spec import victim_name

Entry = str | Mapping[str, Any]
"""An entry under `victims` of a suite."""


def classifier(where: str, labels: str | None, registry: Registry) -> Entry:
    """Return what a suite has under `victims` for a classifier of the command line.

    Args:
        where: a folder, a hub id, `module:function`, a file of the kind `victims` by name, or such a file's path.
        labels: `theirs=ours,...`, what the classifier's labels mean; None: they are matched by name.

    Raises:
        SuiteError: `labels` has another form, or goes with a file, which says what its labels mean; or a function is
            named by its file.
    """
    if (by_file := named_by_file(where)) is not None:
        raise SuiteError(f"--classifier {by_file}")
    file = where in registry.names("victims") or where.endswith((".yaml", ".yml"))
    if file and labels is not None:
        raise SuiteError(f"--label-map: {where} is a victim's file; write `labels:` there")
    if file:
        return where
    entry: dict[str, Any] = {"model": where}
    if FUNCTION.fullmatch(where) and not Path(where).exists():
        entry = {"function": where, "version": "command line"}  # nothing is stored, so no version is needed
    return {**entry, **({"labels": _map(labels)} if labels is not None else {})}


def classifier_name(entry: Entry | None) -> str:
    """Return the name of a classifier in messages."""
    return str(victim_name(entry))


def _map(labels: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in labels.split(",")]
    wrong = [
        part for part, (theirs, equals, ours) in zip(labels.split(","), pairs, strict=True) if not (theirs and ours)
    ]
    if wrong:
        raise SuiteError(f"--label-map {labels}: expected THEIRS=OURS,..., such as LABEL_0=negative,LABEL_1=positive")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}
