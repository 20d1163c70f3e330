"""Read the modules.json of a sentence-transformers folder, and refuse unknown modules.

sentence-transformers imports whatever class a module's type names, also from Python files in the folder. So rbench
compares the full name of each type with a list, and does not open a folder with any other type.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

from rbench.encoders.foreign import object_of
from rbench.errors import ResourceError

_MOVED = {
    "Transformer": "base.modules.transformer",
    "Dense": "base.modules.dense",
    "Pooling": "sentence_transformer.modules.pooling",
    "Normalize": "sentence_transformer.modules.normalize",
    "LayerNorm": "sentence_transformer.modules.layer_norm",
    "Dropout": "sentence_transformer.modules.dropout",
    "StaticEmbedding": "sentence_transformer.modules.static_embedding",
}
"""The Python module of each kind of module since sentence-transformers 5.4."""
KINDS = {f"sentence_transformers.{place}.{kind}": kind for kind, moved in _MOVED.items() for place in ("models", moved)}
"""Maps a module's type to its kind, with the names that sentence-transformers 2 to 5 write."""
FIRST = ("Transformer", "StaticEmbedding")
"""The kinds that read texts. A StaticEmbedding pools too: it gives the mean of its tokens' vectors."""
_ELEMENTWISE = ("ELU", "GELU", "LeakyReLU", "Mish", "ReLU", "ReLU6", "Sigmoid", "SiLU", "Softplus", "Tanh")
ACTIVATIONS = {
    "torch.nn.Identity": "Identity",
    "torch.nn.modules.linear.Identity": "Identity",
    **{f"torch.nn.{name}": name for name in _ELEMENTWISE},
    **{f"torch.nn.modules.activation.{name}": name for name in _ELEMENTWISE},
}
"""Maps the activation that a Dense module's config.json names to its class in torch.nn. It has its default arguments,
as in sentence-transformers, which would import other names too."""
DEFAULT_ACTIVATION = "torch.nn.modules.activation.Tanh"
"""What a Dense module has whose config.json names no activation."""


def modules(folder: Path) -> list[tuple[str, str]]:
    """Return kind and path of each module in modules.json, in their order.

    The kinds are a transformer and pooling, or a StaticEmbedding, and after them Dense, LayerNorm, Dropout and
    Normalize in any number and order. The list is empty if there is no modules.json; then `folder` is a transformers
    folder.

    Raises:
        ResourceError: modules.json is damaged, names a path outside the folder, or lists any other module.
    """
    path = folder / "modules.json"
    if not path.is_file():
        return []
    listed = [(kind, _inside(part, path)) for kind, part in _listed(path)]
    foreign = {kind for kind, _ in listed if kind not in KINDS}
    kinds = [KINDS.get(kind, "") for kind, _ in listed]
    foreign |= {f"several {kind} modules" for kind in ("Transformer", "Pooling") if kinds.count(kind) > 1}
    if "StaticEmbedding" in kinds:
        foreign |= {f"a {kind} beside a StaticEmbedding" for kind in ("Transformer", "Pooling") if kind in kinds}
        foreign |= {"a StaticEmbedding after others"} if kinds[0] != "StaticEmbedding" else set()
    early = kinds[: kinds.index("Pooling")] if "Pooling" in kinds else []
    foreign |= {f"a {kind} before the pooling" for kind in early if kind not in ("", "Transformer")}
    foreign |= {wrong for kind, part in listed if KINDS.get(kind) == "Dense" and (wrong := _wrong_dense(folder / part))}
    if foreign:
        raise ResourceError(
            f"{folder}: its modules.json asks for {', '.join(sorted(foreign))}; rbench reads sentence-transformers "
            "models made of a transformer and pooling, or a StaticEmbedding, and then Dense, LayerNorm, Dropout and "
            "Normalize only. Python code of a model is not run. To measure such a model, give its answers as a "
            "callable or an endpoint"
        )
    return [(KINDS[kind], part) for kind, part in listed]


def after_pooling(folder: Path) -> list[tuple[str, Path]]:
    """Return kind and folder of the modules between pooling and the normalisation at the end, in their order.

    A Normalize that ends the list is left out: `EncoderSpec.normalize` says whether vectors are normalised. Dropout is
    left out, because it does nothing after training. Raises ResourceError as `modules`.
    """
    found = [(kind, folder / part) for kind, part in modules(folder) if kind in ("Dense", "LayerNorm", "Normalize")]
    while found and found[-1][0] == "Normalize":
        found.pop()
    return found


def normalizes(folder: Path) -> bool:
    """Return whether the last of the modules normalises vectors. Raises ResourceError as `modules`."""
    kinds = [kind for kind, _ in modules(folder) if kind != "Dropout"]
    return bool(kinds) and kinds[-1] == "Normalize"


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


def activation_of(dense: Path) -> str | None:
    """Return the name in torch.nn of a Dense module's activation; None where it is not in `ACTIVATIONS`."""
    named = object_of(dense / "config.json").get("activation_function", DEFAULT_ACTIVATION)
    return ACTIVATIONS.get(named) if isinstance(named, str) else None


def _wrong_dense(dense: Path) -> str:
    """Say why rbench cannot do a Dense module; empty if it can."""
    config = object_of(dense / "config.json")
    if not config:
        return "a Dense without a config.json"
    if activation_of(dense) is None:
        return f"a Dense with an activation that rbench does not know ({config['activation_function']})"
    places = {config.get(key) for key in ("module_input_name", "module_output_name")} - {None, "sentence_embedding"}
    return f"a Dense on {', '.join(sorted(map(str, places)))}" if places else ""
