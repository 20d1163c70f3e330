"""Wrap functions and endpoints for TextAttack: texts in, probabilities out. Each text is asked once."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from textattack.models.wrappers import ModelWrapper
from torch import Tensor

from rbench.encoders.inference import BatchedModel, BoundedMemo, RemoteModel
from rbench.errors import AnswerError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.victims.answers import AnswerClient
from rbench.victims.remote_classifier import open_answers
from rbench.victims.scores import Row

VERSION = 1

Text = str | tuple[str, ...]

CACHE_BYTES = 512 << 20


class AnsweringVictim(ModelWrapper):  # type: ignore[misc]
    """A classifier under attack of which only the answers are known.

    Each distinct text is asked once as long as this object lives, over examples and attacks. Inside
    `rbench.encoders.inference.run_jobs` the texts of several attacks are asked together, and attacks go on while an
    endpoint answers others. If a text has no usable answer, only the examples that ask for it fail. TextAttack counts
    queries before this, as for other victims.
    """

    def __init__(self, answers: AnswerClient) -> None:
        self.answers, self.name = answers, answers.name
        self.num_labels = len(answers.labels)
        self.pooled = answers.pooled
        """How many examples should be attacked at once."""
        self.network = SimpleNamespace(backend=answers.origin)  # what stands where other victims have a network
        self.model = self.tokenizer = None  # names that TextAttack uses
        self.max_length: int | None = None
        self.by_text: BoundedMemo[Text, Tensor] = BoundedMemo(CACHE_BYTES, lambda text, row: 300 + 2 * len(str(text)))
        # Requests to an endpoint run beside each other; a function is called in this thread, with its generators.
        self.asked: BatchedModel[Text, Row | AnswerError] = (
            RemoteModel(self._ask_each, answers.stop) if answers.origin == "endpoint" else BatchedModel(self._ask)
        )

    def __call__(self, text_input_list: Sequence[Text], **kwargs: Any) -> Tensor:
        """Return probabilities (n, labels), float32, for texts that are strings or tuples of columns.

        Each row's sum differs from 1 by less than 1e-6, so TextAttack takes them as they are, without a softmax.

        Raises:
            AnswerError: one of these texts has no usable answer.
            JobError: the function or the endpoint failed as a whole.
        """
        return torch.stack(self.by_text.filled(text_input_list, self._read_probabilities))

    def _read_probabilities(self, texts: list[Text]) -> Iterator[Tensor]:
        for answer in self.asked(texts):
            if isinstance(answer, AnswerError):
                raise answer
            yield torch.from_numpy(answer).float()

    def is_truncated(self, text: Text) -> bool:
        """Return False: what a function or an endpoint reads of a text is not known."""
        return False

    def forget(self) -> None:
        """Keep the answers, because they may have cost money; a network forgets its own before another attack."""

    def check(self) -> None:
        """Ask fixed texts twice.

        Raises:
            ResourceError: they have no usable answers, or the answers differ, also from those of an earlier check.
        """
        with keep_generators():
            self.answers.check()

    def _ask(self, texts: list[Text]) -> list[Row | AnswerError]:
        with keep_generators():
            return self._ask_each(texts)

    def _ask_each(self, texts: list[Text]) -> list[Row | AnswerError]:
        return self.answers.each([(text,) if isinstance(text, str) else tuple(text) for text in texts])


def open_answering(spec: VictimSpec, task: TaskSpec) -> AnsweringVictim:
    """Return a victim for TextAttack of a function or an endpoint, which has answered the probe. Raises as `check`."""
    victim = AnsweringVictim(open_answers(spec, task))
    victim.check()
    return victim


@contextmanager
def keep_generators() -> Iterator[None]:
    """Restore the global random generators after the block: an attack draws from them, whatever a function does."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
