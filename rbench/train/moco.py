"""Momentum contrast (He et al. 2020) as the ADCL paper has it: section 3.2 and equation 1.

A batch goes this way:

1. theta_k <- m theta_k + (1 - m) theta_q, for encoder and head. It is done before the batch, as in MoCo's code
   (`moco/builder.py` of its authors); the paper says only that it is done. At the first batch both are the same and
   nothing changes.
2. Each X gets its positive X' (`PositiveSource`), and keys z' = g_k(f_k(X')) without gradient; z = g_q(f_q(X)) with.
   f_k has dropout like f_q: where X' is X, that is what makes them differ.
3. The keys enter the queue and the oldest leave it. "Before computing contrastive loss at the end of each batch, all
   encoded examples of the current batch are enqueued into the queue, and the oldest examples are dequeued
   simultaneously" (3.2). MoCo's code does it after the loss, and other sentences of the batch are no negatives there;
   here they are: "all other examples in the same batch are considered negative examples".
4. The loss, equation 1. "Among the encoded examples in the queue, one of them is z'": what is summed below the line is
   the queue, which has the positive once. (The sum is printed from k = 0 to Q; the queue has z_0 to z_{Q-1}.)

Until the queue is full the sum runs over what it holds, and those steps are counted (`queue_filling_steps`). MoCo's
queue starts full of random vectors, which the paper does not mention (`queue_start: random`). If every key is as near
as the positive, the loss is the logarithm of the number of keys. That is the loss at chance (`loss_at_chance`); it
grows while the queue fills.

The authors' code exchanges X and X' in step 2 (`query: positive`).

Momentum and the heads' learning rate are derived from the number of steps. These two and the test of a head that has
not learned are ours: the ADCL paper prints no momentum, no learning rate of pre-training, and no such test. The test is
`MoCo.top_1`: whether the head finds the key of a held-out text among those of all held-out texts. Both views are the
text itself under dropout, so the test is easier than the training's own task, and every kind of positive can be tested
alike.

*Momentum.* The key encoder is a running mean of the query encoder. A mean with momentum m forgets what lies more than
about 1 / (1 - m) steps back; after S steps a share of m^S of it is still the start. The start is a head with random
weights, and keys of a random head are nearly all alike. With m = 0.999 and S = 133 steps 88% of it would be left at the
end. `fit_momentum` takes 1 / (1 - m) = S / 10, so that m^S is e^-10 or less. MoCo's 0.999 is never exceeded: it is
reached at 10,000 steps. For the same reason a queue should be full within the first tenth of the steps: its size is at
most a tenth of the steps times the batch size. Encoder files state it.

*Learning rate of the heads.* Adam moves a weight by about the learning rate in a step, whatever the size of the
gradient. The learning rate rises and falls linearly, so its mean is half of its peak: in S steps no weight moves by
more than about rate * S / 2. PyTorch draws the weights of a head on vectors of d numbers from U(-1 / sqrt(d),
1 / sqrt(d)). A head can leave its start behind only if rate * S / 2 >= 1 / sqrt(d). `fit_head_rate` is the least
rate for which this holds, 2 / (S sqrt(d)), and never below the encoder's.
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
from rbench.schema import EncoderSpec
from rbench.train import health, models
from rbench.train.contrastive import Losses, TextModel, TextObjective
from rbench.train.contrastive_losses import similarities
from rbench.train.heads import ProjectionHead
from rbench.train.learned import UPPER_TAIL, probability_of_hits
from rbench.train.options import MomentumOptions

# Raising it trains ADCL and BTCL anew, with all that stands on them; tests/golden holds their losses.
VERSION = 2

START_DECAY = 10.0
"""The key encoder follows with a time constant of 1 / KEPT of all steps."""
MAX_MOMENTUM = 0.999
MIN_JUDGED_STEPS = 10
"""A head is not judged after fewer steps: `fit_momentum` gives ten updates or fewer no running mean at all."""
MIN_JUDGED_TEXTS = 20
"""With fewer held-out texts nothing is judged: four of 20 are a fifth, which a head that learns may fail to reach."""
_SHOWN_COUNTS = ("positives", "positives_unchanged", "queue_filling_steps", "steps")
_SUMMED_COUNTS = (*_SHOWN_COUNTS, "chance")


class QueueState(NamedTuple):
    """What a queue holds once the n keys of a batch are in it."""

    keys: Tensor
    """(held, dim)."""
    positive_index: Tensor
    """(n,): the row of `keys` that holds the key of each text of the batch, which is the text's positive."""


