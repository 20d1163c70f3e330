"""A transformer with pooling: token ids in, one vector a text out."""

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

from rbench.encoders import static as static  # its network is known to AutoModel from then on
from rbench.encoders.lengths import in_groups, linear_weights
from rbench.encoders.locate import TRANSFORM, transform_folder, transformer_folder
from rbench.encoders.saved_transform import read_transform
from rbench.encoders.transform import Transform
from rbench.errors import ResourceError
from rbench.spec import Pooling

VERSION = 1
USES = ()
"""A transform, or a table of word vectors, is used by those encoders alone that have one."""

LARGEST_REAL_LENGTH = 1_000_000
"""Tokenizers saved without a limit say int(1e30)."""


class SentenceEncoder(nn.Module):
    """A transformer network (`model`) with its `tokenizer`, `pooling` and, where it has one, `transform`.

    Args:
        model: a bidirectional transformers model; its unused pooler is dropped.
        tokenizer: the tokenizer that belongs to it.
        pooling: `cls`: the first token's last state. `cls+mlp`: BERT's pooler on it (dense layer, tanh), which is what
            SimCSE trains. `mean`: the mean of the last states of all tokens that are no padding. `first-last-mean`:
            the same mean over the average of hidden_states[0], the embedding layer's output, and hidden_states[-1]:
            `avg_first_last` in SimCSE's code (Gao et al. 2021).
        max_length: longest input in tokens; None, or more than the network can read, means as long as it can.
        name: for error messages.
        transform: what is done to the pooled vectors; frozen, see `rbench.encoders.transform`.
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
                f"encoder `{name}`: pooling cls+mlp needs a pooler and a {type(model).__name__} has none"
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
        """Read a transformers or sentence-transformers folder, in eval mode, on the CPU, in float32."""
        root = transformer_folder(folder)
        placed = transform_folder(folder)
        after = read_transform(placed, pooling, name) if placed is not None else None
        model, missing = _read(root, trust_remote_code, name)
        poolers = [key for key in missing if "pooler" in key]
        if pooling == "cls+mlp" and poolers:
            raise ResourceError(f"encoder `{name}`: pooling cls+mlp needs a pooler and {root} has no weights for one")
        if len(poolers) < len(missing):
            lost = sorted(set(missing) - set(poolers))
            raise ResourceError(f"encoder `{name}`: {root} lacks weights, {lost[0]} and {len(lost) - 1} more")
        if layers is not None:
            config: Any = model.config
            if after is not None and layers < config.num_hidden_layers:
                raise ResourceError(
                    f"encoder `{name}`: its transform was fitted on vectors of {config.num_hidden_layers} layers; "
                    "leave out `layers`, or fit one on a base that has so few"
                )
            keep_layers(model, layers, name)
        try:
            tokenizer = AutoTokenizer.from_pretrained(root, trust_remote_code=trust_remote_code)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ResourceError(f"encoder `{name}`: the tokenizer in {root} cannot be read: {error}") from error
        return cls(model, tokenizer, pooling, max_length, name, after).eval()

    def save(self, folder: Path) -> None:
        """Write what `open` reads: config, safetensors weights, tokenizer, and the transform in a folder of its own."""
        self.model.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)
        if self.transform is not None:
            self.transform.save(folder / TRANSFORM, self.pooling)

    @property
    def dim(self) -> int:
        """Width of the vectors: `width`, that of the network, or what the transform makes of it."""
        return self.width if self.transform is None else self.transform.dim

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    def forward(self, **inputs: Tensor) -> Tensor:
        """Vectors (batch, dim) for what a tokenizer returns: input_ids (or inputs_embeds), attention_mask, ...

        token_type_ids are left out for networks that know none (DistilBERT under BERT's tokenizer, for instance). In
        training, rows of like length go through the network together (`rbench.encoders.lengths`).
        """
        if not self._typed:
            inputs.pop("token_type_ids", None)
        vectors = in_groups(self._pooled, inputs, self._weights) if self.training else self._pooled(inputs)
        if self.transform is None:
            return vectors
        # In full precision whatever the network computes in: whitening magnifies the smallest differences.
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
        """Vectors (len(texts), dim) in the order of `texts`, not normalised.

        Texts are cut at `max_length` tokens, encoded longest first and padded to the longest of their batch.
        `progress` is told after each batch how many texts it had.
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
    """Mean (batch, dim) of `states` (batch, length, dim) over the positions where `mask` (batch, length) is 1."""
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)


def keep_layers(model: nn.Module, layers: int, name: str = "encoder") -> None:
    """Cut `model` down to its first `layers` transformer layers, in place, its config too.

    Raises:
        ResourceError: it has fewer, or its layers are not one list of modules (ALBERT shares one layer, for instance).
    """
    config: Any = model.config
    total = int(config.num_hidden_layers)
    if layers > total:
        raise ResourceError(f"encoder `{name}`: asks for {layers} layers and its base has {total}")
    stacks = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        and len(module) == total
        and path.rsplit(".", 1)[-1] in ("layer", "layers", "block", "h")
    ]
    if len(stacks) != 1:
        raise ResourceError(
            f"encoder `{name}`: cannot tell the layers of a {type(model).__name__} apart; leave out `layers`"
        )
    path, stack = stacks[0]
    parent, _, attribute = path.rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.ModuleList(list(stack)[:layers]))
    config.num_hidden_layers = layers


def longest_input(model: nn.Module, tokenizer: Any) -> int:
    """How many tokens the network can read: the tokenizer's limit or the position table's, whichever is smaller.

    RoBERTa and MPNet count positions from after the padding's, so their tables have that many rows more than texts may
    have tokens. 512 where neither says anything.
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
    """Without transformers' warning about missing weights: `open` knows which of them matter."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


def _read(root: Path, trust_remote_code: bool, name: str) -> tuple[nn.Module, list[str]]:
    """The network in float32 and the names of the weights that its files lack."""
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
    except Exception as error:  # transformers, safetensors and json raise a dozen kinds for one fact: unreadable files
        raise ResourceError(f"encoder `{name}`: {root} cannot be read as a transformers model: {error}") from error
    if "attention_mask" not in inspect.signature(model.forward).parameters:
        raise ResourceError(f"encoder `{name}`: a {type(model).__name__} takes no attention_mask: not a text encoder")
    return model.float().eval(), sorted(info["missing_keys"])
