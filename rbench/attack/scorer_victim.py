"""Wrap a scorer of sentence pairs for TextAttack: pairs in, scores out, each distinct sentence encoded once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.encoders.reading import tokens_of
from rbench.errors import JobError
from rbench.inference import Batched, GradientNetwork, Memo, Network, Row, padding_of, rows_of, steady

VERSION = 1

Pair = tuple[str, ...]
Vectors = tuple[Tensor, Tensor]

CACHE_BYTES = 512 << 20


class Towards(NamedTuple):
    """A sentence as token ids, and the gradient of a loss at its vector, as bytes of float32."""

    row: Row
    direction: bytes


class ScorerVictim(ModelWrapper):  # type: ignore[misc]
    """A scorer under attack.

    An attack changes one sentence at a time, so about half of the sentences of its queries are known. Sentences are
    computed in batches of equal length, and their vectors are cached. A pair's score is computed for this pair alone,
    in float64. So it has the same bits whatever else is asked, as a classifier's logits have (see `Victim`).

    Args:
        scorer: an `rbench.encoders.scorer.EncoderScorer`.
        name: for messages.
        max_length: longest sentence in tokens; longer ones are cut. None: the scorer's own.
        device: where the scorer is.
        backend: what computes the encoder, one of `rbench.inference.BACKENDS` or "auto".
    """

    def __init__(
        self,
        scorer: Any,
        name: str,
        *,
        max_length: int | None = None,
        device: str = "cpu",
        backend: str = "auto",
    ) -> None:
        self.scorer, self.name, self.device = scorer.eval(), name, device
        self.model, self.tokenizer = scorer, scorer.tokenizer  # the names that TextAttack uses
        self.max_length = int(max_length or scorer.max_length)
        self.by_pair: Memo[Pair, Tensor] = Memo(CACHE_BYTES // 4, lambda pair, score: 400 + 2 * len(str(pair)))
        self.by_ids: Batched[Row, Tensor] = Batched(
            self._forward, Memo(CACHE_BYTES // 2, lambda ids, row: 400 + 16 * len(ids[0]) + 4 * len(row))
        )
        self.network = Network(
            scorer.encoder,
            _vectors,
            tokenizer=self.tokenizer,
            name=f"victim {name}",
            device=device,
            backend=backend,
        )
        self.gradients: Batched[Towards, Tensor] = Batched(self._gradients)
        """Gradients (tokens, dim) at the token embeddings, on the CPU."""

    @cached_property
    def _steady(self) -> Any:
        return steady(self.scorer.encoder)

    def __call__(self, text_input_list: Sequence[Pair], **kwargs: Any) -> Tensor:
        """Return scores (n,), float64, on the CPU, for pairs of sentences.

        Raises:
            JobError: the encoder gave NaN or infinity; names the victim and the pair.
        """
        pairs = list(text_input_list)
        known = {pair: self.by_pair.get(pair) for pair in dict.fromkeys(pairs)}
        new = [pair for pair, score in known.items() if score is None]
        for pair, (u, v) in zip(new, self.vectors(new), strict=True):
            with torch.no_grad():
                score = self._head.mapped(self.raw(u, v), self.scorer.scale).reshape(())
            if not torch.isfinite(score):
                raise JobError(f"victim {self.name} gave a score that is no number for {' | '.join(pair)[:200]!r}")
            known[pair] = score
            self.by_pair.put(pair, score)
        return torch.stack([score for pair in pairs if (score := known[pair]) is not None])

    def vectors(self, pairs: Sequence[Pair]) -> list[Vectors]:
        """Return the sentence vectors (dim,) of each pair, float32, on the CPU."""
        if not pairs:
            return []
        found = self.by_ids(self.rows(pairs))
        return list(zip(found[::2], found[1::2], strict=True))

    def rows(self, pairs: Sequence[Pair]) -> list[Row]:
        """Return the token ids of all sentences: the first and the second of each pair in turn."""
        return rows_of(self.encoded(pairs))

    def encoded(self, pairs: Sequence[Pair], **more: bool) -> Any:
        """Return the tokenizer's output for all sentences, in the order of `rows`."""
        sentences = [sentence for pair in pairs for sentence in pair]
        return self.tokenizer(sentences, truncation=True, max_length=self.max_length, **more)

    def raw(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the raw score (1,) of one pair of vectors (dim,), float64, on the CPU. Gradients pass."""
        raw: Tensor = self._head.raw(u.unsqueeze(0), v.unsqueeze(0))
        return raw

    @cached_property
    def _head(self) -> Any:
        """A copy of the head on the CPU, where vectors are cached."""
        return copy.deepcopy(self.scorer.head).cpu()

    def is_truncated(self, texts: Pair) -> bool:
        """Return whether a sentence is longer than `max_length` tokens, so that its end is cut off."""
        ids = self.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return any(len(one) > self.max_length for one in ids)

    def _forward(self, rows: list[Row]) -> list[Tensor]:
        return list(torch.stack(self.network(rows)).float().cpu())

    # -------------------------------------------------------------------------------- for attacks that use gradients

    def raw_gradient(self, u: Tensor, v: Tensor) -> Vectors:
        """Return the gradients (dim,) of the raw score of one pair at its vectors, float32.

        The score on the scale is an increasing function of the raw one, so its gradient has the same direction, unless
        it is zero where the map is flat.
        """
        leaves = u.detach().requires_grad_(), v.detach().requires_grad_()
        with torch.enable_grad():
            at_u, at_v = torch.autograd.grad(self.raw(*leaves).sum(), leaves)
        return at_u, at_v

    def embedding_gradients(self, pairs: Sequence[Pair]) -> list[Tensor]:
        """Return the gradients (tokens, dim) of raw scores at the token embeddings of all sentences, as in `rows`."""
        directions = [one for u, v in self.vectors(pairs) for one in self.raw_gradient(u, v)]
        return self.gradients(
            Towards(row, direction.numpy().tobytes())
            for row, direction in zip(self.rows(pairs), directions, strict=True)
        )

    def _gradients(self, wanted: Sequence[Towards]) -> list[Tensor]:
        directions = torch.from_numpy(np.stack([np.frombuffer(one.direction, np.float32) for one in wanted])).clone()
        pad = padding_of(self.tokenizer)
        network = GradientNetwork(
            self._steady, _vectors, self._steady.model.get_input_embeddings(), self.scorer.device, pad=pad
        )
        found = network([one.row for one in wanted], lambda z, places: directions[places].to(z.device))
        return [one.embeddings for one in found]

    def get_grad(self, text_input: Pair) -> dict[str, Any]:
        """Return token ids, and the gradient (tokens, dim) of a loss at the token embeddings of both sentences.

        TextAttack means the loss of the predicted label, whose increase changes the prediction. A score can change in
        two directions. Here the loss falls towards the farther end of the scale (ours), with the raw score as its size.
        """
        low, high = self.scorer.scale
        up = float(self([text_input])[0]) - low < (high - low) / 2
        gradient = torch.cat(self.embedding_gradients([text_input])).numpy()
        ids = [token for row, _ in self.rows([text_input]) for token in row]
        return {"ids": torch.tensor([ids]), "gradient": gradient if up else -gradient}

    def _tokenize(self, inputs: Sequence[Pair]) -> list[list[str]]:
        ids = self.encoded(inputs)["input_ids"]
        tokens = [tokens_of(self.tokenizer, one) for one in ids]
        return [first + second for first, second in zip(tokens[::2], tokens[1::2], strict=True)]


def _vectors(encoder: Any, **inputs: Tensor) -> Tensor:
    vectors: Tensor = encoder(**inputs)
    return vectors.float()
