from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import rbench
from rbench import encoders
from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.encoders import asked_vectors, index
from rbench.encoders.asked_vectors import PROBE, count_usage, hash_endpoint, locate, probe_signature
from rbench.encoders.cached_vectors import CachedVectors
from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError, SuiteError
from rbench.plan.lineage import portable_encoder
from rbench.schema import EncoderSpec, Provenance
from rbench.schema.common import EmbeddingsEndpoint
from rbench.schema.results import PROBED_TEXTS
from rbench.store.runs import RunStore
from rbench.system.below import SafeFolder
from tests.refusals import refusal
from tests.victims.embeddings import embeddings, letters
from tests.victims.server import Reply, Serve

TEXTS = [f"text number {i} {'long ' * (i % 5)}" for i in range(23)]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test has a cache of its own, is not patient, and asks no proxy."""
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rbench.system.asking.FIRST_WAIT", 0.01)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def others(server: Any, first: int = 0) -> list[str]:
    """The texts of requests from a number on, without those of the probe."""
    return [text for body in server.bodies[first:] for text in body["input"] if text not in PROBE]


def spec(url: str, name: str = "served", prompt: str = "", **options: Any) -> EncoderSpec:
    endpoint = {"url": url, "model": "letters", "timeout": 5.0, **options}
    return EncoderSpec.model_validate({"name": name, "prompt": prompt, "endpoint": endpoint})


def opened(url: str, **options: Any) -> Any:
    return encoders.load(spec(url, **options), "")


@pytest.mark.parametrize(
    ("batch_size", "concurrency", "encoding"), [(1, 1, "float"), (4, 3, "base64"), (64, 1, "float")]
)
def test_each_text_gets_its_vector_whatever_the_batches(
    serve: Serve, batch_size: int, concurrency: int, encoding: str
) -> None:
    server = serve(embeddings(letters))
    encoder = opened(server.url, batch_size=batch_size, concurrency=concurrency, encoding=encoding)
    told: list[int] = []
    found = encoder.encode([*TEXTS, TEXTS[0]], progress=told.append)
    assert np.array_equal(found, letters([*TEXTS, TEXTS[0]])) and found.dtype == np.float32
    sizes = [len(body["input"]) for body in server.bodies[1:]]
    assert max(sizes) <= batch_size and len(others(server)) == len(TEXTS)
    assert sum(sizes) <= len(TEXTS) * 4 / 3 + 1 or batch_size == 1
    assert server.most <= concurrency and sum(told) == len(TEXTS) + 1
    assert {body["encoding_format"] for body in server.bodies} == {encoding}


def test_no_text_is_asked_for_twice_by_later_processes_either(serve: Serve) -> None:
    server = serve(embeddings(letters))
    opened(server.url, batch_size=5).encode(TEXTS[:10])
    before = len(server.bodies)
    again = opened(server.url, batch_size=7)  # another way to ask: the same vectors
    assert np.array_equal(again.encode(TEXTS), letters(TEXTS))
    assert sorted(others(server, before)) == sorted(TEXTS[10:])
    told = count_usage(EmbeddingsEndpoint(url=server.url, model="letters"))
    asked = [text for body in server.bodies for text in body["input"]]
    assert told["requests"] == len(server.bodies) and told["texts"] == len(asked)
    assert told["tokens"] == sum(len(text.split()) for text in asked)


@given(st.dictionaries(st.binary(min_size=32, max_size=32), st.integers(0, 99), max_size=12), st.data())
def test_what_is_kept_is_read_again_and_what_is_damaged_is_missing(
    tmp_path_factory: pytest.TempPathFactory, wanted: dict[bytes, int], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("kept")
    made = {key: np.full(3, number, np.float32) for key, number in wanted.items()}
    kept = CachedVectors(SafeFolder(root), root / "of", 3)
    for key, vector in made.items():
        kept.put({key: vector})
    other = CachedVectors(SafeFolder(root), root / "of", 3)
    found = other.get([*made, b"x" * 32])
    assert {key: vector.tolist() for key, vector in found.items()} == {k: v.tolist() for k, v in made.items()}
    for file in (root / "of").glob("*.vectors") if made else ():
        content = bytearray(file.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= 1
        file.write_bytes(content)
        assert len(CachedVectors(SafeFolder(root), root / "of", 3).get([*made])) == len(made) - 1


def test_a_link_in_the_cache_is_not_followed(serve: Serve, tmp_path: Path) -> None:
    server = serve(embeddings(letters))
    folder = tmp_path / "cache" / "endpoints" / hash_endpoint(EmbeddingsEndpoint(url=server.url, model="letters"))
    opened(server.url).encode(TEXTS[:3])
    (folder / "0.keys").symlink_to(next(folder.glob("*.keys")))
    assert np.array_equal(opened(server.url, batch_size=2).encode(TEXTS[:4]), letters(TEXTS[:4]))


def numbered(*rows: Any) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": row} for i, row in enumerate(rows)]}


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {"data": [1] * 8},
        {"data": [{"index": 0, "embedding": [1.0]}] * 8},
        numbered(*[[1.0, 2.0]] * 7, [1.0]),
        numbered(*[["1"]] * 8),
        numbered(*["AADAfw=="] * 8),  # the bytes of NaN
        numbered(*[[1e39]] * 8),  # no float32 is so large
        Reply(b"[" * 5000),
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_an_answer_that_is_not_one_vector_each_is_refused(serve: Serve, answer: Any) -> None:
    server = serve(lambda body: answer)
    with pytest.raises(JobError) as caught:
        opened(server.url, retries=0)
    assert server.url in str(caught.value)


def test_the_vector_of_a_later_text_has_the_length_of_the_first(serve: Serve) -> None:
    server = serve(lambda body: numbered(*[[1.0] * (3 if "odd" in text else 2) for text in body["input"]]))
    with refusal(JobError, "3", "2"):
        opened(server.url).encode(["even", "odd"])


def test_a_text_that_is_refused_is_named_and_others_keep_their_vectors(serve: Serve) -> None:
    good = embeddings(letters)
    server = serve(lambda body: Reply({"error": "empty input"}, 400) if "" in body["input"] else good(body))
    encoder = opened(server.url, batch_size=8)
    with refusal(JobError, "empty input", "''"):
        encoder.encode([*TEXTS[:5], "", *TEXTS[5:7]])
    rows = encoder.tokenizer([""], return_tensors="pt")
    with pytest.raises(AnswerError):  # in an attack, the example that asked for it is errored
        encoder(**rows)


def test_failures_that_pass_are_waited_for_and_others_end_the_job(serve: Serve) -> None:
    good, failures = embeddings(letters), iter([Reply("busy", 503), Reply("", 429, {"Retry-After": "0.01"})])
    server = serve(lambda body: next(failures, None) or good(body))
    assert np.array_equal(opened(server.url).encode(TEXTS), letters(TEXTS))
    slow = serve(lambda body: Reply("too fast", 429, {"Retry-After": "3600"}))
    with pytest.raises(JobError):
        opened(slow.url)
    other = serve(embeddings(letters))
    moved = serve(lambda body: Reply("", 307, {"Location": other.url}))
    with pytest.raises(JobError):
        opened(moved.url)
    assert other.bodies == []  # and no key was sent there


def test_the_key_is_of_the_environment_and_is_shown_and_stored_nowhere(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    good = embeddings(letters)
    server = serve(good)
    with pytest.raises(ResourceError, match="EMBEDDING_KEY"):
        opened(server.url, key="EMBEDDING_KEY")
    monkeypatch.setenv("EMBEDDING_KEY", "sk-4711-very-secret")
    opened(server.url, key="EMBEDDING_KEY").encode(TEXTS)
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer sk-4711-very-secret"}
    stored = b"".join(file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file())
    assert stored and b"4711" not in stored
    server.answer = lambda body: Reply("no such key: sk-4711-very-secret", 401)
    with pytest.raises(JobError) as found:
        opened(server.url, key="EMBEDDING_KEY").encode(["another text"])
    assert "4711" not in str(found.value) and "***" in str(found.value)
    with pytest.raises(ValidationError) as wrong:
        spec(server.url, key="sk-4711-very-secret")
    assert "4711" not in wrong.value.errors()[0]["msg"]


def test_other_weights_behind_the_name_are_noticed(serve: Serve) -> None:
    server = serve(embeddings(letters))
    before = spec(server.url)
    place = locate(before)
    assert place.check() == place.fingerprint == hash_endpoint(before.endpoint) if before.endpoint else False
    server.answer = embeddings(lambda texts: letters(texts) * np.float32(1.00001))  # rounding
    place.check()
    server.answer = embeddings(lambda texts: letters(texts)[:, ::-1])
    with refusal(JobError, "version"):
        place.check()
    with pytest.raises(ModelChangedError):
        locate(before)
    after = spec(server.url, version="2026-12")
    assert locate(after).fingerprint != place.fingerprint
    assert before.endpoint and after.endpoint
    old, new = probe_signature(before.endpoint), probe_signature(after.endpoint)
    of = Provenance(rbench="1", signature=old)
    assert (
        len(old) == PROBED_TEXTS + PROBED_TEXTS * (PROBED_TEXTS - 1) // 2
        and not of.other_weights(old)
        and not of.other_weights(())
    )
    assert of.other_weights(new) == any(abs(a - b) > 0.1 for a, b in zip(old, new, strict=True))
    assert of.other_weights([0.9 * one for one in old]) and of.other_weights(old[:-1])


def test_signatures_are_lengths_and_cosines_of_the_probe(serve: Serve) -> None:
    server = serve(embeddings(letters))
    one = spec(server.url)
    locate(one)
    vectors = letters(PROBE).astype(np.float64)
    expected = [np.sqrt(sum(x * x for x in row)) for row in vectors]
    for i, u in enumerate(vectors):
        expected += [u @ v / np.sqrt((u @ u) * (v @ v)) for v in vectors[i + 1 :]]
    assert one.endpoint is not None
    assert probe_signature(one.endpoint) == pytest.approx(expected, abs=1e-4)


def test_prompts_dimensions_and_unit_length_are_those_of_other_encoders(serve: Serve) -> None:
    server = serve(embeddings(letters))
    made = spec(server.url, prompt="query: ", dimensions=5).model_copy(update={"normalize": True, "truncate_dim": 3})
    encoder = encoders.load(made, "")
    expected = letters(["query: a", "query: b"])[:, :5]
    expected = (expected / np.linalg.norm(expected, axis=1, keepdims=True))[:, :3]
    assert encoder.encode(["a", "b"]) == pytest.approx(expected, abs=1e-6) and encoder.dim == 3
    found = encoder(**encoder.tokenizer(["a", "b"], return_tensors="pt"))
    assert found.numpy() == pytest.approx(expected, abs=1e-6)


def test_a_saved_victim_asks_only_what_this_process_was_told_of(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(embeddings(letters))
    victim = EncoderClassifier(opened(server.url), num_labels=2).eval()
    victim.save(tmp_path / "victim", {"max_length": 16})
    again, _ = encoders.load_victim(tmp_path / "victim")
    rows = victim.tokenizer(TEXTS, return_tensors="pt")
    assert torch.equal(again(**again.tokenizer(TEXTS, return_tensors="pt")).logits, victim(**rows).logits)
    assert "127.0.0.1" not in (tmp_path / "victim" / "endpoint.json").read_text(encoding="utf-8")
    monkeypatch.setattr(asked_vectors, "named", {})
    with pytest.raises(ResourceError):
        encoders.load_victim(tmp_path / "victim")


# ---------------------------------------------------------------------------------------------------- in suites


def suite(encoder: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": "remote",
        "encoders": [encoder],
        "tasks": ["mini-sentiment"],
        "finetune": ["probe"],
        "resources": "mini",
    } | more


ENDPOINT = {"url": "http://127.0.0.1:9/v1/embeddings", "model": "letters"}
WRITTEN = {"name": "served", "endpoint": ENDPOINT}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"finetune": ["clean"]}, "clean"),
        ({"finetune": ["probe", "freelb"]}, "freelb"),
        ({"attacks": ["geometry"]}, "geometry"),
        ({"tasks": ["mini-nli"]}, "mini-nli"),
        ({"tasks": [], "finetune": [], "evaluate": [{"poisoning": {"tasks": ["mini-ranking"]}}]}, "poisoning"),
        ({"encoders": [{"endpoint": ENDPOINT}]}, "name"),
        ({"encoders": [{**WRITTEN, "name": "minilm"}]}, "minilm"),
        ({"encoders": [{**WRITTEN, "pooling": "mean"}]}, "pooling"),
        ({"encoders": [{**WRITTEN, "base": "x/y"}]}, "base"),
    ],
)
def test_what_needs_weights_is_refused_before_anything_is_asked(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SuiteError, match=named):
        load_mapping(suite(WRITTEN, **change), registry=Registry())


def test_no_strategy_means_one_that_trains_which_is_refused() -> None:
    written = suite(WRITTEN)
    del written["finetune"]
    with pytest.raises(SuiteError, match="finetune"):
        load_mapping(written, registry=Registry())


def test_nothing_stands_on_an_endpoint(tmp_path: Path) -> None:
    (tmp_path / "encoders").mkdir()
    (tmp_path / "encoders" / "served.yaml").write_text(json.dumps({"endpoint": ENDPOINT}), encoding="utf-8")
    (tmp_path / "encoders" / "other.yaml").write_text('{"base": "served", "pooling": "mean"}', encoding="utf-8")
    with refusal(SuiteError, "other.yaml:1"):
        load_mapping(suite("other"), registry=Registry((tmp_path,)))
    loaded = load_mapping(suite({"served": {"dimensions": 4, "rate": 9}}), registry=Registry((tmp_path,)))
    assert loaded.encoders["served[dimensions=4,rate=9]"].endpoint == EmbeddingsEndpoint(
        **ENDPOINT, dimensions=4, rate=9
    )


def test_the_key_of_a_job_holds_what_decides_vectors_and_no_secret() -> None:
    url = "https://me:pass@host/v1/embeddings?token=abc"
    one = portable_encoder(spec(url, key="SECRET_KEY", headers={"X": "${Y}"}, rate=3))
    assert one.endpoint is not None and one.endpoint.url == "https://***@host/v1/embeddings?token=***"
    assert one.endpoint.headers == {}
    base = hash_endpoint(EmbeddingsEndpoint(**ENDPOINT))
    how = {
        "batch_size": 3,
        "rate": 2,
        "timeout": 9,
        "concurrency": 4,
        "key": "K",
        "encoding": "base64",
        "tolerance": 0.1,
    }
    assert hash_endpoint(EmbeddingsEndpoint(**ENDPOINT, **how)) == base
    for what in ({"model": "other"}, {"dimensions": 4}, {"version": "2"}, {"url": "http://127.0.0.1:8/v1/embeddings"}):
        assert hash_endpoint(EmbeddingsEndpoint(**{**ENDPOINT, **what})) != base


@pytest.mark.nightly
def test_a_run_through_an_endpoint_has_the_numbers_of_the_encoder_behind_it(serve: Serve, tmp_path: Path) -> None:
    local = rbench.load_encoder("mini-bert-packaged", device="cpu", progress=False)
    server = serve(embeddings(local.encode))
    written = {"name": "served", "endpoint": {"url": server.url, "model": "mini", "concurrency": 2}}
    asked = suite(
        "mini-bert-packaged",
        encoders=["mini-bert-packaged", written],
        tasks=["mini-sentiment", "mini-sts"],
        finetune=["probe", "cosine"],
        attacks=["pwws"],
        num_examples=6,
        seeds=[0],
        training={"max_train": 40, "max_validation": 40},
        evaluate=["mini-sts", {"noise": {"kinds": ["typos"], "degrees": [0.1], "num_examples": 10}}, "test_accuracy"],
    )
    found = rbench.run(asked, out=tmp_path / "run", progress=False)
    assert not found.failed
    store = RunStore(tmp_path / "run")
    scores: dict[tuple[str, ...], dict[str, dict[str, float | None]]] = {}
    for job in store.plan().jobs:
        record = store.record(job)
        assert record is not None and record.status == "complete"
        told = {score.name: score.value for score in record.scores if score.name not in ("seconds",)}
        scores.setdefault((job.stage, *job.parts[1:]), {})[job.parts[0]] = told
        remote = job.parts[0] == "served"
        assert bool(record.provenance.signature) == bool(record.provenance.asked) == remote
    assert len(scores) == 8 and ("attack", "mini-sts", "cosine", "pwws") in scores  # adversarial STS, too
    for both in scores.values():
        assert both["served"] == pytest.approx(both["mini-bert-packaged"], abs=1e-5)
    requests = len(server.bodies)
    again = rbench.run(asked, out=tmp_path / "run", progress=False)
    assert not again.failed and len(server.bodies) == requests + 1  # the probe alone
    server.answer = embeddings(lambda texts: local.encode(texts)[:, ::-1] * 2)
    with pytest.raises(ResourceError, match="served"):
        rbench.run(asked, out=tmp_path / "run", progress=False)


# ------------------------------------------------------------------------------------------------ other weights


def another(texts: Any) -> Any:
    """Vectors of other weights behind the same name."""
    return letters([text[::-1] + "x" for text in texts])


class Exchanged:
    """Answers as one model, and, where `of` says so of the number of a request, as another one."""

    def __init__(self, of: Any) -> None:
        self.requests, self.of = 0, of

    def __call__(self, body: Any) -> Any:
        number, self.requests = self.requests, self.requests + 1
        return embeddings(another if self.of(number) else letters)(body)


@pytest.mark.parametrize(("batch_size", "after"), [(3, 1), (4, 2), (16, 3)])
def test_no_vector_of_a_model_that_was_exchanged_between_two_requests_is_kept(
    serve: Serve, batch_size: int, after: int
) -> None:
    """The first request is the probe's. A later process, answered by the first model again, finds its vectors alone."""
    texts = [*TEXTS, *(f"{text}, again" for text in TEXTS)]  # of so many, each size of a batch makes four requests
    answer = Exchanged(lambda number: number >= after)
    server = serve(answer)
    encoder = opened(server.url, batch_size=batch_size)
    with pytest.raises(ModelChangedError):
        encoder.encode(texts)
    del encoder
    answer.of = lambda number: False
    assert np.array_equal(opened(server.url, batch_size=batch_size).encode(texts), letters(texts))
    assert len(others(server)) >= len(texts)


