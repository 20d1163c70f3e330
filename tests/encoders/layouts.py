"""SentenceTransformer folders that sentence-transformers itself writes, from tiny networks with random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Dropout, LayerNorm, Normalize, Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rbench import encoders
from rbench.encoders.model_metadata import read_fields
from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import EncoderSpec
from tests.kinds import WIDTH, network
from tests.tiny import WORDS

TEXTS = ["good", "the film was a good story and a fine plot", "bad Plot", "the film seemed dull " * 12, "", "awful"]
"""Texts of several lengths, one longer than any maximum here, one empty, and one that is not in lower case."""
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
    settings.setdefault("model_input_names", ["input_ids", "attention_mask"])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, **settings)


Make = Callable[..., Path]


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Writes a transformers folder of a kind, once for each kind and tokenizer."""
    made: dict[str, Path] = {}

    def write(kind: str, positions: int | None = None, **more: Any) -> Path:
        name = f"{kind}{positions}{json.dumps(more, sort_keys=True)}"
        if name not in made:
            made[name] = tmp_path_factory.mktemp("networks")
            network(kind, len(VOCABULARY), positions).save_pretrained(made[name])
            tokenizer(**more).save_pretrained(made[name])
        return made[name]

    return write


def dense(width: int, dim: int, **more: Any) -> Dense:
    torch.manual_seed(dim)
    return Dense(width, dim, **more)


def normed(width: int) -> LayerNorm:
    layer = LayerNorm(width)
    with torch.no_grad():
        layer.norm.weight.uniform_(0.5, 2.0)
        layer.norm.bias.uniform_(-1.0, 1.0)
    return layer


LINEAR = torch.nn.Identity
Layout = Callable[[Make], SentenceTransformer]


def made_of(
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


def static(*after: Callable[[], Any], lower: bool = False) -> Layout:
    """A SentenceTransformer of a StaticEmbedding."""

    def make(networks: Make) -> SentenceTransformer:
        torch.manual_seed(0)
        first = StaticEmbedding(tokenizer(lower=lower), embedding_dim=WIDTH)
        return SentenceTransformer(modules=[first, *(make() for make in after)], device="cpu")

    return make


PROMPTS = {"prompts": {"query": "query: ", "nli": "the plot "}, "default_prompt_name": "query"}
TYPES = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
LEFT = {"start": False, "padding_side": "left"}
LAYOUTS: dict[str, tuple[Layout, dict[str, Any]]] = {
    "BERT, first token": (made_of("bert", "cls"), {"pooling": "cls"}),
    "BERT, mean, maximum length": (made_of("bert", "mean", max_seq_length=9), {"pooling": "mean"}),
    "BERT, max, normalised": (made_of("bert", "max", Normalize), {"pooling": "max", "normalize": True}),
    "BERT, mean, compared by the dot product": (
        made_of("bert", "mean", more={"similarity_fn_name": "dot"}),
        {"pooling": "mean", "similarity": "dot"},
    ),
    "BERT, weighted mean": (made_of("bert", "weightedmean"), {"pooling": "weighted-mean"}),
    "RoBERTa, tanh after the pooling": (
        made_of("roberta", "mean", lambda: dense(WIDTH, 12), max_seq_length=20),
        {"pooling": "mean"},
    ),
    "MPNet, square root, two Dense, normalised": (
        made_of(
            "mpnet",
            "mean_sqrt_len_tokens",
            lambda: dense(WIDTH, 48, bias=False, activation_function=LINEAR()),
            lambda: dense(48, 8, activation_function=torch.nn.GELU()),
            Normalize,
            max_seq_length=30,
        ),
        {"pooling": "sqrt-mean", "normalize": True},
    ),
    "DistilBERT, lower case": (made_of("distilbert", "cls", do_lower_case=True), {"pooling": "cls"}),
    "BERT, normalised before a Dense without bias": (
        made_of("bert", "mean", Normalize, lambda: dense(WIDTH, 8, bias=False, activation_function=LINEAR())),
        {"pooling": "mean"},
    ),
    "BERT, layer normalisation, dropout": (
        made_of("bert", "mean", lambda: normed(WIDTH), lambda: Dropout(0.5)),
        {"pooling": "mean"},
    ),
    "Qwen3, last token, padding on the left": (
        made_of("qwen3", "lasttoken", Normalize, more={"tokenizer": LEFT, **PROMPTS}),
        {"pooling": "last", "normalize": True, "prompt": "query: "},
    ),
    "Qwen3, last token, padding on the right": (
        made_of("qwen3", "lasttoken", more={"tokenizer": {"start": False}}),
        {"pooling": "last"},
    ),
    "prompt that is not pooled": (
        made_of("bert", "mean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, weighted mean": (
        made_of("bert", "weightedmean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "weighted-mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, padding on the left": (
        made_of("llama", "mean", more={"tokenizer": LEFT, "include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "ModernBERT, cut to its first numbers": (
        made_of("modernbert", "mean", Normalize, more={"truncate_dim": 10}),
        {"pooling": "mean", "normalize": True, "truncate_dim": 10},
    ),
    "Gemma, both directions, two linear Dense": (
        made_of(
            "gemma",
            "mean",
            lambda: dense(WIDTH, 48, bias=False, activation_function=LINEAR()),
            lambda: dense(48, WIDTH, bias=False, activation_function=LINEAR()),
            Normalize,
            more=PROMPTS,
        ),
        {"pooling": "mean", "normalize": True, "prompt": "query: "},
    ),
    "BERT, first token, padding on the left": (
        made_of("bert", "cls", more={"tokenizer": {"padding_side": "left"}}),
        {"pooling": "cls"},
    ),
    "T5, encoder alone, normalised": (
        made_of("t5-encoder", "mean", lambda: dense(WIDTH, 8, bias=False, activation_function=LINEAR()), Normalize),
        {"pooling": "mean", "normalize": True},
    ),
    "T5, whole": (made_of("t5", "mean"), {"pooling": "mean"}),
    "StaticEmbedding": (static(), {"pooling": "mean"}),
    "StaticEmbedding, lower case, Dense, normalised": (
        static(lambda: dense(WIDTH, 8), Normalize, lower=True),
        {"pooling": "mean", "normalize": True},
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
    return encoders.load(EncoderSpec(**{"name": "toy", "base": "toy", **read_fields(folder), **more}), folder)


def legacy(folder: Path, to: Path, **pooling: Any) -> Path:
    """A copy of a layout with the files that sentence-transformers wrote before version 5.4."""
    shutil.copytree(folder, to)
    listed = json.loads((to / "modules.json").read_text())
    for module in listed:
        module["type"] = "sentence_transformers.models." + module["type"].rpartition(".")[2]
    (to / "modules.json").write_text(json.dumps(listed))
    (to / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7, "do_lower_case": True}))
    (to / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH, **pooling}))
    return to
