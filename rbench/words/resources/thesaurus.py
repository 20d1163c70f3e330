"""Look up the synonyms, hypernyms, antonyms and other inflections of a word.

In WordNet, synonymy relates the words of a synset, hypernymy relates synsets, and antonymy relates two words in one
sense each. Only WordNet's direct antonyms count here, not the antonyms of similar words. WordNet lists base forms:
lemminflect's dictionary maps a word to its base form, and the words found back to the word's inflection. Its model for
words outside its dictionary is not used, because it is a pickle. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rbench.errors import ResourceError
from rbench.words.resources.lexical import open_corpus

VERSION = 2

TAGS = ("NOUN", "VERB", "ADJ", "ADV")
"""The universal part-of-speech tags whose words a thesaurus lists."""
_WORDNET_POS = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_PENN_TAGS = {
    "NOUN": ("NN", "NNS"),
    "VERB": ("VB", "VBZ", "VBD", "VBN", "VBG"),
    "ADJ": ("JJ", "JJR", "JJS"),
    "ADV": ("RB", "RBR", "RBS"),
}
"""The Penn Treebank tags of each part of speech, with that of the base form first."""
_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*")


@dataclass(frozen=True)
class RelatedWords:
    """The words related to a word: single, in lower case, without the word itself, more frequent senses first."""

    synonyms: tuple[str, ...] = ()
    """In the inflection of the word, and without the antonyms."""
    hypernyms: tuple[str, ...] = ()
    """More general words, one level up, in the inflection of the word."""
    antonyms: tuple[str, ...] = ()
    """In the inflection of the word."""
    forms: tuple[str, ...] = ()
    """The word's other inflections."""

    @property
    def all(self) -> frozenset[str]:
        """The words of all four relations."""
        return frozenset((*self.synonyms, *self.hypernyms, *self.antonyms, *self.forms))


Thesaurus = Callable[[str, str], RelatedWords]
"""Maps a word (any case) and its universal part-of-speech tag to the related words; unknown words have none."""


def make_related(
    word: str,
    *,
    synonyms: Iterable[str] = (),
    hypernyms: Iterable[str] = (),
    antonyms: Iterable[str] = (),
    forms: Iterable[str] = (),
) -> RelatedWords:
    """Return the related words without the word itself, repetitions, capitalised words and expressions of several
    words."""

    def kept(words: Iterable[str], without: Iterable[str] = ()) -> tuple[str, ...]:
        left_out = {word.lower(), *without}
        return tuple(dict.fromkeys(w for w in words if w not in left_out and _WORD.fullmatch(w)))

    kept_antonyms = kept(antonyms)
    kept_synonyms = kept(synonyms, kept_antonyms)
    return RelatedWords(
        kept_synonyms,
        kept(hypernyms, (*kept_antonyms, *kept_synonyms)),
        kept_antonyms,
        kept(forms, (*kept_antonyms, *kept_synonyms)),
    )


def check_kind(kind: str) -> None:
    """Raise ResourceError if a source of synonyms of this kind has synonyms only."""
    if kind not in ("wordnet", "mini"):
        raise ResourceError(
            "synonyms: antonyms are asked for, and a list of synonyms has none; choose a resource set whose "
            "synonyms are WordNet's (`synonyms: {kind: wordnet}`), or the embedded world's for its own corpora"
        )


def open_thesaurus(kind: str) -> Thesaurus:
    """Return the thesaurus of a source of synonyms, `wordnet` or `mini`. Raises ResourceError as `check_kind`."""
    check_kind(kind)
    return wordnet_thesaurus() if kind == "wordnet" else mini_thesaurus()


def mini_thesaurus() -> Thesaurus:
    """Return the embedded world's thesaurus, where a word has one part of speech and one meaning."""
    from rbench.mini import lexical, thesaurus

    def look_up(word: str, tag: str) -> RelatedWords:
        if tag not in TAGS or lexical.pos_tags([word])[0][1] != tag:
            return RelatedWords()
        return make_related(
            word,
            synonyms=lexical.synonyms(word),
            hypernyms=thesaurus.hypernyms(word),
            antonyms=lexical.antonyms(word),
            forms=thesaurus.forms(word),
        )

    return look_up


