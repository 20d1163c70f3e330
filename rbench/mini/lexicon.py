"""The words of the embedded world: concepts, their synonyms with frequencies, and every inflected form.

A concept is one meaning with 1 to 6 words for it, the most frequent first. A surface form belongs to exactly one word
of one concept, so reading a text needs no guessing. The word lists are our own (rbench/mini/lexicon/*.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import accumulate
from typing import Any, Literal

import yaml

PartOfSpeech = Literal[
    "noun", "verb", "adjective", "manner", "time", "intensity", "preposition", "determiner", "be", "do", "word"
]
TOPICS = ("sports", "cooking", "finance", "music", "science", "health")
ZIPF_EXPONENT = 2.5
"""Share of the k-th synonym is proportional to k ** -2.5: 0.78, 0.14, 0.05, 0.02 for four synonyms."""


@dataclass(frozen=True)
class Concept:
    """One meaning. `name` is its most frequent word; `frame` says which sentences it stands in."""

    name: str
    part: PartOfSpeech
    frame: str
    words: tuple[str, ...]
    polarity: int = 0
    antonym: str | None = None
    isa: str | None = None
    topic: str | None = None
    marked: bool = False
    """The second of two antonyms, which people say less often: a thing is called tall more often than low."""
    weights: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """Cumulative shares of `words`, the last one 1.0."""


@dataclass(frozen=True)
class Form:
    """One surface form. `feature` is singular, plural, base, present (third person) or past, or empty."""

    text: str
    concept: str
    word: str
    feature: str = ""


@dataclass(frozen=True)
class Lexicon:
    """All concepts by name, all forms by text, and the same forms by (word, feature)."""

    concepts: Mapping[str, Concept]
    forms: Mapping[str, Form]
    inflected: Mapping[tuple[str, str], str]
    ancestors: Mapping[str, tuple[str, ...]]
    """A concept's name, then its hypernyms from near to far."""

    def of(self, part: str, *frames: str, topic: str | None = None) -> list[Concept]:
        """Concepts of a part of speech, in these frames (any where none is named), of this topic (or of none)."""
        return [
            c
            for c in self.concepts.values()
            if c.part == part and (not frames or c.frame in frames) and c.topic == topic
        ]

    def share(self, word: str) -> float:
        """How often `word` is chosen for its concept, 0..1."""
        concept = self.concepts[self.forms[word].concept]
        rank = concept.words.index(self.forms[word].word)
        return concept.weights[rank] - (concept.weights[rank - 1] if rank else 0.0)


@cache
def load() -> Lexicon:
    """Read and check the word lists; a ValueError names a word that means two things or an unknown hypernym."""
    concepts: dict[str, Concept] = {}
    forms: dict[str, Form] = {}
    irregular = {**_read("nouns")["irregular"], **_read("verbs")["irregular"]}
    for concept in _concepts():
        if concept.name in concepts:
            raise ValueError(f"the concept {concept.name!r} is listed twice")
        concepts[concept.name] = concept
        for form in _forms(concept, irregular):
            if form.text in forms:
                raise ValueError(f"{form.text!r} means both {forms[form.text].concept!r} and {concept.name!r}")
            forms[form.text] = form
    inflected = {(form.word, form.feature): form.text for form in forms.values()}
    return Lexicon(concepts, forms, inflected, {name: _ancestors(name, concepts) for name in concepts})


