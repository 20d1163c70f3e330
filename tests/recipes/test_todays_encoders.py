"""Attacks on classifiers on today's encoders: their prompt is never changed, and its gradients are no word's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rbench.config.code import find
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.reading import ReadingSettings
from rbench.encoders.sentence import SentenceEncoder
from rbench.recipes import _textattack
from rbench.recipes.geometry import VictimGradients
from rbench.recipes.victim import Victim
from tests.kinds import network
from tests.recipes import substitution_toy as toy

textattack = _textattack.textattack
from textattack.shared import AttackedText  # noqa: E402

PROMPT = "the very good film seems "
"""Made of words that attacks would replace."""
TEXTS = toy.sentences(np.random.default_rng(5), 4)[0]
FOLDER = Path(__file__).resolve().parents[2] / "attacks"


@pytest.fixture(scope="module", params=["qwen3", "modernbert", "gemma"])
def victim(request: pytest.FixtureRequest) -> Victim:
    tokenizer = toy.bert_tokenizer()
    tokenizer.padding_side = "left" if request.param == "qwen3" else "right"
    settings = ReadingSettings(prompt=PROMPT)
    model = network(request.param, len(tokenizer))
    encoder = SentenceEncoder(model, tokenizer, "last" if request.param == "qwen3" else "mean", settings=settings)
    torch.manual_seed(0)
    classifier = EncoderClassifier(encoder, 2).eval()
    torch.nn.init.normal_(classifier.head.weight)
    return Victim(classifier, request.param, backend="torch")


def predicted(victim: Victim, text: str) -> int:
    return int(victim([text])[0].argmax())


def test_an_attack_changes_words_of_the_text_and_never_the_prompt(victim: Victim) -> None:
    module: Any = find("attacks", "geometry").open()
    attack = module.build(victim, toy.resources(), module.Options(max_words=3), None)
    changed = 0
    for text in TEXTS:
        result = attack.attack(text, predicted(victim, text))
        final = result.perturbed_result.attacked_text
        assert final.num_words == result.original_result.attacked_text.num_words == AttackedText(text).num_words
        assert PROMPT not in final.text
        changed += final.text != text
        # The victim reads the prompt before the changed text too.
        plain = victim.tokenizer.plain(PROMPT + final.text, return_tensors="pt")
        with torch.no_grad():
            expected = victim.classifier(**plain).logits[0]
        torch.testing.assert_close(victim([final.text])[0], expected, atol=1e-5, rtol=1e-5)
    assert changed > len(TEXTS) // 2


def test_norms_of_words_are_those_of_the_texts_own_pieces(victim: Victim) -> None:
    for text in TEXTS[:4]:
        label = predicted(victim, text)
        inputs = victim.tokenizer.plain(PROMPT + text, return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        ids = inputs["input_ids"]
        table = victim.classifier.get_input_embeddings()
        embedded = torch.nn.functional.embedding(ids, table.weight).detach()
        embedded = (embedded * getattr(table, "embed_scale", 1.0)).requires_grad_()  # Gemma scales its table
        logits = victim.classifier(inputs_embeds=embedded, attention_mask=inputs["attention_mask"]).logits[0]
        (logits[1 - label] - logits[label]).backward()
        expected, end = [], len(PROMPT)
        for word in AttackedText(text).words:
            start = (PROMPT + text).index(word, end)
            end = start + len(word)
            pieces = [k for k, (a, b) in enumerate(offsets) if a < end and b > start]
            expected.append(embedded.grad[0, pieces].mean(dim=0).norm())
        found = VictimGradients(victim)([AttackedText(text)], [label]).norms[0]
        torch.testing.assert_close(found, torch.stack(expected), atol=1e-4, rtol=1e-3)


def test_recipes_that_match_words_with_tokens_do_not_see_the_prompt(victim: Victim) -> None:
    text = AttackedText("the film seems good")  # all of these words are in the prompt too
    gradient = victim.get_grad(text.tokenizer_input)["gradient"]
    mapping = text.align_with_model_tokens(victim)
    hidden = victim.tokenizer.prompt_tokens
    assert [mapping[i] for i in range(4)] == [[hidden], [hidden + 1], [hidden + 2], [hidden + 3]]
    assert len(gradient) == hidden + 4 + 1


def test_a_text_is_truncated_if_the_prompt_leaves_no_room_for_it(victim: Victim) -> None:
    hidden = victim.tokenizer.prompt_tokens
    room = victim.max_length - hidden - 1
    assert not victim.is_truncated("good " * room) and victim.is_truncated("good " * (room + 1))
