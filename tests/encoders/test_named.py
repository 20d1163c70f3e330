"""Encoders of today by name give the vectors of sentence-transformers.

No weights are here. Each entry is read from a folder that sentence-transformers writes in the model's own layout (the
kind of network, its longest input, pooling, modules), with two layers and random weights.
`benchmarks/one_name_one_model.py` does the same with three real models.
"""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize

import rbench
from rbench.config.entries import load_encoder
from rbench.config.registry import Registry
from rbench.encoders.model_metadata import check_own_code
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from tests.encoders.layouts import LEFT, LINEAR, TEXTS, Layout, Make, dense, made_of, static
from tests.encoders.layouts import networks as networks
from tests.kinds import WIDTH
from tests.tiny import WORDS


def real(kind: str, pooling: str, *after: Any, positions: int, longest: int | None, **words: Any) -> Layout:
    """A layout whose network and tokenizer read as much as the published ones, with the files' `max_seq_length`."""
    options = {} if longest is None else {"max_seq_length": longest}
    return made_of(kind, pooling, *after, more={"tokenizer": {"positions": positions, **words}}, **options)


QWEN = real("qwen3", "lasttoken", Normalize, positions=32768, longest=None, model_max_length=131072, **LEFT)
GEMMA = real(
    "gemma",
    "mean",
    lambda: dense(WIDTH, 96, bias=False, activation_function=LINEAR()),
    lambda: dense(96, WIDTH, bias=False, activation_function=LINEAR()),
    Normalize,
    positions=2048,
    longest=2048,
)
BERT_CLS, BERT_MEAN = (real("bert", pooling, Normalize, positions=512, longest=512) for pooling in ("cls", "mean"))
XLM_MEAN = real("xlm-roberta", "mean", Normalize, positions=514, longest=512, model_max_length=512)
LAYOUTS: dict[str, Layout] = {
    **{f"qwen3-embedding-{size}": QWEN for size in ("0.6b", "4b", "8b")},
    "embeddinggemma-300m": GEMMA,
    "bge-m3": real("xlm-roberta", "cls", Normalize, positions=8194, longest=8192, model_max_length=8192),
    **{f"bge-{size}-en-v1.5": BERT_CLS for size in ("base", "large")},
    **{f"e5-{size}-v2": BERT_MEAN for size in ("base", "large")},
    "multilingual-e5-small": BERT_MEAN,
    **{f"multilingual-e5-{size}": XLM_MEAN for size in ("base", "large")},
    "gte-modernbert-base": real("modernbert", "cls", positions=8192, longest=8192),
    "gte-base": BERT_MEAN,
    "arctic-embed-m-v1.5": BERT_CLS,
    "minilm": real("bert", "mean", Normalize, positions=512, longest=256, model_max_length=512),
    "minilm-l3": real("bert", "mean", positions=512, longest=None, model_max_length=128),
    "minilm-l12": real("bert", "mean", Normalize, positions=512, longest=128, model_max_length=512),
    "mpnet": real("mpnet", "mean", Normalize, positions=514, longest=384, model_max_length=512),
    "potion-base-8m": static(Normalize),
}
OWN_CODE = ("nomic-embed-text-v1.5", "arctic-embed-m-v2")
"""Their networks are Python code on the hub."""
EVERYDAY = ("qwen3-embedding-0.6b", "gte-modernbert-base", "minilm", "potion-base-8m")
"""One of each way to be read; the vectors of the others are nightly."""
KINDS = ("single", "nli", "pair", "paraphrase", "sts", "ranking")
LONG = [" ".join(random.Random(n).choices(WORDS, k=n)) for n in (5, 200, 600)]
"""Texts of 5, 200 and 600 tokens, besides special ones."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "encoders.md"


@cache
def spec_of(name: str) -> EncoderSpec:
    return load_encoder(name, Registry())


@pytest.mark.parametrize(
    "name", [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.nightly) for name in LAYOUTS]
)
def test_an_encoder_by_name_gives_the_vectors_of_sentence_transformers(
    name: str, networks: Make, tmp_path: Path
) -> None:
    """Also of texts that are longer than it reads, with their length, and under each prompt of the entry."""
    folder = tmp_path / name
    LAYOUTS[name](networks).save(str(folder))
    theirs, spec = SentenceTransformer(str(folder), device="cpu"), spec_of(name)
    kinds = {spec.prompt_for(kind): kind for kind in KINDS}  # type: ignore[arg-type]
    for prompt, kind in {"": None, **kinds}.items():
        encoder = rbench.load_encoder(name, kind=kind, models=tmp_path, device="cpu")  # type: ignore[arg-type]
        texts = [*LONG, *TEXTS] if prompt == "" else LONG
        wanted = np.concatenate([theirs.encode([text], prompt=prompt, show_progress_bar=False) for text in texts])
        np.testing.assert_allclose(encoder.encode(texts), wanted, atol=1e-5, rtol=1e-4)


def test_the_form_before_is_an_option_that_a_suite_can_state(networks: Make, tmp_path: Path) -> None:
    LAYOUTS["minilm"](networks).save(str(tmp_path / "minilm"))
    before = rbench.load_encoder("minilm[max_length=512,normalize=false]", models=tmp_path, device="cpu")
    now = rbench.load_encoder("minilm", models=tmp_path, device="cpu")
    assert (before.max_length, before.settings.normalize) == (512, False)
    assert (now.max_length, now.settings.normalize) == (256, True)
    lengths = np.linalg.norm(before.encode(LONG[:2]), axis=1, keepdims=True)
    np.testing.assert_allclose(before.encode(LONG[:2]) / lengths, now.encode(LONG[:2]), atol=1e-5)
    assert np.abs(lengths - 1).min() > 0.01


def test_an_entry_leaves_to_the_models_files_what_they_state() -> None:
    for name in (*LAYOUTS, *OWN_CODE):
        assert not {"pooling", "normalize", "max_length", "truncate_dim"} & spec_of(name).model_fields_set


@pytest.mark.parametrize("name", OWN_CODE)
def test_code_of_the_models_own_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    """The configs name classes of the repository, and a type that transformers does not have."""
    code = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "own-network", "auto_map": code}))
    assert not spec_of(name).trust_remote_code
    with pytest.raises(ResourceError, match="modeling_own"):
        check_own_code(tmp_path, trusted=spec_of(name).trust_remote_code)
    assert any("Refused as it stands" in note for note in spec_of(name).notes)


@pytest.mark.parametrize("name", [*LAYOUTS, *OWN_CODE])
def test_an_entry_states_its_commit_size_licence_and_source(name: str) -> None:
    spec = spec_of(name)
    assert re.fullmatch("[0-9a-f]{40}", spec.revision or "") and spec.licence and spec.reference and spec.title
    assert spec.parameters is not None and spec.parameters > 1_000_000 and not spec.trust_remote_code
    if "Gemma" in spec.licence:
        assert any("Gated" in note for note in spec.notes)


def test_the_page_lists_every_entry_with_what_its_file_says() -> None:
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [one.strip() for one in line.strip("|").split("|")]
        if len(cells) == 6 and cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells
    assert sorted(rows) == sorted([*LAYOUTS, *OWN_CODE])
    for name, (_, base, size, pooling, _length, licence) in rows.items():
        spec = spec_of(name)
        assert base == spec.base and pooling in ("cls", "mean", "last")
        assert licence.partition(" (")[0] == spec.licence.partition(" (")[0]
        digits, unit = float(size[:-1]), {"M": 1e6, "B": 1e9}[size[-1]]
        assert spec.parameters is not None and abs(digits * unit / spec.parameters - 1) < 0.02