class KeyQueue(nn.Module):
    """The last `size` keys, first in, first out. Its buffers are part of checkpoints.

    Args:
        size: the most keys that it holds.
        dim: numbers in a key.
        random: whether it starts full of random vectors of length 1, which leave it like keys. They are not counted in
            `num_enqueued`.
    """

    keys: Tensor
    num_enqueued: Tensor
    """How many keys were ever enqueued, those that have left the queue included."""

    def __init__(self, size: int, dim: int, *, random: bool = False) -> None:
        super().__init__()
        self.size, self._random = size, random
        start = functional.normalize(torch.randn(size, dim), dim=1) if random else torch.zeros(size, dim)
        self.register_buffer("keys", start)
        self.register_buffer("num_enqueued", torch.zeros((), dtype=torch.long))

    def after(self, keys: Tensor) -> QueueState:
        """What the queue would hold with these keys (n, dim) enqueued, where n is at most `size`. It stays as it is."""
        assert len(keys) <= self.size
        start = int(self.num_enqueued)
        total = start + len(keys)
        # The queue is a ring buffer: key number n is stored at n modulo the size, over the oldest key.
        positive_index = torch.arange(start, total, device=self.keys.device) % self.size
        new_keys = self.keys.index_copy(0, positive_index, keys.detach().to(self.keys.dtype))
        # Places that were never filled hold zeros, which must be no negatives. A random start fills all of them.
        return QueueState(new_keys if self._random else new_keys[: min(self.size, total)], positive_index)

    def push(self, keys: Tensor) -> QueueState:
        """Enqueue these keys (n, dim). What it returns does not change with later pushes.

        Raises:
            ValueError: n is above `size`.
        """
        state = self.after(keys)
        # In place, because `keys` is a buffer: checkpoints and devices hold this tensor.
        self.keys[: len(state.keys)] = state.keys
        self.num_enqueued += len(keys)
        return state

    @property
    def is_filling(self) -> bool:
        """Whether fewer than `size` keys were ever enqueued."""
        return int(self.num_enqueued) < self.size


class PositiveSource(Protocol):
    """Where the positives of a batch come from."""

    counts: tuple[str, ...]
    """Names of what is counted while positives are made."""

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


class MoCo(TextModel):
    """The query encoder f_q with head g_q, the key encoder f_k with head g_k, and the queue of keys.

    f_q and g_q learn by gradients; f_k and g_k are running means of them (`momentum_update`).

    Args:
        encoder: f_q. f_k starts as its copy.
        options: temperature, momentum, size of the queue and the like.
        positives: makes X' of each X.
        max_length: positives are cut there, in tokens.
        pooler: see `ProjectionHead`.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        options: MomentumOptions,
        positives: PositiveSource,
        max_length: int,
        pooler: nn.Linear | None = None,
    ) -> None:
        super().__init__(encoder, max_length, (*_SUMMED_COUNTS, *positives.counts))
        self.head = ProjectionHead(
            encoder.dim, options.dim, tanh=options.output == "tanh", hidden=options.head == "mlp", pooler=pooler
        )
        self.key_encoder = self.frozen_copy()
        self.key_head = copy.deepcopy(self.head).requires_grad_(False)
        self.queue = KeyQueue(options.queue, options.dim, random=options.queue_start == "random")
        self.positives, self._options = positives, options
        self.momentum = MAX_MOMENTUM if options.momentum == "auto" else options.momentum
        """m. With `auto` the objective sets it once it knows the number of steps."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, texts: Sequence[str]) -> Losses:
        """`loss`, the mean of equation 1 over the batch, and the scores of its positives.

        Args:
            input_ids, attention_mask: (n, length).
            texts: the same n texts as strings.
        """
        # f_k moves before it makes the keys of this batch, as in MoCo's code; at the first batch nothing changes.
        self.update_key_encoder()
        with torch.no_grad():
            made_positives, counts = self.positives(self, texts)
            reads_positives = self._options.query == "positive"
            keys = self.key_head(self.key_encoder(**self.tokens(texts if reads_positives else made_positives)))
        # Weights that autocast remembers from a pass without gradients would have none below, in some PyTorch versions.
        torch.clear_autocast_cache()
        queries = (
            self.tokens(made_positives)
            if reads_positives
            else {"input_ids": input_ids, "attention_mask": attention_mask}
        )
        # z is computed after the keys: both draw dropout masks from one generator, so this order is part of the result.
        z = self.head(self.encoder(**queries))
        # Keys are enqueued before the loss (section 3.2), so that the batch's other keys are negatives too.
        queue_state = self.queue.push(keys)
        num_unchanged = sum(text == positive for text, positive in zip(texts, made_positives, strict=True))
        # If every key were as near as the positive, the loss of a text would be log(number of keys).
        chance = len(texts) * math.log(len(queue_state.keys))
        counts |= dict(zip(_SUMMED_COUNTS, (len(texts), num_unchanged, self.queue.is_filling, 1, chance), strict=True))
        self.tally.add(**counts)
        reported = {name: z.new_tensor(value) for name, value in self.positives.scores(counts).items()}
        return {"loss": self.losses(z, queue_state).mean(), **reported}

    def losses(self, z: Tensor, held: QueueState) -> Tensor:
        """l_i = -log(exp(sim(z_i, z'_i) / tau) / sum over the queue of exp(sim(z_i, z_k) / tau)), (n,): equation 1.

        Args:
            z: (n, dim).
            held: the queue; z'_i is its key `positive_index[i]`.
        """
        scores = similarities(z, held.keys, cosine=self._options.similarity == "cosine")
        with torch.autocast(z.device.type, enabled=False):
            return functional.cross_entropy(scores / self._options.temperature, held.positive_index, reduction="none")

    @torch.no_grad()
    def top_1(self, texts: Sequence[str]) -> int:
        """Return for how many texts the key nearest to z is the text's own, among the keys of all these texts.

        z and keys are computed under dropout, from a fixed seed. Nothing changes, torch's generators included.
        """
        with health.untouched(self, seed=0):
            self.train()
            batches = [self.tokens(texts[start : start + 64]) for start in range(0, len(texts), 64)]
            z = torch.cat([self.head(self.encoder(**batch)) for batch in batches])
            keys = torch.cat([self.key_head(self.key_encoder(**batch)) for batch in batches])
        scores = similarities(z, keys, cosine=self._options.similarity == "cosine")
        return int((scores.argmax(dim=1) == torch.arange(len(texts), device=z.device)).sum())

    @torch.no_grad()
    def update_key_encoder(self) -> None:
        """theta_k <- m theta_k + (1 - m) theta_q, for encoder and head."""
        m = self.momentum
        for trained, follower in ((self.encoder, self.key_encoder), (self.head, self.key_head)):
            for q, k in zip(trained.parameters(), follower.parameters(), strict=True):
                k.mul_(m).add_(q, alpha=1 - m)

    @torch.no_grad()
    def z(self, encoder: SentenceEncoder, head: nn.Module, texts: Sequence[str]) -> Tensor:
        """head(encoder(X)), (n, dim), without dropout."""
        with health.evaluating(encoder):
            vectors: Tensor = head(encoder(**self.tokens(texts)))
        return vectors


