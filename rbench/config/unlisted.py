"""Finds encoders that have no file: in a suite, a folder or a hub id may stand wherever the name of one may stand.

Such a text is replaced by the label that tables show, and an encoder of that label is made whose base is the folder or
hub id. What a folder's own files say of the encoder is read when the run is planned (`rbench.plan.model_metadata`).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from rbench.config.positions import Positioned, Problems, Where, shown
from rbench.config.registry import Registry
from rbench.schema.unlisted import HUB_ID, is_path, labels

_WITH_ENCODERS = frozenset({"encoders", "evaluate", "claims", "tables", "figures", "profiles"})
"""The keys of a suite below which an encoder may be named."""


class Unlisted:
    """The encoders of one suite that have no file.

    `own` holds their content by label, as that of a file. `notes` says which names could mean two things.
    """

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.own: dict[str, Positioned] = {}
        self.notes: list[str] = []

    def spell_out(self, located: Positioned, beside: Path) -> Positioned:
        """Return a suite, or a part of it, in which the folders of encoders are absolute paths.

        `beside` is the folder to which relative paths are relative. Elsewhere than in `encoders` and `victim`, a text
        counts as a path if it has a separator and a model lies there.
        """

        def change(where: Where, text: str, is_key: bool) -> str:
            if _names_encoder(where, is_key):
                return self._place(text, beside)
            if where[0] not in _WITH_ENCODERS or is_key or "/" not in text:
                return text
            head, bracket, options = text.partition("[")
            path = absolute(head, beside)
            return f"{path}{bracket}{options}" if is_model(path) else text

        return located.mapped(change)

    def label(self, merged: Positioned, base: Positioned) -> tuple[Positioned, Positioned]:
        """Give each folder and hub id in the suite `merged` a label, and return both suites with labels in place.

        `base` is the suite without profile and overrides, whose claims are compared with those of `merged`. Add a
        problem for each text that is neither a folder with a model nor the form of a hub id.
        """
        places: dict[str, str] = {}

        def look(where: Where, text: str, is_key: bool) -> str:
            if where[0] != "profiles" and _names_encoder(where, is_key) and "/" in text and text not in places:
                places[text] = merged.key_at(where) if is_key else merged.at(where)
                if (wrong := problem(text)) is not None:
                    self.problems.add(places[text], wrong)
            return text

        merged.mapped(look)
        found = labels(places, self.registry.names("encoders"))
        for text, label in found.items():
            content = {"name": label, "base": text, "unlisted": True}
            self.own[label] = Positioned(content, places[text])

        def change(where: Where, text: str, is_key: bool) -> str:
            if where[0] not in _WITH_ENCODERS:
                return text
            head, bracket, options = (text, "", "") if text in found else text.partition("[")
            return f"{found[head]}{bracket}{options}" if head in found else text

        return merged.mapped(change), base.mapped(change)

    def _place(self, text: str, beside: Path) -> str:
        """Return the place that a name means: the path of a folder, or a hub id. Any other name stays as it is."""
        path = absolute(text, beside)
        if text in self.registry.names("encoders"):
            if is_model(path):
                self._note(
                    f"encoder {text} is that of `rbench list encoders`; for the folder {shown(path)} write ./{text}"
                )
            return text
        if is_path(text):
            return str(path)
        if is_model(path):
            if HUB_ID.fullmatch(text):
                self._note(f"encoder {text} is the folder {shown(path)}, not the model of that id on the hub")
            return str(path)
        if "://" in text or "/" not in text:
            return text
        return str(path) if text.count("/") > 1 or _exists(path) else text

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def absolute(text: str, beside: Path) -> Path:
    """Return a path with `~` expanded, without `..`, and relative to `beside` where it is relative."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):  # `~somebody` without such a user
        path = path.expanduser()
    return Path(os.path.abspath(beside / path))  # noqa: PTH100 (a link keeps its name, unlike with Path.resolve)


def is_model(folder: Path) -> bool:
    """Return whether a folder holds a model: one of transformers or of sentence-transformers."""
    return any(_exists(folder / name) for name in ("config.json", "modules.json"))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def problem(place: str) -> str | None:
    """Say what is wrong with a place, and the remedy; None where it has the form of a hub id, or a model lies there."""
    path = Path(place)
    if not path.is_absolute():
        expected = "expected a folder (./NAME, or its path), a hub id (OWNER/NAME), or a name of rbench list encoders"
        return None if HUB_ID.fullmatch(place) else f"{place}: {expected}"
    if is_model(path):
        return None
    if not _exists(path):
        near = f"; beside it there is {', '.join(inside)}" if (inside := _models_in(path.parent)) else ""
        return f"{shown(path)}: there is no such folder{near}"
    if not path.is_dir():
        return f"{shown(path)} is a file; name the folder of the model, which has a config.json"
    start = f"{shown(path)} has no model: neither a config.json nor a modules.json"
    if _exists(path / "adapter_config.json"):
        return f"{start}, but an adapter (PEFT); merge it into its base, save the result, and name that folder"
    if inside := _models_in(path):
        return f"{start}; these folders in it have one: {', '.join(inside)}"
    return f"{start}. A folder is what save_pretrained of transformers or save of sentence-transformers writes"


def _models_in(folder: Path) -> list[str]:
    """Return up to three folders with a model directly in a folder, by name."""
    try:
        names = sorted(inside.name for inside in folder.iterdir() if is_model(inside))
    except OSError:
        return []
    return names if len(names) <= 3 else [*names[:3], "..."]


def _names_encoder(where: Where, is_key: bool) -> bool:
    """Return whether an encoder's name stands at `where` in a suite or one of its profiles: under `encoders`, or as the
    `victim` of an adversarial set. A choice is `NAME`, `{NAME: OPTIONS}` or `{name: NAME, options: OPTIONS}`."""
    steps = [step for step in where if isinstance(step, str)]
    steps = steps[2:] if steps[:1] == ["profiles"] else steps
    if is_key and steps[-1:] in (["name"], ["options"]):
        return False
    if is_key or steps[-1:] == ["name"]:
        steps = steps[:-1]
    return steps == ["encoders"] or (steps[:1] == ["evaluate"] and steps[-1:] == ["victim"])
