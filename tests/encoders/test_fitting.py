"""What a network is given of a text, and in which batches a classifier is asked."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer

from rbench import mini
from rbench.encoders.classify import BatchLimits, classify
from rbench.encoders.reading import find_longest_input, find_padding, fit_tokenizer
from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import ResourceError
from rbench.recipes import Victim
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.model import ExistingClassifier, open_model
from tests.encoders.layouts import LEFT, TEXTS, TYPES, VOCABULARY, Make, opened, tokenizer
from tests.kinds import WIDTH, network
from tests.victims import layouts


def classifier(name: str) -> tuple[ExistingClassifier, layouts.Layout]:
    layout = layouts.LAYOUTS[name]()
    return ExistingClassifier(layout.model, layout.tokenizer, (0, 1)).eval().with_safe_batches(1), layout


def test_a_tokenizer_that_fits_is_the_one_given_and_another_is_a_copy() -> None:
    bert, distilbert = network("bert", len(VOCABULARY)), network("distilbert", len(VOCABULARY))
    plain, types = tokenizer(), tokenizer(**TYPES)
    assert fit_tokenizer(plain, bert) is plain and fit_tokenizer(types, bert) is types
    assert "token_type_ids" not in fit_tokenizer(types, distilbert)(["good"]) and "token_type_ids" in types(["good"])
    left = tokenizer(padding_side="left")
    assert fit_tokenizer(left, bert).padding_side == "right" and left.padding_side == "left"


def test_where_no_token_pads_the_one_that_ends_texts_does_and_else_the_first() -> None:
    llama = network("llama", len(VOCABULARY))
    given = tokenizer(pad_token=None)
    assert fit_tokenizer(given, llama).pad_token == "</s>" and given.pad_token is None
    none = tokenizer(pad_token=None, eos_token=None, unk_token=None)
    assert fit_tokenizer(none, llama).pad_token == "<pad>"
    llama.config.pad_token_id = 3
    assert find_padding(fit_tokenizer(given, llama), llama)[0] == 3, "the network's own"


def test_positions_limit_what_is_read() -> None:
    free = tokenizer(model_max_length=None)
    roberta = network("roberta", len(VOCABULARY))  # 50 positions, counted from 1 after that of padding, 0
    assert [find_longest_input(roberta, free, wanted) for wanted in (None, 20, 90)] == [49, 20, 49]
    assert find_longest_input(network("t5", len(VOCABULARY)), free) == 512


@pytest.mark.parametrize(
    ("kind", "words", "fitting"),
    [
        ("distilbert", TYPES, {}),  # sentence-transformers gives it the types, and fails
        ("roberta", {"model_max_length": None}, {"max_seq_length": 49}),  # it reads a position too many, and fails
    ],
)
def test_encoders_that_sentence_transformers_fails_on_have_the_vectors_of_a_tokenizer_that_fits(
    kind: str, words: dict[str, Any], fitting: dict[str, Any], networks: Make
) -> None:
    ours = opened(networks(kind, **words)).encode(TEXTS)
    theirs = SentenceTransformer(modules=[Transformer(str(networks(kind)), **fitting), Pooling(WIDTH)], device="cpu")
    expected = [theirs.encode([text], show_progress_bar=False)[0] for text in TEXTS]
    np.testing.assert_allclose(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_a_padded_batch_of_an_encoder_has_the_vectors_of_its_rows(pooling: Any) -> None:
    """As in trainings, whose batches are padded: on the left, BERT would read texts at other positions."""
    encoder = SentenceEncoder(network("bert", len(VOCABULARY)), tokenizer(**LEFT), pooling).eval()
    texts = [text for text in TEXTS if text]
    batch = encoder.tokenizer(texts, padding=True, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        np.testing.assert_allclose(encoder(**batch).numpy(), encoder.encode(texts), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("BERT, tokenizer pads on the left", BatchLimits()),
        ("XLNet", BatchLimits(step=1)),  # its head reads the last place of a batch, padding or not
        ("GPT-2, no padding token", BatchLimits(step=1)),
        ("GPT-2, padding token", BatchLimits()),
    ],
)
def test_what_padding_would_change_is_computed_without(name: str, found: BatchLimits) -> None:
    model, layout = classifier(name)
    assert model.batching == found
    by_hand = layout.by_hand(TEXTS[:2] + TEXTS[5:]).argmax(1).tolist()
    assert classify(model, [(text,) for text in TEXTS[:2] + TEXTS[5:]]).labels.tolist() == by_hand


@pytest.mark.parametrize(
    "name",
    [
        "BERT, tokenizer pads on the left",
        "GPT-2, no padding token",
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ("XLNet", "DistilBERT, tokenizer gives token types")
        ),
    ],
)
def test_an_evaluation_of_a_folder_has_the_answers_of_its_texts_one_by_one(name: str, tmp_path: Path) -> None:
    """In batches padded on the left a BERT had the accuracy 0.567 on rows of which it has 0.892 right one by one."""
    layout = layouts.LAYOUTS[name]()
    layout.model.save_pretrained(tmp_path)
    layout.tokenizer.save_pretrained(tmp_path)
    task = TaskSpec(name="films", kind="single", columns=("text",), labels=layouts.LABELS)
    model = open_model(VictimSpec(name="shipped", model=str(tmp_path)), tmp_path, task)
    whole = [str(row["text"]).split() for row in mini.rows("mini-sentiment", "test")[:36]]
    texts = [" ".join(words[: 2 + i % 12]) for i, words in enumerate(whole)]
    by_hand = layout.by_hand(texts).argmax(1).tolist()
    assert 0 < sum(by_hand) < len(texts)
    assert classify(model, [(text,) for text in texts]).labels.tolist() == by_hand


class Average(transformers.BertForSequenceClassification):  # type: ignore[misc]
    """Answers each text of a batch with the mean of all."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **more: Any) -> Any:
        found = super().forward(input_ids=input_ids, attention_mask=attention_mask)
        found.logits = found.logits.mean(0, keepdim=True).expand(len(found.logits), -1) * len(found.logits)
        return found