class MoCoObjective(TextObjective):
    """Implements `PacedObjective`: trains by momentum contrast and keeps f_q."""

    def __init__(
        self, spec: EncoderSpec, base: str | Path | None, options: MomentumOptions, positives: PositiveSource
    ) -> None:
        super().__init__(spec, base, options.dropout, needs_dropout=False)
        needs_pooler = options.pooler and spec.pooling != "cls+mlp"  # with `cls+mlp` h is the pooler's output already
        pooler = models.open_pooler(spec, base, self.encoder.dim) if needs_pooler else None
        self.model = MoCo(self.encoder, options, positives, self._max_length, pooler)
        # A selected step has heads of its own: `top_1` is of the encoder and the heads of one step.
        parts = ("encoder", "head", "key_encoder", "key_head")
        self.kept = nn.ModuleDict({name: getattr(self.model, name) for name in parts})
        self._options = options
        self._steps, self._held_out = 0, list[str]()
        self._head_rate, self._automatic_rate = 0.0, 0.0

    def begin(self, steps: int, learning_rate: float, held_out: Sequence[str]) -> list[tuple[nn.Module, float]]:
        """See `PacedObjective`: sets the momentum that fits the steps, and returns the head with its learning rate."""
        assert self._spec.train is not None
        self._steps, self._held_out = steps, list(held_out)
        if self._options.momentum == "auto":
            self.model.momentum = fit_momentum(steps * self._spec.train.gradient_accumulation)
        rate = self._options.head_learning_rate
        self._automatic_rate = fit_head_rate(learning_rate, steps, self.encoder.dim)
        if rate == "auto":
            rate = self._automatic_rate
        self._head_rate = learning_rate if rate is None else rate
        return [] if rate is None else [(self.model.head, rate)]

    def after_step(self, step: int) -> None:
        """See `PacedObjective`. JobError if a third of the steps is over and held-out `top_1` is still at chance.

        A training of a few steps, which only tries things out, is not judged (`MIN_JUDGED_STEPS`).
        """
        last_step = judging_step(self._steps)
        if not self._options.stop_at_chance or step != last_step or last_step < MIN_JUDGED_STEPS:
            return
        texts = len(self._held_out)
        if texts < MIN_JUDGED_TEXTS or not is_at_chance(hits := self.model.top_1(self._held_out), texts):
            return
        raise JobError(
            f"Encoder {self._spec.name}: after {step} of {self._steps} steps its head finds the key of a held-out text "
            f"among {texts} for {hits} of {texts} texts, where chance is 1: this cannot be told from chance (p "
            f"{probability_of_hits(hits, texts, 1 / texts):.2f}). So nothing shows that it teaches the encoder "
            f"anything. {self._suggest_remedy()}; train.options.stop_at_chance: false trains on regardless."
        )

    def _suggest_remedy(self) -> str:
        """Say what may help a head to learn, without what is set already."""
        remedies = ["more steps"]
        if self._options.head_learning_rate != "auto" and self._automatic_rate > self._head_rate:
            remedies.append(f"train.options.head_learning_rate: auto (here {self._automatic_rate:.2g})")
        else:
            remedies.append(f"a train.options.head_learning_rate above {self._head_rate:.2g}")
        if self._options.momentum != "auto":
            remedies.append("train.options.momentum: auto")
        return f"Take {', '.join(remedies[:-1])} or {remedies[-1]}"

    @torch.no_grad()
    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Implement `ProbedObjective`: each text's positive is its own key, under another dropout mask.

        The other keys are those that the queue would hold after this batch.
        """
        model = self.model
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
        z = model.head(model.encoder(**inputs))
        queue_state = model.queue.after(model.key_head(model.key_encoder(**inputs)))
        return health.measure_views(
            model.losses(z, queue_state),
            z,
            queue_state.keys,
            queue_state.positive_index,
            cosine=self._options.similarity == "cosine",
        )

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Scores of the training: those of held-out texts, `PositiveSource.scores`, and what was counted.

        JobError if `top_1` is below the option `least_top_1`.

        Of held-out texts there are `uniformity` and `top_1`, the share of them whose own key is nearest among the keys
        of all of them (see the method of this name; chance is 1 / texts).
        `positives` is how many positives were made, `positives_unchanged` how many of them are the sentence itself.
        `steps` is how many batches there were, `queue_filling_steps` how many came before the queue was full.
        `loss_at_chance` is the mean loss, in nats, if each key were as near as the positive.
        """
        sums = self.model.tally.sums()
        of_training = {name: sums[name] for name in _SHOWN_COUNTS} | {
            "loss_at_chance": sums["chance"] / max(1, sums["positives"])
        }
        of_held_out = {"top_1": self.model.top_1(texts) / len(texts)} if len(texts) > 1 else {}
        least, top_1 = self._options.least_top_1, of_held_out.get("top_1", 0.0)
        # A gate without enough texts is not passed either.
        if least is not None and (top_1 < least or len(texts) < MIN_JUDGED_TEXTS):
            raise JobError(
                f"Encoder {self._spec.name}: at its end its head finds the key of a held-out text among {len(texts)} "
                f"for a share of {top_1:.2f} of them. train.options.least_top_1 asks for {least:g}, of at least "
                f"{MIN_JUDGED_TEXTS} texts. So nothing that stands on this encoder is attacked. "
                f"{self._suggest_remedy()}; without least_top_1 the encoder is taken as it is."
            )
        return super().scores(texts) | of_held_out | of_training | self.model.positives.scores(sums)


