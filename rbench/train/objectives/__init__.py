"""Find training objectives by module name. Each exports `Options` (frozen pydantic) and `build(options, spec, base)`.

`build` returns an `Objective`, or a `Fitted` if the result is computed without training steps. A module here imports
torch and transformers only inside functions, because options are validated when a suite is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import BaseModel

from rbench.config import code
from rbench.config.positions import shown
from rbench.errors import JobError
from rbench.train.options import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn


class Objective(Protocol):
    """What the training loop needs to train an encoder and to save it."""

    model: nn.Module
    """Takes a collated batch as keywords. Returns `loss` and, under the paper's names, its terms or other values to
    show in the progress.

    All random numbers are drawn here, from torch's global generator, so that a resumed run draws the same ones.
    """
    grouped: bool
    """True: a batch has texts of similar length, which saves padding, and the last batch of an epoch may be smaller.
    False: texts are shuffled and only full batches are used, as in-batch negatives require."""
    kept: nn.Module
    """The part of `model` whose weights `save` writes."""

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


class ObjectiveModule(Protocol):
    """What a module in this package, or in a user's folder `objectives/`, exports.

    `missing()` is optional and says which package is not installed and how to install it; empty if none lacks. A module
    that edits words has `NEEDS`, the kinds of resources it uses; its Options have `resources: ResourceChoice`, and its
    `build` takes `resources=` too.
    Options may have `DRAWS: ClassVar[bool] = False`, which says that the result depends on no seed.
    `COUNTED` is optional: for each score that is not of held-out texts, the score that gives its sample size.
    """

    Options: type[BaseModel]
    build: Callable[..., Objective | Fitted]


def find(name: str) -> ObjectiveModule:
    """Return the module of an installed objective. SuiteError for an unknown name."""
    module: Any = code.find("objectives", name).open()
    return module  # type: ignore[no-any-return]


_GUIDE = "see docs/guide-add-an-objective.md"
_USED = ("model", "grouped", "kept", "features", "collate", "scores", "save")
"""The attributes of an `Objective` that every training uses."""


def built(module: ObjectiveModule, *arguments: Any, **more: Any) -> Objective | Fitted:
    """Call the `build` of an objective. JobError, with file and line, where what it returns cannot be trained."""
    made = module.build(*arguments, **more)
    lacking = [name for name in _USED if not hasattr(made, name)]
    if lacking and not isinstance(made, Fitted):
        path = source(module)
        raise JobError(
            f"{path}:{code.begins(module.build, Path(path))}: `build` returned {type(made).__name__}, which has no "
            f"{', '.join(lacking)}; it returns an `Objective` or a `Fitted`, {_GUIDE}"
        )
    return made


def source(module: ObjectiveModule) -> str:
    """Return the file of an objective, for messages."""
    return shown(Path(getattr(module, "__file__", None) or "the objective"))


def check_terms(outputs: object, path: str) -> None:
    """Check what the model of an objective, whose file is at `path`, returned. JobError where it has no loss to lower.

    Its gradient must reach the weights, so it is a tensor, and so are the terms beside it.
    """
    from torch import Tensor

    if not isinstance(outputs, Mapping):
        raise JobError(
            f"{path}: its model returns {type(outputs).__name__}, not a dict of `loss` and its terms; {_GUIDE}"
        )
    if "loss" not in outputs:
        terms = ", ".join(map(str, outputs)) or "nothing"
        raise JobError(
            f"{path}: its losses have no `loss`, but {terms}; name what the training lowers `loss`, {_GUIDE}"
        )
    for name, value in outputs.items():
        if not isinstance(value, Tensor):
            found = type(value).__name__
            raise JobError(f"{path}: `{name}` of its losses is {found}, and must be a torch.Tensor; {_GUIDE}")


def option_defaults(options: type[BaseModel]) -> dict[str, Any]:
    """Return the defaults of an objective's options as plain data; "required" for options without a default."""
    required = {name: "required" for name, field in options.model_fields.items() if field.is_required()}
    return {**options.model_construct().model_dump(), **required}