def wordnet_thesaurus(reader: Any = None) -> Thesaurus:
    """Return WordNet's thesaurus. It uses all senses of a word, in WordNet's order, which is by frequency.

    A form that may be a past tense or a participle ("opened") is taken for a past tense. Words that have no form in the
    inflection of the word are left out.

    Args:
        reader: an object with the methods of NLTK's corpus reader; None: that reader.
    """
    if reader is None:
        reader = open_corpus("wordnet")

    @lru_cache(maxsize=1 << 16)
    def look_up(word: str, tag: str) -> RelatedWords:
        if tag not in TAGS:
            return RelatedWords()
        senses, lemma, form = _find_senses(reader, word.lower(), tag)
        base = next(iter(_find_bases(word.lower(), tag)), lemma) if lemma == word.lower() else lemma
        synsets = [sense.synset() for sense in senses]
        # Concepts of which a synset is an instance are left out: they are of names ("Hardy" is a writer), and a
        # thesaurus is asked for words in lower case, so "hardy" would become "writer".
        # They are sorted by name, because NLTK's order differs from run to run.
        more_general = [
            hypernym
            for synset in synsets
            for hypernym in sorted(synset.hypernyms(), key=lambda hypernym: str(hypernym.name()))
        ]

        def inflected(lemmas: Iterable[Any]) -> Iterator[str]:
            names = (lemma_object.name() for lemma_object in lemmas)
            return (text for name in names if name != lemma and (text := _inflect(name, tag, form)))

        return make_related(
            word,
            synonyms=inflected(lemma_object for synset in synsets for lemma_object in synset.lemmas()),
            hypernyms=inflected(lemma_object for synset in more_general for lemma_object in synset.lemmas()),
            antonyms=inflected(lemma_object for sense in senses for lemma_object in sense.antonyms()),
            forms=(text for penn in _PENN_TAGS[tag] for text in _list_spellings(base, tag).get(penn, ())),
        )

    return look_up


def _find_senses(reader: Any, word: str, tag: str) -> tuple[list[Any], str, str]:
    """Return WordNet's lemma objects of the base form, the base form, and the Penn Treebank tag of the word.

    A comparative for which WordNet has an antonym counts as a base form: more and less, better and worse.
    """
    bases = _find_bases(word, tag)
    is_own_base = tag in ("ADJ", "ADV") and any(
        lemma_object.antonyms() for lemma_object in reader.lemmas(word, _WORDNET_POS[tag])
    )
    for lemma in dict.fromkeys((word, *bases) if is_own_base else (*bases, word)):
        spellings = _list_spellings(lemma, tag)
        penn_tags = [penn for penn in _PENN_TAGS[tag] if word in spellings.get(penn, ())]
        if not penn_tags and lemma != word:
            continue
        # A word that lemminflect does not list as a form of itself is taken for a base form.
        form = penn_tags[0] if penn_tags else _PENN_TAGS[tag][0]
        senses = reader.lemmas(lemma, _WORDNET_POS[tag])
        if senses:
            return senses, lemma, form
    return [], next(iter(bases), word), _PENN_TAGS[tag][0]


def _find_bases(word: str, tag: str) -> tuple[str, ...]:
    """Return the base forms that lemminflect's dictionary lists for a word."""
    import lemminflect

    bases: tuple[str, ...] = lemminflect.getAllLemmas(word, tag).get(tag, ())
    return bases


def _inflect(lemma: str, tag: str, form: str) -> str | None:
    """Return the form of `lemma` with the Penn Treebank tag `form`, or None if lemminflect lists none.

    If past tense and participle are equal, lemminflect lists only one of them, so each stands in for the other.
    """
    if form == _PENN_TAGS[tag][0]:
        return lemma
    spellings = _list_spellings(lemma, tag)
    forms = spellings.get(form) or spellings.get({"VBD": "VBN", "VBN": "VBD"}.get(form, form))
    return forms[0] if forms else None


@lru_cache(maxsize=1 << 16)
def _list_spellings(lemma: str, tag: str) -> dict[str, tuple[str, ...]]:
    """Return the forms that lemminflect's dictionary lists for a base form, by Penn Treebank tag."""
    import lemminflect

    spellings: dict[str, tuple[str, ...]] = lemminflect.getAllInflections(lemma, tag)
    return spellings
