"""Encoders of today by name: their files agree with the layouts that they name, and load through the same code.

No weights are here. Each entry is read from a folder that sentence-transformers writes in the model's own layout (the
kind of network, pooling, modules and prompts), with two layers and random weights. Its vectors must be those of
sentence-transformers, under each prompt.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize

from rbench import encoders
from rbench.config.entries import load_encoder
from rbench.config.registry import Registry
from rbench.encoders.model_metadata import check_code, described
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from tests.encoders.layouts import LEFT, LINEAR, TEXTS, Layout, Make, dense, made_of, static
from tests.encoders.layouts import networks as networks
from tests.kinds import WIDTH

QWEN = made_of("qwen3", "lasttoken", Normalize, more={"tokenizer": LEFT})
GEMMA = made_of(
    "gemma",
    "mean",
    lambda: dense(WIDTH, 96, bias=False, activation_function=LINEAR()),
    lambda: dense(96, WIDTH, bias=False, activation_function=LINEAR()),
    Normalize,
)
BERT_CLS, BERT_MEAN = made_of("bert", "cls", Normalize), made_of("bert", "mean", Normalize)
XLM_MEAN, XLM_CLS = (made_of("xlm-roberta", pooling, Normalize) for pooling in ("mean", "cls"))
LAYOUTS: dict[str, Layout] = {
    **{f"qwen3-embedding-{size}": QWEN for size in ("0.6b", "4b", "8b")},
    "embeddinggemma-300m": GEMMA,
    "bge-m3": XLM_CLS,
    **{f"bge-{size}-en-v1.5": BERT_CLS for size in ("base", "large")},
    **{f"e5-{size}-v2": BERT_MEAN for size in ("base", "large")},
    "multilingual-e5-small": BERT_MEAN,
    **{f"multilingual-e5-{size}": XLM_MEAN for size in ("base", "large")},
    "gte-modernbert-base": made_of("modernbert", "cls"),
    "gte-base": BERT_MEAN,
    "arctic-embed-m-v1.5": BERT_CLS,
    "minilm": BERT_MEAN,
    "minilm-l12": BERT_MEAN,
    "mpnet": made_of("mpnet", "mean", Normalize, max_seq_length=30),
    "potion-base-8m": static(Normalize),
}
OWN_CODE = ("nomic-embed-text-v1.5", "arctic-embed-m-v2")
"""Their networks are Python code on the hub."""
KINDS = ("single", "nli", "pair", "paraphrase", "sts", "ranking", "document")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "encoders.md"


@cache
def spec_of(name: str) -> EncoderSpec:
    return load_encoder(name, Registry())


def parallel(one: Any, other: Any) -> Any:
    """Cosines, since minilm and mpnet leave the length of vectors as it is, and sentence-transformers does not."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one * other).sum(1) / np.maximum(lengths, 1e-12)


@pytest.mark.parametrize("name", LAYOUTS)
def test_vectors_are_those_of_sentence_transformers_under_each_prompt(
    name: str, networks: Make, tmp_path: Path
) -> None:
    folder = tmp_path / "models" / name
    LAYOUTS[name](networks).save(str(folder))
    spec = spec_of(name)
    found = encoders.locate(spec, [tmp_path / "models"])
    assert Path(found.where) == folder
    theirs = SentenceTransformer(str(folder), device="cpu")
    own = described(folder)
    assert spec.pooling == own["pooling"]
    assert spec.normalize == own.get("normalize", False) or name in ("minilm", "mpnet")
    seen = {}
    for kind in KINDS:
        prompt = spec.prompt_for(kind)  # type: ignore[arg-type]
        if prompt in seen or kind == "document":
            continue  # documents are read by another encoder of the same weights, which test_sentence tests
        ours = encoders.load(spec, found.where, kind=kind)  # type: ignore[arg-type]
        seen[prompt] = ours.encode(TEXTS)
        wanted = np.concatenate([theirs.encode([text], prompt=prompt, show_progress_bar=False) for text in TEXTS])
        if spec.normalize == own.get("normalize", False):
            np.testing.assert_allclose(seen[prompt], wanted, atol=1e-5, rtol=1e-4)
        else:
            there = np.linalg.norm(wanted, axis=1) > 0
            np.testing.assert_allclose(parallel(seen[prompt], wanted)[there], 1.0, atol=1e-5)
    assert len(seen) == len({spec.prompt_for(kind) for kind in KINDS if kind != "document"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OWN_CODE)
def test_code_of_the_models_own_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    """The configs name classes of the repository, and a type that transformers does not have."""
    code = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "own-network", "auto_map": code}))
    assert not spec_of(name).trust_remote_code
    with pytest.raises(ResourceError, match=r"needs Python code of its own .*trust_remote_code: true"):
        check_code(tmp_path, trusted=spec_of(name).trust_remote_code)
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
    for name, (_, base, size, pooling, length, licence) in rows.items():
        spec = spec_of(name)
        assert base == spec.base and pooling == spec.pooling
        assert length == ("–" if spec.max_length is None else f"{spec.max_length:,}")
        assert licence.partition(" (")[0] == spec.licence.partition(" (")[0]
        digits, unit = float(size[:-1]), {"M": 1e6, "B": 1e9}[size[-1]]
        assert spec.parameters is not None and abs(digits * unit / spec.parameters - 1) < 0.02
