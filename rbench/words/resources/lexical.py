"""Load synonyms, part-of-speech tags and stop words from NLTK's data, a folder or the embedded world."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rbench.errors import ResourceError
from rbench.mini import lexical as mini
from rbench.system import digests, named
from rbench.system.own_code import failing_in

# Counts into the keys of attacks that need synonyms, tags or stop words (config/versions.py): raised when this file
# reads the same data differently. Other data changes keys by its hash.
VERSION = 1

TaggedWords = list[tuple[str, str]]
NLTK_FILES = {
    "wordnet": tuple(
        f"corpora/wordnet/{stem}.{part}" for part in ("noun", "verb", "adj", "adv") for stem in ("index", "data")
    ),
    "averaged_perceptron_tagger_eng": tuple(
        f"taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.{part}.json"
        for part in ("weights", "tagdict", "classes")
    ),
    "universal_tagset": ("taggers/universal_tagset/en-ptb.map",),
    "stopwords": ("corpora/stopwords/english",),
}
"""The files of each NLTK package that attacks read."""


def nltk_package(package: str) -> tuple[str, str]:
    """Return the place of an NLTK package, unpacked or zipped, and the hash of its files that attacks read.

    Raises:
        ResourceError: the package is missing, or NLTK refuses it because other accounts may write to it; gives the
            remedy.
    """
    import nltk

    digest, where = hashlib.sha256(), ""
    for name in NLTK_FILES[package]:
        try:
            pointer = nltk.data.find(name)
            digest.update(name.encode() + b"\0" + bytes.fromhex(_hash_content(pointer, name)))
        except (LookupError, OSError) as error:
            if writable := tuple(getattr(error, "_nltk_refused_writable", ())):
                raise ResourceError(
                    f"NLTK refuses its {package} data because other accounts may write to "
                    f"{', '.join(map(str, writable))}; run `chmod go-w` on them"
                ) from error
            raise ResourceError(
                f"NLTK's {package} data is missing; run `python -m nltk.downloader {package}`, "
                "or set NLTK_DATA to a folder that has it"
            ) from error
        where = where or str(pointer).rsplit("/", 1)[0]
    return where, digest.hexdigest()


def _hash_content(pointer: Any, name: str) -> str:
    """Return the hash of the file, or entry of a zip file, of one of NLTK's pointers."""

    def read() -> str:
        with pointer.open() as file:
            return hashlib.sha256(file.read()).hexdigest()

    archive = getattr(pointer, "zipfile", None)
    return digests.remember_hash([Path(archive.filename if archive is not None else pointer.path)], name, read)


_OPENED: dict[str, tuple[str, str]] = {}


def open_corpus(package: str) -> Any:
    """Return NLTK's reader of one of its corpora.

    NLTK opens a corpus once in a process. Here it is opened again if its place or content changed since the last call.

    Raises:
        ResourceError: the corpus is missing.
    """
    import nltk.corpus

    reader, place_and_hash = getattr(nltk.corpus, package), nltk_package(package)
    if _OPENED.get(package) != place_and_hash:
        reader._unload()
        _OPENED[package] = place_and_hash
    reader.ensure_loaded()
    return reader


def wordnet_synonyms() -> Callable[[str], list[str]]:
    """Return a function that gives the synonyms of a word, as TextAttack's PWWS uses them.

    They are the one-word lemma names of all synsets of the word, without the word itself, sorted.
    """
    wordnet = open_corpus("wordnet")

    @cache
    def synonyms(word: str) -> tuple[str, ...]:
        lemmas = {lemma for synset in wordnet.synsets(word) for lemma in synset.lemma_names()}
        return tuple(sorted(lemma for lemma in lemmas if lemma != word and "_" not in lemma))

    return lambda word: list(synonyms(word))


