"""A sentence encoder: a transformer with pooling, which turns token ids into one vector for each text."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding, AutoTokenizer
from transformers.utils import logging as transformers_logging

from rbench.encoders.foreign import (
    as_resource_error,
    check_finite,
    check_model,
    check_size,
    modules_after_pooling,
    read_modules,
    read_object,
)
from rbench.encoders.inference import BoundedMemo, Network, build_rows
from rbench.encoders.lengths import compute_in_groups, count_linear_weights
from rbench.encoders.locate import (
    ENCODER_HALVES,
    STATIC_TYPE,
    TRANSFORM,
    TRANSFORM_ABOUT,
    check_tokenizer,
    find_transformer_folder,
)
from rbench.encoders.reading import (
    ReadingSettings,
    count_prompt_tokens,
    find_longest_input,
    fit_tokenizer,
    prepare_tokenizer,
    takes_input,
    without_prompt,
)
from rbench.errors import ResourceError
from rbench.schema import Pooling

if TYPE_CHECKING:
    from rbench.encoders.transform import Transform

# Part of the key of every job that uses an encoder (config/versions.py): raising it trains, attacks and evaluates
# everything anew. tests/golden holds the values.
VERSION = 1
USES = ()
"""Transforms and word vectors are not listed, because only encoders that have them use them."""

REMEMBERED_BYTES = 512 * 1024**2
"""Bytes of vectors and texts that `RememberedVectors` keeps. With 384 numbers a vector, the sets of STS take 46 MB."""
_OBJECT_BYTES = 300
"""Bytes of Python's objects around one text and its vector, roughly."""


