"""Find out what the models and tasks are that `rbench eval` is given, and whether they are of one language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rbench.api.attacking import classifier
from rbench.config.positions import Problems, read
from rbench.config.registry import Registry
from rbench.config.tasks import is_path
from rbench.errors import ResourceError, StoreError, SuiteError
from rbench.schema import VictimSpec, victim_name
from rbench.schema.unlisted import short_name
from rbench.system.below import MEGABYTE, Below

WORLD = "mini"
"""The part of a name that marks what belongs to the embedded world: `mini-sentiment`, `simcse-mini`."""
SMALL = 5000
"""A model with a smaller vocabulary (in config.json) is taken to know the embedded world and no English."""
TASKS = {True: "mini-sentiment", False: "mr"}
"""The task of a command that names none: of the embedded world, and of English."""
LISTS = (".txt", ".lst")
"""Endings of files that list models."""
TaskGiven = str | Mapping[str, Any]
"""A task by name or path, or the path of a table with what is said of it."""


@dataclass(frozen=True)
class Model:
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


def model_of(text: str, label_map: str | None, registry: Registry, models: Sequence[Path]) -> Model:
    """Return the model that a text names: an encoder, or a classifier, known by its name, form or config.json."""
    from rbench.encoders.model_metadata import has_head
    from rbench.victims.config import read_config
    from rbench.victims.place import located

    if text in registry.names("encoders"):
        return Model(text, "encoders", text, WORLD not in re.split(r"[-_]", text))
    if "/" not in text and any((Path(text) / name).is_file() for name in ("config.json", "modules.json")):
        text = f"./{text}"  # a folder here
    if (named := _encoder_file(text)) is not None:
        return Model(named, "encoders", text, None)
    entry = classifier(text, label_map, registry)
    if not (isinstance(entry, Mapping) and "model" in entry):
        return Model(text, "victims", entry, None)
    try:
        config = read_config(located(VictimSpec(name="model", model=text), models).where)
    except ResourceError:  # the suite says what is wrong, as it does for all encoders
        return Model(text, "encoders", text, None)
    size = config.get("vocab_size")
    english = size >= SMALL if isinstance(size, int) else None
    return Model(text, "victims", entry, english) if has_head(config) else Model(text, "encoders", text, english)


def _encoder_file(text: str) -> str | None:
    """Return the name of the encoder that a YAML file describes; None for other texts, and for files of victims, whose
    `endpoint` has no `model`."""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    said = read(path, Problems()).data
    endpoint = said.get("endpoint")
    if any(key in said for key in ("base", "architecture", "word_vectors")) or (
        isinstance(endpoint, Mapping) and "model" in endpoint
    ):
        return str(said.get("name", path.stem))
    return None


def named_in(texts: Sequence[str]) -> list[str]:
    """Return the models that are named: a file of names (`models.txt`) stands for its lines. `#` begins a comment.

    Raises SuiteError where a file names none, or a model is named twice.
    """
    found: list[str] = []
    for text in texts:
        if not text.lower().endswith(LISTS):
            found.append(text)
            continue
        try:
            path = Path(text).expanduser().resolve()
            lines = Below(path.parent).read(path, MEGABYTE).decode().splitlines()
        except (OSError, StoreError, UnicodeDecodeError) as error:
            raise SuiteError(f"{text}: expected a file with the name of a model on each line ({error})") from error
        own = [name for line in lines if (name := line.partition("#")[0].strip())]
        if not own:
            raise SuiteError(f"{text}: it names no model; write one on each line")
        found += own
    if twice := next((text for text in found if found.count(text) > 1), None):
        raise SuiteError(f"{twice} is named twice")
    return found


def tasks_of(models: Sequence[Model], tasks: Sequence[TaskGiven], registry: Registry) -> list[TaskGiven]:
    """Return the tasks that are asked for, or the default one.

    Raises SuiteError where the models and a task are not of one language: the numbers would say nothing.
    """
    known = [one for one in models if one.english is not None]
    if not tasks:
        if not known and models[0].kind == "victims":
            raise SuiteError(f"nothing tells which labels {models[0].text} gives; name the task: --task NAME or FILE")
        tasks = [TASKS[bool(known) and not known[0].english]]
    found = [_existing(one, registry) for one in tasks]
    for task in found:
        _check_language(known, name_of(task))
    if len({of_the_world(name_of(task)) for task in found}) > 1:
        raise SuiteError(
            f"{', '.join(map(name_of, found))}: some are of the embedded world, a small made-up language, and others "
            "are not; evaluate them apart"
        )
    # Classifiers need no training rows.
    split = "test" if all(one.kind == "victims" for one in models) else "quarters"
    return [_split(task, split) if is_path(name_of(task)) else task for task in found]


def name_of(task: TaskGiven) -> str:
    """Return what names a task: its name, or the path of a table."""
    return task if isinstance(task, str) else next(iter(task))


def _existing(task: TaskGiven, registry: Registry) -> TaskGiven:
    """Return a task; a folder here that has the name of no task is written as a path."""
    name = name_of(task)
    if is_path(name) or name in registry.names("tasks") or not Path(name).is_dir():
        return task
    return f"./{name}" if isinstance(task, str) else {f"./{name}": task[name]}


def _split(task: TaskGiven, split: str) -> TaskGiven:
    """Return a table with how it is divided, where it has no splits of its own."""
    name = name_of(task)
    return {name: {"split": split, **(task[name] if isinstance(task, Mapping) else {})}}


def _check_language(known: Sequence[Model], name: str) -> None:
    own = not is_path(name) and of_the_world(name)
    for one in known:
        if own and one.english:
            raise SuiteError(
                f"{one.text} reads English, and {name} is of the embedded world, a small made-up language: its numbers "
                "would say nothing. Name a task of English (--task mr --data DATA) or a table of your own (--task FILE)"
            )
        if not own and not one.english:
            raise SuiteError(
                f"{one.text} has learnt the embedded world, a small made-up language, and no English: its numbers on "
                f"{name} would say nothing. Name a task of its world: --task {TASKS[True]}"
            )


def of_the_world(task: str) -> bool:
    """Whether a task is of the embedded world, by its name."""
    return task.startswith(f"{WORLD}-")
