"""What the `build` of an objective returns: what the training loop needs, and what objectives may have besides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from rbench.train.options import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn


class Objective(Protocol):
    """What the training loop needs to train an encoder and to save it."""

    # Properties, because an objective may state narrower types than these.
    @property
    def model(self) -> nn.Module:
        """Takes a collated batch as keywords. Returns `loss` and, under the paper's names, its terms or other values to
        show in the progress.

        All random numbers are drawn here, from torch's global generator, so that a resumed run draws the same ones.
        """
        ...

    @property
    def grouped(self) -> bool:
        """True: a batch has texts of similar length, which saves padding, and the last of an epoch may be smaller.
        False: texts are shuffled and only full batches are used, as in-batch negatives require."""
        ...

    @property
    def kept(self) -> nn.Module:
        """The part of `model` whose weights `save` writes."""
        ...

    def features(self, text: str) -> dict[str, Any]:
        """Encode one training text. `input_ids` is among the keys."""
        ...

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Return a padded batch. This draws no random numbers."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) of the encoder as `save` would write it. This draws no random numbers."""
        ...

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """Score the trained model on held-out texts."""
        ...

    def save(self, folder: Path) -> None:
        """Write a transformers folder (config, safetensors weights, tokenizer), if possible a SentenceTransformer."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """Replaces an `Objective` if the result is computed from the corpus directly, without training steps."""

    def fit(self, texts: Sequence[str], device: str, progress: Progress | None) -> dict[str, float]:
        """Compute the result from all of `texts` and return scores. JobError if these texts do not allow it."""
        ...

    def save(self, folder: Path) -> None:
        """See `Objective.save`."""
        ...


@runtime_checkable
class PreparedObjective(Protocol):
    """An `Objective` that derives data from its texts before the first step, such as translations."""

    def prepare(self, texts: Sequence[str], folder: Path, progress: Progress | None) -> None:
        """Derive the data, or read it from `folder`.

        Several runs share `folder`, so files are named by content and appear complete or not at all. `texts` are the
        training texts, in the same order in every run. If the steps do not reach the whole corpus, they are a sample
        of it. JobError if the data cannot be derived.
        """
        ...


@runtime_checkable
class ProbedObjective(Objective, Protocol):
    """An `Objective` that can be measured beyond the terms of its loss, for the health of its training."""

    def probe(self, batch: dict[str, Any]) -> dict[str, float]:
        """Measure the model on a collated batch of held-out texts, before a training step. Values that are not finite
        are left out.

        The caller restores torch's random numbers, the buffers of `model` and the modes of its parts afterwards.
        Weights and their `grad` must stay as they are. docs/health.md says which names of values can raise flags.
        """
        ...


@runtime_checkable
class PacedObjective(Protocol):
    """An `Objective` whose settings depend on the number of steps, or that stops a training which teaches nothing."""

    def begin(self, steps: int, learning_rate: float, held_out: Sequence[str]) -> Sequence[tuple[nn.Module, float]]:
        """Be told what is to come, before the first step and again before a resumed one. This draws no random numbers.

        Args:
            steps: all optimizer steps of the training.
            learning_rate: the peak learning rate.
            held_out: texts that are not trained on.

        Returns:
            Parts of `model` with a peak learning rate of their own. All else has `learning_rate`.
        """
        ...

    def after_step(self, step: int) -> None:
        """Called after each optimizer step, before a checkpoint is written. It must change nothing that training uses.

        JobError stops the training. A resumed run repeats the steps since its last checkpoint, and stops there again.
        """
        ...


class Encoding:
    """Implement `features` and `collate` of an `Objective` with a transformers tokenizer.

    Args:
        tokenizer: the encoder's tokenizer.
        max_length: texts are cut at this number of tokens.
    """

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer = tokenizer
        self._max_length = max_length

    def features(self, text: str) -> dict[str, Any]:
        """Return input_ids, attention_mask and special_tokens_mask. Token types are left at the network's default."""
        encoded = self.tokenizer(
            text,
            truncation=True,
            max_length=self._max_length,
            return_special_tokens_mask=True,
            return_token_type_ids=False,
        )
        return dict(encoded)

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Return the same keys as `features`, padded to (batch, longest of the batch)."""
        return dict(self.tokenizer.pad(list(batch), return_tensors="pt"))
