"""Read the folder `transform/` of an encoder, whichever kind of transform it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from rbench.encoders.locate import TRANSFORM, TRANSFORM_ABOUT
from rbench.encoders.modules import activation_of, after_pooling
from rbench.encoders.transform import WEIGHTS, Chain, Dense, LayerNorm, Linear, Normalize, Transform
from rbench.errors import ResourceError
from rbench.spec import Pooling

VERSION = 1
USES = ("encoders.transform",)
"""`encoders.flow` is not listed, because only encoders that have a flow use it."""


def transform_of(folder: Path, pooling: Pooling, width: int, name: str = "encoder") -> Transform | None:
    """Read what a model's folder has after its pooling, frozen: its modules, or its folder `TRANSFORM`; None: nothing.

    One linear Dense module is a `Linear`. All other modules make a `Chain`, without a normalisation that ends them.

    Args:
        folder: the model's.
        pooling: the pooling of the encoder.
        width: length of the pooled vectors.
        name: the encoder's name, for error messages.

    Raises:
        ResourceError: as `read_transform`, or a module has no safetensors weights.
    """
    parts = after_pooling(folder)
    if not parts:
        placed = folder / TRANSFORM
        return read_transform(placed, pooling, name) if (placed / TRANSFORM_ABOUT).is_file() else None
    if [kind for kind, _ in parts] == ["Dense"] and activation_of(parts[0][1]) == "Identity":
        return read_transform(parts[0][1], pooling, name)
    try:
        return Chain(_modules(parts, width)).eval()
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ResourceError(
            f"encoder `{name}`: the modules after the pooling in {folder} cannot be read ({type(error).__name__}: "
            f"{error}). rbench reads safetensors only; `SentenceTransformer(FOLDER).save(OTHER)` writes them"
        ) from error


def _modules(parts: Sequence[tuple[str, Path]], width: int) -> list[Transform]:
    """Return the transforms that modules of sentence-transformers are, given as kind and folder."""
    steps: list[Transform] = []
    for kind, folder in parts:
        if kind == "Normalize":
            about: dict[str, Any] = {"kind": "normalize", "width": steps[-1].dim if steps else width}
            steps.append(_step(about, {}))
        elif kind == "LayerNorm":
            steps.append(_step({"kind": "layer-norm"}, load_file(folder / WEIGHTS)))
        else:
            about = {"kind": "dense", "activation": activation_of(folder)}
            steps.append(_step(about, load_file(folder / WEIGHTS)))
    return steps


def _step(about: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Transform:
    """Return one step of a chain, of what `Transform.about` says of it and its weights."""
    match about["kind"]:
        case Dense.KIND:
            return Dense(weights["linear.weight"], weights.get("linear.bias"), about["activation"])
        case LayerNorm.KIND:
            return LayerNorm(weights["norm.weight"], weights["norm.bias"])
        case Normalize.KIND:
            return Normalize(about["width"])
    raise ValueError(f"there is no step {about['kind']!r} after a pooling")


def _chain(steps: Sequence[Mapping[str, Any]], weights: Mapping[str, Tensor]) -> Chain:
    """Return the chain that `Transform.save` wrote."""
    made = []
    for i, step in enumerate(steps):
        start = f"steps.{i}."
        made.append(_step(step, {key.removeprefix(start): w for key, w in weights.items() if key.startswith(start)}))
    return Chain(made)


def read_transform(folder: Path, pooling: Pooling, name: str = "encoder") -> Transform:
    """Read what `Transform.save` wrote, or the Dense module of another sentence-transformers model; it is frozen.

    Args:
        folder: holds the transform's files.
        pooling: the pooling of the encoder that has the transform.
        name: the encoder's name, for error messages.

    Raises:
        ResourceError: the folder is damaged, holds an unknown kind, or was fitted on vectors of another pooling.
    """
    file = folder / TRANSFORM_ABOUT
    try:
        about: dict[str, Any] = {"kind": Linear.KIND}
        if file.is_file():
            about = json.loads(file.read_text(encoding="utf-8"))
        kind, fitted = about.pop("kind"), about.pop("pooling", pooling)
        weights = load_file(folder / WEIGHTS)
        if kind == Linear.KIND:
            weight = weights["linear.weight"]
            made: Transform = Linear(weight, weights.get("linear.bias", torch.zeros(len(weight))))
        elif kind == Chain.KIND:
            made = _chain(about["steps"], weights)
        elif kind == "flow":
            from rbench.encoders.flow import Flow

            made = Flow(**about)
            made.load_state_dict(weights)
        else:
            raise ResourceError(f"encoder `{name}`: {file} is of kind {kind!r}, which this rbench does not read")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise ResourceError(
            f"encoder `{name}`: the {TRANSFORM} in {folder} cannot be read ({type(error).__name__}: {error})"
        ) from error
    if fitted != pooling:
        raise ResourceError(
            f"encoder `{name}`: its {made.KIND} transform was fitted on vectors of pooling {fitted} and it has "
            f"pooling {pooling}; write `pooling: {fitted}`"
        )
    return made.requires_grad_(False)
