"""Find out what the models and tasks are that `rbench eval` is given, and whether they are of one language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rbench.api.attacking import classifier
from rbench.config.entries import load_task
from rbench.config.positions import Problems, read_yaml
from rbench.config.registry import Registry
from rbench.config.tasks import is_path
from rbench.errors import ResourceError, SuiteError
from rbench.schema import CLASSES, VictimSpec, victim_name
from rbench.schema.unlisted import short_name
from rbench.system.below import MEGABYTE, SafeFolder
from rbench.system.own_code import failing_in

EMBEDDED_WORLD = "mini"
"""The part of a name that marks what belongs to the embedded world: `mini-sentiment`, `simcse-mini`."""
SMALL_VOCABULARY = 5000
"""A model with a smaller vocabulary (in config.json) is taken to know the embedded world and no English."""
DEFAULT_TASKS = {True: "mini-sentiment", False: "mr"}
"""The task of a command that names none: of the embedded world, and of English."""
LIST_ENDINGS = (".txt", ".lst")
"""Endings of files that list models."""
TaskGiven = str | Mapping[str, Any]
"""A task by name or path, or the path of a table with what is said of it."""


@dataclass(frozen=True)
class ContestantModel:
    """A model as the command line names it, and what a suite says of it."""

    text: str
    kind: Literal["encoders", "victims"]
    entry: Any
    english: bool | None
    """Whether it reads English, and not the embedded world; None: nothing tells."""

    @property
    def name(self) -> str:
        """A name for folders and for people: the last part of a folder or hub id."""
        named = victim_name(self.entry) if self.kind == "victims" else self.text
        return short_name(named) if "/" in named else str(named)


def recognize_model(text: str, label_map: str | None, registry: Registry, models: Sequence[Path]) -> ContestantModel:
    """Return the model that a text names: an encoder, or a classifier, known by its name, form or config.json."""
    from rbench.encoders.model_metadata import has_head
    from rbench.victims.config import read_config
    from rbench.victims.place import locate_model

    if text in registry.names("encoders"):
        return ContestantModel(text, "encoders", text, EMBEDDED_WORLD not in re.split(r"[-_]", text))
    if "/" not in text and any((Path(text) / name).is_file() for name in ("config.json", "modules.json")):
        text = f"./{text}"  # a folder here
    if (encoder_name := _name_in_encoder_file(text)) is not None:
        return ContestantModel(encoder_name, "encoders", text, None)
    entry = classifier(text, label_map, registry)
    if not (isinstance(entry, Mapping) and "model" in entry):
        return ContestantModel(text, "victims", entry, None)
    try:
        config = read_config(locate_model(VictimSpec(name="model", model=text), models).where)
    except ResourceError:  # the suite says what is wrong, as it does for all encoders
        return ContestantModel(text, "encoders", text, None)
    size = config.get("vocab_size")
    english = size >= SMALL_VOCABULARY if isinstance(size, int) else None
    return (
        ContestantModel(text, "victims", entry, english)
        if has_head(config)
        else ContestantModel(text, "encoders", text, english)
    )


def _name_in_encoder_file(text: str) -> str | None:
    """Return the name of the encoder that a YAML file describes; None for other texts, and for files of victims, whose
    `endpoint` has no `model`."""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    content = read_yaml(path, Problems()).data
    endpoint = content.get("endpoint")
    if any(key in content for key in ("base", "architecture", "word_vectors")) or (
        isinstance(endpoint, Mapping) and "model" in endpoint
    ):
        return str(content.get("name", path.stem))
    return None


def read_names(texts: Sequence[str]) -> list[str]:
    """Return the models that are named: a file of names (`models.txt`) stands for its lines. `#` begins a comment.

    Raises SuiteError where a file names none.
    """
    models: list[str] = []
    for text in texts:
        if not text.lower().endswith(LIST_ENDINGS):
            models.append(text)
            continue
        path = Path(text).expanduser().resolve()
        with failing_in(text, SuiteError):
            lines = SafeFolder(path.parent).read(path, MEGABYTE).decode().splitlines()
        listed = [name for line in lines if (name := line.partition("#")[0].strip())]
        if not listed:
            raise SuiteError(f"{text}: it names no model; write one on each line")
        models += listed
    return models


def choose_tasks(models: Sequence[ContestantModel], tasks: Sequence[TaskGiven], registry: Registry) -> list[TaskGiven]:
    """Return the tasks that are asked for, or the default one.

    Raises SuiteError where the models and a task are not of one language, since the numbers would say nothing, and
    for a task without classes.
    """
    with_language = [one for one in models if one.english is not None]
    if not tasks:
        if not with_language and models[0].kind == "victims":
            raise SuiteError(f"nothing tells which labels {models[0].text} gives; name the task: --task NAME or FILE")
        tasks = [DEFAULT_TASKS[bool(with_language) and not with_language[0].english]]
    chosen = [_as_path_if_folder(one, registry) for one in tasks]
    for task in chosen:
        _check_language(with_language, task_name(task))
    if len({is_embedded(task_name(task)) for task in chosen}) > 1:
        raise SuiteError(
            f"{', '.join(map(task_name, chosen))}: some are of the embedded world, a small made-up language, and "
            "others are not; evaluate them apart"
        )
    for task in chosen:
        kind = load_task(task, registry).of_kind
        if kind.family != CLASSES:
            raise SuiteError(
                f"{task_name(task)} has {kind.has}, and a card is about classes; attack it with `rbench attack "
                "--encoder MODEL --task TASK` or a suite for `rbench run`"
            )
    # Classifiers need no training rows.
    split = "test" if all(one.kind == "victims" for one in models) else "quarters"
    return [_with_split(task, split) if is_path(task_name(task)) else task for task in chosen]


def task_name(task: TaskGiven) -> str:
    """Return what names a task: its name, or the path of a table."""
    return task if isinstance(task, str) else next(iter(task))


def _as_path_if_folder(task: TaskGiven, registry: Registry) -> TaskGiven:
    """Return a task; a folder here that has the name of no task is written as a path."""
    name = task_name(task)
    if is_path(name) or name in registry.names("tasks") or not Path(name).is_dir():
        return task
    return f"./{name}" if isinstance(task, str) else {f"./{name}": task[name]}


def _with_split(task: TaskGiven, split: str) -> TaskGiven:
    """Return a table with how it is divided, where it has no splits of its own."""
    name = task_name(task)
    return {name: {"split": split, **(task[name] if isinstance(task, Mapping) else {})}}


def _check_language(known: Sequence[ContestantModel], name: str) -> None:
    of_world = not is_path(name) and is_embedded(name)
    for model in known:
        if of_world and model.english:
            raise SuiteError(
                f"{model.text} reads English, and {name} is of the embedded world, a small made-up language: its "
                "numbers would say nothing. Name a task of English (--task mr --data DATA) or a table of your own "
                "(--task FILE)"
            )
        if not of_world and not model.english:
            raise SuiteError(
                f"{model.text} has learnt the embedded world, a small made-up language, and no English: its numbers on "
                f"{name} would say nothing. Name a task of its world: --task {DEFAULT_TASKS[True]}"
            )


def is_embedded(task: str) -> bool:
    """Whether a task is of the embedded world, by its name."""
    return task.startswith(f"{EMBEDDED_WORLD}-")
