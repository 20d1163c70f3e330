"""Say how an encoder reads, and fit its tokenizer to its network, prompt and lower case: what a network gets of a text.

It is decided here alone, whoever opens the network. Folders, pairs of model and tokenizer, pipelines, saved victims and
encoders all pass through `fit_tokenizer` and `find_longest_input`. So a model gives one answer, whichever way it came.
Importing this module does not import torch.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from rbench.schema import KINDS, Attention, Dtype, EncoderSpec, KindName, Positive, Similarity, Strict

if TYPE_CHECKING:
    from torch import nn

# Part of the key of every job that reads texts with an encoder, by the files that import this one (config/versions.py).
# Raising it makes nearly all jobs anew.
VERSION = 1

LARGEST_REAL_LENGTH = 1_000_000
"""Larger limits of a tokenizer mean none: tokenizers saved without a limit have int(1e30)."""


class ReadingSettings(Strict):
    """What is done to texts before the network and to vectors after pooling, and how the network is loaded.

    These are the fields of an EncoderSpec that a saved victim keeps beside its pooling and lengths, explained there.

    `prompt` is the one prompt of the task that the encoder is loaded for.
    """

    normalize: bool = False
    truncate_dim: Positive | None = None
    prompt: str = ""
    document: str = ""
    """The prompt before documents that are ranked, where it is another one than that before queries."""
    include_prompt: bool = True
    lowercase: bool = False
    similarity: Similarity = "cosine"
    dtype: Dtype = "float32"
    attention: Attention | None = None

    @classmethod
    def of(cls, spec: EncoderSpec, kind: KindName | None = None) -> Self:
        """Return the settings of `spec` for texts of a kind of task; None: of no task."""
        shared_fields = {name: getattr(spec, name) for name in cls.model_fields if name not in ("prompt", "document")}
        document = spec.prompt_for("document") if kind is not None and KINDS[kind].has_documents else ""
        return cls(prompt=spec.prompt_for(kind), document=document, **shared_fields)

    def for_documents(self) -> Self:
        """Return the settings with the prompt of documents in place of that of queries."""
        return self.model_copy(update={"prompt": self.document, "document": ""})

    def before_transform(self) -> Self:
        """Return the settings of the vectors on which a transform is fitted: without what follows a transform."""
        return self.model_copy(update={"normalize": False, "truncate_dim": None})

    def stated(self) -> dict[str, Any]:
        """Return the settings that are not the defaults, as JSON values. `ReadingSettings(**these)` is the same
        again."""
        return self.model_dump(mode="json", exclude_defaults=True)


class PromptedTokenizer:
    """A transformers tokenizer that reads a prompt before each text, and before the first text of a pair.

    Whoever calls it gives texts without the prompt, and gets the prompt's token ids with theirs. Offsets are those in
    the texts that were given: tokens of the prompt have the offset (0, 0), as special tokens have. So code that changes
    words does not see the prompt. In all else this is the tokenizer itself, `without_prompt`.

    Args:
        plain: the tokenizer.
        prompt: at least one character.
    """

    def __init__(self, plain: Any, prompt: str) -> None:
        self.plain, self.prompt = plain, prompt
        ids = plain(prompt)["input_ids"]
        # The special token that ends a text does not stand between prompt and text.
        self.prompt_tokens = len(ids) - (ids[-1] in plain.all_special_ids)
        """Number of tokens of the prompt, with the special tokens before it, counted as in sentence-transformers."""

    def __getattr__(self, name: str) -> Any:
        if name == "plain" or name.startswith("__"):  # not there yet while an object is copied
            raise AttributeError(name)
        return getattr(self.plain, name)

    def __call__(self, text: Any, text_pair: Any = None, **options: Any) -> Any:
        """Tokenise one text, a list of texts, a list of pairs, or two columns, as transformers' tokenizers do."""
        is_one_text = isinstance(text, str)
        encoded = self.plain(self.before(text) if is_one_text else list(map(self.before, text)), text_pair, **options)
        if "offset_mapping" in encoded:
            rows = [encoded["offset_mapping"]] if is_one_text else encoded["offset_mapping"]
            shifted = [self._moved(row, encoded.sequence_ids(i)) for i, row in enumerate(rows)]
            encoded["offset_mapping"] = shifted[0] if is_one_text else shifted
        return encoded

    def before(self, text: Any) -> Any:
        """Return a text, or a pair of texts, with the prompt before it."""
        return self.prompt + text if isinstance(text, str) else (self.prompt + text[0], *text[1:])

    def _moved(self, offsets: list[tuple[int, int]], columns: list[int | None]) -> list[tuple[int, int]]:
        """Return the offsets in the texts without the prompt. (0, 0) says that a token is of no text."""
        prompt_length = len(self.prompt)
        return [
            (max(0, start - prompt_length), max(0, end - prompt_length)) if column == 0 else (start, end)
            for (start, end), column in zip(offsets, columns, strict=True)
        ]


