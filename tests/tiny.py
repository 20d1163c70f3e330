"""A BERT of a few thousand weights over a handful of words, and a task that it can learn: for tests of whole stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from rbench.encoders.sentence import SentenceEncoder
from rbench.schema import TaskSpec, Training
from rbench.tasks import Example, TaskData
from rbench.train.finetune import FinetuneContext

GOOD = ["good", "fine", "great", "lovely"]
BAD = ["bad", "poor", "awful", "dull"]
FILL = ["the", "film", "was", "story", "seemed", "a", "plot", "and"]
WORDS = [*GOOD, *BAD, *FILL]


def write_bert(folder: Path, seed: int = 0) -> Path:
    """Save a random two-layer BERT and its tokenizer as a transformers folder."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def encoder(folder: Path, pooling: str = "mean") -> SentenceEncoder:
    """The tiny BERT as an encoder on the CPU."""
    return SentenceEncoder.open(folder, pooling=pooling)


def sentence(rng: np.random.Generator, label: int) -> str:
    """A sentence of filler with one word that decides."""
    words = list(rng.choice(FILL, size=5))
    words.insert(int(rng.integers(6)), str(rng.choice(GOOD if label else BAD)))
    return " ".join(words)


def data(train: int = 200, validation: int = 60, test: int = 60, *, pairs: bool = False) -> TaskData:
    """A task in memory: label 1 where the deciding word is good."""
    rng = np.random.default_rng(0)
    sizes = {"train": train, "validation": validation, "test": test}
    splits = {}
    for split, n in sizes.items():
        rows = []
        for i in range(n):
            label = i % 2
            texts = (sentence(rng, label),) if not pairs else ("the film was a film", sentence(rng, label))
            rows.append(Example(id=f"{split}:{i}", texts=texts, label=label))
        splits[split] = rows
    columns = ("premise", "hypothesis") if pairs else ("text",)
    spec = TaskSpec(name="tiny", kind="nli" if pairs else "single", columns=columns, labels=("bad", "good"))
    return TaskData(spec, "memory", "f", {}, {}, {}, splits)


def context(encoder: SentenceEncoder, data: TaskData, training: Training, **more: Any) -> FinetuneContext:
    """What a strategy is given: seed 0, on the CPU, with a progress that checks its numbers; `more` replaces these."""

    def progress(done: int, total: int, text: str) -> None:
        assert 0 <= done <= total

    return FinetuneContext(encoder, data, training, **{"seed": 0, "device": "cpu", "progress": progress, **more})
