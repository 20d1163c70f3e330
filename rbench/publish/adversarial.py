"""Write an adversarial set as a data set in the layout of the Hugging Face Hub: parquet, a card, and `rbench.json`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from rbench.errors import PlanError
from rbench.publish import adversarial_card
from rbench.publish.adversarial_card import Made
from rbench.spec import SetFile
from rbench.system.below import Below
from rbench.tasks import adversarial


def check_place(folder: Path, *, overwrite: bool) -> None:
    """Check that a set may be written to `folder`: it is new or empty, or `overwrite` is true.

    Raises:
        PlanError: `folder` is a file, or is not empty, or is in a place that cannot be written.
    """
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if folder.exists() and not folder.is_dir():
        raise PlanError(f"{folder} is a file; name a folder")
    if not os.access(above, os.W_OK):
        raise PlanError(f"{folder}: cannot write in {above}; name another folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise PlanError(
            f"{folder} is not empty; name another folder, or add --overwrite, which replaces the files of a set and "
            "leaves others as they are"
        )


def write(made: Made, folder: Path, *, overwrite: bool = False) -> SetFile:
    """Write a set to `folder`, and return what its `rbench.json` says.

    The files are written beside `folder` and then moved, so that no file is ever half written. A folder that is there
    loses nothing but the files of a set (`rbench.tasks.adversarial.FILES`), and these only with `overwrite`.

    Raises:
        PlanError: as `check_place`, or the task has a column whose name a set needs, or no example is a row.
        ResourceError: the outcomes have no texts.
    """
    check_place(folder, overwrite=overwrite)
    about = _about(made)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rbench-set-", dir=folder.parent) as name:
        staged = Path(name) / folder.name
        (staged / adversarial.DATA).parent.mkdir(parents=True)
        _write_rows(made, staged / adversarial.DATA)
        (staged / adversarial.CARD).write_text(adversarial_card.render(made, about), encoding="utf-8")
        (staged / adversarial.ABOUT).write_text(about.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if not folder.exists() or not any(folder.iterdir()):
            staged.replace(folder)
        else:
            for file in adversarial.FILES:
                Below(folder).make_folder((folder / file).parent)
                (staged / file).replace(folder / file)
    return about


def _about(made: Made) -> SetFile:
    task, (encoder, _, finetune, attack) = made.spec.task, made.job.parts
    columns = (*task.columns, *map(adversarial.original_column, task.columns), *adversarial.OWN)
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        raise PlanError(f"task {task.name} has a column `{twice[0]}`, a name that sets use themselves: rename it")
    rows = [adversarial.row_of(outcome) for outcome in adversarial.kept(made.outcomes, made.only)]
    counts = adversarial.counts_of(made.outcomes, len(rows))
    if not rows:
        found = ", ".join(f"{n} {name}" for name, n in counts.items() if name not in ("rows", "total"))
        raise PlanError(f"{made.job.name}: no example is a row with --only {made.only} ({found}): nothing was written")
    return SetFile(
        task=task.name,
        kind=task.kind,
        columns=task.columns,
        labels=task.labels,
        encoder=encoder,
        finetune=finetune,
        attack=attack,
        seed=made.job.seed,
        victim=made.victim.key,
        job=made.job.key,
        only=made.only,
        counts=counts,
        fingerprint=adversarial.fingerprint_of(rows),
    )


def _write_rows(made: Made, path: Path) -> None:
    import datasets
    from datasets import ClassLabel, Dataset, Features, Value

    task, kept = made.spec.task, adversarial.kept(made.outcomes, made.only)
    rows = [adversarial.row_of(outcome) for outcome in kept]
    text, whole, scored = Value("string"), Value("int64"), task.kind == "sts"
    answer = Value("float64") if scored else ClassLabel(names=list(task.labels))
    values: dict[str, tuple[Any, list[Any]]] = {"id": (text, [row.id for row in rows])}
    for i, column in enumerate(task.columns):
        values[column] = (text, [row.texts[i] for row in rows])
    for i, column in enumerate(task.columns):
        values[adversarial.original_column(column)] = (text, [row.original[i] for row in rows])
    values["score" if scored else "label"] = (answer, [row.label for row in rows])
    values["status"] = (text, [row.status for row in rows])
    for side in ("original", "perturbed"):
        name = f"{side}_score" if scored else f"{side}_prediction"
        values[f"{side}_prediction"] = (answer, [getattr(outcome, name) for outcome in kept])
    for name in ("num_queries", "num_words", "num_words_changed"):
        values[name] = (whole, [getattr(outcome, name) for outcome in kept])
    features = Features({name: kind for name, (kind, _) in values.items()})
    made_of = Dataset.from_dict({name: column for name, (_, column) in values.items()}, features=features)
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        made_of.to_parquet(path)
    finally:
        if shown:
            datasets.enable_progress_bars()
