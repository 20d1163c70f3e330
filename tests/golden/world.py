"""Sentences, networks and resources of the embedded world that the cases share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from rbench import recipes
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.mini import tokenizer
from rbench.schema import EncoderSpec, TaskSpec
from rbench.tasks import Example, TaskData
from rbench.tasks.ranking import DocumentCollection
from rbench.words.resources import Resources
from tests.golden import formula
from tests.recipes import world

SENTENCES = [
    "The farce was a disaster in his city.",
    "Though the automobiles were fast in the city, the long drama annoyed our waiter.",
    "My film seems clumsy in our town anew.",
    "The author was slightly clumsy and the ending was very clean.",
    "The painting dismayed the motorist behind the street.",
    "This woman loathed the picture behind the municipality.",
    "My book is good in the forest today.",
    "The notion was a triumph though the big film did not please these waiters.",
]
PAIRS = [
    ("My chatty dog moved near a station although the animal dozed.", "The hound moved."),
    ("The woman found a boat near these shops.", "My person found our vehicle near the shops."),
    ("The lass opened the film quickly with the children recently.", "The girl unsealed that movie."),
    ("The rich boy unlocked my hostel with these individuals.", "This boy opened his large hotel."),
]
SINGLE, PAIR = world.SINGLE, world.PAIR


def network(folder: Path, name: str = "base", *, dropout: float = 0.1, hidden: int = 16) -> Path:
    """A BERT of two narrow layers with its masked-LM head and the embedded world's tokenizer, weights by formula."""
    if (folder / name).exists():
        return folder / name
    tokenizer.write_tokenizer(folder / name)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer.build_vocabulary()),
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        max_position_embeddings=128,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0,
    )
    made = transformers.BertForMaskedLM(config)
    formula.fill(made, size=1.0, prefix=name)  # wild enough that each word matters
    made.tie_weights()
    made.save_pretrained(folder / name)
    return folder / name


def encoder(folder: Path, dropout: float = 0.1) -> SentenceEncoder:
    return SentenceEncoder.open(network(folder, f"encoder-{dropout}", dropout=dropout), pooling="mean")


def spec(objective: str, base: Path, **train: Any) -> EncoderSpec:
    """An encoder to be trained on `base` by this objective."""
    settings = {"data": "any", "steps": 2, "batch_size": 4, "max_length": 24, **train}
    return EncoderSpec.model_validate(
        {"name": "golden", "base": str(base), "pooling": "cls", "train": {"objective": objective, **settings}}
    )


def resources(folder: Path) -> Resources:
    """The profile `mini` with a masked LM by formula."""
    return world.resources(network(folder, "lm", dropout=0.0))


def victim(folder: Path, task: TaskSpec) -> recipes.Victim:
    """A victim of two minds: a wide head, its bias such that no label has more of the sentences than another."""
    classifier = EncoderClassifier(encoder(folder), len(task.labels), max_length=64).eval()
    formula.fill(classifier.head, size=2.0, prefix=task.name)
    with torch.no_grad():
        classifier.head.bias -= logits(classifier, SENTENCES).mean(dim=0)
    return recipes.Victim(classifier, "golden", max_length=64, backend="torch")


def examples(task: TaskSpec, of: recipes.Victim) -> list[Example]:
    """The sentences, or pairs, with the victim's own prediction for label; that of the last is wrong."""
    texts = [(text,) for text in SENTENCES] if len(task.columns) == 1 else PAIRS
    found = []
    for i, columns in enumerate(texts):
        label = int(of([columns[0] if len(columns) == 1 else columns]).argmax())
        wrong = i == len(texts) - 1
        found.append(Example(f"test:{i}", columns, (label + wrong) % len(task.labels)))
    return found


def data(labels: int = 2) -> TaskData:
    """A task in memory: 16 rows to train on and 8 to validate; the last label where a text begins with `The`.

    Where there are three `labels`, no row has the second.
    """
    rows = [*SENTENCES, *(text for pair in PAIRS for text in pair)]
    rows += [" ".join([*text.split()[:3], *text.split()[:2:-1]]) for text in rows[:8]]
    made = [Example(f"row:{i}", (text,), (labels - 1) * text.startswith("The")) for i, text in enumerate(rows)]
    names = tuple(f"label {k}" for k in range(labels))
    task = TaskSpec(name="golden", kind="single", columns=("text",), labels=names)
    splits = {"train": made[:16], "validation": made[16:], "test": made[16:]}
    return TaskData(task, "memory", "f", {}, {}, {}, splits)


def pairs() -> TaskData:
    """An STS task in memory: 16 pairs to train on and 12 to validate, with scores from 0 to 5 that follow no rule."""
    first = [*SENTENCES, *(text for pair in PAIRS for text in pair)]
    made = [
        Example(f"row:{i}", (text, first[(5 * i + k) % len(first)]), float((7 * i + 11 * k) % 51) / 10)
        for k in (1, 2)
        for i, text in enumerate(first)
    ]
    task = TaskSpec(name="golden", kind="sts", columns=("a", "b"), metric="spearman", scale=(0, 5))
    splits = {"train": made[:16], "validation": made[16:28], "test": made[28:]}
    return TaskData(task, "memory", "f", {}, {}, {}, splits)


def queries() -> TaskData:
    """A ranking task in memory: all sentences as documents, and each second one, cut short, as a query for it."""
    ids = tuple(sorted((f"d{i:02}" for i in range(len(SENTENCES))), reverse=True))
    texts = dict(zip(sorted(ids), SENTENCES, strict=True))
    asked = [Example(f"q{name}", (" ".join(texts[name].split()[1:]),), None) for name in sorted(ids)[::2]]
    relevance = {one.id: {one.id[1:]: 1} for one in asked}
    task = TaskSpec(name="golden", kind="ranking", columns=("query",), generator="mini-ranking")
    found = DocumentCollection(ids, tuple(texts[name] for name in ids), relevance)
    return TaskData(task, "memory", "f", {}, {}, {}, {"test": asked}, collection=found)


def logits(classifier: EncoderClassifier, texts: list[str]) -> torch.Tensor:
    """(len(texts), labels), one text at a time."""
    with torch.no_grad():
        rows = [classifier(**classifier.tokenizer(text, return_tensors="pt")).logits[0] for text in texts]
    return torch.stack(rows)
