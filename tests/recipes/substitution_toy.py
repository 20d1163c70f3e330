"""Tiny victims, masked language models and word vectors over a few groups of synonyms."""

from __future__ import annotations

import copy
import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import nn

from rbench.encoders.vectors import WordVectors
from rbench.words.resources.masked_lm import MaskedLM

GOOD = ["good", "fine", "great", "lovely", "superb", "neat"]
BAD = ["bad", "poor", "awful", "dull", "lousy", "dire"]
THINGS = ["film", "movie", "picture", "flick"]
PLOTS = ["plot", "story", "tale", "yarn"]
LINKS = ["is", "seems", "looks", "feels"]
FILL = ["the", "and", "a", "very", "unseen"]
GROUPS = [GOOD, BAD, THINGS, PLOTS, LINKS]
WORDS = [word for group in GROUPS for word in group] + FILL
STOPWORDS = frozenset({"the", "and", "a"})
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def word_vectors() -> WordVectors:
    """Words of a group lie close together; `unseen` and `very` have no vector."""
    rng = np.random.default_rng(0)
    words = [word for group in GROUPS for word in group]
    centre = np.repeat(np.eye(len(GROUPS), 8), [len(group) for group in GROUPS], axis=0)
    unit = centre + 0.15 * rng.normal(size=centre.shape)
    unit = (unit / np.linalg.norm(unit, axis=1, keepdims=True)).astype(np.float32)
    return WordVectors(words, unit)


def bert_tokenizer(length: int = 64) -> Any:
    """WordPiece; `superb` and `unseen` are words of two pieces."""
    pieces = [w for w in WORDS if w not in ("superb", "unseen")] + ["super", "##b", "un", "##seen", ",", ".", "##s"]
    vocabulary = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces])}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.BertTokenizerFast(tokenizer_object=raw, model_max_length=length)


def roberta_tokenizer(length: int = 64) -> Any:
    """Byte-level pieces with the space in front; capitals and `unseen` fall apart into letters."""
    letters = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,Ġ")
    whole = [word for word in WORDS if word != "unseen"]
    vocabulary = {t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters])}
    merges = []
    for word in [*(f"Ġ{w}" for w in whole), *whole]:
        joined = word[0]
        for letter in word[1:]:
            if (joined, letter) not in merges:
                merges.append((joined, letter))
            joined += letter
            vocabulary.setdefault(joined, len(vocabulary))
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    raw.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    mask = AddedToken("<mask>", lstrip=True)  # as RoBERTa's; transformers 5 has no such default
    return transformers.RobertaTokenizerFast(tokenizer_object=raw, model_max_length=length, mask_token=mask)


def masked_lm(kind: str = "bert", length: int = 64, backend: str = "torch") -> MaskedLM:
    """A random masked language model: its opinions are arbitrary, and always the same."""
    tokenizer = roberta_tokenizer(length) if kind == "roberta" else bert_tokenizer(length)
    torch.manual_seed(1)
    if kind == "bert":
        config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=length, **SHAPE)
        model = transformers.BertForMaskedLM(config)
    elif kind == "distilbert":  # its tokenizer gives token types here, and it takes none
        config = transformers.DistilBertConfig(
            vocab_size=len(tokenizer), max_position_embeddings=length, dim=32, n_layers=2, n_heads=2, hidden_dim=64
        )
        model = transformers.DistilBertForMaskedLM(config)
    else:
        config = transformers.RobertaConfig(
            vocab_size=len(tokenizer), max_position_embeddings=length + 2, pad_token_id=1, **SHAPE
        )
        model = transformers.RobertaForMaskedLM(config)
    for parameter in model.parameters():  # wider than transformers starts, or all words are as likely
        nn.init.normal_(parameter, std=0.3) if parameter.ndim == 2 else None
    return MaskedLM(model.eval(), tokenizer, kind, backend=backend)


def resources(kind: str = "bert") -> Any:
    return SimpleNamespace(masked_lm=masked_lm(kind), word_vectors=word_vectors(), stopwords=STOPWORDS)


def sentences(rng: np.random.Generator, n: int) -> tuple[list[str], list[int]]:
    """Sentences with three words of judgement, the majority of which is the label; later synonyms are rarer."""
    texts, labels = [], []

    def draw(group: list[str]) -> str:
        weights = 1.0 / (1 + np.arange(len(group))) ** 1.5
        return str(rng.choice(group, p=weights / weights.sum()))

    for _ in range(n):
        label = int(rng.integers(2))
        sides = [label, label, label if rng.random() < 0.6 else 1 - label]
        a, b, c = (draw(GOOD if sides[k] else BAD) for k in rng.permutation(3))
        texts.append(f"the {draw(THINGS)} {draw(LINKS)} {a} and {b}, the {draw(PLOTS)} very {c}.")
        labels.append(label)
    return texts, labels


def classifier(kind: str = "bert", length: int = 64, labels: int = 2, seed: int = 0) -> Any:
    """An untrained EncoderClassifier."""
    from rbench.encoders.classifier import EncoderClassifier
    from rbench.encoders.sentence import SentenceEncoder

    torch.manual_seed(seed)
    if kind == "bert":
        tokenizer = bert_tokenizer(length)
        config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=length, **SHAPE)
        model: Any = transformers.BertModel(config, add_pooling_layer=False)
    else:
        tokenizer = roberta_tokenizer(length)
        config = transformers.RobertaConfig(
            vocab_size=len(tokenizer), max_position_embeddings=length + 2, pad_token_id=1, **SHAPE
        )
        model = transformers.RobertaModel(config, add_pooling_layer=False)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.15) if parameter.ndim == 2 else None
    made = EncoderClassifier(SentenceEncoder(model, tokenizer, "mean" if kind == "bert" else "cls"), labels)
    nn.init.normal_(made.head.weight, std=0.5)
    return made.eval()


def trained() -> Any:
    """A classifier trained on `sentences`. It is trained once, and each caller gets a copy."""
    return copy.deepcopy(_trained())


@functools.cache
def _trained(steps: int = 60) -> Any:
    made = classifier()
    texts, labels = sentences(np.random.default_rng(0), 512)
    optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
    rng = np.random.default_rng(1)
    made.train()
    for _ in range(steps):
        rows = rng.integers(len(texts), size=32)
        inputs = made.tokenizer([texts[k] for k in rows], padding=True, return_tensors="pt")
        loss = made(**inputs, labels=torch.tensor([labels[k] for k in rows])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return made.eval()
