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
from rbench.encoders.transform import Flow
from rbench.errors import JobError, ResourceError
from rbench.schema import EncoderSpec
from rbench.train import models
from rbench.train.contrastive_losses import uniformity
from rbench.train.models import sentence_encoder
from rbench.train.objectives import Encoding

VERSION = 1


class Likelihood(nn.Module):
    """Compute -log p(u) of the vectors u of a batch (Li et al. 2020, section 3.2). Only the flow gets gradients."""

    def __init__(self, encoder: SentenceEncoder, flow: Flow) -> None:
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
        with torch.autocast(u.device.type, enabled=False):
            nats = -self.flow.log_prob(u.to(torch.promote_types(u.dtype, torch.float32)))
        return {"loss": nats.mean() / self.flow.width}


class LikelihoodObjective(Encoding):
    """Implement `Objective` for a flow.

    Activation normalisation is initialised from the first batch, so texts are shuffled and all batches are full.

    Args:
        options: those of `rbench.train.objectives.flow`.

    Raises:
        JobError: a batch has one text, or the vectors are too narrow for the levels.
    """

    grouped = False

    def __init__(self, spec: EncoderSpec, base: str | Path | None, options: Any) -> None:
        assert spec.train is not None
        if spec.train.batch_size < 2:
            raise JobError(
                f"Encoder {spec.name}: a flow is initialised from the variance of a batch, so train.batch_size must be "
                "at least 2."
            )
        network = sentence_encoder(spec, base)
        settings, network.settings = network.settings, network.settings.before_transform()
        try:
            flow = Flow(network.dim, options.levels, options.depth, options.hidden)
        except ResourceError as error:
            raise JobError(f"Encoder {spec.name}: {error}") from error
        self.model = Likelihood(network, flow)
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
        models.save(folder, self.encoder)