def test_servers_that_differ_behind_one_address_are_refused(serve: Serve) -> None:
    server = serve(Exchanged(lambda number: number % 3 == 2))
    with pytest.raises(ModelChangedError):
        opened(server.url, batch_size=4).encode(TEXTS)


def test_no_index_of_two_models_is_kept(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rbench.encoders.index.PIECE", 8)
    answer = Exchanged(lambda number: number >= 3)
    encoder = opened(serve(answer).url, batch_size=8)
    with pytest.raises(ModelChangedError):
        index.load_document_vectors(encoder, TEXTS, lambda count: None)
    assert not [*(tmp_path / "cache").rglob("vectors-*.npy")]
    answer.of = lambda number: False
    found = index.load_document_vectors(encoder, TEXTS, lambda count: None)
    np.testing.assert_array_equal(found, index.to_unit_length(letters(TEXTS)))


def test_an_encoder_behind_an_endpoint_is_opened_and_ranked_with_by_the_path_of_its_file(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "emb.yaml"
    file.write_text(f"endpoint: {{url: '{serve(embeddings(letters)).url}', model: letters}}\n")
    for written in ("emb.yaml", str(file)):
        assert np.array_equal(rbench.load_encoder(written, device="cpu").encode(TEXTS), letters(TEXTS))
    documents = {f"d{i}": text for i, text in enumerate(TEXTS)}
    asked = {"q0": TEXTS[3], "q1": TEXTS[7]}
    result = rbench.rank("emb.yaml", asked, documents, {"q0": ["d3"], "q1": ["d7"]}, k=1, progress=False)
    assert result.found == (("d3",), ("d7",))
