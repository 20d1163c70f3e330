"""What attacks ask about words: vectors, synonyms, parts of speech, stop words, and a vector for a whole text.

The vectors are made, not trained: words of one concept share most of theirs, related concepts a little, antonyms
nothing; about one word in eight has drifted towards another concept, as trained vectors do, so that a nearest
neighbour is sometimes no synonym. All numbers come from hashes of names, so they are equal on every machine.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rbench.mini.lexicon import Concept, Form, load
from rbench.mini.reading import words_of

Vectors = npt.NDArray[np.float32]
DIMENSIONS = 128
_SHARED = 0.8
"""Squared share of a word's vector that its concept gives (of the same inflection): the cosine of two synonyms."""
_FIELD = 0.3
"""Squared share of a concept's vector that its field (part of speech, frame, topic, polarity) gives."""
_INFLECTION = 0.55
"""Squared share of a concept's own vector that is particular to one inflection."""
_POLES = 0.25
"""Squared share of a concept's own vector that sets it against its opposite."""
_DRIFTING, _DRIFT = 0.12, 0.42
"""How many words drift, and how far: the squared share of the vector that comes from the other concept."""
_FUNCTION_WEIGHT, _POLAR_WEIGHT = 0.15, 1.2
_FUNCTION = frozenset({"determiner", "be", "do", "word", "preposition"})
_TAGS = {
    "noun": "NOUN", "verb": "VERB", "be": "VERB", "do": "VERB", "adjective": "ADJ", "manner": "ADV", "time": "ADV",
    "intensity": "ADV", "preposition": "ADP", "determiner": "DET",
}  # fmt: skip
_WORD_TAGS = {"addition": "CONJ", "contrast": "CONJ", "concession": "ADP", "of": "ADP", "not": "ADV", "never": "ADV"}
_PRONOUNS = frozenset({"my", "our", "her", "his", "their"})


def synonyms(word: str) -> list[str]:
    """Other words of the same concept in the same inflection, the most frequent first; none for an unknown word."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    if form is None or lexicon.concepts[form.concept].part in ("be", "do"):
        return []
    words = lexicon.concepts[form.concept].words
    return [lexicon.inflected[other, form.feature] for other in words if other != form.word]


def antonyms(word: str) -> list[str]:
    """The words of the opposite concept in the same inflection; none where there is no opposite."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    opposite = lexicon.concepts[form.concept].antonym if form else None
    if form is None or opposite is None:
        return []
    return [lexicon.inflected[other, form.feature] for other in lexicon.concepts[opposite].words]


def pos_tags(words: Iterable[str]) -> list[tuple[str, str]]:
    """(word, universal part-of-speech tag) for each word; an unknown word is a NOUN, as taggers guess."""
    return [(word, _tag(word)) for word in words]


def _tag(word: str) -> str:
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    if form is None:
        if re.fullmatch(r"[\W_]+", word):
            return "."
        return "NUM" if re.fullmatch(r"\d+(?:[.,]\d+)*", word) else "NOUN"
    concept = lexicon.concepts[form.concept]
    if concept.part == "word":
        return _WORD_TAGS[concept.frame]
    return "PRON" if form.text in _PRONOUNS else _TAGS[concept.part]


@cache
def stopwords() -> frozenset[str]:
    """The closed classes: determiners, `be`, `do`, prepositions, conjunctions and negation."""
    lexicon = load()
    return frozenset(text for text, form in lexicon.forms.items() if lexicon.concepts[form.concept].part in _FUNCTION)


# --------------------------------------------------------------------------------------------------------- vectors


def sources() -> list[Path]:
    """The files that decide what this module answers: code, then lists of words."""
    here = Path(__file__).parent
    written = [here / name for name in ("lexical.py", "lexicon.py", "reading.py")]
    listed = sorted(path for path in (here / "lexicon").iterdir() if path.suffix in (".yaml", ".json", ".txt"))
    return [*written, *listed]


@cache
def word_vectors() -> tuple[list[str], Vectors]:
    """All words of the language, sorted, and their vectors: float32 (words, DIMENSIONS), rows of length 1."""
    words = sorted(load().forms)
    vectors = np.stack([_word_vector(load().forms[word]) for word in words])
    vectors.setflags(write=False)
    return words, vectors


def encode(texts: Sequence[str]) -> Vectors:
    """A semantic encoder: float32 (texts, DIMENSIONS), rows of length 1.

    The weighted mean of word vectors: a content word weighs 1 (1.2 with polarity, `not` too), a function word 0.15. So
    one synonym among six content words keeps a cosine near 0.97, one antonym leaves about 0.83.
    """
    encoded = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in words_of(text):
            encoded[row] += _weighted(word)
        length = float(np.linalg.norm(encoded[row]))
        encoded[row] = encoded[row] / length if length else _random("nothing")
    return encoded


@cache
def _rows() -> dict[str, Vectors]:
    words, vectors = word_vectors()
    return dict(zip(words, vectors, strict=True))


def _weighted(word: str) -> Vectors:
    lexicon = load()
    form = lexicon.forms.get(word)
    if form is None:
        return _random(f"unknown {word}")
    concept = lexicon.concepts[form.concept]
    weight = 1.0
    if concept.polarity or concept.frame in ("not", "never"):
        weight = _POLAR_WEIGHT
    elif concept.part in _FUNCTION:
        weight = _FUNCTION_WEIGHT
    return np.asarray(weight * _rows()[word], dtype=np.float32)


def _word_vector(form: Form) -> Vectors:
    lexicon = load()
    concept = lexicon.concepts[form.concept]
    meaning = _concept_vector(concept, form.feature)
    if (target := _drift(form.word, concept)) is not None:
        meaning = _mix(meaning, _concept_vector(target, form.feature), _DRIFT)
    return _mix(_random(f"word {form.text}"), meaning, _SHARED)


@cache
def _concept_vector(concept: Concept, feature: str) -> Vectors:
    own = _random(f"concept {concept.name}")
    if concept.antonym:
        # Opposites lie on two sides of one direction, so that neither is ever the other's neighbour.
        poles = _random(f"poles {min(concept.name, concept.antonym)}")
        own = _mix(own, poles if concept.name < concept.antonym else -poles, _POLES)
    if feature:
        own = _mix(own, _random(f"concept {concept.name} {feature}"), _INFLECTION)
    field = f"field {concept.part} {concept.frame} {concept.topic} {concept.polarity} {feature}"
    return _mix(own, _random(field), _FIELD)


def _drift(word: str, concept: Concept) -> Concept | None:
    """The concept that a word's vector has drifted to: of the same part and frame, not its opposite."""
    if concept.part in _FUNCTION or concept.part == "intensity":
        return None
    chance = _seeded(f"drift {word}")
    if chance.random() >= _DRIFTING:
        return None
    others = [
        other
        for other in load().concepts.values()
        if (other.part, other.frame) == (concept.part, concept.frame)
        and other.name not in (concept.name, concept.antonym)
    ]
    return others[int(chance.integers(len(others)))]


def _mix(first: Vectors, second: Vectors, share: float) -> Vectors:
    """Unit vector with squared share `share` of `second` and the rest of `first` (exact where they are orthogonal)."""
    mixed = np.sqrt(1 - share) * first + np.sqrt(share) * second
    return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)


@cache
def _random(name: str) -> Vectors:
    vector = _seeded(name).standard_normal(DIMENSIONS)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def _seeded(name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")))
