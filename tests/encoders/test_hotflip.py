"""HotFlip: its gradient, its estimates, and the passages that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rbench import encoders
from rbench.encoders.hotflip import HotFlip
from rbench.encoders.index import to_unit_length
from rbench.encoders.locate import EMBEDDED_TOKENIZER, EMBEDDED_VECTORS
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.schema import EncoderSpec
from tests.kinds import network
from tests.recipes import substitution_toy as toy

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
FIRST = ("the", "film", "was", "good")


def drawn(**changes: Any) -> SentenceEncoder:
    spec = EncoderSpec.model_validate({"name": "drawn", "architecture": SIZES, "pooling": "mean", **changes})
    return encoders.load(spec, EMBEDDED_TOKENIZER, kind="ranking")


def static() -> SentenceEncoder:
    return encoders.load(
        EncoderSpec(name="words", base=EMBEDDED_VECTORS, pooling="mean"), EMBEDDED_VECTORS, kind="ranking"
    )


def prompted() -> SentenceEncoder:
    return drawn(prompt={"ranking": "a film: ", "document": "the film: "})


def of_today(kind: str) -> SentenceEncoder:
    tokenizer = toy.bert_tokenizer()
    torch.manual_seed(0)
    return SentenceEncoder(network(kind, len(tokenizer)), tokenizer, "mean").eval()


ENCODERS = {
    "bert": drawn,
    "prompt": prompted,
    "static": static,
    "modernbert": lambda: of_today("modernbert"),
    "gemma": lambda: of_today("gemma"),
}


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.nightly) if name in ("bert", "gemma") else name for name in ENCODERS]
)
def search(request: pytest.FixtureRequest) -> HotFlip:
    return HotFlip(ENCODERS[request.param]())


def first(search: HotFlip) -> tuple[str, ...]:
    return tuple([*search.vocabulary][3:40:9])


def wanted(search: HotFlip, seed: int = 0) -> Any:
    return to_unit_length(np.random.default_rng(seed).normal(size=(1, search.encoder.dim)))[0]


def cosine_with(search: HotFlip, words: tuple[str, ...], aim: Any, moved: np.ndarray[Any, Any]) -> float:
    """The cosine when `moved` (words, width) is added to the embeddings of the words, computed in double precision."""
    encoder = search.encoder
    inputs = encoder.tokenizer([" ".join(words)], return_tensors="pt")
    table: nn.Module = encoder.model.get_input_embeddings()
    start = inputs["input_ids"].shape[1] - search._after - len(words)

    def add(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        output = output.clone()
        output[0, start : start + len(words)] += torch.from_numpy(moved).to(output.dtype)
        return output

    handle = table.register_forward_hook(add)
    encoder.double()
    try:
        with torch.no_grad():
            vector = encoder(**inputs)[0].double().numpy()
    finally:
        handle.remove()
        encoder.float()
    return float(vector @ aim / np.linalg.norm(vector))


def test_the_gradient_is_that_of_finite_differences(search: HotFlip) -> None:
    words, aim = first(search), wanted(search)
    found = search.gradient(words, aim)
    rng, step = np.random.default_rng(1), 1e-3  # norms of some networks are in single precision whatever else is
    for _ in range(2):
        way = rng.normal(size=found.shape)
        difference = cosine_with(search, words, aim, step * way) - cosine_with(search, words, aim, -step * way)
        assert float((found * way).sum()) == pytest.approx(difference / (2 * step), rel=5e-3, abs=1e-4)


def test_words_of_the_vocabulary_read_back_as_one_token_each(search: HotFlip) -> None:
    words = [*search.vocabulary][:: max(1, len(search.vocabulary) // 50)]
    (row,) = search._rows([" ".join(["a", *words])])
    end = len(row[0]) - search._after
    assert list(row[0][end - len(words) : end]) == [search.vocabulary[word] for word in words]


def test_each_flip_raises_the_cosine_and_the_text_has_the_last_one(search: HotFlip) -> None:
    start, aim = first(search), wanted(search)
    found = search.write(start, aim, steps=5, candidates=8)
    assert len(found.words) == len(start) and len(found.cosines) == len(found.places) + 1 > 1
    assert all(np.diff(found.cosines) > 0)
    vector = search.encoder.encode([" ".join(found.words)])[0].astype(float)
    assert found.cosines[-1] == pytest.approx(vector @ aim / np.linalg.norm(vector), abs=1e-6)
    assert {i for i, (a, b) in enumerate(zip(start, found.words, strict=True)) if a != b} <= {*found.places}


def test_an_estimate_is_exact_where_the_network_is_linear() -> None:
    """A mean of word vectors is linear in them, so the first candidate changes the mean as much as any can."""
    search = HotFlip(static())
    aim = wanted(search)
    gains = search.estimates(FIRST, aim)
    table, names = search._table.astype(float), [*search.vocabulary]
    old = np.array([table[names.index(word)] for word in FIRST])
    mean = old.mean(axis=0)
    slope = (aim - (mean @ aim) / (mean @ mean) * mean) / np.linalg.norm(mean) / len(FIRST)
    assert gains == pytest.approx((table[None] - old[:, None]) @ slope, abs=1e-4)


def test_the_first_words_of_a_text_are_those_of_the_vocabulary() -> None:
    search = HotFlip(drawn())
    assert search.words_of("The film, zzzqx, was good.", 4) == ("the", "film", ",", *search.words_of("zzzqx , was", 1))
    assert len(search.words_of("the film", 9)) == 2


def test_a_tokenizer_without_whole_words_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = HotFlip(drawn())
    monkeypatch.setattr("rbench.encoders.hotflip._word", lambda tokenizer, i: "")
    with pytest.raises(JobError):
        _ = search.vocabulary