def count_prompt_tokens(tokenizer: Any) -> int:
    """Return the number of tokens at the start of each input that are the prompt's; 0 where there is no prompt."""
    return tokenizer.prompt_tokens if isinstance(tokenizer, PromptedTokenizer) else 0


def convert_to_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Return the tokens of an input. Those of a prompt are shown as padding, so that no word of a text matches them."""
    hidden = count_prompt_tokens(tokenizer)
    tokens: list[str] = tokenizer.convert_ids_to_tokens(list(ids))
    return [str(tokenizer.pad_token)] * min(hidden, len(tokens)) + tokens[hidden:]


def without_prompt(tokenizer: Any) -> Any:
    """Return a tokenizer without its prompt."""
    return tokenizer.plain if isinstance(tokenizer, PromptedTokenizer) else tokenizer


def prepare_tokenizer(tokenizer: Any, settings: ReadingSettings) -> Any:
    """Return a tokenizer that reads as `settings` say. One that has a prompt already gets that of `settings`."""
    bare = without_prompt(tokenizer)
    if settings.lowercase:
        _make_lowercase(bare)
    return PromptedTokenizer(bare, settings.prompt) if settings.prompt else bare


def _make_lowercase(tokenizer: Any) -> None:
    """Make a tokenizer lowercase its texts first, in place, as sentence-transformers does for `do_lower_case`."""
    from tokenizers import normalizers

    if not tokenizer.is_fast:
        tokenizer.do_lower_case = True
        return
    backend = tokenizer.backend_tokenizer
    normalizer = backend.normalizer
    steps: list[Any] = [] if normalizer is None else [normalizer]
    if isinstance(normalizer, normalizers.Sequence):
        sequence: Any = normalizer
        steps = list(sequence)
    if not any(isinstance(step, normalizers.Lowercase) for step in steps):
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])


def fit_tokenizer(tokenizer: Any, network: nn.Module) -> Any:
    """Return a tokenizer that gives a network what it takes; a copy where the given one would give something else.

    - Inputs that the network's `forward` does not name are left out, such as the `token_type_ids` of BERT's tokenizer
      for a DistilBERT.
    - Padding is on the right. There it changes no position, whether the network reads in both directions or in one;
      on the left it moves the text to other positions.
    - A tokenizer without a token for padding (GPT-2, Llama) pads with the one that ends texts. Padding is masked.
    """
    inputs = [name for name in tokenizer.model_input_names if takes_input(network, name)]
    if inputs != list(tokenizer.model_input_names) or tokenizer.padding_side != "right" or tokenizer.pad_token is None:
        tokenizer = copy.deepcopy(tokenizer)
        tokenizer.model_input_names, tokenizer.padding_side = inputs, "right"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token or tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def find_padding(tokenizer: Any, network: nn.Module) -> tuple[int, int]:
    """Return token id and token type id of padding: the network's own token, if it has one, else the tokenizer's.

    Some networks recognise padding by its token: RoBERTa counts no position for it, heads of decoders read the token
    before it.
    """
    from rbench.encoders.inference import read_padding

    config: Any = network.config
    tokenizer_pad, token_type = read_padding(tokenizer)
    network_pad = getattr(config, "pad_token_id", None)
    return (network_pad if isinstance(network_pad, int) and network_pad >= 0 else tokenizer_pad), token_type


def takes_input(network: nn.Module, name: str) -> bool:
    """Return whether a network's `forward` names an input. One that names no inputs at all takes any."""
    parameters = inspect.signature(network.forward).parameters
    return name in parameters or "input_ids" not in parameters


def find_longest_input(model: nn.Module, tokenizer: Any, wanted: int | None = None) -> int:
    """Return how many tokens the network reads: `wanted`, or else the tokenizer's limit, but at most what it can read.

    It is 512 if nothing limits it. RoBERTa and MPNet number positions from padding_idx + 1, so they can read that much
    less than the number of rows of their position tables.
    """
    limits = [wanted] if wanted else []
    if not wanted and tokenizer.model_max_length < LARGEST_REAL_LENGTH:
        limits = [tokenizer.model_max_length]
    config: Any = model.config
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = next(
            (module for module_path, module in model.named_modules() if module_path.endswith("position_embeddings")),
            None,
        )
        padding = getattr(table, "padding_idx", None)
        limits.append(positions if padding is None else positions - padding - 1)
    return int(min(limits, default=512))
