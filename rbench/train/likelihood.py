"""Train a normalising flow by maximum likelihood of sentence vectors. The encoder is frozen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.encoders.transform import FlowTransform
from rbench.schema import EncoderSpec
from rbench.train import models
from rbench.train.contrastive_losses import uniformity
from rbench.train.models import open_encoder
from rbench.train.objectives._trained import Encoding

VERSION = 1


class FlowLikelihood(nn.Module):
    """Compute -log p(u) of the vectors u of a batch (Li et al. 2020, section 3.2). Only the flow gets gradients."""

    def __init__(self, encoder: SentenceEncoder, flow: FlowTransform) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.flow = flow

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the flow. The encoder stays in eval mode, without dropout, as it is when it encodes."""
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return `loss`: the mean of -log p(u) over the batch, divided by the width of u, in nats."""
        with torch.no_grad():
            u = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        # Without autocast: the flow multiplies many scales, and bf16 would round the determinant.
        with torch.autocast(u.device.type, enabled=False):
            nats = -self.flow.log_prob(u.to(torch.promote_types(u.dtype, torch.float32)))
        return {"loss": nats.mean() / self.flow.width}


class LikelihoodObjective(Encoding):
    """Implement `Objective` for a flow.

    Activation normalisation is initialised from the first batch, so texts are shuffled and all batches are full.

    Args:
        options: those of `rbench.train.objectives.flow`.

    Raises:
        ResourceError: the vectors are too narrow for the levels.
    """

    grouped = False

    def __init__(self, spec: EncoderSpec, base: str | Path | None, options: Any) -> None:
        assert spec.train is not None
        network = open_encoder(spec, base)
        # The flow reads the vectors as they are before normalisation and truncation, which come after it.
        settings, network.settings = network.settings, network.settings.before_transform()
        flow = FlowTransform(network.dim, options.levels, options.depth, options.hidden)
        self.model = FlowLikelihood(network, flow)
        self.encoder = SentenceEncoder(
            network.model, network.tokenizer, network.pooling, network.max_length, spec.name, flow, settings
        )
        self.kept: nn.Module = flow
        super().__init__(network.tokenizer, min(spec.train.max_length, network.max_length))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) after the current flow."""
        return self.encoder.eval().encode(texts)

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Score held-out texts: `log_likelihood` in nats a dimension, `uniformity` of z (Wang and Isola 2020)."""
        if len(texts) < 2:
            return {}
        u = torch.from_numpy(self.model.encoder.encode(texts)).to(self.encoder.device)
        flow = self.model.flow.eval()
        with torch.no_grad():
            nats = flow.log_prob(u).mean() / flow.width
            return {"log_likelihood": float(nats), "uniformity": float(uniformity(flow(u)))}

    def save(self, folder: Path) -> None:
        """Write the encoder with the flow as a folder for rbench. sentence-transformers has no module for a flow."""
        models.save_encoder(folder, self.encoder)
