"""Tests the oracle on sentences written by hand, on swapped words, and on arbitrary text."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench import mini
from rbench.mini import lexical
from rbench.mini.lexicon import TOPICS, load
from rbench.mini.meaning import Clause, MeaningSampler, Sentence
from rbench.mini.oracle import judge_sentiment
from rbench.mini.reading import read
from rbench.mini.writing import SentenceWriter

POSITIVE, NEGATIVE = 1, 0
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The film was great.", POSITIVE),
        ("the FILM was awful !", NEGATIVE),
        ("The film was not great.", NEGATIVE),
        ("The film was never boring in the city.", POSITIVE),
        ("Although the plot of the film was dull, the actors performed well.", POSITIVE),
        ("The plot was dull but the actors performed well", POSITIVE),
        ("The actors performed badly though the plot was great.", NEGATIVE),
        ("The film was slightly boring and the plot was very funny.", POSITIVE),
        ("My sister did not enjoy the splendid meal.", None),
        ("My sister did not enjoy the splendid trip.", NEGATIVE),
        ("The film was an triumph.", POSITIVE),
        ("The critic loved the dull film.", POSITIVE),
        ("The film was good and the book was bad.", None),
        ("The film was blue.", None),
        ("The film were great.", None),
        ("The films was great.", None),
        ("These film was great.", None),
        ("The film great.", None),
        ("The film wass great.", None),
        ("The critic did not loved the film.", None),
        ("", None),
    ],
)
def test_sentiment(text: str, label: int | None) -> None:
    assert mini.oracle("mini-sentiment", (text,)) == label


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("The chef stirred.", "cooking"),
        ("The chef baked the cake near the stadium.", "cooking"),
        ("Although the girl found the guitar, the physician wore the coat.", None),
        ("Although the girl found the guitar, the physician opened the box.", "health"),
        ("The girl found the guitar and the physician opened the box.", None),
        ("The girl found the key.", None),
    ],
)
def test_topic(text: str, topic: str | None) -> None:
    assert mini.oracle("mini-topic", (text,)) == (None if topic is None else TOPICS.index(topic))


@pytest.mark.parametrize(
    ("premise", "hypothesis", "label"),
    [
        ("The small dog slept in the garden.", "An animal dozed.", ENTAILMENT),
        ("The animal slept in the garden.", "The dog slept.", NEUTRAL),
        ("The dog slept.", "The dog slept in the garden.", NEUTRAL),
        ("The dog slept.", "The dog woke.", CONTRADICTION),
        ("The dog slept.", "The dog did not sleep.", CONTRADICTION),
        ("The dog slept.", "The cat did not sleep.", NEUTRAL),
        ("The dog did not move.", "The dog never ran.", ENTAILMENT),
        ("The dog did not run.", "The dog did not move.", NEUTRAL),
        ("The dog did not move.", "The dog ran.", CONTRADICTION),
        ("The dog did not sleep.", "The dog woke.", NEUTRAL),
        ("The soup was very hot.", "The soup was warm.", ENTAILMENT),
        ("The soup was hot.", "The soup was very hot.", NEUTRAL),
        ("The soup was hot.", "The soup was not cold.", ENTAILMENT),
        ("The soup was hot.", "The soup was chilly.", CONTRADICTION),
        ("Although the dog slept, the cat ran.", "The animal slept.", ENTAILMENT),
        ("The man lifted the red box.", "The man lifted the box.", ENTAILMENT),
        ("The man lifted the box.", "The man lifted the red box.", NEUTRAL),
        ("The man lifted the box.", "The man dropped the box.", CONTRADICTION),
        ("The man lifted the box.", "The man dropped the bag.", NEUTRAL),
        ("The dog slept and the dog woke.", "The dog slept.", None),
        ("The dog slept.", "The dgo slept.", None),
    ],
)
def test_inference(premise: str, hypothesis: str, label: int | None) -> None:
    assert mini.oracle("mini-nli", (premise, hypothesis)) == label


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [
        ("The dog slept.", "A hound dozed.", 5.0),
        ("The dog slept.", "The cat ran.", 0.0),
        ("The dog slept.", "The animal slept.", 4.0),
        ("The dog slept.", "The dog did not sleep.", 2.0),
        ("The man lifted the red box.", "The man lifted the box.", 4.4),
    ],
)
def test_similarity(first: str, second: str, score: float) -> None:
    assert mini.oracle("mini-sts", (first, second)) == score
    assert mini.oracle("mini-sts", (second, first)) == score


@pytest.mark.parametrize("name", ["mini-sentiment", "mini-topic", "mini-nli", "mini-sts"])
def test_a_synonym_of_any_frequency_keeps_the_label(name: str) -> None:
    rng = Random(name)
    for row in mini.rows(name, "validation"):
        texts = [value for value in row.values() if isinstance(value, str)]
        words = texts[-1].split()
        at = rng.randrange(len(words))
        core = words[at].strip(".,").lower()
        for synonym in lexical.synonyms(core):
            swapped = " ".join([*words[:at], words[at].lower().replace(core, synonym), *words[at + 1 :]])
            assert mini.oracle(name, (*texts[:-1], swapped)) == row.get("label", row.get("score")), swapped


def test_an_antonym_of_the_deciding_word_flips_the_sentiment() -> None:
    flipped = 0
    lexicon = load()
    for row in mini.rows("mini-sentiment", "validation"):
        (sentence,) = read(row["text"]) or ()
        if len(sentence.main) != 1:
            continue
        clause = sentence.main[0]
        noun = clause.object.head if clause.object and clause.verb in ("be", "seem") else None
        manner = clause.manner if not lexicon.concepts[clause.verb].polarity else None
        decider = clause.quality or noun or manner or clause.verb
        said = [lexicon.forms[other.strip(".,").lower()].concept for other in row["text"].split()]
        if said.count(decider) != 1:
            continue  # also said elsewhere: "the great film was great"
        word = row["text"].split()[said.index(decider)]
        core = word.strip(".,").lower()
        for antonym in lexical.antonyms(core):
            text = " ".join(antonym if other == word else other for other in row["text"].split())
            assert mini.oracle("mini-sentiment", (text,)) == 1 - row["label"], text
            flipped += 1
    assert flipped > 500


def test_what_is_written_is_what_is_read() -> None:
    rng = Random(5)
    world, writer = MeaningSampler(rng), SentenceWriter(rng)
    for _ in range(500):
        meaning = Sentence((world.draw_event(),), (world.verdict(1),))
        assert read(writer.text(meaning)) == (meaning,)
        meaning = Sentence((world.draw_topical("music"), world.draw_event(past=False)))
        assert read(writer.text(meaning)) == (meaning,)


def test_number_and_tense_are_no_part_of_a_meaning() -> None:
    assert read("The dogs sleep.") == read("My dog slept.")


def test_a_verdict_says_what_it_was_asked_to_say() -> None:
    world = MeaningSampler(Random(1))
    for polarity in (1, -1):
        clauses: list[Clause] = [world.verdict(polarity) for _ in range(300)]
        assert {judge_sentiment((Sentence((clause,)),)) for clause in clauses} == {int(polarity > 0)}


def test_generators_without_labels_and_wrong_numbers_of_texts_are_refused() -> None:
    with pytest.raises(KeyError):
        mini.oracle("mini-corpus", ("The dog slept.",))
    with pytest.raises(ValueError):
        mini.oracle("mini-nli", ("The dog slept.",))


WORDS = st.sampled_from(sorted(load().forms))
TEXTS = st.one_of(st.text(max_size=80), st.lists(st.one_of(WORDS, st.sampled_from(".,!?")), max_size=16).map(" ".join))


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_the_oracle_never_raises(first: str, second: str) -> None:
    assert mini.oracle("mini-sentiment", (first,)) in (0, 1, None)
    assert mini.oracle("mini-topic", (first,)) in (*range(6), None)
    assert mini.oracle("mini-nli", (first, second)) in (0, 1, 2, None)
    score = mini.oracle("mini-sts", (first, second))
    assert score is None or 0 <= score <= 5


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_case_and_punctuation_change_nothing(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(mini.rows("mini-sentiment", "test")))
    words = [
        data.draw(st.sampled_from(["", "(", '"'])) + data.draw(st.sampled_from([word, word.upper(), word.lower()]))
        for word in row["text"].split()
    ]
    assert mini.oracle("mini-sentiment", (" ".join(words),)) == row["label"]
