"""Loads classifiers that exist: files of the kind `victims`, folders, hub ids, functions and endpoints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rbench.config.attacks import asks_for_gradients
from rbench.config.check import check
from rbench.config.entries import Entries
from rbench.config.files import Files
from rbench.config.overrides import choices, items, names
from rbench.config.positions import Positioned, Problems, read
from rbench.config.registry import NAME
from rbench.errors import SuiteError
from rbench.schema import VictimSpec, victim_name

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form of `module:function`."""
_FILE = re.compile(r"(?:(?P<folder>.*)[/\\])?(?P<module>[A-Za-z_]\w*)\.py:(?P<function>[A-Za-z_]\w*)")
_PLACE = re.compile(r"(.+?):\d+:\d+")


def load_victims(merged: Positioned, files: Files, problems: Problems) -> tuple[Positioned, dict[str, VictimSpec]]:
    """Return the suite with the names of its `victims` in their place, and their specifications by name.

    A name is that of the file, or the entry's `name`, or is made of its folder, hub id, function or address. Where two
    made names are the same, both get one more part. Add a problem for each entry that is wrong.
    """
    found: dict[str, VictimSpec] = {}
    entries = [(item, _content(item, files)) for item in _items(merged)]
    short = Counter(victim_name(content.data) for _, content in entries if content is not None)
    taken = {choice.label for choice in choices(merged, "encoders")}
    chosen: list[Any] = []
    for item, content in entries:
        name = victim_name(item.data) if content is None else _name(content, short, taken)
        chosen.append(name)
        if content is None or not isinstance(name, str):
            continue
        if not NAME.fullmatch(name):
            problems.add(
                content.at(("name",)),
                f"{name!r}: a name has letters, digits and . _ + - and begins with a letter or digit",
            )
        elif name in taken:
            problems.add(item.at(), f"there is an encoder {name} here already; give the classifier another `name`")
        elif name in found:
            problems.add(item.at(), f"`victims` lists {name} twice; remove one, or give it another `name`")
        elif (spec := check(VictimSpec, content.put(("name",), Positioned(name)), problems)) is not None:
            found[name] = _with_path(spec, content)
    if not entries:
        return merged, found
    return merged.put(("victims",), Positioned(chosen, {(): merged.at(("victims",)), **_places(entries)})), found


def check_victims(merged: Positioned, entries: Entries, problems: Problems) -> None:
    """Add a problem for each task, evaluation, build and attack that classifiers that exist cannot take."""
    if not (victims := entries.victims):
        return
    for place, name in names(merged, "tasks"):
        if name in entries.tasks.found and entries.tasks.found[name].kind == "sts":
            problems.add(
                place,
                f"{name} has similarity scores, and classifiers that exist have classes: {', '.join(victims)}. Put "
                "the task and its encoders into a suite of their own",
            )
    for choice in choices(merged, "build"):
        if not merged.data.get("encoders"):
            problems.add(choice.place, f"`build: {choice.name}` is made of encoders, and this suite has none")
    for choice in choices(merged, "evaluate"):
        task = entries.tasks.found.get(choice.name)
        if task is not None and task.kind == "sts" and not merged.data.get("encoders"):
            problems.add(
                choice.place, f"{choice.name} scores encoders, and this suite has none; name some, or leave it"
            )
        module = entries.modules.found.get(("measures", choice.name))
        if module is not None and getattr(module.open(), "VECTORS", False):
            problems.add(
                choice.place,
                f"the measure {choice.name} reads the vectors of encoders, and classifiers that exist may have none: "
                f"{', '.join(victims)}. Measure encoders in a suite of their own",
            )
    blind = [name for name, spec in victims.items() if spec.origin != "model"]
    for choice in choices(merged, "attacks") if blind else ():
        spec = entries.attacks.found.get(choice.label)
        if spec is not None and asks_for_gradients(spec, entries.modules.found.get(("attacks", choice.name))):
            problems.add(
                choice.place,
                f"attack {choice.name} needs the gradients of a network, and {', '.join(blind)} is asked for answers "
                "alone. Give the classifier as a `model` (a folder or a hub id), or take an attack without gradients, "
                "such as textfooler",
            )


def _items(merged: Positioned) -> Iterator[Positioned]:
    """Yield the entries that are texts or mappings. The check of the suite reports the others."""
    return (item for item in items(merged, "victims") if isinstance(item.data, str | dict))


def _content(item: Positioned, files: Files) -> Positioned | None:
    """Return an entry as a mapping of VictimSpec's keys; None where something is wrong, which adds a problem."""
    if isinstance(item.data, dict):
        return item
    text = item.data
    if text in (*files.registry.names("victims"), *files.registry.fragments("victims")):
        return files.named("victims", text) if files.path("victims", text, item.at()) is not None else None
    if text.endswith((".yaml", ".yml")):
        return _of_file(item, files)
    if (by_file := named_by_file(text)) is not None:
        files.problems.add(item.at(), by_file)
        return None
    if FUNCTION.fullmatch(text):
        files.problems.add(
            item.at(),
            f"{text} is a Python function: write {{function: {text}, version: ...}}, where `version` is any text that "
            "you change when the function changes",
        )
        return None
    if text.startswith(("http://", "https://")):
        files.problems.add(
            item.at(), f"{text} is an address: write {{endpoint: {{url: ...}}, version: ...}}; see the guide"
        )
        return None
    return Positioned({"model": text}, {(): item.at()})


def _of_file(item: Positioned, files: Files) -> Positioned | None:
    """Return the content of a victim's file, given by its path; its name is the file's where it has none."""
    path = _below(item.at(), item.data)
    if not path.is_file():
        files.problems.add(item.at(), f"there is no victim's file {item.data}")
        return None
    try:
        found = read(path, files.problems)
    except SuiteError as error:
        files.problems.take(error)
        return None
    return found if "name" in found.data else found.put(("name",), Positioned(path.stem, {(): found.at()}))


def named_by_file(text: str) -> str | None:
    """Say how to name a Python function that `text` names by its file, as in predict.py:f; None for other texts."""
    found = _FILE.fullmatch(text)
    if found is None:
        return None
    function = f"{found['module']}:{found['function']}"
    where = f", and run rbench in {found['folder']}" if found["folder"] not in (None, ".") else ""
    return f"{text} names a function by its file; write {function}, without .py{where}"


def _below(place: str, path: str) -> Path:
    """Return a path as it is meant where it stands: relative to the folder of its file, or to the current folder."""
    file = _PLACE.match(place)
    return (Path(file[1]).parent if file is not None else Path()) / Path(path).expanduser()


def _name(content: Positioned, short: Counter[Any], taken: set[str]) -> Any:
    name = victim_name(content.data)
    made = "name" not in content.data
    return victim_name(content.data, longer=True) if made and (short[name] > 1 or name in taken) else name


def _with_path(spec: VictimSpec, content: Positioned) -> VictimSpec:
    """Return a model whose relative path is one below the folder of the file that names it.

    Text that is not written as a path (`./mine`) means a folder beside that file if there is one.
    """
    if spec.model is None or spec.model.startswith(("/", "~")):
        return spec
    beside = _below(content.at(("model",)), spec.model)
    if not spec.model.startswith(".") and not (beside / "config.json").is_file():
        return spec
    return spec.model_copy(update={"model": str(beside.resolve())})


def _places(entries: list[tuple[Positioned, Positioned | None]]) -> dict[tuple[str | int, ...], str]:
    return {(i,): item.at() for i, (item, _) in enumerate(entries)}
