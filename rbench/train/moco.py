"""Momentum contrast (He et al. 2020) as the ADCL paper has it: section 3.2 and equation 1.

A batch goes this way:

1. theta_k <- m theta_k + (1 - m) theta_q, of encoder and head. Before the batch, as in MoCo's code (which is not at
   hand: what is said of it here is from memory); the paper says only that it is done. At the first batch the two are
   the same and nothing changes.
2. Each X gets its positive X' (`Positives`), and keys z' = g_k(f_k(X')) without gradient; z = g_q(f_q(X)) with.
   f_k has dropout like f_q: where X' is X, that is what makes them differ.
3. The keys enter the queue and the oldest leave it. "Before computing contrastive loss at the end of each batch, all
   encoded examples of the current batch are enqueued into the queue, and the oldest examples are dequeued
   simultaneously" (3.2). MoCo's code does it after the loss, and other sentences of the batch are no negatives there;
   here they are: "all other examples in the same batch are considered negative examples".
4. The loss, equation 1. "Among the encoded examples in the queue, one of them is z'": what is summed below the line is
   the queue, in which the positive is once. (Printed from k = 0 to Q; the queue has z_0 to z_{Q-1}.)

Until the queue is full the sum runs over what it holds, and those steps are counted (`queue_filling_steps`); MoCo's
starts full of random vectors, which the paper does not mention. Where every key is as near as the positive the loss is
the logarithm of how many there are: what it is at chance (`loss_at_chance`), which grows while the queue fills.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.spec import EncoderSpec
from rbench.train.contrast import cosines, full
from rbench.train.contrastive import EncoderObjective, Losses
from rbench.train.heads import ProjectionHead
from rbench.train.options import Momentum
from rbench.train.tally import Tally

VERSION = 1

_SHOWN = ("positives", "positives_unchanged", "queue_filling_steps", "steps")
_COUNTS = (*_SHOWN, "chance")


class Held(NamedTuple):
    """The keys that a queue holds, (held, dim), and the places (n,) of the n that came in last."""

    keys: Tensor
    own: Tensor


class Queue(nn.Module):
    """The last `size` keys, first in, first out; buffers, so that checkpoints have them."""

    keys: Tensor
    came: Tensor
    """How many keys ever came in."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("came", torch.zeros((), dtype=torch.long))

    def after(self, keys: Tensor) -> Held:
        """What it would hold if these (n, dim) came in; it stays as it is. ValueError where n is above `size`."""
        if len(keys) > self.size:
            raise ValueError(f"{len(keys)} keys at once do not go into a queue of {self.size}")
        came = int(self.came)
        own = torch.arange(came, came + len(keys), device=self.keys.device) % self.size
        held = self.keys.index_copy(0, own, keys.detach().to(self.keys.dtype))
        return Held(held[: min(self.size, came + len(keys))], own)

    def push(self, keys: Tensor) -> Held:
        """Let these (n, dim) in. What it returns does not change with later pushes."""
        held = self.after(keys)
        self.keys[: len(held.keys)] = held.keys
        self.came += len(keys)
        return held

    @property
    def filling(self) -> bool:
        """Whether fewer than `size` keys ever came in."""
        return int(self.came) < self.size


class Positives(Protocol):
    """Where the positives of a batch come from."""

    @property
    def counts(self) -> tuple[str, ...]:
        """Names of what is counted while they are made."""
        ...

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        """X' of each text, and the counts of this batch. Called without gradients.

        `model` stays as it is, and so does torch's global generator, but for what is drawn from it.
        """
        ...

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """What the sums of the counts, of a batch or of a training, say; `positives` among them, how many were made."""
        ...


