"""Compares the tagger for one word in context with NLTK's tags of the whole text."""

from __future__ import annotations

from pathlib import Path

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tag import PerceptronTagger

from rbench.words.resources.lexical import NltkTagger, combined_synonyms, listed_synonyms, nltk_stopwords

SENTENCES = [
    [("the", "DT"), ("dog", "NN"), ("runs", "VBZ"), ("fast", "RB"), (".", ".")],
    [("a", "DT"), ("run", "NN"), ("is", "VBZ"), ("fun", "NN")],
    [("dogs", "NNS"), ("run", "VBP"), ("the", "DT"), ("show", "NN")],
    [("we", "PRP"), ("show", "VBP"), ("a", "DT"), ("fast", "JJ"), ("dog", "NN")],
] * 4
WORDS = st.sampled_from(
    ["the", "a", "dog", "dogs", "run", "runs", "show", "fast", "fun", "is", "Paris", "1999", "co-op", "x"]
)


@pytest.fixture(scope="module")
def tagger() -> NltkTagger:
    model = PerceptronTagger(load=False)
    model.train(SENTENCES)
    tagger = NltkTagger(model)
    tagger._map = lambda source, target, tag: f"{target}:{tag}"  # the real table is NLTK data
    return tagger


@settings(max_examples=80, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=9))
def test_each_words_tag_is_that_of_the_whole(tagger: NltkTagger, words: list[str]) -> None:
    whole = [tag for _, tag in tagger(words)]
    assert [tagger.at(words, place) for place in range(len(words))] == whole


def test_tags_depend_on_the_context(tagger: NltkTagger) -> None:
    assert tagger.at(["a", "run"], 1) == "universal:NN" and tagger.at(["dogs", "run", "the"], 1) != "universal:NN"


def stopwords(folder: Path, *words: str) -> Path:
    """NLTK data with these stop words."""
    file = folder / "corpora" / "stopwords" / "english"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.parent.joinpath("README").write_text("")
    later = file.with_name("later")
    later.write_text("\n".join(words))
    later.replace(file)
    return folder


def test_a_corpus_is_what_lies_there_now_though_nltk_opened_it_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stopwords(tmp_path / "first", "the", "a"), stopwords(tmp_path / "second", "of")
    monkeypatch.setattr(nltk.data, "path", [str(first)])
    assert nltk_stopwords() == {"the", "a"}
    monkeypatch.setattr(nltk.data, "path", [str(second)])
    assert nltk_stopwords() == {"of"}
    stopwords(second, "in")
    assert nltk_stopwords() == {"in"}


def test_listed_synonyms_are_found_at_the_start_of_a_sentence_too(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("good fine\nParis Lutetia\n")
    synonyms = listed_synonyms(tmp_path / "words")
    assert (synonyms("Good"), synonyms("good"), synonyms("Paris"), synonyms("paris")) == (
        ["fine"],
        ["fine"],
        ["Lutetia"],
        [],
    )


def test_combined_synonyms_are_those_of_each_source_once(tmp_path: Path) -> None:
    (tmp_path / "words").write_text("good fine\ngood sound\n")
    synonyms = combined_synonyms(
        lambda word: ["fine", "beneficial"] if word == "good" else [], listed_synonyms(tmp_path / "words")
    )
    assert synonyms("good") == ["beneficial", "fine", "sound"] and synonyms("fine") == ["good"]
    assert synonyms("lake") == []
