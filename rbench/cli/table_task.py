"""The options with which `rbench attack` takes a table of the user's own as its task."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rbench.load.tables import is_path

PANEL = "A table of your own (--task my.csv)"

TextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="The column of the texts; twice for tasks of two texts. (default: guessed, and shown)",
        rich_help_panel=PANEL,
    ),
]
LabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="The column of the labels. (default: guessed, and shown)",
        rich_help_panel=PANEL,
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="A,B",
        help="The labels in the order of their ids. (default: all that the column has, sorted)",
        rich_help_panel=PANEL,
    ),
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="NAME",
        help="single, nli, pair or paraphrase. (default: by the texts: single, nli or pair)",
        rich_help_panel=PANEL,
    ),
]


def task_of(
    task: str,
    text: list[str] | None,
    label: str | None,
    labels: str | None,
    kind: str | None,
    *,
    test_only: bool = False,
) -> str | dict[str, Any]:
    """Return the task as a suite names it. With `test_only` all rows of a single table are test rows: a classifier
    that exists needs no others.

    Raises typer.BadParameter where the options of a table go with a task that is none.
    """
    names = [name.strip() for name in labels.split(",")] if labels is not None else None
    given = {"text": text, "label": label, "labels": names, "kind": kind}
    options = {key: value for key, value in given.items() if value is not None}
    if options and not is_path(task):
        flags = ", ".join(f"--{key}" for key in options)
        raise typer.BadParameter(
            f"{flags} describe a table, and {task} is the name of a task. Give a path: my.csv, ./folder",
            param_hint="--task",
        )
    if test_only and is_path(task):
        options["split"] = "test"
    return {task: options} if options else task
