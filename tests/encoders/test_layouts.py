"""Tests that rbench measures what sentence-transformers would encode, on folders that sentence-transformers writes.

Tiny networks of their kinds, with random weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Dropout, LayerNorm, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rbench import encoders
from rbench.encoders.described import described
from rbench.encoders.sentence import SentenceEncoder
from rbench.spec import EncoderSpec
from tests.tiny import WORDS

TEXTS = ["good", "the film was a good story and a fine plot", "bad Plot", "the film seemed dull " * 12, "", "awful"]
"""Texts of several lengths, one longer than any maximum here, one empty, and one that is not in lower case."""
WIDTH = 32
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
CAUSAL = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64, "pad_token_id": 0}
VOCABULARY = {
    word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "<mask>", "query", ":", "Plot", "plots", *WORDS])
}


def tokenizer(start: bool = True, end: bool = True, lower: bool = False, **more: Any) -> Any:
    """A fast tokenizer of a few words, with or without tokens around a text."""
    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if lower:
        core.normalizer = normalizers.Lowercase()
    around = [name for name, wanted in (("<s>", start), ("</s>", end)) if wanted]
    core.post_processor = processors.TemplateProcessing(
        single=f"{'<s> ' if start else ''}$A{' </s>' if end else ''}",
        pair=f"{'<s> ' if start else ''}$A </s> $B{' </s>' if end else ''}",
        special_tokens=[(name, VOCABULARY[name]) for name in {*around, "</s>"}],
    )
    named = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}
    settings = {**{f"{name}_token": token for name, token in named.items()}, "model_max_length": 64, **more}
    settings = {name: value for name, value in settings.items() if value is not None}
    inputs = ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=inputs, **settings)


def network(kind: str) -> Any:
    """A tiny network of a kind."""
    torch.manual_seed(0)
    words = {"vocab_size": len(VOCABULARY), "pad_token_id": 0}
    match kind:
        case "bert":
            config: Any = transformers.BertConfig(**words, **SIZES, max_position_embeddings=64)
        case "roberta":
            config = transformers.RobertaConfig(**words, **SIZES, max_position_embeddings=50)
        case "mpnet":
            config = transformers.MPNetConfig(vocab_size=len(VOCABULARY), **SIZES, max_position_embeddings=50)
        case "distilbert":
            config = transformers.DistilBertConfig(**words, dim=WIDTH, n_layers=2, n_heads=2, hidden_dim=48)
        case "modernbert":
            config = transformers.ModernBertConfig(
                **words, **SIZES, max_position_embeddings=64, global_attn_every_n_layers=2, local_attention=8
            )
        case "qwen3":
            config = transformers.Qwen3Config(vocab_size=len(VOCABULARY), **CAUSAL)
        case "llama":
            config = transformers.LlamaConfig(vocab_size=len(VOCABULARY), **CAUSAL)
        case "gemma":
            config = transformers.Gemma3TextConfig(
                vocab_size=len(VOCABULARY),
                **CAUSAL,
                layer_types=["sliding_attention", "full_attention"],
                sliding_window=8,
                query_pre_attn_scalar=16,
                use_bidirectional_attention=True,
            )
    model = transformers.AutoModel.from_config(config)
    with torch.no_grad():  # weights far from each other, so that no pooling or position looks like another
        for name, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                weight.mul_(6 if "embed" in name else 3)
    return model


Make = Callable[..., Path]


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Writes a transformers folder of a kind, once for each kind and tokenizer."""
    made: dict[str, Path] = {}

    def write(kind: str, **more: Any) -> Path:
        name = f"{kind}{json.dumps(more, sort_keys=True)}"
        if name not in made:
            made[name] = tmp_path_factory.mktemp("networks")
            network(kind).save_pretrained(made[name])
            tokenizer(**more).save_pretrained(made[name])
        return made[name]

    return write


def with_end_only(networks: Make) -> Path:
    return networks("qwen3", start=False, padding_side="left")


def dense(width: int, dim: int, **more: Any) -> Dense:
    torch.manual_seed(dim)
    return Dense(width, dim, **more)


def normed(width: int) -> LayerNorm:
    layer = LayerNorm(width)
    with torch.no_grad():
        layer.norm.weight.uniform_(0.5, 2.0)
        layer.norm.bias.uniform_(-1.0, 1.0)
    return layer


Layout = Callable[[Make], SentenceTransformer]


def layout(
    kind: str, pooling: str, *after: Callable[[], Any], more: dict[str, Any] | None = None, **options: Any
) -> Layout:
    """A SentenceTransformer: `options` of its Transformer module, `more` of the model and its tokenizer."""
    own = dict(more or {})
    include = own.pop("include_prompt", True)
    words = own.pop("tokenizer", {})

    def make(networks: Make) -> SentenceTransformer:
        first = Transformer(str(networks(kind, **words)), **options)
        parts = [first, Pooling(WIDTH, pooling_mode=pooling, include_prompt=include), *(make() for make in after)]
        return SentenceTransformer(modules=parts, device="cpu", **own)

    return make


