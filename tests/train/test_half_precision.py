"""A base whose weights are stored in half precision is trained in float32."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from rbench.train.models import open_encoder, open_masked_lm
from tests.train import bases


def test_a_base_in_half_precision_is_opened_in_float32(base: Path, tmp_path: Path) -> None:
    AutoModelForMaskedLM.from_pretrained(base).half().save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path)
    masked_lm, _ = open_masked_lm(bases.spec("mlm", tmp_path), tmp_path)
    encoder = open_encoder(bases.spec("simcse", tmp_path), tmp_path)
    assert {weight.dtype for opened in (masked_lm, encoder) for weight in opened.parameters()} == {torch.float32}
