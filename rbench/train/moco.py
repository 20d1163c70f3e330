"""Momentum contrast (He et al. 2020) as the ADCL paper has it: section 3.2 and equation 1.

A batch goes this way:

1. theta_k <- m theta_k + (1 - m) theta_q, for encoder and head. It is done before the batch, as in MoCo's code
   (`moco/builder.py` of its authors); the paper says only that it is done. At the first batch both are the same and
   nothing changes.
2. Each X gets its positive X' (`Positives`), and keys z' = g_k(f_k(X')) without gradient; z = g_q(f_q(X)) with.
   f_k has dropout like f_q: where X' is X, that is what makes them differ.
3. The keys enter the queue and the oldest leave it. "Before computing contrastive loss at the end of each batch, all
   encoded examples of the current batch are enqueued into the queue, and the oldest examples are dequeued
   simultaneously" (3.2). MoCo's code does it after the loss, and other sentences of the batch are no negatives there;
   here they are: "all other examples in the same batch are considered negative examples".
4. The loss, equation 1. "Among the encoded examples in the queue, one of them is z'": what is summed below the line is
   the queue, which has the positive once. (The sum is printed from k = 0 to Q; the queue has z_0 to z_{Q-1}.)

Until the queue is full the sum runs over what it holds, and those steps are counted (`queue_filling_steps`). MoCo's
queue starts full of random vectors, which the paper does not mention. If every key is as near as the positive, the loss
is the logarithm of the number of keys. That is the loss at chance (`loss_at_chance`); it grows while the queue fills.
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
from rbench.train import health_probe
from rbench.train.contrastive import EncoderObjective, Losses
from rbench.train.contrastive_losses import cosines, full
from rbench.train.heads import ProjectionHead
from rbench.train.options import Momentum
from rbench.train.running_sums import RunningSums

VERSION = 1

_SHOWN = ("positives", "positives_unchanged", "queue_filling_steps", "steps")
_COUNTS = (*_SHOWN, "chance")


class Held(NamedTuple):
    """What a queue holds once the n keys of a batch are in it."""

    keys: Tensor
    """(held, dim)."""
    positive_index: Tensor
    """(n,): the row of `keys` that holds the key of each text of the batch, which is the text's positive."""


class Queue(nn.Module):
    """The last `size` keys, first in, first out. Its buffers are part of checkpoints.

    Args:
        size: the most keys that it holds.
        dim: numbers in a key.
    """

    keys: Tensor
    came: Tensor
    """`num_enqueued` under the name that it has in checkpoints."""

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("came", torch.zeros((), dtype=torch.long))

    @property
    def num_enqueued(self) -> int:
        """How many keys were ever enqueued, those that have left the queue included."""
        return int(self.came)

    def after(self, keys: Tensor) -> Held:
        """What the queue would hold with these keys (n, dim) enqueued. It stays as it is.

        Raises:
            ValueError: n is above `size`.
        """
        if len(keys) > self.size:
            raise ValueError(f"{len(keys)} keys at once do not go into a queue of {self.size}")
        total = self.num_enqueued + len(keys)
        positive_index = torch.arange(self.num_enqueued, total, device=self.keys.device) % self.size
        held = self.keys.index_copy(0, positive_index, keys.detach().to(self.keys.dtype))
        return Held(held[: min(self.size, total)], positive_index)

    def push(self, keys: Tensor) -> Held:
        """Enqueue these keys (n, dim). What it returns does not change with later pushes.

        Raises:
            ValueError: n is above `size`.
        """
        held = self.after(keys)
        self.keys[: len(held.keys)] = held.keys
        self.came += len(keys)
        return held

    @property
    def filling(self) -> bool:
        """Whether fewer than `size` keys were ever enqueued."""
        return self.num_enqueued < self.size


