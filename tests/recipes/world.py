"""A small world to attack in: the embedded world's words, a random victim, a random masked LM over its vocabulary."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import torch
import transformers
import yaml

from rbench import config, mini, recipes
from rbench.config.registry import Registry
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.sentence import SentenceEncoder
from rbench.mini import tokenizer
from rbench.schema import AttackSpec, Choice, ResourceSet, TaskSpec
from rbench.tasks import Example
from rbench.words.resources import Resources

ROOT = Path(__file__).resolve().parents[2]
SINGLE = TaskSpec(name="mini-sentiment", kind="single", columns=("text",), labels=("negative", "positive"))
PAIR = TaskSpec(name="mini-nli", kind="nli", columns=("premise", "hypothesis"), labels=("a", "b", "c"))
ALL = ("textfooler", "textbugger", "pwws", "bae", "bertattack")


def write_bert(folder: Path, seed: int, *, head: bool) -> Path:
    """A BERT of two narrow layers over the embedded world's vocabulary, wild enough that words matter."""
    tokenizer.write_tokenizer(folder)
    words = len(transformers.AutoTokenizer.from_pretrained(folder))
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        initializer_range=0.3,
    )
    torch.manual_seed(seed)
    (transformers.BertForMaskedLM if head else transformers.BertModel)(config).save_pretrained(folder)
    return folder


def victim(folder: Path, task: TaskSpec, max_length: int = 64, backend: str = "torch") -> recipes.Victim:
    """A victim with random weights."""
    torch.manual_seed(1)
    encoder = SentenceEncoder.open(folder, pooling="mean")
    classifier = EncoderClassifier(encoder, len(task.labels), max_length=max_length)
    torch.nn.init.normal_(classifier.head.weight, std=1.0)
    return recipes.Victim(classifier, "random", max_length=max_length, backend=backend)


def resources(lm: Path, backend: str = "torch") -> Resources:
    """The profile `mini`, with the masked LM in `lm` for the one that a run would train."""
    path = ROOT / "rbench" / "words" / "resources" / "mini.yaml"
    profile = ResourceSet.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert profile.masked_lm is not None and profile.masked_lm.name is not None
    return Resources(profile, trained={profile.masked_lm.name: lm}, backend=backend)


def spec(name: str, **options: object) -> AttackSpec:
    return config.load_attack(Choice(name=name, options=dict(options)), Registry())


def examples(task: TaskSpec, of: recipes.Victim, n: int) -> list[Example]:
    """Rows of the embedded world with the victim's own prediction as label, but for every sixth (to be skipped)."""
    found = []
    for i, row in enumerate(mini.rows(task.name, "test")[:n]):
        texts = tuple(str(row[column]) for column in task.columns)
        label = int(of([texts[0] if len(texts) == 1 else texts]).argmax())
        found.append(Example(f"test:{i}", texts, (label + (i % 6 == 5)) % len(task.labels)))
    return found


def stock() -> ModuleType:
    """benchmarks/stock.py: TextAttack as it is."""
    return benchmark("stock")


@cache
def benchmark(name: str) -> ModuleType:
    """A module of benchmarks/."""
    place = ROOT / "benchmarks" / f"{name}.py"
    module_spec = importlib.util.spec_from_file_location(name, place)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    module_spec.loader.exec_module(module)
    return module
