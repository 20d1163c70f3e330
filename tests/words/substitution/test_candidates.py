"""Candidates: batched against one mask at a time, and the rules of what may replace a word."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rbench.encoders.vectors import WordVectors
from rbench.words.substitution.candidates import MaskedWords
from tests.recipes import substitution_toy as toy

TEXTS = ["the film is good and dull, the plot very unseen.", "A tale looks Superb", "lousy flick feels fine"]


def make(kind="bert", length=64, **options):
    language_model, vectors = toy.masked_lm(kind, length), toy.word_vectors()
    return MaskedWords(language_model, vectors, **options)


def slots(text):
    found, end = [], 0
    for word in text.replace(",", " ").replace(".", " ").split():
        start = text.index(word, end)
        end = start + len(word)
        found.append((text, start, end))
    return found


def slow(masked_words, text, start, end):
    """One mask, the text as a string, the whole vocabulary, plain loops."""
    tokenizer, model, vectors = masked_words.tokenizer, masked_words.language_model.model, toy.word_vectors()
    word = text[start:end].lower()
    ids = tokenizer(text[:start] + tokenizer.mask_token + text[end:], return_tensors="pt")
    with torch.no_grad():
        logits = model(**ids).logits[0, ids["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
    byte_level = "<mask>" in tokenizer.get_vocab()
    ranked = []
    for token, k in sorted(tokenizer.get_vocab().items(), key=lambda item: -float(logits[item[1]])):
        if byte_level and not token.startswith("Ġ"):
            continue
        bare = token.removeprefix("Ġ")
        if bare.isalpha() and k not in tokenizer.all_special_ids:
            ranked.append(bare)
    kept = []
    for other in ranked[: 4 * masked_words.candidates]:
        if (
            other == word
            or word not in vectors.index
            or other not in vectors.index
            or len(kept) == masked_words.candidates
        ):
            continue
        if float(np.dot(vectors.unit[vectors.index[word]], vectors.unit[vectors.index[other]])) >= 0.5:
            kept.append(other)
    return kept[: masked_words.candidates]


@pytest.mark.parametrize(("kind", "candidates"), [("bert", 3), ("bert", 60), ("roberta", 8)])
def test_batched_candidates_are_those_of_one_mask_at_a_time(kind, candidates):
    masked_words = make(kind, candidates=candidates)
    wanted = [slot for text in TEXTS for slot in slots(text)]
    replies = masked_words(wanted)
    assert sum(map(len, replies)) > 2
    for (text, start, end), reply in zip(wanted, replies, strict=True):
        assert [word.lower() for word in reply] == slow(masked_words, text, start, end)


def test_replacements_are_other_whole_words_close_in_meaning():
    masked_words = make()
    text = "the film is superb"
    (reply,) = masked_words([(text, 12, 18)])
    assert reply
    assert set(reply) <= set(toy.GOOD) - {"superb"}


def test_a_replacement_takes_the_case_of_the_word():
    masked_words = make()
    (title,), (upper,) = (
        masked_words([("Good film", 0, 4)])[:1],
        masked_words([("GOOD film", 0, 4)])[:1],
    )
    assert title
    assert all(word.istitle() for word in title)
    assert all(word.isupper() for word in upper)
    assert "Good" not in title


def test_words_without_a_vector_are_dropped_or_kept():
    text = "the very film"
    assert make()([(text, 4, 8)]) == [[]]
    assert make(unknown="keep")([(text, 4, 8)])[0]
    kept = make(unknown="keep", min_cosine=1.0)([("a film is", 2, 6)])[0]
    assert kept
    assert not set(kept) & set(toy.word_vectors().index)


def test_the_least_cosine_is_a_filter():
    text = "the film is good"
    loose, strict = make(min_cosine=-1.0)([(text, 12, 16)])[0], make(min_cosine=0.5)([(text, 12, 16)])[0]
    assert [word for word in loose if word in strict] == strict
    assert len(loose) > len(strict)
    assert make(min_cosine=1.0)([(text, 12, 16)]) == [[]]


@pytest.mark.parametrize("place", [0, 40, 199])
def test_a_long_text_is_cut_to_a_window_around_the_mask(place):
    masked_words = make(length=32)
    text = " ".join(["film"] * 200)
    (reply,) = masked_words([(text, 5 * place, 5 * place + 4)])
    assert reply
    ids, mask = masked_words._mask([(text, 5 * place, 5 * place + 4)])[0]
    assert len(ids) == 32
    assert ids[mask] == masked_words.tokenizer.mask_token_id
    assert ids.count(masked_words.tokenizer.mask_token_id) == 1


def test_what_was_asked_before_is_remembered_and_what_is_asked_twice_is_asked_once():
    masked_words = make(candidates=60)
    network = masked_words.language_model.network
    wanted = [*slots(TEXTS[0]), *slots(TEXTS[0])]
    first = [list(reply) for reply in masked_words(wanted)]
    rows = network.rows_read
    assert 0 < rows <= len(wanted) // 2
    assert masked_words(wanted) == first and network.rows_read == rows
    for reply in masked_words(wanted):
        reply.clear()
    assert masked_words(wanted) == first
    masked_words(slots(TEXTS[1]))
    assert network.rows_read > rows


def test_no_slots_no_calls():
    assert make()([]) == []


def test_a_cosine_of_exactly_the_least_passes():
    masked_words = make(min_cosine=1.0)
    masked_words.vectors = WordVectors(["film", "movie", "plot"], np.array([[0, 2], [0, 5], [3, 0]], dtype=np.float32))
    assert masked_words._passes_filter("film", ["movie", "plot"]) == [True, False]


def test_of_several_cases_of_a_prediction_the_most_probable_is_taken():
    masked_words = make(min_cosine=None)
    masked_words._words = ["iPhone", "IPHONE", "iphone", "plot"]
    assert masked_words._filter("eBook", [1, 3, 0, 2]) == ["IPHONE", "plot"]
    assert masked_words._filter("eBook", [0, 1, 2]) == ["iPhone"], "a word in no plain case takes it as it is"