class MoCo(nn.Module):
    """f_q and g_q, which learn, f_k and g_k, which follow them, and the queue.

    Args:
        encoder: f_q. f_k starts as its copy.
        max_length: where positives are cut, in tokens.
    """

    def __init__(self, encoder: SentenceEncoder, options: Momentum, positives: Positives, max_length: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = ProjectionHead(encoder.dim, options.dim, tanh=options.output == "tanh")
        network = copy.deepcopy(encoder.model)
        self.key_encoder = SentenceEncoder(network, encoder.tokenizer, encoder.pooling, encoder.max_length)
        self.key_head = copy.deepcopy(self.head)
        for part in (self.key_encoder, self.key_head):
            part.requires_grad_(False)
        self.queue = Queue(options.queue, options.dim)
        self.tally = Tally(*_COUNTS, *positives.counts)
        self.positives, self.max_length = positives, max_length
        self._options = options

    def forward(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Losses:
        """The mean of equation 1 over the batch, and what the positives report."""
        if len(texts) != len(input_ids):
            raise JobError("momentum contrast has one queue and trains on one GPU: set CUDA_VISIBLE_DEVICES to one.")
        self.follow()
        with torch.no_grad():
            others, counted = self.positives(self, texts)
            keys = self.key_head(self.key_encoder(**self.tokens(others)))
        # Weights that autocast remembers from a pass without gradients would have none below, in some PyTorch versions.
        torch.clear_autocast_cache()
        z = self.head(self.encoder(input_ids=input_ids, attention_mask=attention_mask))
        held = self.queue.push(keys)
        same = sum(ours == theirs for ours, theirs in zip(texts, others, strict=True))
        chance = len(texts) * math.log(len(held.keys))
        counted |= dict(zip(_COUNTS, (len(texts), same, self.queue.filling, 1, chance), strict=True))
        self.tally.add(**counted)
        reported = {name: z.new_tensor(value) for name, value in self.positives.scores(counted).items()}
        return {"loss": self.losses(z, held).mean(), **reported}

    def losses(self, z: Tensor, held: Held) -> Tensor:
        """l_i of equation 1, (n,), of z (n, dim); the positive of row i is in the queue's place `held.own[i]`."""
        return equation_1(z, held, self._options.temperature, cosine=self._options.similarity == "cosine")

    @torch.no_grad()
    def follow(self) -> None:
        """theta_k <- m theta_k + (1 - m) theta_q."""
        m = self._options.momentum
        for ours, theirs in ((self.encoder, self.key_encoder), (self.head, self.key_head)):
            for q, k in zip(ours.parameters(), theirs.parameters(), strict=True):
                k.mul_(m).add_(q, alpha=1 - m)

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """input_ids and attention_mask of texts, (n, longest) each, as the loop encodes those that it is given."""
        encoded = self.encoder.tokenizer(
            list(texts),
            truncation=True,
            max_length=self.max_length,
            padding=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        return dict(encoded.to(self.encoder.device))

    @torch.no_grad()
    def z(self, encoder: SentenceEncoder, head: nn.Module, texts: Sequence[str]) -> Tensor:
        """head(encoder(X)), (n, dim), without dropout."""
        training = encoder.training
        encoder.eval()
        try:
            vectors: Tensor = head(encoder(**self.tokens(texts)))
        finally:
            encoder.train(training)
        return vectors


def equation_1(z: Tensor, held: Held, temperature: float, *, cosine: bool = False) -> Tensor:
    """l_i = -log(exp(sim(z_i, z'_i) / tau) / sum over the queue of exp(sim(z_i, z_k) / tau)), (n,).

    Args:
        z: (n, dim).
        held: the queue; z'_i is its row `own[i]`.
        cosine: sim is the dot product of vectors scaled to length 1, not of the vectors as they are.
    """
    with torch.autocast(z.device.type, enabled=False):
        scores = cosines(z, held.keys) if cosine else full(z) @ held.keys.T.to(full(z).dtype)
        return functional.cross_entropy(scores / temperature, held.own, reduction="none")


class MoCoObjective(EncoderObjective):
    """Implements `Objective`: f_q is what is kept."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None, options: Momentum, positives: Positives) -> None:
        super().__init__(spec, base, options, needs_dropout=False)
        self.model = MoCo(self.encoder, options, positives, self._max_length)

    def features(self, text: str) -> dict[str, Any]:
        """As `Encoding.features`, with the text itself: positives are made from words."""
        return {**super().features(text), "text": text}

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """input_ids, attention_mask, and `texts`, a list."""
        rows = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in batch]
        return {**super().collate(rows), "texts": [row["text"] for row in batch]}

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """`uniformity` of held-out texts, and what was counted while training.

        `positives`: how many were made; `positives_unchanged`: those that are the sentence itself;
        `queue_filling_steps`: how many of the `steps` came before the queue was full; `loss_at_chance`: what the loss
        would be, on average over the steps, if no key were told from another; and `Positives.scores`.
        """
        sums = self.model.tally.sums()
        counted = {name: sums[name] for name in _SHOWN} | {"loss_at_chance": sums["chance"] / max(1, sums["positives"])}
        return super().scores(texts) | counted | self.model.positives.scores(sums)
