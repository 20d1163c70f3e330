"""What contrastive objectives are made of: the encoder with a head, the views that a loss takes, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.spec import EncoderSpec
from rbench.train import layout
from rbench.train.contrast import info_nce, uniformity
from rbench.train.encoding import Encoding
from rbench.train.heads import BatchNormHead, MLPHead
from rbench.train.options import AdversarialTerm, Contrastive, Norm
from rbench.train.origin import dropout_of, sentence_encoder, with_dropout
from rbench.train.perturb import fgm

VERSION = 1

Losses = dict[str, Tensor]
"""`loss`, the total, and its parts under the paper's names, as they enter the total."""


@dataclass(frozen=True)
class Batch:
    """Token ids, attention mask and mask of special tokens, each (batch, length)."""

    ids: Tensor
    mask: Tensor
    special: Tensor

    @property
    def words(self) -> Tensor:
        """1 for tokens that are neither padding nor special, else 0: (batch, length, 1)."""
        return (self.mask.bool() & ~self.special.bool()).unsqueeze(-1).float()


class SentenceModel(nn.Module):
    """An encoder f with a head that training alone uses, and a loss over the views of a batch.

    Args:
        losses: the objective; takes this model and a batch.
        parts: further modules that the objective needs.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        head: nn.Module,
        losses: Callable[[SentenceModel, Batch], Losses],
        parts: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.parts = nn.ModuleDict(parts or {})
        self._losses = losses

    def forward(self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor) -> Losses:
        return self._losses(self, Batch(input_ids, attention_mask, special_tokens_mask))

    def embed(self, batch: Batch) -> Tensor:
        """X: the word embeddings (batch, length, D), without positions; this is where perturbations are added."""
        X: Tensor = self.encoder.model.get_input_embeddings()(batch.ids)
        return X

    def f(self, X: Tensor, mask: Tensor) -> Tensor:
        """h = f(X): sentence vectors (batch, dim) without the head.

        Token types are left to the network's default: 0, which is also what a RoBERTa knows.
        """
        h: Tensor = self.encoder(inputs_embeds=X, attention_mask=mask)
        return h

    def z(self, X: Tensor, mask: Tensor) -> Tensor:
        """Sentence vectors with the head: (batch, dim)."""
        z: Tensor = self.head(self.f(X, mask))
        return z

    def twice(self, X: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """h, z and z+ of one encoder pass over the batch twice: each row has its own dropout mask."""
        h, _, z, z_plus = self.pair(X, X, mask)
        return h, z, z_plus

    def pair(self, first: Tensor, second: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Vectors without the head, then with it, of two views (batch, length, D) in one encoder pass.

        The head sees one view at a time, as it does elsewhere (batch normalisation would tell).
        """
        h, h_plus = self.f(torch.cat([first, second]), torch.cat([mask, mask])).chunk(2)
        return h, h_plus, self.head(h), self.head(h_plus)

    def step_up(self, X: Tensor, batch: Batch, loss: Callable[[Tensor], Tensor], epsilon: float, norm: Norm) -> Tensor:
        """X + r: r has length epsilon in `norm` over a sentence's words, along the gradient of loss(z(X)) at X."""
        leaf = X.detach().requires_grad_()
        g = torch.autograd.grad(loss(self.z(leaf, batch.mask)), leaf)[0]
        return X + fgm(g * batch.words, epsilon, norm)

    def attacked(
        self, batch: Batch, loss: Callable[[Tensor, Tensor], Tensor], epsilon: float, norm: Norm
    ) -> tuple[Tensor, Tensor, Tensor]:
        """z, z+ and the embeddings X + r, with r as in `step_up` for loss(z, z+).

        The views are encoded one by one, so that the gradient goes through the first alone; the pass that it goes
        through is the one that z comes from.
        """
        X = self.embed(batch)
        nothing = torch.zeros_like(X).requires_grad_()
        z, z_plus = self.z(X + nothing, batch.mask), self.z(X, batch.mask)
        g = torch.autograd.grad(loss(z, z_plus.detach()), nothing, retain_graph=True)[0]
        return z, z_plus, X + fgm(g * batch.words, epsilon, norm)


