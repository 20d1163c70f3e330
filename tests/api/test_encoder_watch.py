"""`rbench watch` from Python: every kind of encoder is asked, and one that is exchanged is told from what it was."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rbench
from rbench import api
from rbench.errors import JobError, PlanError, RbenchError, StoreError
from rbench.gate.vector_check import ALPHA, LENGTHS, TOLERANCE, VectorCheck
from rbench.gate.watched_texts import build_texts
from tests.victims.embeddings import embeddings
from tests.victims.server import Reply, Serve
from tests.victims.server import serve as serve

Encode = Callable[[list[str]], Any]


def by_words(seed: int, longest: int = 10**9, factor: float = 1.0) -> Encode:
    """A function from texts to vectors of 16 numbers: the mean of vectors of words."""
    known: dict[str, Any] = {}

    def vector(word: str) -> Any:
        if word not in known:
            known[word] = np.random.default_rng([seed, *word.encode()]).standard_normal(16)
        return known[word]

    def encode(texts: list[str]) -> Any:
        return factor * np.stack([np.mean([vector(word) for word in text.split()[:longest]], axis=0) for text in texts])

    return encode


def failed(check: VectorCheck) -> set[str]:
    return {row.name for row in check.rows if row.verdict == "failed"}


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve) -> tuple[Path, Any]:
    """The file of an encoder behind an endpoint, and its server."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    server = serve(embeddings(by_words(0)))
    file = tmp_path / "emb.yaml"
    file.write_text(json.dumps({"name": "emb", "endpoint": {"url": server.url, "model": "words"}}))
    return file, server


def test_an_endpoint_that_is_exchanged_behind_its_name(served: tuple[Path, Any], tmp_path: Path) -> None:
    file, server = served
    rbench.load_encoder(file).encode(["a text whose vector is in the cache"])  # keeps vectors and a probe of this model
    api.write_encoder_baseline(by_words(0), tmp_path / "b.json")  # what the endpoint serves
    asked = len(server.bodies)
    check = api.check_encoder(str(file), tmp_path / "b.json")
    assert check.verdict == "passed" and check.encoder == "emb"
    queries = [body["input"] for body in server.bodies[asked:]]
    assert sorted(queries) == sorted([text.text] for text in build_texts()) and len(queries) <= 200
    server.answer = embeddings(by_words(1))
    assert "another model" in api.check_encoder(file, tmp_path / "b.json").said


@pytest.mark.nightly
def test_settings_of_a_file_hold_for_an_endpoint(
    served: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt is sent, and vectors have the form that the file asks for, as in all else that rbench does."""
    file, server = served
    monkeypatch.setattr("rbench.api.encoder_watch.ROUNDS", 2)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "prompt": "query: ", "normalize": True, "truncate_dim": 8}))
    written = api.write_encoder_baseline(file, tmp_path / "b.json")
    assert written.dim == 8 and all(body["input"][0].startswith("query: ") for body in server.bodies)
    expected = rbench.load_encoder(file).encode([build_texts()[0].text])[0]
    assert written.read_directions()[0] * written.lengths[0] == pytest.approx(expected, abs=1e-3)
    server.answer = embeddings(by_words(0, factor=3.0))
    assert api.check_encoder(file, tmp_path / "b.json").verdict == "passed"  # its own lengths are not seen


def test_texts_that_an_endpoint_refuses(served: tuple[Path, Any], tmp_path: Path) -> None:
    file, server = served
    api.write_encoder_baseline(by_words(0), tmp_path / "b.json")
    answer = embeddings(by_words(0))
    server.answer = lambda body: Reply("too long", 413) if len(body["input"][0].split()) > 200 else answer(body)
    check = api.check_encoder(file, tmp_path / "b.json")
    assert failed(check) == {"210 to 350 words", "420 to 700 words"} and "24 of 131 texts" in check.said
    server.answer = lambda body: Reply("no", 400)
    with pytest.raises(JobError):
        api.check_encoder(file, tmp_path / "b.json")


@pytest.mark.parametrize("form", ["list", "tensor", "method", "name"])
def test_functions_and_what_encodes(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = by_words(0)
    (tmp_path / f"serving_{form}.py").write_text(
        "from tests.api.test_encoder_watch import by_words\nembed = by_words(0)\n"
    )
    monkeypatch.chdir(tmp_path)

    class Model:
        def encode(self, texts: list[str]) -> Any:
            return encode(texts)

    given: dict[str, Any] = {
        "list": lambda texts: encode(texts).tolist(),
        "tensor": lambda texts: torch.from_numpy(encode(texts)).to(torch.float32).requires_grad_(),
        "method": Model(),
        "name": f"serving_{form}:embed",
    }
    api.write_encoder_baseline(encode, tmp_path / "b.json")
    assert api.check_encoder(given[form], tmp_path / "b.json").verdict == "passed"
    assert failed(api.check_encoder(by_words(0, factor=2.0), tmp_path / "b.json")) == {LENGTHS}


def test_defaults_are_those_of_the_test() -> None:
    """The command line reads them from the source, where they are numbers."""
    parameters = inspect.signature(api.check_encoder).parameters
    assert (parameters["alpha"].default, parameters["tolerance"].default) == (ALPHA, TOLERANCE)


def test_what_is_no_encoder_or_no_baseline_is_refused(tmp_path: Path) -> None:
    api.write_encoder_baseline(by_words(0), tmp_path / "b.json")
    for answer in ([1.0, 2.0], "text", [[1.0], [2.0]]):
        with pytest.raises(JobError):
            api.check_encoder(lambda texts, answer=answer: answer, tmp_path / "b.json")
    with pytest.raises(RbenchError):
        api.check_encoder("no-such-encoder", tmp_path / "b.json")
    with pytest.raises(StoreError):
        api.check_encoder(by_words(0), tmp_path / "b.json", alpha=0.7)
    with pytest.raises(StoreError):
        api.check_encoder(by_words(0), tmp_path / "b.json", tolerance=2.0)
    with pytest.raises(PlanError):
        api.check_encoder(by_words(0), tmp_path / "b.json", devise="cpu")
