"""Tests of victims on today's networks: prompts and poolings survive fine-tuning, and back-ends give their logits."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import backends
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from rbench.recipes import Victim
from rbench.schema import Training
from rbench.train.finetune import clean, probe
from tests import tiny
from tests.encoders.layouts import TEXTS, Make, opened


@pytest.mark.parametrize("name", ["Qwen3, last token, padding on the left", "prompt that is not pooled"])
def test_fine_tuning_keeps_pooling_and_prompt(name: str, saved: Any, tmp_path: Path) -> None:
    encoder = opened(saved(name)[0])
    training = Training(epochs=1, batch_size=16, learning_rate=3e-3)
    made = clean.CleanStrategy().run(clean.Options(), tiny.context(encoder, tiny.data(48, 16, 16), training))
    made.victim.save(tmp_path / "victim", {})
    again, _ = EncoderClassifier.load(tmp_path / "victim")
    assert again.encoder.settings == encoder.settings and again.tokenizer.prompt == "query: "
    inputs = made.victim.tokenizer(TEXTS[:3], padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, made.victim(**inputs).logits, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "strategy"),
    [("T5, encoder alone, normalised", clean.CleanStrategy()), ("StaticEmbedding", probe.ProbeStrategy())],
)
def test_t5_and_static_embeddings_are_fine_tuned_and_probed(
    name: str, strategy: Any, saved: Any, tmp_path: Path
) -> None:
    context = tiny.context(opened(saved(name)[0]), tiny.data(48, 16, 16), Training(epochs=1, batch_size=16))
    made = strategy.run(strategy.Options(), context)
    victim = made.victim if hasattr(made, "victim") else made[0]
    victim.save(tmp_path / "victim", {})
    again, _ = EncoderClassifier.load(tmp_path / "victim")
    with torch.no_grad():
        inputs = victim.tokenizer(TEXTS[:3], padding=True, return_tensors="pt")
        torch.testing.assert_close(again(**inputs).logits, victim.eval()(**inputs).logits, rtol=0, atol=0)


UNTRACED = ("qwen3", "gemma", "llama")
"""OpenVINO cannot trace the masks that transformers 4 makes for these, so "auto" leaves it out."""


EVERYDAY = {("qwen3", "torch"), ("modernbert", "onednn"), ("gemma", "openvino")}


@pytest.mark.usefixtures("measuring")
@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        pytest.param(*one, marks=() if one in EVERYDAY else pytest.mark.nightly)
        for one in itertools.product(("qwen3", "gemma", "modernbert", "llama", "bert"), ("torch", "onednn", "openvino"))
    ],
)
def test_back_ends_and_equal_lengths_give_the_networks_logits(kind: str, backend: str, networks: Make) -> None:
    words = {"start": False, "padding_side": "left"} if kind in ("qwen3", "llama") else {}
    pooling = {"bert": "cls", "modernbert": "mean", "gemma": "mean"}.get(kind, "last")
    encoder = opened(networks(kind, **words), pooling=pooling, prompt="query: ")
    torch.manual_seed(0)
    classifier = EncoderClassifier(encoder, 3).eval()
    torch.nn.init.normal_(classifier.head.weight)
    if backend not in backends.usable(torch.device("cpu")):
        pytest.skip(f"this machine has no {backend}")
    try:
        victim = Victim(classifier, "toy", backend=backend)
    except ResourceError as error:
        assert backend == "openvino" and kind in UNTRACED and "use --backend onednn" in str(error)
        backend = "auto"
        victim = Victim(classifier, "toy", backend=backend)
    texts = [*(text for text in TEXTS if text), "the plot was bad", "a story was fine", "the film seemed poor"]
    answers = victim(texts)
    for text, answer in zip(texts, answers, strict=True):
        with torch.no_grad():
            plain = classifier(
                **encoder.tokenizer(text, truncation=True, max_length=encoder.max_length, return_tensors="pt")
            ).logits[0]
        torch.testing.assert_close(answer, plain, atol=1e-4, rtol=1e-4)
    alone = Victim(classifier, "toy", backend=backend)([texts[0]])[0]
    torch.testing.assert_close(alone, answers[0], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["qwen3", "modernbert"])
def test_the_first_layers_of_todays_networks_are_kept(kind: str, networks: Make, tmp_path: Path) -> None:
    encoder = opened(networks(kind), layers=1)
    encoder.save(tmp_path / "cut")
    again = SentenceEncoder.open(tmp_path / "cut", pooling="mean")
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    whole = transformers.AutoModel.from_pretrained(networks(kind))
    ids = encoder.tokenizer("the film", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        first = whole(input_ids=ids, output_hidden_states=True).hidden_states[1]
        norm = next(getattr(encoder.model, name) for name in ("norm", "final_norm") if hasattr(encoder.model, name))
        torch.testing.assert_close(encoder.model(input_ids=ids).last_hidden_state, norm(first), atol=1e-5, rtol=1e-5)
