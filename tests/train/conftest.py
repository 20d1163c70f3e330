from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from tests.recipes import substitution_toy as toy
from tests.train import bases


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer BERT with its masked-LM head; tests only read it."""
    return bases.masked_bert(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def toy_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT over the words of `substitution_toy`, without dropout; tests only read it."""
    folder = tmp_path_factory.mktemp("toy-base")
    tokenizer = toy.bert_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(tokenizer), initializer_range=0.3, **toy.SHAPE)
    transformers.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder
