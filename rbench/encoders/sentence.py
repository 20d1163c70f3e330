"""A sentence encoder: a transformer with pooling, which turns token ids into one vector for each text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rbench.encoders import static as static  # registers its network with AutoModel
from rbench.encoders.lengths import in_groups, linear_weights
from rbench.encoders.locate import TRANSFORM, transform_folder, transformer_folder
from rbench.encoders.saved_transform import read_transform
from rbench.encoders.transform import Transform
from rbench.errors import ResourceError
from rbench.spec import Pooling

VERSION = 1
USES = ()
"""Transforms and word vectors are not listed, because only encoders that have them use them."""

LARGEST_REAL_LENGTH = 1_000_000
"""Larger limits of a tokenizer mean none: tokenizers saved without a limit have int(1e30)."""


class SentenceEncoder(nn.Module):
    """A transformer network (`model`) with its `tokenizer`, `pooling` and, where it has one, `transform`.

    Args:
        model: a bidirectional transformers model; its unused pooler is dropped.
        tokenizer: the tokenizer that belongs to it.
        pooling: `cls`: the last hidden state of the first token. `cls+mlp`: the output of BERT's pooler (dense layer
            and tanh on that state), which SimCSE trains. `mean`: the mean of the last hidden states of all tokens but
            padding. `first-last-mean`: the same mean over the average of hidden_states[0] (the embedding layer's
            output) and hidden_states[-1], which is `avg_first_last` in SimCSE's code (Gao et al. 2021).
        max_length: longest input in tokens; None, or more than the network can read: the longest that it can read.
        name: for error messages.
        transform: applied to the pooled vectors; frozen, see `rbench.encoders.transform`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooling: Pooling = "cls",
        max_length: int | None = None,
        name: str = "encoder",
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self._uncounted = int(getattr(model, "UNCOUNTED", 0))
        if self._uncounted and pooling != "mean":
            raise ResourceError(f"encoder `{name}`: static word vectors have pooling mean, not {pooling}")
        if pooling == "cls+mlp" and getattr(model, "pooler", None) is None:
            raise ResourceError(
                f"encoder `{name}`: pooling cls+mlp needs a pooler, and a {type(model).__name__} has none"
            )
        if pooling != "cls+mlp" and getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model = model
        self._weights = linear_weights(model)
        self.tokenizer = tokenizer
        self.pooling: Pooling = pooling
        self._typed = "token_type_ids" in inspect.signature(model.forward).parameters
        self.width = int(self.model.config.hidden_size)
        if transform is not None and transform.width != self.width:
            raise ResourceError(
                f"encoder `{name}`: its transform takes vectors of {transform.width} numbers and its network gives "
                f"{self.width}"
            )
        self.transform = transform
        longest = longest_input(self.model, tokenizer)
        self.max_length = min(max_length or longest, longest)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        pooling: Pooling,
        layers: int | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
        name: str = "encoder",
    ) -> Self:
        """Read a transformers or sentence-transformers folder. The encoder is in eval mode, on the CPU, in float32.

        Args:
            folder: has config, weights and tokenizer.
            layers: number of transformer layers to keep, counted from the first; None: all.
            pooling, max_length, name: as for the class.

        Raises:
            ResourceError: the folder cannot be read, lacks weights, has fewer layers, or does not support the pooling.
        """
        root = transformer_folder(folder)
        placed = transform_folder(folder)
        after = read_transform(placed, pooling, name) if placed is not None else None
        model, missing = _read(root, trust_remote_code, name)
        poolers = [key for key in missing if "pooler" in key]
        if pooling == "cls+mlp" and poolers:
            raise ResourceError(f"encoder `{name}`: pooling cls+mlp needs a pooler, and {root} has no weights for one")
        if len(poolers) < len(missing):
            lost = sorted(set(missing) - set(poolers))
            raise ResourceError(f"encoder `{name}`: {root} lacks weights, {lost[0]} and {len(lost) - 1} more")
        if layers is not None:
            config: Any = model.config
            if after is not None and layers < config.num_hidden_layers:
                raise ResourceError(
                    f"encoder `{name}`: its transform was fitted on vectors of {config.num_hidden_layers} layers; "
                    "leave out `layers`, or fit a transform on a base with fewer layers"
                )
            keep_layers(model, layers, name)
        try:
            tokenizer = AutoTokenizer.from_pretrained(root, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ResourceError(f"encoder `{name}`: the tokenizer in {root} cannot be read: {error}") from error
        return cls(model, tokenizer, pooling, max_length, name, after).eval()

    def save(self, folder: Path) -> None:
        """Write what `open` reads: config, safetensors weights, tokenizer, and the transform in its own subfolder."""
        self.model.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)
        if self.transform is not None:
            self.transform.save(folder / TRANSFORM, self.pooling)

    @property
    def dim(self) -> int:
        """Length of the vectors: the transform's `dim` if there is one, else the network's `width`."""
        return self.width if self.transform is None else self.transform.dim

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return vectors (batch, dim) for a tokenizer's output: input_ids (or inputs_embeds), attention_mask, ...

        token_type_ids are dropped for networks that do not take them (for example DistilBERT with BERT's tokenizer). In
        training mode a batch is split into groups of similar length (`rbench.encoders.lengths`).
        """
        if not self._typed:
            inputs.pop("token_type_ids", None)
        vectors = in_groups(self._pooled, inputs, self._weights) if self.training else self._pooled(inputs)
        if self.transform is None:
            return vectors
        # In full precision even if the network is not: whitening magnifies small differences.
        with torch.autocast(vectors.device.type, enabled=False):
            transformed: Tensor = self.transform(vectors.to(torch.promote_types(vectors.dtype, torch.float32)))
            return transformed

    def _pooled(self, inputs: dict[str, Tensor]) -> Tensor:
        outputs = self.model(**inputs, output_hidden_states=self.pooling == "first-last-mean", return_dict=True)
        last: Tensor = outputs.last_hidden_state
        if self.pooling == "cls":
            return last[:, 0]
        if self.pooling == "cls+mlp":
            return outputs.pooler_output  # type: ignore[no-any-return]
        states = last if self.pooling == "mean" else (outputs.hidden_states[0] + outputs.hidden_states[-1]) / 2
        mask = inputs.get("attention_mask")
        if mask is None:
            mask = torch.ones(states.shape[:2], device=states.device)
        if self._uncounted:
            mask = torch.cat([torch.zeros_like(mask[:, : self._uncounted]), mask[:, self._uncounted :]], dim=1)
        return masked_mean(states, mask)

    @torch.no_grad()
    def encode(
        self, texts: Sequence[str], batch_size: int = 64, progress: Callable[[int], object] | None = None
    ) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) in the order of `texts`, not normalised.

        Texts are cut at `max_length` tokens, encoded longest first, and padded to the longest of their batch.
        `progress` is called after each batch with its number of texts.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        was_training = self.training
        self.eval()
        try:
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                inputs = self.tokenizer(
                    [texts[i] for i in rows],
                    padding=True,
                    truncation=True,
                    max_length=self.max_length,
                    return_tensors="pt",
                )
                vectors[rows] = self(**inputs.to(self.device)).float().cpu().numpy()
                if progress is not None:
                    progress(len(rows))
        finally:
            self.train(was_training)
        return vectors


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (batch, dim) of `states` (batch, length, dim) where `mask` (batch, length) is 1."""
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def keep_layers(model: nn.Module, layers: int, name: str = "encoder") -> None:
    """Keep only the first `layers` transformer layers of `model`, in place, and change its config accordingly.

    Raises:
        ResourceError: it has fewer layers, or they are not one list of modules (for example, ALBERT shares one layer).
    """
    config: Any = model.config
    total = int(config.num_hidden_layers)
    if layers > total:
        raise ResourceError(f"encoder `{name}`: asks for {layers} layers, but its base has {total}")
    stacks = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == total
        and path.rsplit(".", 1)[-1] in ("layer", "layers", "block", "h")
    ]
    if len(stacks) != 1:
        raise ResourceError(f"encoder `{name}`: cannot find the layers of a {type(model).__name__}; leave out `layers`")
    path, stack = stacks[0]
    parent, _, attribute = path.rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.ModuleList(list(stack)[:layers]))
    config.num_hidden_layers = layers


