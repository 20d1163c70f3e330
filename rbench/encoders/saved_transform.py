"""Read the folder `transform/` of an encoder, whichever kind of transform it holds."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from rbench.encoders.locate import TRANSFORM, TRANSFORM_ABOUT
from rbench.encoders.transform import WEIGHTS, Linear, Transform
from rbench.errors import ResourceError
from rbench.spec import Pooling

VERSION = 1
USES = ("encoders.transform",)
"""`encoders.flow` is not listed, because only encoders that have a flow use it."""


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
        about = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"kind": Linear.KIND}
        kind, fitted = about.pop("kind"), about.pop("pooling", pooling)
        weights = load_file(folder / WEIGHTS)
        if kind == Linear.KIND:
            weight = weights["linear.weight"]
            made: Transform = Linear(weight, weights.get("linear.bias", torch.zeros(len(weight))))
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
