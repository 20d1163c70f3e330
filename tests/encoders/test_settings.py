"""Tests of prompts, types of weights and implementations of attention."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer

from rbench import encoders
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.model_metadata import read_fields
from rbench.errors import JobError, ResourceError
from rbench.execution.publish import encoder as export
from rbench.schema import EncoderSpec, Training
from rbench.train import models
from rbench.train.finetune import clean, probe
from tests import tiny
from tests.encoders.layouts import TEXTS, Make, opened
from tests.refusals import refusal


def test_a_prompt_for_each_kind_of_task(networks: Make, tmp_path: Path) -> None:
    spec = EncoderSpec(name="toy", base="toy", pooling="mean", prompt={"sts": "query: ", "nli": "the plot "})
    folder = networks("bert")
    plain = encoders.load(spec.model_copy(update={"prompt": ""}), folder)
    for kind, prompt in (("sts", "query: "), ("nli", "the plot "), ("single", ""), (None, "")):
        found = encoders.load(spec, folder, kind=kind)
        np.testing.assert_array_equal(found.encode(TEXTS), plain.encode([prompt + text for text in TEXTS]))
    export.write_encoder(spec, folder, tmp_path / "out", lambda _: None)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS, prompt_name="nli")
    np.testing.assert_allclose(theirs, encoders.load(spec, folder, kind="nli").encode(TEXTS), atol=1e-5, rtol=1e-5)
    assert read_fields(tmp_path / "out") == {"pooling": "mean", "max_length": 64}


def test_a_prompt_must_leave_room_for_a_text(networks: Make) -> None:
    spec = EncoderSpec(name="toy", base="toy", pooling="mean", prompt="query: " * 4, max_length=9)
    with pytest.raises(ResourceError, match="9"):
        encoders.load(spec, networks("bert"))
    encoder = encoders.load(spec.model_copy(update={"max_length": None}), networks("bert"))
    with pytest.raises(JobError, match="9"):
        EncoderClassifier(encoder, 2, max_length=9)
    assert EncoderClassifier(encoder, 2, max_length=10).max_length == 10


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("auto", marks=pytest.mark.nightly)])
def test_half_precision_gives_the_vectors_of_sentence_transformers(dtype: str, saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    if dtype == "auto":
        model = transformers.AutoModel.from_pretrained(saved("BERT, first token")[0]).to(torch.bfloat16)
        shutil.copytree(saved("BERT, first token")[0], folder)
        model.save_pretrained(folder)
    else:
        shutil.copytree(saved("BERT, first token")[0], folder)
    encoder = opened(folder, dtype=dtype, attention="eager")
    assert next(encoder.model.parameters()).dtype == torch.bfloat16
    assert encoder.model.config._attn_implementation == "eager"
    options = {"torch_dtype": "bfloat16", "attn_implementation": "eager"}
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs=options).encode(TEXTS)
    ours = encoder.encode(TEXTS)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs.astype(np.float32), atol=0.05)  # bfloat16 has 8 bits of precision
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(TEXTS), ours)
    assert f"computes in {dtype}" in models.find_obstacle(encoder)


def test_an_attention_that_is_not_installed_is_an_error_that_names_it(networks: Make) -> None:
    with refusal(ResourceError, "flash_attention_2"):
        opened(networks("bert"), attention="flash_attention_2")


def test_fine_tuning_refuses_half_precision(networks: Make) -> None:
    encoder = opened(networks("bert"), dtype="bfloat16")
    with pytest.raises(JobError, match="bfloat16"):
        clean.CleanStrategy().run(clean.Options(), tiny.context(encoder, tiny.data(8, 4, 4), Training(epochs=1)))
    probed = probe.ProbeStrategy().run(probe.Options(), tiny.context(encoder, tiny.data(40, 10, 10), Training()))
    assert probed.victim(**probed.victim.tokenizer("good", return_tensors="pt")).logits.dtype == torch.float32
