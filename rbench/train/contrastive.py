"""Building blocks of contrastive objectives: an encoder with a head, the views for a loss, and the objective itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.schema import EncoderSpec
from rbench.train import health, models, perturb
from rbench.train.contrastive_losses import info_nce, info_nce_each, uniformity
from rbench.train.heads import BatchNormHead, MLPHead
from rbench.train.models import dropout_rates, open_encoder, with_dropout
from rbench.train.objectives._trained import Encoding
from rbench.train.options import AdversarialTermOptions, Contrastive, Norm, SentenceLevelOptions
from rbench.train.perturb import fgm

# Raising it trains all encoders anew whose objective imports this file, and all that stands on them
# (config/versions.py). tests/golden holds what each objective computes.
VERSION = 1

Losses = dict[str, Tensor]
"""The total under `loss`, and its terms under the paper's names. Each term has its weight applied."""


@dataclass(frozen=True)
class Batch:
    """Token ids, attention mask and special-token mask of a batch, each (batch, length)."""

    ids: Tensor
    mask: Tensor
    special: Tensor

    @property
    def words(self) -> Tensor:
        """Mask (batch, length, 1): 1 for tokens that are neither padding nor special, else 0."""
        return (self.mask.bool() & ~self.special.bool()).unsqueeze(-1).float()