# ------------------------------------------------------------------------------------------- settings by the steps


def fit_momentum(steps: int) -> float:
    """Return m for a training in which the key encoder is updated `steps` times; 0 for ten updates or fewer."""
    return min(MAX_MOMENTUM, max(0.0, 1 - START_DECAY / max(1, steps)))


def fit_head_rate(learning_rate: float, steps: int, width: int) -> float:
    """Return the peak learning rate of a head whose inputs have `width` numbers, in `steps` optimizer steps.

    Args:
        learning_rate: the encoder's, which is the least that is returned.
    """
    return max(learning_rate, 2 / (max(1, steps) * math.sqrt(width)))


def judging_step(steps: int) -> int:
    """Return the step after which the head is judged: a third of all, rounded up.

    With a linear schedule more than half of all movement lies before it: the learning rates up to there have more than
    half of the sum of all (1 - (2/3)^2 = 0.56 without warm-up).
    """
    return math.ceil(steps / 3)


def is_at_chance(hits: int, texts: int) -> bool:
    """Return whether so many hits among `texts` keys are what chance may give.

    A head that cannot tell keys apart finds each text's own key with probability 1 / texts. So it has one hit on
    average, whatever the number of texts. True unless the probability of so many hits or more is at most 2.5%, the
    upper tail of a 95% interval: four hits are needed. False for fewer than `MIN_JUDGED_TEXTS` texts: nothing can be
    said.
    """
    return texts >= MIN_JUDGED_TEXTS and probability_of_hits(hits, texts, 1 / texts) > UPPER_TAIL
