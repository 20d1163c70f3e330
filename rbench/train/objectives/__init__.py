"""Training objectives by module name: each exports `Options` (frozen pydantic) and `build(options, spec, base)`.

`build` returns an `Objective`, or a `Fitted` where there is nothing to step through. A module here is light at import
(torch and transformers only inside functions), because options are validated when a suite is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel

from rbench.load import code
from rbench.load.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn


class Objective(Protocol):
    """What the loop needs to train an encoder and to keep it."""

    model: nn.Module
    """Takes a collated batch as keywords and returns `loss` and, under the paper's names, the parts it is the sum of,
    or what else is to be seen of a step in the progress.

    Whatever is drawn by chance is drawn here, from torch's global generator, so that a resumed run draws the same.
    """
    grouped: bool
    """Whether a batch holds texts of like length, the last batch of an epoch being smaller: on a CPU, padding is what
    short sentences would spend their time on. Otherwise texts are shuffled and only whole batches are taken, for
    sentences that are each other's negatives."""
    kept: nn.Module
    """The part of `model` whose weights `save` writes."""

    def features(self, text: str) -> dict[str, Any]:
        """One training text, encoded; `input_ids` is among the keys."""
        ...

    def collate(self, batch: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """A padded batch; nothing here is left to chance."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (len(texts), dim) of the encoder as `save` would write it; nothing is left to chance."""
        ...

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        """How well the trained model does on texts that it was not trained on."""
        ...

    def save(self, folder: Path) -> None:
        """Write a transformers folder: config, safetensors weights, tokenizer; where possible a SentenceTransformer."""
        ...


@runtime_checkable
class Fitted(Protocol):
    """In place of an `Objective`: what is computed from the corpus in one go, without steps."""

    def fit(
        self, texts: Sequence[str], device: str, progress: Callable[[int, int, str], None] | None
    ) -> dict[str, float]:
        """Compute it on all of `texts`; returns scores. JobError where it cannot be computed from these."""
        ...

    def save(self, folder: Path) -> None:
        """As `Objective.save`."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """An `Objective` that makes something of its texts before the first step."""

    def prepare(self, texts: Sequence[str], folder: Path, progress: Callable[[int, int, str], None] | None) -> None:
        """Make it, or find it in `folder`, which several runs share: by content, and written whole or not at all.

        `texts` are those trained on, in the order in which they are given in any run: where the steps are too few for
        the corpus, a sample that they see once. JobError where it cannot be made.
        """
        ...


class ObjectiveModule(Protocol):
    """What a module in this package, or in a folder `objectives/` of a user's, exports.

    `missing`, where it has one, says which package it lacks here. One that edits words has `NEEDS`, kinds of resources,
    `resources: ResourceChoice` among its Options, and a `build` that takes `resources=` beside the rest. Scores that
    are not of held-out texts are in `COUNTED`, with the score that says of how many things they are.
    """

    Options: type[BaseModel]
    build: Callable[..., Objective | Fitted]


def names() -> list[str]:
    """Names of all objectives that are installed."""
    return Registry().names("objectives")


def find(name: str) -> ObjectiveModule:
    """The module of an objective that is installed; SuiteError for an unknown name."""
    module: Any = code.find("objectives", name).open()
    return module  # type: ignore[no-any-return]


def option_defaults(options: type[BaseModel]) -> dict[str, Any]:
    """The defaults of an objective's options as plain data; "required" of those without."""
    required = {name: "required" for name, field in options.model_fields.items() if field.is_required()}
    return {**options.model_construct().model_dump(), **required}


def counted(module: Any) -> dict[str, str]:
    """Scores of what is counted while training, and by name the score that says how many there were."""
    found: dict[str, str] = getattr(module, "COUNTED", {})
    return found


def missing(module: Any) -> str:
    """What an objective lacks on this machine and how to get it; empty where it lacks nothing."""
    said: Callable[[], str] = getattr(module, "missing", str)
    return said()
