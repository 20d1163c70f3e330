"""An encoder that averages static word vectors: a network with one embedding table, and a tokenizer of its words.

The network is a transformers model, so it is saved, fine-tuned, attacked and computed by back-ends like any other.
Unknown words are not tokenised, so they do not enter the mean. A text without known words has the vector 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import BaseModelOutput

from rbench.encoders.foreign import as_resource_error
from rbench.encoders.locate import EMBEDDED_VECTORS, STATIC_TYPE
from rbench.encoders.reading import LARGEST_REAL_LENGTH
from rbench.encoders.vectors import FloatRows, read_vectors
from rbench.mini import lexical as mini

# Part of the key of every job on static word vectors (config/versions.py): raise it if texts are cut into other words.
VERSION = 1

WORD_MARK = "▁"
"""Prefix of every word in the vocabulary, so that no word equals a single letter of another word
(`build_tokenizer`)."""
SPECIAL_TOKENS = ("[PAD]", "[CLS]")
START_TOKEN = "[rbench-start]"
"""What stands for [CLS] in the tokenizer of a StaticEmbedding, which may have one of its own."""
MAX_LENGTH = 4096
"""Longest input in tokens. The network has no limit; this is the largest that `Training.max_length` allows."""
_TOKEN_PATTERN = r"(?i)\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]"
"""Matches a token: a run of letters and digits, or another single character. Contractions are split as in the Penn
Treebank (do n't, it 's), because the corpora of published vectors were tokenised so."""


class StaticConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration: the number of words and the length of the vectors."""

    model_type = STATIC_TYPE

    def __init__(
        self, vocab_size: int = len(SPECIAL_TOKENS), hidden_size: int = 1, pad_token_id: int | None = 0, **more: Any
    ) -> None:
        super().__init__(pad_token_id=pad_token_id, **more)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers = 0


class StaticModel(PreTrainedModel):  # type: ignore[misc]
    """A network whose hidden states are the vectors of the tokens, without interaction between tokens."""

    config_class = StaticConfig
    UNCOUNTED = 1
    """Number of tokens at the start that pooling leaves out: [CLS], which keeps texts from being empty."""

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: weights are read from a file, not initialised."""

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embeddings = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> BaseModelOutput:
        """Return the hidden states (batch, tokens, dim)."""
        states = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return BaseModelOutput(last_hidden_state=states)


AutoConfig.register(StaticConfig.model_type, StaticConfig, exist_ok=True)
AutoModel.register(StaticConfig, StaticModel, exist_ok=True)


def read_static(where: str) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Read word vectors at `where` (a file, a folder, or `EMBEDDED_VECTORS`). Return the network and its tokenizer.

    Raises:
        ResourceError: there are no word vectors, or they cannot be read.
    """
    if where == EMBEDDED_VECTORS:
        return build_static(*mini.word_vectors())
    vectors = read_vectors(Path(where))
    return build_static(vectors.words, vectors.matrix)


def build_static(words: Sequence[str], matrix: FloatRows) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Return the network with the table `matrix` (words, dim), float32, and its tokenizer.

    If a word is listed twice, its first row counts.
    """
    first_row: dict[str, int] = {}
    for row, word in enumerate(words):
        if word:
            first_row.setdefault(word, row)
    table = np.zeros((len(SPECIAL_TOKENS) + len(first_row), matrix.shape[1]), dtype=np.float32)
    table[len(SPECIAL_TOKENS) :] = matrix[list(first_row.values())]
    return _build_network(torch.from_numpy(table)), build_tokenizer(list(first_row))


def read_static_embedding(folder: Path) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Read the table and the tokenizer of a StaticEmbedding. Return a network that gives its vectors, and a tokenizer.

    A token that no text contains comes first in each, with the vector 0, and is left out by pooling (`UNCOUNTED`). It
    keeps texts from being empty: those without tokens have the vector 0, as in sentence-transformers.

    Raises:
        ResourceError: a file is missing or damaged.
    """
    from safetensors.torch import load_file
    from tokenizers import Tokenizer, processors

    safetensors_file = folder / "model.safetensors"
    with as_resource_error(f"{folder} cannot be read as a StaticEmbedding"):  # tokenizers raises Exception itself
        backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
        state = (
            load_file(safetensors_file)
            if safetensors_file.is_file()
            else torch.load(folder / "pytorch_model.bin", weights_only=True)
        )
        # The vectors (tokens, dim); those of model2vec have another name.
        table: Tensor = (state["embedding.weight"] if "embedding.weight" in state else state["embeddings"]).float()
    # One more than the model says, for the token that is put before each text.
    longest = backend.truncation["max_length"] + 1 if backend.truncation else LARGEST_REAL_LENGTH - 1
    backend.add_special_tokens([START_TOKEN])
    start = int(backend.token_to_id(START_TOKEN) or 0)  # it has just been added, so it has a number
    backend.post_processor = processors.TemplateProcessing(
        single=f"{START_TOKEN} $A", pair=f"{START_TOKEN} $A $B", special_tokens=[(START_TOKEN, start)]
    )
    rows = torch.zeros(max(len(table), start + 1), table.shape[1])
    rows[: len(table)] = table
    rows[start] = 0
    return _build_network(rows, start), _wrap_tokenizer(backend, longest, pad=START_TOKEN, first=START_TOKEN)


def _build_network(table: Tensor, pad: int = 0) -> StaticModel:
    model = StaticModel(StaticConfig(len(table), table.shape[1], pad_token_id=pad))
    with torch.no_grad():
        model.embeddings.weight.copy_(table)
    model.eval()
    return model


def _wrap_tokenizer(core: Any, longest: int, pad: str, first: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=longest,
        pad_token=pad,
        cls_token=first,
        model_input_names=["input_ids", "attention_mask"],
    )


def build_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are [CLS] and the known words of a text, or of both texts of a pair.

    Texts are lower-cased if no word has a capital letter. The model is byte-pair encoding without merges: it knows
    whole words only and drops unknown ones, which the library's word-level model cannot do.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {word: i for i, word in enumerate((*SPECIAL_TOKENS, *(WORD_MARK + word for word in words)))}
    backend = Tokenizer(models.BPE(vocab=ids, merges=[], ignore_merges=True))
    normalizing = [normalizers.NFC(), normalizers.Replace("’", "'")]
    if not any(word != word.lower() for word in words):
        normalizing.append(normalizers.Lowercase())
    backend.normalizer = normalizers.Sequence(normalizing)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_TOKEN_PATTERN), "removed", invert=True),
            pre_tokenizers.Metaspace(WORD_MARK, prepend_scheme="always", split=False),
        ]
    )
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A $B", special_tokens=[("[CLS]", 1)]
    )
    backend.add_special_tokens(list(SPECIAL_TOKENS))
    return _wrap_tokenizer(backend, MAX_LENGTH, *SPECIAL_TOKENS)