def _read(name: str) -> dict[str, Any]:
    text = (resources.files(__package__) / "lexicon" / f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _concepts() -> Iterator[Concept]:
    yield from _open_class("adjective", _read("adjectives"))
    yield from _open_class("verb", _read("verbs"))
    nouns = _read("nouns")
    yield from _lines("noun", "quality", nouns.pop("polar"), polar=True)
    yield from _open_class("noun", {"plain": nouns})
    yield from _topics(_read("topics"))
    yield from _closed_classes(_read("small"))


def _open_class(part: PartOfSpeech, data: Mapping[str, Any]) -> Iterator[Concept]:
    for tone in ("polar", "plain"):
        for frame, lines in data.get(tone, {}).items():
            if frame != "irregular":
                yield from _lines(part, frame, lines, polar=tone == "polar")


def _topics(data: Mapping[str, Any]) -> Iterator[Concept]:
    for topic in TOPICS:
        for frame, lines in data[topic].items():
            part: PartOfSpeech = "verb" if frame in ("act", "do") else "adjective" if frame == "adjective" else "noun"
            for concept in _lines(part, "any" if part == "adjective" else frame, lines):
                yield replace(concept, topic=topic)


def _closed_classes(data: Mapping[str, Any]) -> Iterator[Concept]:
    for tone in ("polar", "plain"):
        yield from _lines("manner", "manner", data["manner"][tone], polar=tone == "polar")
    yield from _lines("time", "time", data["time"])
    for name in ("strong", "slight"):
        yield from _lines("intensity", name, [data[name]])
    yield from _lines("preposition", "place", data["preposition"])
    yield from _lines("preposition", "company", [data["company"]])
    for name in ("concession", "contrast", "addition", "not", "never", "of"):
        yield from _lines("word", name, [data[name]])
    for number, words in data["determiner"].items():
        yield from (Concept(word, "determiner", number, (word,), weights=(1.0,)) for word in words.split())
    for part, name in (("be", "be"), ("do", "do")):
        yield Concept(name, "be" if part == "be" else "do", name, (name,), weights=(1.0,))


def _lines(part: PartOfSpeech, frame: str, lines: list[str], *, polar: bool = False) -> Iterator[Concept]:
    for line in lines:
        line, _, isa = line.partition("<")
        sides = [tuple(side.split()) for side in line.split("|")]
        for words, sign in zip(sides, (1, -1), strict=False):
            antonym = sides[1 if sign == 1 else 0][0] if len(sides) == 2 else None
            yield Concept(
                name=words[0],
                part=part,
                frame=frame,
                words=words,
                polarity=sign if polar else 0,
                antonym=antonym,
                isa=isa.strip() or None,
                marked=sign == -1,
                weights=_cumulative(len(words)),
            )


def _cumulative(count: int) -> tuple[float, ...]:
    shares = [rank**-ZIPF_EXPONENT for rank in range(1, count + 1)]
    return (*(total / sum(shares) for total in list(accumulate(shares))[:-1]), 1.0)


def _ancestors(name: str, concepts: Mapping[str, Concept]) -> tuple[str, ...]:
    chain = [name]
    while (isa := concepts[chain[-1]].isa) is not None:
        if isa not in concepts or isa in chain or concepts[isa].part != concepts[name].part:
            raise ValueError(f"{chain[-1]!r} has no such hypernym: {isa!r}")
        chain.append(isa)
    return tuple(chain)


def _forms(concept: Concept, irregular: Mapping[str, str]) -> Iterator[Form]:
    if concept.part in ("be", "do"):
        yield from (Form(text, concept.name, concept.name, key) for key, text in _read("small")[concept.name].items())
        return
    for word in concept.words:
        if concept.part == "noun":
            yield Form(word, concept.name, word, "singular")
            yield Form(irregular.get(word) or _with_s(word), concept.name, word, "plural")
        elif concept.part == "verb":
            yield Form(word, concept.name, word, "base")
            yield Form(_with_s(word), concept.name, word, "present")
            yield Form(irregular.get(word) or _with_ed(word), concept.name, word, "past")
        else:
            yield Form(word, concept.name, word)


def _with_s(word: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", word):
        return word + "es"
    return re.sub(r"(?<![aeiou])y$", "ie", word) + "s"


def _with_ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", word):
        return word + word[-1] + "ed"
    return re.sub(r"(?<![aeiou])y$", "i", word) + "ed"
