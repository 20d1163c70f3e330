from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rbench import recipes
from rbench.errors import JobError
from tests.recipes import world
from tests.refusals import refusal

TEXTS = [str(row["text"]) for row in world.mini.rows("mini-sentiment", "test")[:40]]


def alone(victim: recipes.Victim, text: Any) -> Tensor:
    """Logits of one input by the classifier itself, without padding or cache."""
    inputs = victim.tokenizer([text], truncation=True, max_length=victim.max_length, return_tensors="pt")
    with torch.no_grad():
        logits: Tensor = victim.classifier(**inputs).logits[0]
    return logits


def test_logits_are_those_of_each_text_alone_in_the_order_asked(single: recipes.Victim) -> None:
    logits = single(TEXTS)
    assert logits.dtype == torch.float32 and logits.shape == (40, 2)
    torch.testing.assert_close(logits, torch.stack([alone(single, t) for t in TEXTS]), atol=1e-5, rtol=1e-5)
    assert torch.equal(single(TEXTS[::-1]), logits.flip(0))


def test_pairs_are_encoded_as_pairs(pair: recipes.Victim) -> None:
    rows = [(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[0]), (TEXTS[2], TEXTS[3])]
    logits = pair(rows)
    torch.testing.assert_close(logits, torch.stack([alone(pair, row) for row in rows]), atol=1e-5, rtol=1e-5)
    assert not torch.equal(logits[0], logits[1])


def test_what_the_tokenizer_cannot_tell_apart_is_computed_once_and_ties_exactly(bert: Any) -> None:
    victim = world.victim(bert, world.SINGLE)
    word = TEXTS[0].split()[1]
    lookalikes = [TEXTS[0].replace(word, odd) for odd in ("\u0430\u0431\u0432", "\u0433\u0434\u0435")]  # both [UNK]
    logits = victim([*lookalikes, TEXTS[0], TEXTS[0].upper(), TEXTS[0]])
    assert victim.network.rows_read == 2
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[2], logits[3]) and torch.equal(logits[2], logits[4])
    victim([TEXTS[0], lookalikes[1]])
    assert victim.network.rows_read == 2


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda logits: torch.where(torch.arange(len(logits))[:, None] == 1, torch.nan, logits), "NaN"),
        (lambda logits: logits[:, :1], "shape"),
        (lambda logits: logits[:1], "shape"),
    ],
)
def test_a_broken_victim_is_named_with_the_text(bert: Any, spoil: Callable[[Tensor], Tensor], complaint: str) -> None:
    classifier = world.victim(bert, world.SINGLE).classifier
    forward = classifier.forward
    classifier.forward = lambda **inputs: SimpleNamespace(logits=spoil(forward(**inputs).logits))
    victim = recipes.Victim(classifier, "random", max_length=64, backend="torch")
    length = len(victim.tokenizer(TEXTS[0])["input_ids"])
    texts = [text for text in TEXTS if len(victim.tokenizer(text)["input_ids"]) == length][:2]  # one batch
    assert len(set(texts)) == 2
    with refusal(JobError, complaint) as caught:
        victim(texts)
    assert "random" in str(caught.value)
    assert any(text in str(caught.value) for text in texts)


def test_long_texts_are_cut_as_the_tokenizer_cuts_and_known_to_be(bert: Any) -> None:
    victim = world.victim(bert, world.SINGLE, max_length=16)
    long = " ".join(TEXTS[:5])
    assert victim.is_truncated(long) and not victim.is_truncated("the story")
    torch.testing.assert_close(victim([long])[0], alone(victim, long), atol=1e-5, rtol=1e-5)


def test_the_gradient_is_that_of_the_loss_at_the_token_embeddings(single: recipes.Victim) -> None:
    found = single.get_grad(TEXTS[0])
    table = single.classifier.get_input_embeddings().weight
    ids = found["ids"][0]
    assert found["gradient"].shape == (len(ids), table.shape[1])
    label = int(alone(single, TEXTS[0]).argmax())
    place, direction = 2, torch.from_numpy(found["gradient"][2]) / float(np.linalg.norm(found["gradient"][2]))

    def loss(step: float) -> float:
        words = table[ids].clone()
        words[place] += step * direction
        handle = single.classifier.get_input_embeddings().register_forward_hook(lambda *a: words[None])
        with torch.no_grad():
            logits = single.classifier(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]).logits
        handle.remove()
        return float(torch.nn.functional.cross_entropy(logits.double(), torch.tensor([label])))

    slope = (loss(1e-2) - loss(-1e-2)) / 2e-2
    assert slope == pytest.approx(float(np.linalg.norm(found["gradient"][2])), rel=0.05)
    assert len(single.tokenize([TEXTS[0]])[0]) == len(ids)
