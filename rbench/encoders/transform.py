"""Define transforms of sentence vectors after pooling.

A linear map (whitening) or a normalising flow (BERT-flow) is fitted on the vectors of a corpus without labels
(`rbench.train.objectives`, whitening and flow). A chain holds the modules that a SentenceTransformer has after its
pooling. A transform is frozen: gradients of fine-tuning pass through it and change only the network, because the papers
compare it as a fixed step after an encoder. On disk it is a folder beside the network: weights
(safetensors) and `rbench.json`, which has its kind and pooling. `rbench.encoders.saved_transform` reads the folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rbench.encoders.locate import TRANSFORM_ABOUT
from rbench.encoders.modules import ACTIVATIONS
from rbench.spec import Pooling

VERSION = 1

WEIGHTS = "model.safetensors"


class Transform(nn.Module):
    """Maps vectors (batch, width) to vectors (batch, dim). `KIND` is its name on disk."""

    KIND = ""
    width: int
    dim: int

    def about(self) -> dict[str, Any]:
        """Return the constructor's arguments except the weights, as JSON values."""
        return {}

    def module_config(self) -> dict[str, Any]:
        """Return the config.json of the module of sentence-transformers that computes the same; empty: there is none,
        or it needs no file."""
        return {}

    def save(self, folder: Path, pooling: Pooling) -> None:
        """Write weights and `rbench.json` to `folder`. `pooling` made the vectors on which the transform was fitted."""
        self.save_module(folder)
        about = {"kind": self.KIND, "pooling": pooling, **self.about()}
        (folder / TRANSFORM_ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def save_module(self, folder: Path) -> None:
        """Write weights and `module_config` to `folder`, each if there are any."""
        folder.mkdir(parents=True, exist_ok=True)
        if weights := {name: tensor.contiguous() for name, tensor in self.state_dict().items()}:
            save_file(weights, folder / WEIGHTS)
        if config := self.module_config():
            (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


class Chain(Transform):
    """Applies transforms one after the other. `Linear`, `Dense`, `LayerNorm` and `Normalize` can be its steps.

    Args:
        steps: at least one; each takes vectors as long as the one before gives them.

    Raises:
        ValueError: a step takes vectors of another length.
    """

    KIND = "chain"

    def __init__(self, steps: Sequence[Transform]) -> None:
        super().__init__()
        for before, step in pairwise(steps):
            if step.width != before.dim:
                raise ValueError(f"a {step.KIND} takes vectors of {step.width} numbers and gets {before.dim}")
        self.steps = nn.ModuleList(steps)
        self.width, self.dim = steps[0].width, steps[-1].dim
        self.requires_grad_(False)

    def about(self) -> dict[str, Any]:
        return {"steps": [{"kind": step.KIND, **step.about()} for step in self.parts]}

    @property
    def parts(self) -> list[Transform]:
        """The steps, in order."""
        return [step for step in self.steps if isinstance(step, Transform)]

    def forward(self, vectors: Tensor) -> Tensor:
        for step in self.parts:
            vectors = step(vectors)
        return vectors


class Dense(Transform):
    """Computes f(x W^T + b), as a Dense module of sentence-transformers.

    Args:
        weight: W, (dim, width).
        bias: b, (dim,); None: there is none.
        activation: f, the name of a class in torch.nn, one of `rbench.encoders.modules.ACTIVATIONS`.
    """

    KIND = "dense"

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str) -> None:
        super().__init__()
        if activation not in ACTIVATIONS.values():
            raise ValueError(f"there is no activation {activation}")
        self.dim, self.width = weight.shape
        self.linear = nn.Linear(self.width, self.dim, bias=bias is not None)
        with torch.no_grad():
            self.linear.weight.copy_(weight)
            if bias is not None:
                self.linear.bias.copy_(bias)
        self.name = activation
        self.activation: nn.Module = getattr(nn, activation)()

    def about(self) -> dict[str, Any]:
        return {"activation": self.name}

    def module_config(self) -> dict[str, Any]:
        return _dense_config(self.linear, self.name)

    def forward(self, vectors: Tensor) -> Tensor:
        mapped: Tensor = self.activation(self.linear(vectors))
        return mapped


class LayerNorm(Transform):
    """Layer normalisation of vectors with `weight` and `bias`, each (width,)."""

    KIND = "layer-norm"

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.width = self.dim = len(weight)
        self.norm = nn.LayerNorm(self.width)
        with torch.no_grad():
            self.norm.weight.copy_(weight)
            self.norm.bias.copy_(bias)

    def module_config(self) -> dict[str, Any]:
        return {"dimension": self.width}

    def forward(self, vectors: Tensor) -> Tensor:
        normed: Tensor = self.norm(vectors)
        return normed


class Normalize(Transform):
    """Scales vectors of `width` numbers to unit length."""

    KIND = "normalize"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.dim = width

    def about(self) -> dict[str, Any]:
        return {"width": self.width}

    def forward(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=1)


class Linear(Transform):
    """Computes x W^T + b. Its folder is also a Dense module of sentence-transformers.

    Args:
        weight: W, (dim, width).
        bias: b, (dim,).
    """

    KIND = "linear"

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.dim, self.width = weight.shape
        # A layer, because back-ends make the rows of layers independent of their batch.
        self.linear = nn.Linear(self.width, self.dim)
        with torch.no_grad():
            self.linear.weight.copy_(weight)
            self.linear.bias.copy_(bias)
        self.requires_grad_(False)

    def forward(self, vectors: Tensor) -> Tensor:
        mapped: Tensor = self.linear(vectors)
        return mapped

    def module_config(self) -> dict[str, Any]:
        return _dense_config(self.linear, "Identity")


def _dense_config(layer: nn.Linear, activation: str) -> dict[str, Any]:
    """Return the config.json of a Dense module."""
    return {
        "in_features": layer.in_features,
        "out_features": layer.out_features,
        "bias": layer.bias is not None,
        "activation_function": next(full for full, name in reversed(ACTIVATIONS.items()) if name == activation),
    }
