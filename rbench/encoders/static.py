"""Averaged static word vectors as an encoder: a network that is one table of vectors, and the tokenizer of its words.

The network looks like any other of transformers, so that it is saved, fine-tuned, attacked and computed by back-ends
as they are. A text is its known words: unknown ones are no tokens, so nothing of them enters the mean, and a text of
unknown words alone has the vector 0.
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

from rbench.encoders.locate import EMBEDDED
from rbench.encoders.vectors import Floats, read_vectors
from rbench.errors import ResourceError

VERSION = 1

MARK = "▁"
"""Stands before every word in the vocabulary, so that no word is ever a single letter of another (`tokenizer`)."""
SPECIAL = ("[PAD]", "[CLS]")
MAX_LENGTH = 4096
"""The network has no limit; this is the longest that fine-tuning allows."""
_WORD = r"(?i)\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]"
"""Runs of letters and digits, single other signs; contractions are cut as the Penn Treebank cuts them (do n't, it 's),
which is how the corpora of published vectors were cut."""


class StaticConfig(PretrainedConfig):  # type: ignore[misc]
    """The size of the table."""

    model_type = "rbench-static"

    def __init__(self, vocab_size: int = len(SPECIAL), hidden_size: int = 1, **more: Any) -> None:
        super().__init__(**more)
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.num_hidden_layers = 0


class StaticModel(PreTrainedModel):  # type: ignore[misc]
    """The states of a text are the vectors of its tokens: nothing passes between them."""

    config_class = StaticConfig
    UNCOUNTED = 1
    """The first token is [CLS], which is there so that no text is empty: pooling leaves it out."""

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=0)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Weights are read from a file, never drawn."""

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
        """States (batch, tokens, dim)."""
        states = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return BaseModelOutput(last_hidden_state=states)


AutoConfig.register(StaticConfig.model_type, StaticConfig, exist_ok=True)
AutoModel.register(StaticConfig, StaticModel, exist_ok=True)


def read(where: str) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """The network and its tokenizer for word vectors at `where`: a file, a folder, or `EMBEDDED`.

    Raises:
        ResourceError: there are none, or they cannot be read.
    """
    if where == EMBEDDED:
        from rbench.mini.lexical import word_vectors

        return build(*word_vectors())
    vectors = read_vectors(Path(where))
    return build(vectors.words, vectors.matrix)


def build(words: Sequence[str], matrix: Floats) -> tuple[StaticModel, PreTrainedTokenizerFast]:
    """The network over `matrix` (words, dim), float32, and its tokenizer. Of a word listed twice the first counts."""
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if word:
            first.setdefault(word, row)
    if not first:
        raise ResourceError("word vectors: no words in the list")
    table = np.zeros((len(SPECIAL) + len(first), matrix.shape[1]), dtype=np.float32)
    table[len(SPECIAL) :] = matrix[list(first.values())]
    model = StaticModel(StaticConfig(vocab_size=len(table), hidden_size=table.shape[1]))
    with torch.no_grad():
        model.embeddings.weight.copy_(torch.from_numpy(table))
    return model.eval(), tokenizer(list(first))


def tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer whose tokens are [CLS] and the known words of a text; of a pair, those of both texts.

    Texts are lower-cased where no word has a capital letter. A model of byte pairs without pairs knows whole words
    alone, and what it does not know it leaves out, which the library's word-level model cannot.
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
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        model_max_length=MAX_LENGTH,
        pad_token="[PAD]",
        cls_token="[CLS]",
        model_input_names=["input_ids", "attention_mask"],
    )