class SentenceEncoder(nn.Module):
    """A transformer network (`model`) with its `tokenizer`, `pooling` and, where it has one, `transform`.

    Args:
        model: a transformers model, bidirectional or causal; its unused pooler is dropped.
        tokenizer: the tokenizer that belongs to it. The encoder's own reads as `settings` say.
        pooling: see `pool_states`.
        max_length: longest input in tokens; None, or more than the network can read: the longest that it can read.
        name: for error messages.
        transform: applied to the pooled vectors; frozen, see `rbench.encoders.transform`.
        settings: what is done before the network and after pooling and transform.

    Raises:
        ResourceError: the network cannot have the pooling, the transform takes vectors of another length, or the prompt
            leaves no room for a text.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pooling: Pooling = "cls",
        max_length: int | None = None,
        name: str = "encoder",
        transform: Transform | None = None,
        settings: ReadingSettings | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or ReadingSettings()
        self._uncounted = self._special = int(getattr(model, "UNCOUNTED", 0))
        if self._uncounted and pooling != "mean":
            raise ResourceError(f"encoder `{name}`: static word vectors have pooling mean, not {pooling}")
        if pooling == "cls+mlp" and getattr(model, "pooler", None) is None:
            raise ResourceError(
                f"encoder `{name}`: pooling cls+mlp needs a pooler, and a {type(model).__name__} has none"
            )
        if pooling != "cls+mlp" and getattr(model, "pooler", None) is not None:
            model.pooler = None
        self.model = model
        self._weights = count_linear_weights(model)
        self.tokenizer = prepare_tokenizer(fit_tokenizer(without_prompt(tokenizer), model), self.settings)
        self.pooling: Pooling = pooling
        self.reads_token_types = takes_input(model, "token_type_ids")
        self._options = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
        self.width = int(model.config.hidden_size)
        self.transform = transform
        self.max_length = find_longest_input(self.model, self.tokenizer, max_length)
        if self.max_length <= (prompt := count_prompt_tokens(self.tokenizer)):
            raise ResourceError(
                f"encoder `{name}`: its prompt has {prompt} tokens, and it reads {self.max_length}; raise "
                "`max_length`, or shorten the prompt"
            )
        if not self.settings.include_prompt:
            self._uncounted = max(self._uncounted, prompt)

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
        settings: ReadingSettings | None = None,
    ) -> Self:
        """Read a transformers or sentence-transformers folder. The encoder is in eval mode, on the CPU.

        Of a SentenceTransformer the modules after its pooling are used too, without a normalisation that ends them.

        Args:
            folder: has config, weights and tokenizer.
            layers: number of transformer layers to keep, counted from the first; None: all.
            pooling, max_length, name, settings: as for the class.

        Raises:
            ResourceError: the folder cannot be read, lacks weights, has fewer layers, or does not support the pooling.
        """
        network_folder = find_transformer_folder(folder)
        check_model(network_folder)
        if any(kind == "StaticEmbedding" for kind, _ in read_modules(folder)):
            if layers is not None:
                raise ResourceError(f"encoder `{name}`: a StaticEmbedding has no layers; leave out `layers`")
            from rbench.encoders import static

            network, tokenizer_of_words = static.read_static_embedding(network_folder)
            check_finite(network, network_folder)
            transform = _read_transform(folder, pooling, network.config.hidden_size, name)
            return cls(network, tokenizer_of_words, pooling, max_length, name, transform, settings).eval()
        model, missing = _read_network(network_folder, trust_remote_code, name, settings or ReadingSettings())
        config: Any = model.config
        transform = _read_transform(folder, pooling, config.hidden_size, name)
        pooler_weights = [key for key in missing if "pooler" in key]
        lost_weights = sorted(missing if pooling == "cls+mlp" else set(missing) - set(pooler_weights))
        if lost_weights:
            raise ResourceError(
                f"encoder `{name}`: {network_folder} lacks weights, {lost_weights[0]} and {len(lost_weights) - 1} more"
            )
        check_finite(model, network_folder)
        if layers is not None:
            if transform is not None and layers < config.num_hidden_layers:
                raise ResourceError(
                    f"encoder `{name}`: its transform was fitted on vectors of {config.num_hidden_layers} layers; "
                    "leave out `layers`, or fit a transform on a base with fewer layers"
                )
            keep_layers(model, layers, name)
        check_tokenizer(network_folder, f"encoder `{name}`")
        with as_resource_error(f"encoder `{name}`: the tokenizer in {network_folder} cannot be read"):
            tokenizer = AutoTokenizer.from_pretrained(network_folder, trust_remote_code=trust_remote_code)
        return cls(model, tokenizer, pooling, max_length, name, transform, settings).eval()

    def save(self, folder: Path, *, transform: bool = True) -> None:
        """Write what `open` reads: config, safetensors weights, tokenizer, and the transform in its own subfolder.

        With `transform` False, the transform is left to the caller.
        """
        self.model.save_pretrained(folder, safe_serialization=True)
        _restore_window(folder, self.model.config)
        self.tokenizer.save_pretrained(folder)
        if self.transform is not None and transform:
            self.transform.save(folder / TRANSFORM, self.pooling)

    def for_documents(self) -> Self:
        """Return an encoder with the same weights that reads documents to be ranked, with the prompt for these."""
        # A shallow copy: both encoders compute with the same weights, and only the prompt differs.
        twin = copy.copy(self)
        twin.settings = self.settings.for_documents()
        twin.tokenizer = prepare_tokenizer(without_prompt(self.tokenizer), twin.settings)
        prompt = count_prompt_tokens(twin.tokenizer)
        twin._uncounted = self._special if self.settings.include_prompt else max(self._special, prompt)
        return twin

    @property
    def dim(self) -> int:
        """Length of the vectors: the transform's `dim` if there is one, else the network's `width`; cut to
        `truncate_dim`."""
        length = self.width if self.transform is None else self.transform.dim
        return min(length, self.settings.truncate_dim or length)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    def forward(self, **inputs: Tensor) -> Tensor:
        """Return vectors (batch, dim) for a tokenizer's output: input_ids (or inputs_embeds), attention_mask, ...

        token_type_ids are dropped for networks that do not take them (for example DistilBERT with BERT's tokenizer). In
        training mode a batch is split into groups of similar length (`rbench.encoders.lengths`).
        """
        if not self.reads_token_types:
            inputs.pop("token_type_ids", None)
        vectors = compute_in_groups(self._pooled, inputs, self._weights) if self.training else self._pooled(inputs)
        if self.settings.dtype != "float32":
            vectors = vectors.float()
        if self.transform is not None:
            # In full precision even if the network is not: whitening magnifies small differences.
            with torch.autocast(vectors.device.type, enabled=False):
                vectors = self.transform(vectors.to(torch.promote_types(vectors.dtype, torch.float32)))
        if self.settings.normalize:
            vectors = nn.functional.normalize(vectors, dim=1)
        return vectors[:, : self.settings.truncate_dim] if self.settings.truncate_dim else vectors

    def _pooled(self, inputs: dict[str, Tensor]) -> Tensor:
        needs_all_states = self.pooling == "first-last-mean"
        outputs = self.model(**inputs, **self._options, output_hidden_states=needs_all_states, return_dict=True)
        return pool_states(self.pooling, outputs, inputs.get("attention_mask"), self._uncounted)

    def encode(
        self,
        texts: Sequence[str],
        backend: str = "torch",
        progress: Callable[[int], object] | None = None,
    ) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) in the order of `texts`.

        Texts are cut at `max_length` tokens and computed in batches of equal length, so that a vector does not depend
        on other texts. The mode is left as it was.

        Args:
            backend: what computes: one of `rbench.encoders.inference.BACKENDS`, or `fastest`, which measures those that
                use the encoder's own weights. What is trained should not depend on a measurement, so trainings use
                `torch`.
            progress: called after each batch with its number of texts.

        Raises:
            TypeError: `texts` is a single text, whose letters would be encoded one by one.
        """
        if isinstance(texts, str):
            raise TypeError("texts is a single text; give a list")
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        if not len(texts):
            return vectors
        was_training = self.training
        self.eval()
        try:
            rows = build_rows(self.tokenizer(list(texts), truncation=True, max_length=self.max_length))
            network = Network(
                self,
                _read_vectors,
                tokenizer=self.tokenizer,
                name="the encoder",
                device=str(self.device),
                backend=backend,
            )
            vectors[:] = torch.stack(network(rows, progress)).cpu().numpy()
        finally:
            self.train(was_training)
        return vectors


class RememberedVectors:
    """An encoder with the vectors of the sentences that it has encoded: the sets of STS share a quarter of theirs.

    Args:
        encoder: it must not change, because vectors are not computed again.
        limit: bytes to keep. Beyond that the sentences are dropped that were not asked for longest.
    """

    def __init__(self, encoder: SentenceEncoder, limit: int = REMEMBERED_BYTES) -> None:
        self.encoder = encoder
        self._memo: BoundedMemo[str, NDArray[np.float32]] = BoundedMemo(
            limit, lambda text, vector: vector.nbytes + len(text.encode()) + _OBJECT_BYTES
        )

    def encode(
        self,
        texts: list[str],
        backend: str = "torch",
        progress: Callable[[int], Any] | None = None,
    ) -> NDArray[np.float32]:
        """Return vectors (len(texts), dim) as `SentenceEncoder.encode` does. `texts` are distinct.

        Args:
            progress: called first with the number of sentences that are remembered, then with that of each batch.
        """
        known = {text: self._memo.get(text) for text in texts}
        unknown = [text for text, vector in known.items() if vector is None]
        if progress is not None and len(unknown) < len(texts):
            progress(len(texts) - len(unknown))
        for text, vector in zip(unknown, self.encoder.encode(unknown, backend, progress), strict=True):
            known[text] = copied = vector.copy()  # a view would keep all of these vectors in memory
            self._memo.put(text, copied)
        return np.array([*known.values()], dtype=np.float32).reshape(len(texts), self.encoder.dim)


def _read_transform(folder: Path, pooling: Pooling, width: int, name: str) -> Transform | None:
    """Read what a model's folder has after its pooling, as `transform_of` does; None: nothing."""
    if not (modules_after_pooling(folder) or (folder / TRANSFORM / TRANSFORM_ABOUT).is_file()):
        return None
    from rbench.encoders.transform import read_folder_transform

    return read_folder_transform(folder, pooling, width, name)


def _read_vectors(encoder: nn.Module, **inputs: Tensor) -> Tensor:
    vectors: Tensor = encoder(**inputs)
    return vectors.float()


def pool_states(pooling: Pooling, outputs: Any, mask: Tensor | None, skip: int = 0) -> Tensor:
    """Return a vector for each text, (batch, dim), of the hidden states of its tokens.

    The poolings but `cls+mlp` and `first-last-mean` are those of sentence-transformers, with its numbers.

    Args:
        pooling: `cls`: the last hidden state of the first token. `last`: that of the last token. `cls+mlp`: the output
            of BERT's pooler (dense layer and tanh on the first token's state), which SimCSE trains. `mean`: the mean of
            the last hidden states. `weighted-mean`: their mean weighted by position, 1 for the first token. `max`:
            their largest values. `sqrt-mean`: their sum divided by the square root of their number. `first-last-mean`:
            the mean over the average of hidden_states[0] (the embedding layer's output) and hidden_states[-1], which
            is `avg_first_last` in SimCSE's code (Gao et al. 2021).
        outputs: of a transformers network, with `hidden_states` for `first-last-mean`.
        mask: (batch, length), 1 for tokens and 0 for padding on either side; None: there is no padding.
        skip: number of tokens at the start of a text that are not pooled. `cls` then takes the token after them.
    """
    if pooling == "cls+mlp":
        return outputs.pooler_output  # type: ignore[no-any-return]
    states: Tensor = outputs.last_hidden_state
    if pooling == "first-last-mean":
        states = (outputs.hidden_states[0] + outputs.hidden_states[-1]) / 2
    if mask is None:
        mask = torch.ones(states.shape[:2], dtype=torch.int64, device=states.device)
    positions = mask.cumsum(dim=1)
    # The prompt is counted in tokens from the left; cumsum numbers real tokens from 1, wherever padding is.
    counted = mask * (positions > skip).to(mask.dtype) if skip else mask
    if pooling in ("cls", "last"):
        # Positions count tokens alone, so padding on either side moves none of them.
        wanted = counted * (positions if pooling == "last" else positions == skip + 1)
        # A gather, because a trace (OpenVINO) keeps no number of rows.
        places = wanted.argmax(dim=1).view(-1, 1, 1).expand(-1, 1, states.shape[-1])
        return states.gather(1, places).squeeze(1)
    if pooling == "max":
        return states.masked_fill(counted.unsqueeze(-1) == 0, float("-inf")).amax(dim=1)
    if pooling == "weighted-mean":
        return masked_mean(states, counted * positions)
    mean = masked_mean(states, counted)
    return mean * counted.sum(dim=1, keepdim=True).to(mean.dtype).sqrt() if pooling == "sqrt-mean" else mean


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (batch, dim) of `states` (batch, length, dim) where `mask` (batch, length) is 1.

    Other numbers of `mask` are weights.
    """
    weights = mask.to(states.dtype).unsqueeze(-1)
    # A text without a counted token gets the vector 0, where 0 / 0 would give NaN.
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
    if isinstance(layer_types := getattr(config, "layer_types", None), list):
        config.layer_types = layer_types[:layers]


def _restore_window(folder: Path, config: Any) -> None:
    """Write the sliding window to a saved config.json so that it is read as it is in `config`.

    transformers 4 halves that of a Gemma 3 with attention in both directions each time that it reads its configuration.
    """
    if not getattr(config, "use_bidirectional_attention", False):
        return
    if AutoConfig.from_pretrained(folder).sliding_window != config.sliding_window:
        config_json = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config_json["sliding_window"] = 2 * (config.sliding_window - 1)
        (folder / "config.json").write_text(json.dumps(config_json, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _silence_transformers() -> Iterator[None]:
    """Silence transformers' warning about missing weights inside the block: `open` checks which of them matter."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)


def _read_network(
    root: Path, trust_remote_code: bool, name: str, settings: ReadingSettings
) -> tuple[nn.Module, list[str]]:
    """Return the network with weights of the settings' type, and the names of the weights that its files lack."""
    attention = {"attn_implementation": settings.attention} if settings.attention else {}
    attention_note = f" with attention: {settings.attention}" if settings.attention else ""
    with as_resource_error(f"encoder `{name}`: {root} cannot be read as a transformers model{attention_note}"):
        if read_object(root / "config.json").get("model_type") == STATIC_TYPE:
            from rbench.encoders import static as static  # registers its network with AutoModel
        config = AutoConfig.from_pretrained(root, trust_remote_code=trust_remote_code)
        encoder_half = config.model_type in ENCODER_HALVES  # of T5 the encoder, as in sentence-transformers
        if getattr(config, "is_encoder_decoder", False) and not encoder_half:
            raise ResourceError(f"encoder `{name}`: {root} is an encoder-decoder model, which rbench does not read")
        auto_class = AutoModelForTextEncoding if encoder_half else AutoModel
        if not trust_remote_code:
            check_size(root, auto_class, config)
        with _silence_transformers():
            model, info = auto_class.from_pretrained(
                root,
                config=config,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                torch_dtype=settings.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype),
                **attention,
            )
    model = store_once(model.float() if settings.dtype == "float32" else model)
    return model.eval(), sorted(info["missing_keys"])


def store_once(network: nn.Module) -> nn.Module:
    """Return the network, whose state has each of its parameters once from now on. It reads such states too.

    T5's table of tokens is one tensor under two names. safetensors, with which the checkpoints of a training are
    written, refuses to write it twice.
    """
    names: dict[int, list[str]] = {}
    for name, weight in network.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    duplicates = {name: first for first, *other_names in names.values() for name in other_names}
    if duplicates:
        network.register_state_dict_post_hook(partial(_leave_out, duplicates))  # type: ignore[no-untyped-call]
        network.register_load_state_dict_pre_hook(partial(_fill_in, duplicates))  # type: ignore[no-untyped-call]
    return network


def _leave_out(
    duplicates: dict[str, str], module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any
) -> None:
    for name in duplicates:
        state.pop(prefix + name, None)


def _fill_in(duplicates: dict[str, str], module: nn.Module, state: dict[str, Any], prefix: str, *more: Any) -> None:
    for name, first in duplicates.items():
        if prefix + first in state:
            state.setdefault(prefix + name, state[prefix + first])
