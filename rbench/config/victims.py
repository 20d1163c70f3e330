"""Loads classifiers that exist: files of the kind `victims`, folders, hub ids, functions and endpoints."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TypeVar

from rbench.config.check import check
from rbench.config.files import Files
from rbench.config.overrides import choices, items
from rbench.config.positions import Positioned, listed, read
from rbench.config.registry import NAME
from rbench.errors import SuiteError
from rbench.schema import VictimSpec, victim_name
from rbench.schema.judges import JudgeSpec

V = TypeVar("V", bound=VictimSpec)

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The form of `module:function`."""
_FILE = re.compile(r"(?:(?P<folder>.*)[/\\])?(?P<module>[A-Za-z_]\w*)\.py:(?P<function>[A-Za-z_]\w*)")
_PLACE = re.compile(r"(.+?):\d+:\d+")


def load_victims(merged: Positioned, files: Files) -> tuple[Positioned, dict[str, VictimSpec]]:
    """Return the suite with the names of its `victims` in their place, and their specifications by name.

    A name is that of the file, or the entry's `name`, or is made of its folder, hub id, function or address. Where two
    made names are the same, both get one more part. Add a problem for each entry that is wrong.
    """
    problems = files.problems
    found: dict[str, VictimSpec] = {}
    # The check of the suite reports entries that are neither texts nor mappings.
    written = [item for item in items(merged, "victims") if isinstance(item.data, str | dict)]
    entries = [(item, _content(item, files)) for item in written]
    short = Counter(victim_name(content.data) for _, content in entries if content is not None)
    taken = {choice.label for choice in choices(merged, "encoders")}
    chosen: list[Positioned] = []
    for item, content in entries:
        name = victim_name(item.data if content is None else content.data)
        if content is not None and "name" not in content.data and (short[name] > 1 or name in taken):
            name = victim_name(content.data, longer=True)
        chosen.append(Positioned(name, item.place))
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
    return merged.put(("victims",), listed(chosen, merged.at(("victims",)))), found


def load_judge(name: str, files: Files) -> JudgeSpec | None:
    """Return the judge of a name, or of a path that ends in .yaml; None where it is wrong, which adds a problem."""
    item = Positioned(name, "--by")
    if name.endswith((".yaml", ".yml")):
        content = _of_file(item, files, "judge")
    else:
        content = files.named("judges", name) if files.path("judges", name, item.at()) is not None else None
    if content is None:
        return None
    for question in ("label", "meaning"):
        if isinstance(content.data.get(question), dict):
            content = content.put((question, "name"), Positioned(content.data["name"]))
    spec = check(JudgeSpec, content, files.problems)
    if spec is None:
        return None
    asked = {name: getattr(spec, name) for name in ("label", "meaning")}
    located = {
        name: _with_path(one, Positioned({"model": one.model}, content.at((name, "model"))))
        for name, one in asked.items()
        if one is not None
    }
    return spec.model_copy(update=located)


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
    return Positioned({"model": text}, item.at())


def _of_file(item: Positioned, files: Files, what: str = "victim") -> Positioned | None:
    """Return the content of a file that is given by its path; its name is the file's where it has none."""
    path = _below(item.at(), item.data)
    if not path.is_file():
        files.problems.add(item.at(), f"there is no {what}'s file {item.data}")
        return None
    try:
        found = read(path, files.problems)
    except SuiteError as error:
        files.problems.take(error)
        return None
    return found if "name" in found.data else found.put(("name",), Positioned(path.stem, found.at()))


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


def _with_path(spec: V, content: Positioned) -> V:
    """Return a model whose relative path is one below the folder of the file that names it.

    Text that is not written as a path (`./mine`) means a folder beside that file if there is one.
    """
    if spec.model is None or spec.model.startswith(("/", "~")):
        return spec
    beside = _below(content.at(("model",)), spec.model)
    if not spec.model.startswith(".") and not (beside / "config.json").is_file():
        return spec
    return spec.model_copy(update={"model": str(beside.resolve())})
