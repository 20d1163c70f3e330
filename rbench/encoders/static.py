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

from rbench.encoders.locate import EMBEDDED, STATIC
from rbench.encoders.reading import LARGEST_REAL_LENGTH
from rbench.encoders.vectors import Floats, read_vectors
from rbench.errors import ResourceError
from rbench.mini import lexical as mini

VERSION = 1

MARK = "▁"
"""Prefix of every word in the vocabulary, so that no word equals a single letter of another word (`tokenizer`)."""
SPECIAL = ("[PAD]", "[CLS]")
START = "[rbench-start]"
"""What stands for [CLS] in the tokenizer of a StaticEmbedding, which may have one of its own."""
MAX_LENGTH = 4096
"""Longest input in tokens. The network has no limit; this is the largest that `Training.max_length` allows."""
_WORD = r"(?i)\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]"
"""Matches a token: a run of letters and digits, or another single character. Contractions are split as in the Penn
Treebank (do n't, it 's), because the corpora of published vectors were tokenised so."""


class StaticConfig(PretrainedConfig):  # type: ignore[misc]
    """The configuration: the number of words and the length of the vectors."""

    model_type = STATIC

    def __init__(
        self, vocab_size: int = len(SPECIAL), hidden_size: int = 1, pad_token_id: int | None = 0, **more: Any
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


def read(where: str) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Read word vectors at `where` (a file, a folder, or `EMBEDDED`). Return the network and its tokenizer.

    Raises:
        ResourceError: there are no word vectors, or they cannot be read.
    """
    if where == EMBEDDED:
        return build(*mini.word_vectors())
    vectors = read_vectors(Path(where))
    return build(vectors.words, vectors.matrix)


def build(words: Sequence[str], matrix: Floats) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Return the network with the table `matrix` (words, dim), float32, and its tokenizer.

    If a word is listed twice, its first row counts.

    Raises:
        ResourceError: there are no words.
    """
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if word:
            first.setdefault(word, row)
    if not first:
        raise ResourceError("word vectors: no words in the list")
    table = np.zeros((len(SPECIAL) + len(first), matrix.shape[1]), dtype=np.float32)
    table[len(SPECIAL) :] = matrix[list(first.values())]
    return _network(torch.from_numpy(table)), tokenizer(list(first))


def of_sentence_transformers(folder: Path) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """Read the table and the tokenizer of a StaticEmbedding. Return a network that gives its vectors, and a tokenizer.

    A token that no text contains comes first in each, with the vector 0, and is left out by pooling (`UNCOUNTED`). It
    keeps texts from being empty: those without tokens have the vector 0, as in sentence-transformers.

    Raises:
        ResourceError: a file is missing or damaged, or the tokenizer has tokens that the table lacks.
    """
    from safetensors.torch import load_file
    from tokenizers import Tokenizer, processors

    safe = folder / "model.safetensors"
    try:
        core = Tokenizer.from_file(str(folder / "tokenizer.json"))
        held = load_file(safe) if safe.is_file() else torch.load(folder / "pytorch_model.bin", weights_only=True)
        # The vectors (tokens, dim); those of model2vec have another name.
        table: Tensor = (held["embedding.weight"] if "embedding.weight" in held else held["embeddings"]).float()
    except Exception as error:  # tokenizers raises Exception itself
        raise ResourceError(f"{folder} cannot be read as a StaticEmbedding: {error}") from error
    if (known := core.get_vocab_size()) > len(table):
        raise ResourceError(f"{folder}: its tokenizer has {known} tokens, and its table {len(table)} rows")
    longest = core.truncation["max_length"] + 1 if core.truncation else LARGEST_REAL_LENGTH - 1
    core.add_special_tokens([START])
    start = int(core.token_to_id(START) or 0)  # it has just been added, so it has a number
    core.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", pair=f"{START} $A $B", special_tokens=[(START, start)]
    )
    rows = torch.zeros(max(len(table), start + 1), table.shape[1])
    rows[: len(table)] = table
    rows[start] = 0
    return _network(rows, start), _tokenizer(core, longest, pad=START, first=START)


def _network(table: Tensor, pad: int = 0) -> StaticModel:
    model = StaticModel(StaticConfig(len(table), table.shape[1], pad_token_id=pad))
    with torch.no_grad():
        model.embeddings.weight.copy_(table)
    model.eval()
    return model


def _tokenizer(core: Any, longest: int, pad: str, first: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=longest,
        pad_token=pad,
        cls_token=first,
        model_input_names=["input_ids", "attention_mask"],
    )


def tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are [CLS] and the known words of a text, or of both texts of a pair.

    Texts are lower-cased if no word has a capital letter. The model is byte-pair encoding without merges: it knows
    whole words only and drops unknown ones, which the library's word-level model cannot do.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {word: i for i, word in enumerate((*SPECIAL, *(MARK + word for word in words)))}
    core = Tokenizer(models.BPE(vocab=ids, merges=[], ignore_merges=True))
    steps = [normalizers.NFC(), normalizers.Replace("’", "'")]
    if not any(word != word.lower() for word in words):
        steps.append(normalizers.Lowercase())
    core.normalizer = normalizers.Sequence(steps)
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_WORD), "removed", invert=True),
            pre_tokenizers.Metaspace(MARK, prepend_scheme="always", split=False),
        ]
    )
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A $B", special_tokens=[("[CLS]", 1)]
    )
    core.add_special_tokens(list(SPECIAL))
    return _tokenizer(core, MAX_LENGTH, *SPECIAL)
