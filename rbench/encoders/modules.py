"""What a folder of sentence-transformers is made of: the modules that its modules.json lists, and no others than known.

sentence-transformers imports whatever a module's type names, also Python files that lie in the folder. So a type counts
by its whole name, and a folder with any other is not opened.
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
"""Where each kind of module lies since sentence-transformers 5.4."""
KINDS = {f"sentence_transformers.{place}.{kind}": kind for kind, moved in _MOVED.items() for place in ("models", moved)}
"""The kind of module by its type, as sentence-transformers 2 to 5 write it."""
LINEAR = frozenset({"torch.nn.modules.linear.Identity", "torch.nn.Identity"})
"""Activations of a Dense that leave it linear. Versions before 5.5 import whatever name stands there."""


def modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and path of what modules.json lists: a transformer, pooling, and what rbench can do after it.

    Empty where there is no modules.json: then `folder` is a transformers folder.

    Raises:
        ResourceError: modules.json is damaged, leads out of the folder, or asks for anything else.
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
        raise TypeError(f"{value!r} is no text")
    return value


def _inside(part: str, path: Path) -> str:
    """`part`, which must stay in the folder of `path`."""
    if PurePosixPath(part).is_absolute() or ".." in PurePosixPath(part).parts:
        raise ResourceError(f"{path}: the path {part!r} leaves the model's folder")
    return part


def _is_linear(dense: Path) -> bool:
    try:
        activation = json.loads((dense / "config.json").read_text(encoding="utf-8"))["activation_function"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(activation, str) and activation in LINEAR