def longest_input(model: nn.Module, tokenizer: Any) -> int:
    """Return how many tokens the network can read: the smaller of the tokenizer's limit and that of the position table.

    It is 512 if neither has a limit. RoBERTa and MPNet number positions from padding_idx + 1, so the limit is that much
    smaller than the number of rows of their position tables.
    """
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < LARGEST_REAL_LENGTH else []
    positions = getattr(model.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = next((m for p, m in model.named_modules() if p.endswith("position_embeddings")), None)
        padding = getattr(table, "padding_idx", None)
        limits.append(positions if padding is None else positions - padding - 1)
    return int(min(limits, default=512))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' warning about missing weights inside the block: `open` checks which of them matter."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


def _read(root: Path, trust_remote_code: bool, name: str) -> tuple[nn.Module, list[str]]:
    """Return the network in float32, and the names of the weights that its files lack."""
    try:
        config = AutoConfig.from_pretrained(root, trust_remote_code=trust_remote_code)
        if getattr(config, "is_encoder_decoder", False):
            raise ResourceError(f"encoder `{name}`: {root} is an encoder-decoder model, which rbench does not read")
        with _quiet():
            model, info = AutoModel.from_pretrained(
                root, config=config, trust_remote_code=trust_remote_code, output_loading_info=True
            )
    except ResourceError:
        raise
    except Exception as error:  # for unreadable files transformers, safetensors and json raise many types
        raise ResourceError(f"encoder `{name}`: {root} cannot be read as a transformers model: {error}") from error
    if "attention_mask" not in inspect.signature(model.forward).parameters:
        raise ResourceError(f"encoder `{name}`: a {type(model).__name__} takes no attention_mask: not a text encoder")
    return model.float().eval(), sorted(info["missing_keys"])