def listed_synonyms(path: Path) -> Callable[[str], list[str]]:
    """Return a function that gives the synonyms of a word, read from a text file.

    A line has two words with a space or tab between them, which are synonyms of each other. A word that is not listed
    as it is written has those of its lower case, as in WordNet.

    Raises:
        ResourceError: a line does not have two words; names the file and line.
    """
    table: dict[str, set[str]] = defaultdict(set)
    for number, line in enumerate(named.read_text(path).splitlines(), 1):
        with failing_in(f"{path}:{number}", remedy="A line has two words"):
            word, synonym = line.split()
        table[word].add(synonym)
        table[synonym].add(word)
    ordered = {word: sorted(others - {word}) for word, others in table.items()}
    return lambda word: list(ordered.get(word, ordered.get(word.lower(), [])))


def combined_synonyms(*sources: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return a function that gives the synonyms of a word in any of several sources, each once, sorted."""
    return lambda word: sorted({synonym for synonyms in sources for synonym in synonyms(word)})


def open_tagger(kind: str) -> Callable[[Sequence[str]], TaggedWords]:
    """Return the tagger of a kind, `nltk` or `mini`. It takes words and returns (word, universal tag) for each."""
    return mini.pos_tags if kind == "mini" else NltkTagger()


class NltkTagger:
    """NLTK's averaged perceptron with the universal tag set, loaded once.

    It gives the tags of `nltk.pos_tag(words, tagset="universal")`. NLTK adds the weights of a word's features in
    dictionaries, one tag after the other. Here the weights of a feature are a row of a matrix, and the rows of many
    words are added at once, feature after feature as NLTK does, so that the sums have the same bits.
    """

    REACH = 2
    """Number of following words that a word's tag depends on; it also depends on the words and tags before it."""

    def __init__(self, tagger: Any = None) -> None:
        from nltk.tag import PerceptronTagger, map_tag

        self._tagger, self._map = PerceptronTagger() if tagger is None else tagger, map_tag
        # In falling order: of tags with equal scores NLTK takes the last one in the alphabet.
        self._tags: list[str] = sorted(self._tagger.model.classes, reverse=True)
        self._columns = {tag: i for i, tag in enumerate(self._tags)}
        self._rows: dict[str, int] = {}
        self._weights = np.zeros((1024, len(self._tags)))
        """Weights (features, tags), in the order in which features were met. Those of row 0 are zero."""
        self._normalize = lru_cache(maxsize=1 << 16)(self._tagger.normalize)
        self._begun = lru_cache(maxsize=1 << 14)(self._begin)
        self._word_rows = lru_cache(maxsize=1 << 14)(self._find_word_rows)
        self._rows_before = lru_cache(maxsize=1 << 14)(self._find_rows_before)
        self._rows_after = lru_cache(maxsize=1 << 14)(self._find_rows_after)

    def __call__(self, words: Sequence[str]) -> TaggedWords:
        """Return (word, tag) for each word."""
        return [(word, self._to_universal(tag)) for word, tag in self._tagger.tag(list(words))]

    def at(self, words: Sequence[str], place: int) -> str:
        """Return the tag of the word at index `place`.

        The words before it are tagged once and remembered, because attacks try many words at one place.
        """
        return self.tags_tried(words[:place], [words[place]], words[place + 1 :])[0]

    def tags_tried(self, before: Sequence[str], tried: Sequence[str], after: Sequence[str]) -> list[str]:
        """Return the tag of each word tried between the words before and after it."""
        # Tags before this place do not depend on the word that is tried, so all words tried there share them.
        num_shared = max(0, len(before) - self.REACH)
        begun = self._begun(tuple(before), num_shared)
        tags = [[*begun] for _ in tried]
        texts = [[*before, word] for word in tried]
        start, end = self._normalized(before), self._normalized(after[: self.REACH])
        contexts = [[*self._tagger.START, *start, self._normalize(word), *end, *self._tagger.END] for word in tried]
        self._extend_tags(tags, texts, contexts, len(before) + 1)
        return [self._to_universal(row[-1]) for row in tags]

    def _begin(self, words: tuple[str, ...], until: int) -> tuple[str, ...]:
        tags: list[str] = []
        context = [*self._tagger.START, *self._normalized(words), *self._tagger.END]
        self._extend_tags([tags], [words], [context], until)
        return tuple(tags)

    def _normalized(self, words: Sequence[str]) -> list[str]:
        return [self._normalize(word) for word in words]

    def _extend_tags(
        self,
        tags: Sequence[list[str]],
        texts: Sequence[Sequence[str]],
        contexts: Sequence[Sequence[str]],
        until: int,
    ) -> None:
        """Extend the tags of each text to the length `until`, as `PerceptronTagger.tag` does.

        `contexts` are the normalised words of each text, between NLTK's markers of start and end.
        """
        tagdict = self._tagger.tagdict
        for i in range(len(tags[0]), until):
            unknown, features = [], []
            for row, words, context in zip(tags, texts, contexts, strict=True):
                if not (tag := tagdict.get(words[i])):
                    unknown.append(row)
                    features.append(self._find_rows(words[i], context[i : i + 5], row, i))
                row.append(tag or "")
            if unknown:
                scores = np.zeros((len(unknown), len(self._tags)))
                for rows in np.array(features).T:
                    scores += self._weights[rows]
                for row, best in zip(unknown, scores.argmax(axis=1).tolist(), strict=True):
                    row[-1] = self._tags[best]

    def _find_rows(self, word: str, around: Sequence[str], tags: Sequence[str], i: int) -> tuple[int, ...]:
        """Return the rows of the weights of a word's features, in NLTK's order (`PerceptronTagger._get_features`).

        `around` has two words before the word, the word itself and two after it, normalised.
        """
        start, other = self._tagger.START
        # The tag before and the one before that. For the first word they are the start markers, in NLTK's order.
        last, last_but_one = (tags[-1], tags[-2] if i > 1 else start) if i else (start, other)
        second, first, this, following, then = around
        # Words tried at one place share what stands before them or after them, so each of the parts is remembered.
        own, before = self._word_rows(word, this, last), self._rows_before(first, second, last, last_but_one)
        # Interleaved as in NLTK, because another order of the sum would give other last bits.
        return (*own[:3], *before[:3], *own[3:], *before[3:], *self._rows_after(following, then))

    def _find_word_rows(self, word: str, this: str, last: str) -> tuple[int, ...]:
        return self._list_rows(
            "bias", f"i suffix {word[-3:]}", f"i pref1 {word[:1]}", f"i word {this}", f"i-1 tag+i word {last} {this}"
        )

    def _find_rows_before(self, first: str, second: str, last: str, last_but_one: str) -> tuple[int, ...]:
        return self._list_rows(
            f"i-1 tag {last}",
            f"i-2 tag {last_but_one}",
            f"i tag+i-2 tag {last} {last_but_one}",
            f"i-1 word {first}",
            f"i-1 suffix {first[-3:]}",
            f"i-2 word {second}",
        )

    def _find_rows_after(self, following: str, then: str) -> tuple[int, ...]:
        return self._list_rows(f"i+1 word {following}", f"i+1 suffix {following[-3:]}", f"i+2 word {then}")

    def _list_rows(self, *features: str) -> tuple[int, ...]:
        rows, weights = self._rows, self._tagger.model.weights
        return tuple([rows.get(name) or (self._add_row(name) if name in weights else 0) for name in features])

    def _add_row(self, feature: str) -> int:
        """Add the weights of a feature as a row, and return it."""
        row = self._rows[feature] = len(self._rows) + 1
        if row == len(self._weights):
            self._weights = np.concatenate([self._weights, np.zeros_like(self._weights)])
        for tag, weight in self._tagger.model.weights[feature].items():
            self._weights[row, self._columns[tag]] = weight
        return row

    def _to_universal(self, tag: str) -> str:
        return str(self._map("en-ptb", "universal", tag))


def nltk_stopwords() -> frozenset[str]:
    """Return NLTK's English stop words."""
    return frozenset(open_corpus("stopwords").words("english"))