class SentenceModel(nn.Module):
    """An encoder f, a head that is used in training only, and a loss over the views of a batch.

    Args:
        losses: computes the loss from this model and a batch.
        parts: further modules that the loss needs, by name.
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
        self._seen: health.ObservedStep | None = None

    def forward(self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor) -> Losses:
        return self._losses(self, Batch(input_ids, attention_mask, special_tokens_mask))

    def observe_step(self, batch: dict[str, Tensor]) -> health.ObservedStep:
        """Compute the loss of a collated batch, and return the views and perturbations that it was made of."""
        self._seen = observed = health.ObservedStep()
        try:
            self(**batch)
        finally:
            self._seen = None
        return observed

    def embed(self, batch: Batch) -> Tensor:
        """Return X, the word embeddings (batch, length, D) before positions are added. Perturbations go here."""
        X: Tensor = self.encoder.model.get_input_embeddings()(batch.ids)
        return X

    def f(self, X: Tensor, mask: Tensor) -> Tensor:
        """Return h = f(X), the sentence vectors (batch, dim) without the head.

        Token types are left at the network's default of 0, the only type that RoBERTa has.
        """
        h: Tensor = self.encoder(inputs_embeds=X, attention_mask=mask)
        return h

    def z(self, X: Tensor, mask: Tensor) -> Tensor:
        """Return the sentence vectors (batch, dim) after the head."""
        z: Tensor = self.head(self.f(X, mask))
        return z

    def twice(self, X: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return h, z and z+ from one encoder pass over the batch repeated twice. Each row has its own dropout mask."""
        h, _, z, z_plus = self.pair(X, X, mask)
        return h, z, z_plus

    def pair(self, first: Tensor, second: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return h, h+, z and z+ of two views (batch, length, D) from one encoder pass.

        The head sees one view at a time, as everywhere else: with batch normalisation this changes the result.
        """
        h, h_plus = self.f(torch.cat([first, second]), torch.cat([mask, mask])).chunk(2)
        z, z_plus = self.head(h), self.head(h_plus)
        self.show_views(z, z_plus)
        return h, h_plus, z, z_plus

    def show_views(self, z: Tensor, z_plus: Tensor) -> None:
        if self._seen is not None and self._seen.views is None:
            self._seen.views = (z.detach(), z_plus.detach())

    def perturbed(self, X: Tensor, delta: Tensor, loss: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Return X + delta, (batch, length, D). Every adversarial view goes through here, so that it can be measured.

        Args:
            loss: maps the vectors z (batch, dim) of this view to the loss of each sentence, (batch,), that delta was
                made to raise. What it closes over is detached. None: not known.
        """
        if self._seen is not None:
            self._seen.adversary = health.AdversarialView(X.detach(), delta.detach(), loss)
        return X + delta

    def add_ascent(
        self,
        options: SentenceLevelOptions,
        X: Tensor,
        z_plus: Tensor,
        batch: Batch,
        tokens: perturb.TokenPerturbation | None = None,
    ) -> Tensor:
        """Return X + delta_f, where `perturb.ascend` raises L_con(z, z+) against the constant target z+.

        A token-level perturbation moves along (see there), and is measured.
        """
        # The perturbation is against a fixed target: z+ must not move towards the view that is made to leave it.
        target, start, tau = z_plus.detach(), X.detach(), options.temperature
        delta = perturb.ascend(
            options,
            start,
            batch.words,
            lambda d: info_nce(self.z(start + d, batch.mask), [target], target, tau),
            tokens,
        )
        if tokens is not None and self._seen is not None:
            self._seen.eta = (start, tokens.eta.detach())
        return self.perturbed(X, delta, lambda z: info_nce_each(z, [target], target, tau))

    def step_up(self, X: Tensor, batch: Batch, loss: Callable[[Tensor], Tensor], epsilon: float, norm: Norm) -> Tensor:
        """Return X + r, where r goes along the gradient of loss(z(X)) at X.

        The `norm` of r, over all numbers of a sentence's words, is epsilon.
        """
        leaf = X.detach().requires_grad_()
        # One backward pass with respect to X alone: the weights get no gradients from it.
        g = torch.autograd.grad(loss(self.z(leaf, batch.mask)), leaf)[0]
        return self.perturbed(X, fgm(g * batch.words, epsilon, norm))

    def attacked(
        self, batch: Batch, loss: Callable[[Tensor, Tensor], Tensor], epsilon: float, norm: Norm
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return z, z+ and the embeddings X + r, with r as in `step_up` for the mean of loss(z, z+), (batch,).

        The two views are encoded separately, so that the gradient flows through the first view only. The pass that
        yields z is also the one that the gradient flows through.
        """
        X = self.embed(batch)
        zeros = torch.zeros_like(X).requires_grad_()
        # Adding a leaf of zeros gives the gradient at X from the same pass that yields z.
        z, z_plus = self.z(X + zeros, batch.mask), self.z(X, batch.mask)
        self.show_views(z, z_plus)
        target = z_plus.detach()
        # The graph is retained, because the training loss goes back through the same pass.
        g = torch.autograd.grad(loss(z, target).mean(), zeros, retain_graph=True)[0]
        r = fgm(g * batch.words, epsilon, norm)
        return z, z_plus, self.perturbed(X, r, lambda z_adv: loss(z_adv, target))


def with_adversarial_term(
    options: AdversarialTermOptions,
    model: SentenceModel,
    batch: Batch,
    second: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Losses:
    """Return L_con(z, z+) + weight * second(z, z+, z_adv).

    z_adv is encoded at X + r, where r is one step along the gradient of L_con(z, z+) at X.

    Cost: 3 forward and 3 backward passes, and one backward pass for r, which computes no gradients of weights. The
    clean view serves both terms and the perturbation, so it is encoded once.
    """

    def contrastive(z: Tensor, z_plus: Tensor) -> Tensor:
        return info_nce_each(z, [z_plus], z_plus, options.temperature)

    z, z_plus, X_adv = model.attacked(batch, contrastive, options.epsilon, options.norm)
    first = contrastive(z, z_plus).mean()
    adversarial = options.weight * second(z, z_plus, model.z(X_adv, batch.mask))
    return {"loss": first + adversarial, "contrastive": first, "adversarial": adversarial}


_HEADS: dict[str, Callable[[int], nn.Module]] = {
    "mlp": MLPHead,
    "batchnorm": BatchNormHead,
    "wide-batchnorm": lambda dim: BatchNormHead(dim, widening=2),
    "none": lambda dim: nn.Identity(),
}


class EncoderObjective(Encoding):
    """The common part of objectives whose result is a sentence encoder: starting weights, vectors, saving.

    Args:
        dropout: the probability in training; None keeps the base's own.
        needs_dropout: refuse a base without dropout, because the two views of a sentence would be identical.
    """

    grouped = False

    def __init__(
        self, spec: EncoderSpec, base: str | Path | None, dropout: float | None, *, needs_dropout: bool = True
    ) -> None:
        assert spec.train is not None
        models.check_pooling(spec.name, spec.pooling)
        self._spec = spec
        self.encoder = open_encoder(spec, base)
        self._own_dropout = dropout_rates(self.encoder.model.config)
        if dropout is not None:
            self.encoder.model = with_dropout(self.encoder.model, dropout)
        if needs_dropout and not any(dropout_rates(self.encoder.model.config).values()):
            raise JobError(
                f"Encoder {spec.name}: objective {spec.train.objective} makes its positive pairs by dropout and "
                "its base has none; set train.options.dropout, to 0.1 for instance."
            )
        self.kept: nn.Module = self.encoder
        super().__init__(self.encoder.tokenizer, min(spec.train.max_length, self.encoder.max_length))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) without the head and without dropout, as evaluations on STS read texts."""
        trained, settings = self.encoder, ReadingSettings.of(self._spec, "sts")
        # Evaluations may read texts otherwise than the training does (prompts, truncation): the score is of theirs.
        if settings == trained.settings:
            return trained.encode(texts)
        network = SentenceEncoder(
            trained.model,
            trained.tokenizer,
            trained.pooling,
            trained.max_length,
            self._spec.name,
            settings=settings,
        )
        return network.encode(texts)

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Return the `uniformity` of held-out texts (Wang and Isola 2020). Lower means spread more evenly."""
        if len(texts) < 2:
            return {}
        return {"uniformity": float(uniformity(torch.from_numpy(self.encoder.encode(texts))))}

    def save(self, folder: Path) -> None:
        """Write the encoder as a SentenceTransformer folder, without head and parts, with the base's own dropout."""
        network = self.encoder.model
        # Restored before saving: a folder with the dropout of this training would hand it on to fine-tuning.
        network.config.update(self._own_dropout)
        models.save_encoder(folder, self.encoder)


class ContrastiveObjective(EncoderObjective):
    """Implement `Objective` for an encoder trained with in-batch negatives.

    Args:
        losses: the loss, with the options already bound.
        head: the head used in training.
        parts: makes the further modules that the loss needs from the encoder before training.
        needs_dropout: see `EncoderObjective`.
    """

    def __init__(
        self,
        spec: EncoderSpec,
        base: str | Path | None,
        options: Contrastive,
        losses: Callable[[SentenceModel, Batch], Losses],
        *,
        head: Literal["mlp", "batchnorm", "wide-batchnorm", "none"] = "mlp",
        parts: Callable[[SentenceEncoder], dict[str, nn.Module]] | None = None,
        needs_dropout: bool = True,
    ) -> None:
        super().__init__(spec, base, options.dropout, needs_dropout=needs_dropout)
        self._temperature = options.temperature
        self.model = SentenceModel(
            self.encoder, _HEADS[head](self.encoder.dim), losses, parts(self.encoder) if parts else None
        )

    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Implement `ProbedObjective` for views and perturbations that went through the model's methods."""
        model, inputs = self.model, Batch(batch["input_ids"], batch["attention_mask"], batch["special_tokens_mask"])
        observed = model.observe_step(batch)
        values: dict[str, float] = {}
        if observed.views is not None:
            z, z_plus = observed.views
            losses = info_nce_each(z, [z_plus], z_plus, self._temperature)
            values |= health.measure_views(losses, z, z_plus, torch.arange(len(z), device=z.device))
        if observed.adversary is not None:
            values |= health.measure_adversary(
                model, observed.adversary, inputs.words, lambda X: model.f(X, inputs.mask), model.head
            )
        if observed.eta is not None:
            values |= health.measure_tokens(*observed.eta, inputs.words)
        return values


# ------------------------------------------------------------------------------- objectives that replace words


class TextObjective(EncoderObjective):
    """The common part of objectives that replace words of their sentences (ADCL, BTCL, distillation).

    Batches hold the sentences too.
    """

    def features(self, text: str) -> dict[str, Any]:
        """Return the features of `Encoding.features` and the text itself."""
        return {**super().features(text), "text": text}

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return input_ids and attention_mask, (n, longest) each, and `texts`, a list of n strings."""
        rows = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in batch]
        return {**super().collate(rows), "texts": [row["text"] for row in batch]}


class TextModel(nn.Module):
    """An encoder that is trained, and sums over the whole training.

    Args:
        max_length: edited texts are cut there, in tokens.
        counts: names of the sums.
    """

    def __init__(self, encoder: SentenceEncoder, max_length: int, counts: Sequence[str]) -> None:
        super().__init__()
        self.encoder, self.max_length = encoder, max_length
        self.tally = RunningSums(*counts)

    def frozen_copy(self) -> SentenceEncoder:
        """Return a copy of the encoder, without gradients."""
        trained = self.encoder
        network = copy.deepcopy(trained.model)
        frozen = SentenceEncoder(
            network, trained.tokenizer, trained.pooling, trained.max_length, settings=trained.settings
        )
        return frozen.requires_grad_(False)

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return input_ids and attention_mask of texts, (n, longest) each, encoded as the training loop encodes them.

        They are on the device of the encoder.
        """
        encoded = self.encoder.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.max_length,
            padding=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        return dict(encoded.to(self.encoder.device))


class RunningSums(nn.Module):
    """Sums over a whole training by name, from 0. Checkpoints hold them, in the order of their names."""

    total: Tensor

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names
        self.register_buffer("total", torch.zeros(len(names), dtype=torch.float64))

    def add(self, **more: float | Tensor) -> None:
        """Add to sums by name."""
        for name, value in more.items():
            self.total[self._names.index(name)] += float(value)

    def sums(self) -> dict[str, float]:
        """Return all sums by name."""
        return dict(zip(self._names, self.total.tolist(), strict=True))
