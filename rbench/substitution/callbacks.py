"""What the search asks of an encoder in training: gradients, candidates and scores of a batch of texts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rbench.errors import JobError, ResourceError
from rbench.inference import GradientNetwork, Network, Row, padding_of, rows_of, steady
from rbench.substitution.search import BatchText, Gradients, Scores, Slot
from rbench.substitution.segmentation import SegmentedTexts
from rbench.substitution.sources import Candidates
from rbench.substitution.target import Target
from rbench.substitution.word_gradients import WordNorm, norms_by_word

VERSION = 1

STEP = 8
"""Texts are padded to a multiple of so many tokens: 64 texts have some 30 lengths, and batches of one or two rows take
half as long again for each row as batches of sixteen, on a CPU."""

DIVERGED = "the encoder's vectors or gradients are no finite numbers: its training has diverged; lower learning_rate"


class SearchCallbacks:
    """The three callables of `rbench.substitution.search.search` for one batch of texts.

    Args:
        target: what is asked; in eval mode.
        texts: the batch. The search names its texts by number.
        source: proposes replacements.
        word_norm: as `rbench.substitution.word_gradients`.

    Raises:
        ResourceError: the encoder has no fast tokenizer.
        JobError: from any of the callables: the encoder gives numbers that are not finite.
    """

    def __init__(self, target: Target, texts: SegmentedTexts, source: Candidates, word_norm: WordNorm = "l2") -> None:
        self.target, self.texts, self.source, self.word_norm = target, texts, source, word_norm
        self.tokenizer, self.device = target.encoder.tokenizer, target.encoder.device
        if not self.tokenizer.is_fast:
            raise ResourceError(
                "the Geometry search needs an encoder with a fast tokenizer: it says which pieces make a word"
            )
        self.max_length = min(target.max_length, target.encoder.max_length)
        pad = padding_of(self.tokenizer)
        module = target.network()
        twin = steady(module)
        table = twin.encoder.model.get_input_embeddings()  # type: ignore[union-attr, operator]
        self.gradient_network = GradientNetwork(twin, _read, table, self.device, pad=pad, step=STEP)
        # PyTorch always: what is trained must not depend on which back-end a measurement finds fastest.
        self.network = Network(
            module, _read, pad=pad, name="the encoder", device=str(self.device), backend="torch", step=STEP
        )

    def gradients(self, batch: list[BatchText]) -> Gradients:
        """z, the gradient of the loss at z, and a gradient norm for each word, by one forward and backward pass."""
        encoded = self._tokens(batch, return_offsets_mapping=True)
        found = self.gradient_network(
            rows_of(encoded), lambda z, places: self._direction(z, [batch[k] for k in places])
        )
        spans = [self.texts.placed(*sentence) for sentence in batch]
        norms = norms_by_word(encoded, [one.embeddings for one in found], spans, self.word_norm)
        vectors = torch.stack([one.answer for one in found])
        directions = torch.stack([one.direction for one in found])
        if not all(torch.isfinite(x).all() for x in (vectors, directions)) or any(n.isnan().any() for n in norms):
            raise JobError(DIVERGED)
        return Gradients(vectors, directions, norms)

    def directions(self, batch: list[BatchText]) -> Gradients:
        """z and the gradient of the loss at z, by one forward pass."""
        z = self._vectors(batch)
        towards = self._direction(z.clone(), batch)
        if not torch.isfinite(towards).all():
            raise JobError(DIVERGED)
        return Gradients(z, towards)

    def _direction(self, z: Tensor, batch: list[BatchText]) -> Tensor:
        """The gradient (n, dim) of the loss at z."""
        leaf = z.requires_grad_()
        with torch.enable_grad():
            losses = self.target.loss(leaf, [sentence.row for sentence in batch])
            if losses.shape != (len(batch),):
                raise ValueError(f"the loss of {len(batch)} texts must be as many numbers, not {losses.shape}")
            return torch.autograd.grad(losses.sum(), leaf)[0]

    def candidates(self, batch: list[Slot]) -> list[list[str]]:
        """The replacements of each word. All columns of a text are read as one, joined with a line break."""
        slots = []
        for row, words, place in batch:
            columns = self.texts.columns(row, words)
            column, start, end = self.texts.placed(row, words)[place]
            before = sum(len(text) + 1 for text in columns[:column])
            slots.append(("\n".join(columns), before + start, before + end))
        with torch.autocast(self.device.type, enabled=False):
            return self.source(slots)

    def scores(self, batch: list[BatchText]) -> Scores:
        """z of each text, and whether the search of the text is over there."""
        z = self._vectors(batch)
        return Scores(z, None if self.target.over is None else self._over(z, batch))

    def over_at_start(self) -> list[bool]:
        """For each text whether its search is over before a word is replaced."""
        batch = [BatchText(row, words) for row, words in enumerate(self.texts.words)]
        if self.target.over is None or not self.target.leave_if_over:
            return [False] * len(batch)
        return self._over(self._vectors(batch), batch)

    def _over(self, z: Tensor, batch: list[BatchText]) -> list[bool]:
        assert self.target.over is not None
        with torch.no_grad():
            return list(self.target.over(z, [sentence.row for sentence in batch]))

    def _vectors(self, batch: list[BatchText]) -> Tensor:
        """z (n, dim). Texts of the same token ids are computed once, so that they have the same vector."""
        rows = rows_of(self._tokens(batch))
        distinct = list(dict.fromkeys(rows))
        known: dict[Row, Tensor] = dict(zip(distinct, self.network(distinct), strict=True))
        z = torch.stack([known[row] for row in rows])
        if not torch.isfinite(z).all():
            raise JobError(DIVERGED)
        return z

    def _tokens(self, batch: list[BatchText], **more: bool) -> Any:
        columns = [self.texts.columns(*sentence) for sentence in batch]
        texts = [text if len(text) > 1 else text[0] for text in columns]
        return self.tokenizer(texts, truncation=True, max_length=self.max_length, return_attention_mask=False, **more)


def _read(module: nn.Module, **inputs: Tensor) -> Tensor:
    z: Tensor = module(**inputs)
    return z
