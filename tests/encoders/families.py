"""Tiny models of several families, for tests of every pooling."""

from __future__ import annotations

import shutil
from pathlib import Path

import transformers

from rbench.encoders.locate import TOKENIZER_FILES

POOLINGS = ["cls", "cls+mlp", "mean", "first-last-mean", "last", "weighted-mean", "max", "sqrt-mean"]
SMALL = {"vocab_size": 30, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 3}
MODELS = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SMALL)),
    "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**SMALL, max_position_embeddings=20)),
    "mpnet": lambda: transformers.MPNetModel(transformers.MPNetConfig(**SMALL, max_position_embeddings=20)),
    "electra": lambda: transformers.ElectraModel(transformers.ElectraConfig(**SMALL, embedding_size=8)),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(vocab_size=30, dim=8, n_heads=2, hidden_dim=16, n_layers=3)
    ),
}


def write_model(kind: str, bert: Path, where: Path) -> Path:
    """Save a tiny model of a family of `MODELS` with the tokenizer of the folder `bert`."""
    where.mkdir(parents=True)
    for name in TOKENIZER_FILES:
        if (bert / name).is_file():
            shutil.copy(bert / name, where / name)
    MODELS[kind]().save_pretrained(where)
    return where