def test_what_a_batch_changes_is_computed_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    layout = layouts.LAYOUTS["BERT"]()
    odd = copy.copy(layout.model)
    odd.__class__ = Average
    opened = ExistingClassifier(odd, layout.tokenizer, (0, 1)).eval().with_safe_batches(1)
    assert opened.batching == BatchLimits(step=1, most=1) and "takes longer" in caplog.text
    answers = Victim(opened, "odd", backend="torch")(["good", "bad", "dull"])
    torch.testing.assert_close(answers, layout.by_hand(["good", "bad", "dull"]), atol=1e-5, rtol=1e-5)


def test_a_network_that_cannot_compute_a_text_is_refused_in_one_line() -> None:
    layout = layouts.LAYOUTS["BERT"]()
    words = layouts.words(types=True)
    words.add_tokens(["story of"])  # beyond the table of the network
    with pytest.raises(ResourceError, match="index out of range") as caught:
        ExistingClassifier(layout.model, words, (0, 1)).eval().with_safe_batches(1)
    assert "\n" not in str(caught.value)
    with torch.no_grad():
        layout.model.classifier.bias.fill_(float("nan"))
    with pytest.raises(ResourceError):
        ExistingClassifier(layout.model, layout.tokenizer, (0, 1)).eval().with_safe_batches(1)


def test_a_text_with_t5s_last_token_in_it_shares_a_batch() -> None:
    model, layout = classifier("T5")
    texts = ["the film was good", "the [SEP] was good", "a plot was bad"]
    answers = Victim(model, "toy", backend="torch")(texts)
    torch.testing.assert_close(answers, layout.by_hand(texts), atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("measuring")
@pytest.mark.parametrize(
    "name",
    [
        "DistilBERT, tokenizer gives token types",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("T5", "GPT-2, no padding token")),
    ],
)
def test_back_ends_are_measured_on_what_the_tokenizer_writes(name: str) -> None:
    model, layout = classifier(name)
    torch.testing.assert_close(Victim(model, "toy")(TEXTS[:2]), layout.by_hand(TEXTS[:2]), atol=1e-4, rtol=1e-4)


@pytest.mark.nightly  # OpenVINO compiles for seconds
def test_openvino_gives_gpt2_no_token_types() -> None:
    """GPT-2 adds to each token the vector of its type, so types of zero are not none."""
    pytest.importorskip("openvino")
    model, layout = classifier("GPT-2, padding token")
    try:
        victim = Victim(model, "toy", backend="openvino")
    except ResourceError:
        pytest.skip("OpenVINO cannot trace GPT-2")
    torch.testing.assert_close(victim(TEXTS[:2]), layout.by_hand(TEXTS[:2]), atol=1e-4, rtol=1e-4)