def with_adversarial_term(
    options: AdversarialTerm, model: SentenceModel, batch: Batch, second: Callable[[Tensor, Tensor, Tensor], Tensor]
) -> Losses:
    """L_con(z, z+) + weight second(z, z+, z_adv), z_adv at X + r, r one step along the gradient of L_con(z, z+) at X.

    Forward 3, backward 3 and one through the network of one view without the weights: the clean view serves both terms
    and the perturbation.
    """

    def contrastive(z: Tensor, z_plus: Tensor) -> Tensor:
        return info_nce(z, [z_plus], z_plus, options.temperature)

    z, z_plus, X_adv = model.attacked(batch, contrastive, options.epsilon, options.norm)
    first = contrastive(z, z_plus)
    adversarial = options.weight * second(z, z_plus, model.z(X_adv, batch.mask))
    return {"loss": first + adversarial, "contrastive": first, "adversarial": adversarial}


_HEADS: dict[str, Callable[[int], nn.Module]] = {
    "mlp": MLPHead,
    "batchnorm": BatchNormHead,
    "none": lambda dim: nn.Identity(),
}


class EncoderObjective(Encoding):
    """What every `Objective` has whose result is a sentence encoder: where it starts, its vectors, how it is kept.

    Args:
        needs_dropout: refuse a base without dropout, because the two views of a sentence would be one.
    """

    grouped = False

    def __init__(
        self, spec: EncoderSpec, base: str | Path | None, options: Contrastive, *, needs_dropout: bool = True
    ) -> None:
        assert spec.train is not None
        layout.check(spec.name, spec.pooling)
        self.encoder = sentence_encoder(spec, base)
        self._own_dropout = dropout_of(self.encoder.model.config)
        if options.dropout is not None:
            self.encoder.model = with_dropout(self.encoder.model, options.dropout)
        if needs_dropout and not any(dropout_of(self.encoder.model.config).values()):
            raise JobError(
                f"Encoder {spec.name}: objective {spec.train.objective} makes its positive pairs by dropout and "
                "its base has none; set train.options.dropout, to 0.1 for instance."
            )
        self.kept: nn.Module = self.encoder
        super().__init__(self.encoder.tokenizer, min(spec.train.max_length, self.encoder.max_length))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (len(texts), dim) without head and dropout."""
        return self.encoder.encode(texts)

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """`uniformity` of the vectors of held-out texts (Wang and Isola 2020): the lower, the better spread."""
        if len(texts) < 2:
            return {}
        return {"uniformity": float(uniformity(torch.from_numpy(self.encoder.encode(texts))))}

    def save(self, folder: Path) -> None:
        """The encoder without head and parts, with the base's own dropout, as a SentenceTransformer folder."""
        network = self.encoder.model
        network.config.update(self._own_dropout)
        layout.save(folder, self.encoder)


class ContrastiveObjective(EncoderObjective):
    """Implements `Objective` for an encoder trained by contrast between the sentences of a batch.

    Args:
        losses: the loss; the options are bound to it.
        parts: makes the further modules that the loss needs, from the encoder as it is before training.
        needs_dropout: as `EncoderObjective`.
    """

    def __init__(
        self,
        spec: EncoderSpec,
        base: str | Path | None,
        options: Contrastive,
        losses: Callable[[SentenceModel, Batch], Losses],
        *,
        head: Literal["mlp", "batchnorm", "none"] = "mlp",
        parts: Callable[[SentenceEncoder], dict[str, nn.Module]] | None = None,
        needs_dropout: bool = True,
    ) -> None:
        super().__init__(spec, base, options, needs_dropout=needs_dropout)
        self.model = SentenceModel(
            self.encoder, _HEADS[head](self.encoder.dim), losses, parts(self.encoder) if parts else None
        )
