"""What a search moves in training: the vectors of an encoder, and the loss of these vectors that is to rise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from rbench.encoders.sentence import SentenceEncoder

VERSION = 1

Loss = Callable[[Tensor, list[int]], Tensor]
Project = Callable[[Tensor], Tensor]
Over = Callable[[Tensor, list[int]], Sequence[bool]]


@dataclass(frozen=True)
class Target:
    """An encoder, what is computed from its vectors, and where texts are cut.

    Args:
        encoder: gives h; z = project(h). Its tokenizer need not be the masked language model's.
        loss: given z (n, dim) and the numbers of their texts, one loss for each, (n,). Any increasing function of it
            whose gradients do not vanish finds the same words.
        max_length: texts are cut there, in tokens; never beyond what the encoder reads.
        project: a module or function on vectors (n, dim), row by row (a batch normalisation runs on its running
            statistics). A function that is no module must not depend on a mode. None: z = h.
        over: given z (n, dim) and the numbers of their texts, whether the search of each is over there (the prediction
            flipped). A candidate that ends the search goes before all that do not. None: searches end with the budget.
        leave_if_over: whether a text for which the search is over at the start stays as it is. False: nobody asks
            before a word is replaced.
    """

    encoder: SentenceEncoder
    loss: Loss
    max_length: int
    project: Project | None = None
    over: Over | None = None
    leave_if_over: bool = True

    def network(self) -> nn.Module:
        """Token ids to z, sharing the weights of encoder and `project`."""
        return _Vectors(self.encoder, self.project)

    @contextmanager
    def in_eval_mode(self) -> Iterator[None]:
        """Put encoder and `project` into eval mode, and each of their modules back into its own mode afterwards."""
        parts = [part for part in (self.encoder, self.project) if isinstance(part, nn.Module)]
        modules = [module for part in parts for module in part.modules()]
        modes = [module.training for module in modules]
        try:
            for module in modules:
                module.training = False
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode


class _Vectors(nn.Module):
    """z = project(encoder)."""

    def __init__(self, encoder: SentenceEncoder, project: Project | None) -> None:
        super().__init__()
        self.encoder, self.project = encoder, project

    def forward(self, **inputs: Tensor) -> Tensor:
        h: Tensor = self.encoder(**inputs)
        return h if self.project is None else self.project(h)
