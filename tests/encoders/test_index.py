"""The vectors of a corpus: encoded once, by weights, settings and texts; and retrievers, which are saved with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench import encoders
from rbench.encoders import index, load_victim
from rbench.encoders.locate import EMBEDDED_TOKENIZER
from rbench.encoders.retriever import RELEVANCE_FILE, Retriever
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
TEXTS = ["The film was good.", "A man sold the bus.", "The dog woke."]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "prepared"


def opened(seed: int = 0, **changes: Any) -> SentenceEncoder:
    spec = EncoderSpec.model_validate({"name": "drawn", "architecture": SIZES, "pooling": "mean", **changes})
    return encoders.load(spec, EMBEDDED_TOKENIZER, seed=seed, kind="ranking")


def vectors(encoder: SentenceEncoder, texts: list[str] = TEXTS) -> tuple[Any, list[int]]:
    told: list[int] = []
    return index.load_document_vectors(encoder, texts, told.append), told


def test_a_corpus_is_encoded_once_and_mapped(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = opened()
    found, told = vectors(encoder)
    wanted = encoder.encode(TEXTS).astype(float)
    assert np.allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert found.dtype == np.float32 and isinstance(found, np.memmap) and sum(told) == 3
    monkeypatch.setattr(SentenceEncoder, "encode", None)  # nothing is encoded again
    again, told = vectors(encoder)
    assert (again == found).all() and told == [3]
    assert len([*cache.glob("vectors-*")]) == 1


def test_another_encoder_has_a_file_of_its_own(cache: Path) -> None:
    others: list[dict[str, Any]] = [
        *({"seed": 1}, {"prompt": "A film. "}, {"pooling": "cls"}, {"max_length": 8}, {"truncate_dim": 8})
    ]
    for changes in ({}, *others):
        vectors(opened(**changes))
    vectors(opened(), TEXTS[:2])
    assert len([*cache.glob("vectors-*.npy")]) == len(others) + 2


def test_a_damaged_file_is_made_again(cache: Path) -> None:
    found = np.array(vectors(opened())[0])
    (file,) = cache.glob("vectors-*.npy")
    file.write_bytes(file.read_bytes()[:-40])
    again, _ = vectors(opened())
    assert (again == found).all()


@pytest.mark.parametrize("pooled", [True, False])
def test_documents_are_read_with_their_own_prompt(pooled: bool) -> None:
    prompts = {"ranking": "A man. ", "document": "The film was. "}
    both = opened(prompt=prompts, include_prompt=pooled)
    queries, documents = (opened(prompt=one, include_prompt=pooled) for one in prompts.values())
    assert (both.encode(TEXTS) == queries.encode(TEXTS)).all()
    assert (both.for_documents().encode(TEXTS) == documents.encode(TEXTS)).all()
    assert np.allclose(vectors(both)[0], index.to_unit_length(documents.encode(TEXTS)))
    assert (both.encode(TEXTS) == queries.encode(TEXTS)).all()  # the encoder itself still reads queries


def test_a_retriever_is_saved_with_its_documents(tmp_path: Path) -> None:
    encoder = opened(prompt={"ranking": "A man. ", "document": "The film. "})
    made = Retriever(encoder, vectors(encoder)[0], ("c", "b", "a"), {"a": {"c": 2, "a": 1}}, True, 12)
    made.save(tmp_path / "victim", {"task": "toy"})
    found, meta = load_victim(tmp_path / "victim")
    assert isinstance(found, Retriever) and meta == {"task": "toy"}
    assert isinstance(found.corpus, np.memmap) and (found.corpus == made.corpus).all()
    assert (found.ids, found.without_own, found.max_length) == (made.ids, True, 12)
    places, grades = found.relevant("a")
    assert places.tolist() == [0, 2] and grades.tolist() == [2, 1]
    assert (found.find_left_out("a"), found.find_left_out("q")) == (2, None)
    assert (found.encoder.encode(TEXTS) == encoder.encode(TEXTS)).all()

    (tmp_path / "victim" / RELEVANCE_FILE).write_text("{}")
    with pytest.raises(ResourceError):
        load_victim(tmp_path / "victim")
