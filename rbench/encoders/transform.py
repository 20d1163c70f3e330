"""Define transforms of sentence vectors after pooling: a linear map (whitening) or a normalising flow (BERT-flow).

A transform is fitted on the vectors of a corpus without labels (`rbench.train.objectives`, whitening and flow) and is
part of the encoder from then on. It is frozen: gradients of fine-tuning pass through it and change only the network,
because the papers compare it as a fixed step after an encoder. On disk it is a folder beside the network: weights
(safetensors) and `rbench.json`, which has its kind and pooling. `rbench.encoders.saved_transform` reads the folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rbench.encoders.locate import TRANSFORM_ABOUT
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

    def save(self, folder: Path, pooling: Pooling) -> None:
        """Write weights and `rbench.json` to `folder`. `pooling` made the vectors on which the transform was fitted."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: tensor.contiguous() for name, tensor in self.state_dict().items()}, folder / WEIGHTS)
        about = {"kind": self.KIND, "pooling": pooling, **self.about()}
        (folder / TRANSFORM_ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


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

    def save(self, folder: Path, pooling: Pooling) -> None:
        super().save(folder, pooling)
        config = {
            "in_features": self.width,
            "out_features": self.dim,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
