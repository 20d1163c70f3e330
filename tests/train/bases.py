"""Bases of a few thousand weights for the objectives' tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from rbench import mini
from rbench.config import load_resources
from rbench.config.registry import Registry
from rbench.schema import EncoderSpec
from rbench.words.resources import Resources
from tests import tiny
from tests.recipes import substitution_toy as toy

TEXTS = [tiny.sentence(np.random.default_rng(i), i % 2) for i in range(80)]

MOMENTUM = {"adcl": {"queue": 24}, "btcl": {"queue": 24, "paraphraser": "mini"}}
"""Options of the objectives with a queue: one that is full after three batches of 8."""
OPTIONS = MOMENTUM | {"sgopt": {"width": 16}}
"""Options that fit these bases. SG-OPT's own head has 17 million weights, and the bases have a few thousand."""
STEPLESS = ("whitening", "forget", "retrofit")
"""Objectives that train nothing."""


def asked(name: str) -> dict[str, Any]:
    """What `pretrain` is given beside the rest for an objective that asks for resources."""
    if name == "cline":
        return {"resources": Resources(load_resources("mini", Registry()))}
    return {"resources": toy.resources()} if name in ("adcl", "distillation", "retrofit") else {}


def texts_for(name: str) -> list[str]:
    """80 texts; sentences with words that can be replaced, or of the embedded world, where an objective needs such."""
    if name in ("adcl", "distillation"):
        return toy.sentences(np.random.default_rng(0), 80)[0]
    return [str(row["text"]) for row in mini.rows("mini-sentiment", "train")[:80]] if name == "btcl" else TEXTS


def masked_bert(folder: Path, dropout: float = 0.1, hidden: int = 8) -> Path:
    """A random one-layer BERT with its masked-LM head and a tokenizer over the words of `tests.tiny`."""
    tiny.write_bert(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=5 + len(tiny.WORDS),
        hidden_size=hidden,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.3,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return folder


def masked_roberta(folder: Path) -> Path:
    """A random one-layer RoBERTa: one token type, positions that start after the padding's."""
    from tokenizers import ByteLevelBPETokenizer

    folder.mkdir(parents=True)
    trained = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(TEXTS, vocab_size=300, min_frequency=1, special_tokens=specials)
    trained.save_model(str(folder))
    tokenizer = transformers.RobertaTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    torch.manual_seed(2)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=40,
        type_vocab_size=1,
        initializer_range=0.3,
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def spec(objective: str, base: Path, pooling: str = "cls", **train: Any) -> EncoderSpec:
    """An encoder to be trained on `base`."""
    train["options"] = OPTIONS.get(objective, {}) | train.get("options", {})
    settings = {"data": "any", "steps": 8, "batch_size": 8, "learning_rate": 1e-2, "max_length": 16, **train}
    return EncoderSpec.model_validate(
        {"name": "tiny", "base": str(base), "pooling": pooling, "train": {"objective": objective, **settings}}
    )


def fitted_spec(objective: str, base: Path, pooling: Any = "mean", **train: Any) -> EncoderSpec:
    """An encoder whose objective is fitted to the vectors of `base`, as whitening and flows are."""
    settings = {"steps": None} if objective == "whitening" else {"steps": 60, "learning_rate": 1e-2}
    return spec(objective, base, pooling, **(settings | train))
