"""Classifiers of a few thousand weights, saved by transformers, over the embedded world's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers

from rbench.encoders.architecture import build_embedded_tokenizer

LABELS = ("POSITIVE", "NEGATIVE")
"""In the opposite order of those of the task mini-sentiment."""


def write_classifier(folder: Path, labels: tuple[str, ...] = LABELS, **config: Any) -> Path:
    """Save a random BERT with a head, and the embedded world's tokenizer. `config` replaces keys of its config.json."""
    tokenizer = build_embedded_tokenizer()
    torch.manual_seed(0)
    network = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
            initializer_range=0.5,
            id2label=dict(enumerate(labels)),
            label2id={label: i for i, label in enumerate(labels)},
        )
    )
    _centre(network, tokenizer)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rewrite(folder, **config)
    return folder


def _centre(network: transformers.BertForSequenceClassification, tokenizer: Any) -> None:
    """Shift the logits so that about as many texts of the embedded world get each label."""
    texts = [
        "the film was good",
        "the film was bad",
        "a fine story",
        "a dull plot",
        "good",
        "bad",
        "the actor was great",
    ]
    with torch.inference_mode():
        logits = network.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    network.classifier.bias.data -= logits.median(dim=0).values


def rewrite(folder: Path, **config: Any) -> None:
    """Replace keys of a folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **config}), encoding="utf-8")