class Positives(Protocol):
    """Where the positives of a batch come from."""

    @property
    def counts(self) -> tuple[str, ...]:
        """Names of what is counted while positives are made."""
        ...

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        """Make the positive X' of each text; return them with the counts of this batch. Called without gradients.

        Must leave `model` as it is, and torch's global generator but for what is drawn from it.
        """
        ...

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Scores from the counts, summed over a batch or over the training.

        Args:
            sums: by name; also `positives`, how many were made.
        """
        ...


class MoCo(nn.Module):
    """The query encoder f_q with head g_q, the key encoder f_k with head g_k, and the queue of keys.

    f_q and g_q learn by gradients; f_k and g_k are running means of them (`momentum_update`).

    Args:
        encoder: f_q. f_k starts as its copy.
        options: temperature, momentum, size of the queue and the like.
        positives: makes X' of each X.
        max_length: positives are cut there, in tokens.
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
        self.tally = RunningSums(*_COUNTS, *positives.counts)  # the attribute's name is in checkpoints
        self.positives, self.max_length = positives, max_length
        self._options = options

    def forward(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Losses:
        """`loss`, the mean of equation 1 over the batch, and the scores of its positives.

        Args:
            input_ids, attention_mask: (n, length).
            texts: the same n texts as strings.

        Raises:
            JobError: `texts` are not as many as rows, because several GPUs share a batch.
        """
        if len(texts) != len(input_ids):
            raise JobError("momentum contrast has one queue and trains on one GPU: set CUDA_VISIBLE_DEVICES to one.")
        self.momentum_update()
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
        """l_i of equation 1, (n,), for z (n, dim); row i's positive is `held.keys[held.positive_index[i]]`."""
        return equation_1(z, held, self._options.temperature, cosine=self._options.similarity == "cosine")

    @torch.no_grad()
    def momentum_update(self) -> None:
        """theta_k <- m theta_k + (1 - m) theta_q, for encoder and head."""
        m = self._options.momentum
        for ours, theirs in ((self.encoder, self.key_encoder), (self.head, self.key_head)):
            for q, k in zip(ours.parameters(), theirs.parameters(), strict=True):
                k.mul_(m).add_(q, alpha=1 - m)

    def tokens(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """input_ids and attention_mask of texts, (n, longest) each, encoded as the training loop encodes its texts."""
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
        held: the queue; z'_i is its key `positive_index[i]`.
        cosine: sim is the dot product of vectors scaled to length 1, not of the vectors as they are.
    """
    with torch.autocast(z.device.type, enabled=False):
        scores = cosines(z, held.keys) if cosine else full(z) @ held.keys.T.to(full(z).dtype)
        return functional.cross_entropy(scores / temperature, held.positive_index, reduction="none")


class MoCoObjective(EncoderObjective):
    """Implements `Objective`: trains by momentum contrast and keeps f_q."""

    def __init__(self, spec: EncoderSpec, base: str | Path | None, options: Momentum, positives: Positives) -> None:
        super().__init__(spec, base, options, needs_dropout=False)
        self._options = options
        self.model = MoCo(self.encoder, options, positives, self._max_length)

    def features(self, text: str) -> dict[str, Any]:
        """The features of `Encoding.features` and the text itself, since positives are made from words."""
        return {**super().features(text), "text": text}

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """input_ids and attention_mask, (n, longest) each, and `texts`, a list of n strings."""
        rows = [{name: row[name] for name in ("input_ids", "attention_mask")} for row in batch]
        return {**super().collate(rows), "texts": [row["text"] for row in batch]}

    @torch.no_grad()
    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Implement `ProbedObjective`: each text's positive is its own key, under another dropout mask.

        The other keys are those that the queue would hold after this batch.
        """
        model = self.model
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        z = model.head(model.encoder(**inputs))
        held = model.queue.after(model.key_head(model.key_encoder(**inputs)))
        return health_probe.of_views(
            model.losses(z, held), z, held.keys, held.positive_index, cosine=self._options.similarity == "cosine"
        )

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Scores of the training: `uniformity` of held-out texts, `Positives.scores`, and what was counted.

        `positives` is how many positives were made, `positives_unchanged` how many of them are the sentence itself.
        `steps` is how many batches there were, `queue_filling_steps` how many came before the queue was full.
        `loss_at_chance` is the mean loss, in nats, if each key were as near as the positive.
        """
        sums = self.model.tally.sums()
        counted = {name: sums[name] for name in _SHOWN} | {"loss_at_chance": sums["chance"] / max(1, sums["positives"])}
        return super().scores(texts) | counted | self.model.positives.scores(sums)
