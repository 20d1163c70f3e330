"""Make an encoder forget: mix random weights into those of its base, or add noise to them (ours).

Nothing is trained. A network that knows less may be fooled less, so such encoders are controls: they show how robust an
encoder of a given accuracy is if it has only forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import model_validator

from rbench.schema import EncoderSpec, Strict
from rbench.train.objectives import TrainingObjective
from rbench.train.objectives._shared import FittedEncoder
from rbench.train.options import NotNegative, Progress

if TYPE_CHECKING:
    from torch import Tensor

    from rbench.words.resources import Resources

VERSION = 1


class Options(Strict):
    """Options of the objective. What is random is drawn with the seed of the training."""

    by: Literal["mixing", "noise"] = "mixing"
    """`mixing`: each weight w becomes (1 - amount) w + amount r, where r is the weight of a network of the same
    architecture as transformers initialises it. `noise`: w + amount s e, where s is the root mean square of the weights
    of its matrix or vector, and e is from N(0, 1)."""
    amount: NotNegative = 0.5
    """How much is forgotten. 0: nothing. 1: everything (`mixing`), or noise as large as the weights."""

    @model_validator(mode="after")
    def _mixes_shares(self) -> Self:
        if self.by == "mixing" and self.amount > 1:
            raise ValueError(f"`amount` is a share, at most 1, where `by` is mixing; it is {self.amount:g}")
        return self


class ForgettingObjective(FittedEncoder):
    """Implement `Fitted`."""

    TITLE = "forgetting"

    def __init__(self, options: Options, spec: EncoderSpec, base: str | Path | None) -> None:
        super().__init__(spec, base)
        self._options = options

    def fit(self, texts: Sequence[str], device: str, progress: Progress | None) -> dict[str, float]:
        """Change the weights of the network, on the CPU, so that they do not depend on the device.

        Returns `cosine`, the mean cosine of the vectors of `texts` texts before and after, and `weights_moved`, the
        Euclidean length of the change of all `weights`, divided by their length before.
        """
        import torch
        from torch.nn.utils import parameters_to_vector

        network, drift = self.encoder.model, self.start_drift(texts)
        weights = parameters_to_vector(network.parameters()).detach().double()
        # A network of the same architecture, with weights as transformers initialises them.
        random = dict(type(network)(network.config).named_parameters()) if self._options.by == "mixing" else {}
        with torch.no_grad():
            for name, weight in network.named_parameters():
                weight.copy_(forget_weight(self._options, weight, random.get(name)))
        change = parameters_to_vector(network.parameters()).detach().double() - weights
        return {
            **drift(),
            "weights_moved": float(change.norm() / weights.norm()),
            "weights": float(len(weights)),
        }


class ForgetTraining(TrainingObjective[Options]):
    takes_steps = False
    counted: Mapping[str, str] = {"cosine": "texts", "texts": "texts", "weights_moved": "weights", "weights": "weights"}

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> ForgettingObjective:
        """Build it on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        return ForgettingObjective(options, spec, base)


def forget_weight(options: Options, weight: Tensor, random: Tensor | None) -> Tensor:
    """Return what a weight becomes. `random` is that of a fresh network, which mixing needs."""
    import torch

    if random is not None:
        return (1 - options.amount) * weight + options.amount * random
    size = weight.square().mean().sqrt()
    return weight + options.amount * size * torch.randn_like(weight)
