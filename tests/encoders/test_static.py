"""Compares averaged word vectors with a slow average, and tests that they work like any other network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rbench import encoders, recipes
from rbench.encoders import static
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.inference import backends
from rbench.encoders.locate import EMBEDDED_VECTORS, locate
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from rbench.mini.lexical import word_vectors
from rbench.recipes import Victim
from rbench.schema import EncoderSpec, Training
from rbench.train.finetune import clean, probe
from tests import tiny
from tests.recipes import world
from tests.refusals import refusal

WORDS = ["the", "film", "was", "n't", "good", ".", "a", "o", "d", "do", "é", "3"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
SPEC = EncoderSpec(name="toy", word_vectors="toy.txt", pooling="mean")


def write(path: Path, words: list[str] = WORDS, header: bool = False) -> Path:
    """A text file of vectors, with word2vec's first line or, as GloVe has it, without."""
    lines = [f"{word} {' '.join(map(repr, row.tolist()))}" for word, row in zip(words, MATRIX, strict=True)]
    path.write_text("\n".join([f"{len(words)} 4"] * header + lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    return encoders.load(SPEC, write(tmp_path_factory.mktemp("vectors") / "toy.txt"))


def slowly(*texts: str) -> np.ndarray:
    """The mean over the known words, by the rule as the documentation has it."""
    found = []
    for text in texts:
        text = re.sub(r"(\w)(n't\b)", r"\1 \2", text.lower())
        found += [piece for piece in re.findall(r"n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]", text) if piece in WORDS]
    return np.mean([MATRIX[WORDS.index(word)] for word in found], axis=0) if found else np.zeros(4, np.float32)


@pytest.mark.parametrize(
    "text",
    ["The film was good.", "the unheard-of FILM", "don't", "The film wasn't good", "", "nothing known", "good od odo"],
)
def test_a_text_is_the_mean_of_its_known_words(encoder: SentenceEncoder, text: str) -> None:
    np.testing.assert_allclose(encoder.encode([text])[0], slowly(text), atol=1e-6)


@given(st.lists(st.sampled_from([*WORDS, "unknown", "ood", "filmfilm", "-", "▁", "Good", "\u3000"]), max_size=12))
def test_unknown_words_never_count(encoder: SentenceEncoder, words: list[str]) -> None:
    text = " ".join(words)
    np.testing.assert_allclose(encoder.encode([text])[0], slowly(text), atol=1e-6)


def test_batches_pairs_and_padding_change_nothing(encoder: SentenceEncoder) -> None:
    texts = ["good", "", "the film was a film . the film was good", "unknown"]
    together = encoder(**encoder.tokenizer(texts, padding=True, return_tensors="pt")).detach()
    np.testing.assert_allclose(together, [slowly(text) for text in texts], atol=1e-6)
    pair = encoder.tokenizer("the film", "good unknown", return_tensors="pt")
    with torch.no_grad():
        np.testing.assert_allclose(encoder(**pair)[0], slowly("the film", "good"), atol=1e-6)
        embedded = encoder.model.get_input_embeddings()(pair["input_ids"])
        torch.testing.assert_close(encoder(inputs_embeds=embedded), encoder(**pair))


def test_capitals_are_kept_where_the_vectors_have_them(tmp_path: Path) -> None:
    cased = encoders.load(SPEC, write(tmp_path / "cased.txt", ["The", *WORDS[1:]], header=True))
    np.testing.assert_allclose(cased.encode(["The film", "the film"]), [MATRIX[:2].mean(0), MATRIX[1]], atol=1e-6)


def test_the_first_of_a_repeated_word_counts() -> None:
    network, tokenizer = static.build_static(["a", "b", "a", ""], MATRIX[:4])
    np.testing.assert_array_equal(SentenceEncoder(network, tokenizer, "mean").encode(["a"])[0], MATRIX[0])


def test_the_embedded_worlds_vectors_need_no_file() -> None:
    spec = EncoderSpec(name="mini-static", word_vectors="mini", pooling="mean")
    found = locate(spec)
    assert len(found.fingerprint) == 64
    encoder = encoders.load(spec, found.where)
    words, matrix = word_vectors()
    np.testing.assert_allclose(encoder.encode(words[:50]), matrix[:50], atol=1e-6)


# ------------------------------------------------------------------------------------------ a network like any other


def classifier(encoder: SentenceEncoder) -> EncoderClassifier:
    torch.manual_seed(0)
    made = EncoderClassifier(encoder, 2, max_length=20).eval()
    torch.nn.init.normal_(made.head.weight)
    return made


def test_a_victim_is_the_same_after_saving_bit_for_bit(encoder: SentenceEncoder, tmp_path: Path) -> None:
    made = classifier(encoder)
    made.save(tmp_path / "victim", {})
    loaded, _ = EncoderClassifier.load(tmp_path / "victim")
    texts = ["the film", "unknown", "was n't good .", "a a a"]
    before, after = (Victim(one, "v", backend="torch")(texts) for one in (made, loaded))
    assert torch.equal(before, after)
    assert torch.equal(before[1], made.head.bias.detach()), "a text without known words is the vector 0"


@pytest.mark.parametrize("backend", backends.usable(torch.device("cpu")))
def test_every_back_end_computes_it(encoder: SentenceEncoder, backend: str) -> None:
    made = classifier(encoder)
    texts = ["the film", "unknown", "", "was n't good .", "a a a", "a o d"]
    expected = torch.from_numpy(np.stack([slowly(text) for text in texts])) @ made.head.weight.T + made.head.bias
    torch.testing.assert_close(Victim(made, "v", backend=backend)(texts), expected.detach(), atol=1e-5, rtol=0)


def test_gradients_reach_the_words_and_nothing_else(encoder: SentenceEncoder) -> None:
    slope = Victim(classifier(encoder), "v", backend="torch").get_grad("the film zzz")
    assert slope["ids"].shape == (1, 3) and np.abs(slope["gradient"][0]).sum() == 0
    assert (np.abs(slope["gradient"][1:]).sum(axis=1) > 0).all()


@pytest.mark.parametrize("strategy", [clean.CleanStrategy(), probe.ProbeStrategy()])
def test_it_is_fine_tuned_and_probed(strategy: Any) -> None:
    random = np.random.default_rng(1)
    network, tokenizer = static.build_static(tiny.WORDS, random.normal(size=(len(tiny.WORDS), 16)).astype(np.float32))
    encoder = SentenceEncoder(network, tokenizer, "mean")
    before = network.embeddings.weight.detach().clone()
    training = Training(epochs=4, learning_rate=5e-2, batch_size=16)
    _, scores = strategy.run(strategy.Options(), tiny.context(encoder, tiny.data(), training))
    assert scores["validation_accuracy"] > 0.85
    assert torch.equal(network.embeddings.weight[:2], torch.zeros(2, 16)), "padding and [CLS] are nothing, and stay so"
    assert torch.equal(network.embeddings.weight, before) == isinstance(strategy, probe.ProbeStrategy)


@pytest.mark.parametrize("name", ["pwws", pytest.param("geometry", marks=pytest.mark.nightly)])
def test_it_is_attacked(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    mini = encoders.load(EncoderSpec(name="mini-static", word_vectors="mini", pooling="mean"), EMBEDDED_VECTORS)
    victim = Victim(classifier(mini), "static", max_length=64, backend="torch")
    path = world.ROOT / "attacks" / "geometry.py" if name == "geometry" else None
    resources = world.resources(world.write_bert(tmp_path / "lm", seed=1, head=True))
    built = recipes.build(world.spec(name), victim, resources, world.SINGLE, path=path)
    examples = world.examples(world.SINGLE, victim, 6)
    outcomes = list(recipes.run(lambda: built, examples, spec=world.spec(name), task=world.SINGLE, seed=0))
    assert [outcome.error for outcome in outcomes if outcome.status == "errored"] == []
    tried = [outcome for outcome in outcomes if outcome.status in ("succeeded", "failed")]
    assert len(tried) == 5 and any(outcome.num_words_changed for outcome in tried)


# ------------------------------------------------------------------------------------------------------ finding them


def test_vectors_are_found_by_name_then_by_file(tmp_path: Path) -> None:
    named, by_file = tmp_path / "one" / "toy", tmp_path / "two"
    named.mkdir(parents=True), by_file.mkdir()
    write(named / "anything.vec", header=True), write(by_file / "toy.txt")
    first = locate(SPEC, [tmp_path / "none", by_file, tmp_path / "one"])
    assert first.where == str(by_file / "toy.txt")
    folder = locate(SPEC, [tmp_path / "one", by_file])
    assert folder.where == str(named) and folder.fingerprint != first.fingerprint
    np.testing.assert_allclose(encoders.load(SPEC, folder.where).encode(["film"])[0], MATRIX[1], atol=1e-6)
    explicit = SPEC.model_copy(update={"word_vectors": str(by_file / "toy.txt")})
    assert locate(explicit).fingerprint == first.fingerprint


def test_missing_vectors_come_with_the_remedy(tmp_path: Path) -> None:
    with refusal(ResourceError, "toy.txt", "DIR/toy.txt", "RBENCH_MODELS"):
        locate(SPEC, [tmp_path])
    with pytest.raises(ResourceError):
        locate(SPEC.model_copy(update={"word_vectors": "../toy.txt"}), [tmp_path])


def test_damaged_vectors_are_named(tmp_path: Path) -> None:
    (tmp_path / "toy.txt").write_text("good 1 2\nbad 1 x\n")
    with refusal(ResourceError, "toy.txt:2"):
        encoders.load(SPEC, tmp_path / "toy.txt")


@pytest.mark.parametrize("wrong", [{"pooling": "cls"}, {"layers": 2}, {"base": "bert-base"}])
def test_what_makes_no_sense_of_word_vectors_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EncoderSpec.model_validate({"name": "toy", "word_vectors": "toy.txt", "pooling": "mean", **wrong})


def test_an_encoder_over_word_vectors_has_their_pooling(tmp_path: Path) -> None:
    for changed, named in (({"pooling": "first-last-mean"}, "first-last-mean"), ({"layers": 1}, "layers")):
        spec = EncoderSpec.model_validate({"name": "above", "base": "toy", "pooling": "mean", **changed})
        with pytest.raises(ResourceError, match=named):
            encoders.load(spec, write(tmp_path / "toy.txt"))


# ----------------------------------------------------------------------------------- those of sentence-transformers


def static_folder(folder: Path, rows: int = 40, name: str = "embedding.weight") -> Path:
    """What sentence-transformers writes of a StaticEmbedding, and model2vec under another name; rows count from 0."""
    from safetensors.torch import save_file

    from tests.encoders.layouts import tokenizer

    folder.mkdir()
    tokenizer().backend_tokenizer.save(str(folder / "tokenizer.json"))
    save_file({name: torch.arange(rows * 2.0).reshape(rows, 2).half()}, folder / "model.safetensors")
    listed = '[{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]'
    (folder / "modules.json").write_text(listed)
    return folder


@pytest.mark.parametrize("name", ["embedding.weight", "embeddings"])
def test_a_table_of_model2vec_is_read_too_and_half_precision_is_made_full(name: str, tmp_path: Path) -> None:
    folder = static_folder(tmp_path / "static", name=name)
    encoder = encoders.load(EncoderSpec(name="toy", base="x/y", pooling="mean"), folder)
    ids = encoder.tokenizer(["good bad"], add_special_tokens=False)["input_ids"][0]
    assert len(ids) == 2 and locate(EncoderSpec(name="toy", base=str(folder), pooling="mean")).fingerprint
    found = encoder.encode(["good bad", "", "good " * 5000])
    np.testing.assert_allclose(found[0], [sum(ids), sum(ids) + 1])
    np.testing.assert_allclose(found[1:], [[0, 0], [2 * ids[0], 2 * ids[0] + 1]])


def test_a_static_embedding_with_another_pooling_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    folder = static_folder(tmp_path / "static")
    with pytest.raises(ResourceError):
        encoders.load(EncoderSpec(name="toy", base="x/y", pooling="cls"), folder)
    with pytest.raises(ResourceError, match="layers"):
        encoders.load(EncoderSpec(name="toy", base="x/y", pooling="mean", layers=1), folder)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(ResourceError, match="static") as caught:
        encoders.load(EncoderSpec(name="toy", base="x/y", pooling="mean"), folder)
    assert "\n" not in str(caught.value)
