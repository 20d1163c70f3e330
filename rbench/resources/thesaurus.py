"""What a thesaurus knows of a word: synonyms, hypernyms, antonyms and other inflections.

In WordNet synonymy holds between the words of a synset, hypernymy between synsets, and antonymy between two words in
one sense each; nothing else is taken for an antonym here, not the opposite of a similar word either. WordNet lists base
forms: lemminflect's dictionary takes a word to its base form, and what was found there to the word's inflection. Its
guesses at words that the dictionary lacks are not asked for (they come from a pickle). Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rbench.errors import ResourceError
from rbench.resources.lexical import corpus

VERSION = 1

TAGS = ("NOUN", "VERB", "ADJ", "ADV")
"""The universal parts of speech that a thesaurus lists."""
_POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_FORMS = {
    "NOUN": ("NN", "NNS"),
    "VERB": ("VB", "VBZ", "VBD", "VBN", "VBG"),
    "ADJ": ("JJ", "JJR", "JJS"),
    "ADV": ("RB", "RBR", "RBS"),
}
"""Penn tags of a part of speech, the base form first."""
_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")


@dataclass(frozen=True)
class Related:
    """Single lower-case words, none of them the word itself, those of its more frequent senses first."""

    synonyms: tuple[str, ...] = ()
    """In the inflection of the word; none of them is among the antonyms."""
    hypernyms: tuple[str, ...] = ()
    """More general words, one step up; in the inflection of the word."""
    antonyms: tuple[str, ...] = ()
    """In the inflection of the word."""
    forms: tuple[str, ...] = ()
    """The word's other inflections."""

    @property
    def all(self) -> frozenset[str]:
        """All of them together."""
        return frozenset((*self.synonyms, *self.hypernyms, *self.antonyms, *self.forms))


Thesaurus = Callable[[str, str], Related]
"""What is known of a word (any case) under a universal part-of-speech tag; nothing of unknown words and other tags."""


def related(
    word: str,
    *,
    synonyms: Iterable[str] = (),
    hypernyms: Iterable[str] = (),
    antonyms: Iterable[str] = (),
    forms: Iterable[str] = (),
) -> Related:
    """As given, less the word itself, repetitions, names and what is more than one word."""

    def kept(words: Iterable[str], without: Iterable[str] = ()) -> tuple[str, ...]:
        left_out = {word.lower(), *without}
        return tuple(dict.fromkeys(w for w in words if w not in left_out and _WORD.fullmatch(w)))

    opposite = kept(antonyms)
    same = kept(synonyms, opposite)
    return Related(same, kept(hypernyms, (*opposite, *same)), opposite, kept(forms, (*opposite, *same)))


def check(kind: str) -> None:
    """ResourceError where a source of synonyms of this kind lists synonyms alone."""
    if kind not in ("wordnet", "mini"):
        raise ResourceError(
            "synonyms: antonyms are asked for, and a list of synonyms has none; take a profile whose synonyms are "
            "WordNet's (`synonyms: {kind: wordnet}`), or the embedded world's on its own corpora"
        )


def open_thesaurus(kind: str) -> Thesaurus:
    """The thesaurus behind a source of synonyms of this kind, `wordnet` or `mini`; ResourceError as `check`."""
    check(kind)
    return wordnet_thesaurus() if kind == "wordnet" else mini_thesaurus()


def mini_thesaurus() -> Thesaurus:
    """The embedded world's lexicon, where a word has one part of speech and one meaning."""
    from rbench.mini import lexical, thesaurus

    def look_up(word: str, tag: str) -> Related:
        if tag not in TAGS or lexical.pos_tags([word])[0][1] != tag:
            return Related()
        return related(
            word,
            synonyms=lexical.synonyms(word),
            hypernyms=thesaurus.hypernyms(word),
            antonyms=lexical.antonyms(word),
            forms=thesaurus.forms(word),
        )

    return look_up


def wordnet_thesaurus(reader: Any = None) -> Thesaurus:
    """WordNet's answers, all senses of a word in WordNet's order, which is that of their frequency.

    A past tense that may also be a participle is taken for a past tense ("opened"); what cannot be inflected like the
    word is left out.

    Args:
        reader: in place of NLTK's corpus reader, one with the same methods.
    """
    if reader is None:
        reader = corpus("wordnet")

    @lru_cache(maxsize=1 << 16)
    def look_up(word: str, tag: str) -> Related:
        if tag not in TAGS:
            return Related()
        senses, lemma, form = _senses(reader, word.lower(), tag)
        base = next(iter(_bases(word.lower(), tag)), lemma) if lemma == word.lower() else lemma
        synsets = [sense.synset() for sense in senses]
        above = [up for synset in synsets for up in _above(synset)]

        def inflected(lemmas: Iterable[Any]) -> Iterator[str]:
            names = (one.name() for one in lemmas)
            return (text for name in names if name != lemma and (text := _inflect(name, tag, form)))

        return related(
            word,
            synonyms=inflected(one for synset in synsets for one in synset.lemmas()),
            hypernyms=inflected(one for synset in above for one in synset.lemmas()),
            antonyms=inflected(one for sense in senses for one in sense.antonyms()),
            forms=(text for penn in _FORMS[tag] for text in _spellings(base, tag).get(penn, ())),
        )

    return look_up


def _senses(reader: Any, word: str, tag: str) -> tuple[list[Any], str, str]:
    """WordNet's lemma objects of the base form, the base form, and the Penn tag of the word among its forms.

    A comparative for which WordNet has an opposite is a base form itself: more and less, better and worse.
    """
    bases = _bases(word, tag)
    compared = tag in ("ADJ", "ADV") and any(one.antonyms() for one in reader.lemmas(word, _POS[tag]))
    for lemma in dict.fromkeys((word, *bases) if compared else (*bases, word)):
        spellings = _spellings(lemma, tag)
        found = [penn for penn in _FORMS[tag] if word in spellings.get(penn, ())]
        form = found[0] if found else _FORMS[tag][0] if lemma == word else None
        if form is not None and (senses := reader.lemmas(lemma, _POS[tag])):
            return senses, lemma, form
    return [], next(iter(bases), word), _FORMS[tag][0]


def _bases(word: str, tag: str) -> tuple[str, ...]:
    """The base forms that a word may have, as lemminflect's dictionary lists them."""
    import lemminflect

    found: tuple[str, ...] = lemminflect.getAllLemmas(word, tag).get(tag, ())
    return found


def _above(synset: Any) -> list[Any]:
    """A synset's hypernyms by name: NLTK has them in an order that differs from run to run."""
    return sorted((*synset.hypernyms(), *synset.instance_hypernyms()), key=lambda up: str(up.name()))


def _inflect(lemma: str, tag: str, form: str) -> str | None:
    """A base form, or what lemminflect lists for it under a Penn tag: of two past forms that are one it lists one."""
    if form == _FORMS[tag][0]:
        return lemma
    spellings = _spellings(lemma, tag)
    found = spellings.get(form) or spellings.get({"VBD": "VBN", "VBN": "VBD"}.get(form, form))
    return found[0] if found else None


@lru_cache(maxsize=1 << 16)
def _spellings(lemma: str, tag: str) -> dict[str, tuple[str, ...]]:
    """The forms of a base form by Penn tag, as lemminflect's dictionary lists them."""
    import lemminflect

    found: dict[str, tuple[str, ...]] = lemminflect.getAllInflections(lemma, tag)
    return found