PROMPTS = {"prompts": {"query": "query: ", "nli": "the plot "}, "default_prompt_name": "query"}
LEFT = {"start": False, "padding_side": "left"}
LAYOUTS: dict[str, tuple[Layout, dict[str, Any]]] = {
    "BERT, first token": (layout("bert", "cls"), {"pooling": "cls"}),
    "BERT, mean, maximum length": (layout("bert", "mean", max_seq_length=9), {"pooling": "mean"}),
    "BERT, max, normalised": (layout("bert", "max", Normalize), {"pooling": "max", "normalize": True}),
    "BERT, weighted mean": (layout("bert", "weightedmean"), {"pooling": "weighted-mean"}),
    "RoBERTa, tanh after the pooling": (
        layout("roberta", "mean", lambda: dense(WIDTH, 12), max_seq_length=20),
        {"pooling": "mean"},
    ),
    "MPNet, square root, two Dense, normalised": (
        layout(
            "mpnet",
            "mean_sqrt_len_tokens",
            lambda: dense(WIDTH, 48, bias=False, activation_function=torch.nn.Identity()),
            lambda: dense(48, 8, activation_function=torch.nn.GELU()),
            Normalize,
            max_seq_length=30,
        ),
        {"pooling": "sqrt-mean", "normalize": True},
    ),
    "DistilBERT, lower case": (layout("distilbert", "cls", do_lower_case=True), {"pooling": "cls"}),
    "BERT, normalised before a Dense without bias": (
        layout("bert", "mean", Normalize, lambda: dense(WIDTH, 8, bias=False, activation_function=torch.nn.Identity())),
        {"pooling": "mean"},
    ),
    "BERT, layer normalisation, dropout": (
        layout("bert", "mean", lambda: normed(WIDTH), lambda: Dropout(0.5)),
        {"pooling": "mean"},
    ),
    "Qwen3, last token, padding on the left": (
        layout("qwen3", "lasttoken", Normalize, more={"tokenizer": LEFT, **PROMPTS}),
        {"pooling": "last", "normalize": True, "prompt": "query: "},
    ),
    "Qwen3, last token, padding on the right": (
        layout("qwen3", "lasttoken", more={"tokenizer": {"start": False}}),
        {"pooling": "last"},
    ),
    "prompt that is not pooled": (
        layout("bert", "mean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, weighted mean": (
        layout("bert", "weightedmean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "weighted-mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, padding on the left": (
        layout("llama", "mean", more={"tokenizer": LEFT, "include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "ModernBERT, cut to its first numbers": (
        layout("modernbert", "mean", Normalize, more={"truncate_dim": 10}),
        {"pooling": "mean", "normalize": True, "truncate_dim": 10},
    ),
    "Gemma, both directions, two linear Dense": (
        layout(
            "gemma",
            "mean",
            lambda: dense(WIDTH, 48, bias=False, activation_function=torch.nn.Identity()),
            lambda: dense(48, WIDTH, bias=False, activation_function=torch.nn.Identity()),
            Normalize,
            more=PROMPTS,
        ),
        {"pooling": "mean", "normalize": True, "prompt": "query: "},
    ),
}


@pytest.fixture(scope="session")
def saved(networks: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, np.ndarray]]:
    """For the name of a layout: its folder, and what sentence-transformers encodes when it opens that folder."""
    made: dict[str, tuple[Path, np.ndarray]] = {}

    def write(name: str) -> tuple[Path, np.ndarray]:
        if name not in made:
            folder = tmp_path_factory.mktemp("layouts")
            make, _ = LAYOUTS[name]
            make(networks).save(str(folder))
            made[name] = folder, encoded(folder)
        return made[name]

    return write


def encoded(folder: Path) -> np.ndarray:
    """What sentence-transformers encodes, one text at a time: its weighted mean depends on padding on the left."""
    model = SentenceTransformer(str(folder), device="cpu")
    return np.concatenate([model.encode([text], show_progress_bar=False) for text in TEXTS])


def opened(folder: Path, **more: Any) -> SentenceEncoder:
    return encoders.load(EncoderSpec(**{"name": "toy", "base": "toy", **described(folder), **more}), folder)


@pytest.mark.parametrize("name", LAYOUTS)
def test_vectors_are_those_of_sentence_transformers(name: str, saved: Any) -> None:
    folder, theirs = saved(name)
    ours = opened(folder).encode(TEXTS)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert np.abs(theirs[0] - theirs[1]).max() > 1e-2  # weights so small that all texts are alike would show nothing


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_folders_files_state_the_encoder(name: str, saved: Any) -> None:
    assert described(saved(name)[0]) == LAYOUTS[name][1]
