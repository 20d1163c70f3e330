"""Read the modules.json of a sentence-transformers folder, and refuse unknown modules.

sentence-transformers imports whatever class a module's type names, also from Python files in the folder. So rbench
compares the full name of each type with a list, and does not open a folder with any other type.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from rbench.errors import ResourceError

_MOVED = {
    "Transformer": "base.modules.transformer",
    "Dense": "base.modules.dense",
    "Pooling": "sentence_transformer.modules.pooling",
    "Normalize": "sentence_transformer.modules.normalize",
}
"""The Python module of each kind of module since sentence-transformers 5.4."""
KINDS = {f"sentence_transformers.{place}.{kind}": kind for kind, moved in _MOVED.items() for place in ("models", moved)}
"""Maps a module's type to its kind, with the names that sentence-transformers 2 to 5 write."""
LINEAR = frozenset({"torch.nn.modules.linear.Identity", "torch.nn.Identity"})
"""Activations with which a Dense module is linear. Versions of sentence-transformers before 5.5 import any name."""


def modules(folder: Path) -> list[tuple[str, str]]:
    """Return kind and path of each module in modules.json.

    The kinds are a transformer, pooling, at most one linear Dense, and normalisation. The list is empty if there is no
    modules.json; then `folder` is a transformers folder.

    Raises:
        ResourceError: modules.json is damaged, names a path outside the folder, or lists any other module.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return []
    listed = [(kind, _inside(part, path)) for kind, part in _listed(path)]
    foreign = {kind for kind, _ in listed if kind not in KINDS}
    dense = [part for kind, part in listed if KINDS.get(kind) == "Dense"]
    if len(dense) > 1:
        foreign.add("several Dense")
    elif any(not _is_linear(folder / part) for part in dense):
        foreign.add("a Dense with an activation")
    if foreign:
        raise ResourceError(
            f"{folder}: its modules.json asks for {', '.join(sorted(foreign))}; rbench reads sentence-transformers "
            "models made of a transformer, pooling, at most one Dense without an activation, and normalisation only. "
            "Python code of a model is not run"
        )
    return [(KINDS[kind], part) for kind, part in listed]


def _listed(path: Path) -> list[tuple[str, str]]:
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        return [(_text(entry["type"]), _text(entry.get("path", ""))) for entry in listed]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ResourceError(f"{path}: not a list of sentence-transformers modules ({error})") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _inside(part: str, path: Path) -> str:
    """Return `part`, a path relative to the folder of `path`. Raises ResourceError if it leads out of the folder."""
    if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
        raise ResourceError(f"{path}: the path {part!r} leaves the model's folder")
    return part


def _is_linear(dense: Path) -> bool:
    try:
        activation = json.loads((dense / "config.json").read_text(encoding="utf-8"))["activation_function"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(activation, str) and activation in LINEAR
