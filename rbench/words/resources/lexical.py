"""Load synonyms, part-of-speech tags and stop words from NLTK's data, a folder or the embedded world."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rbench.errors import ResourceError
from rbench.mini import lexical as mini
from rbench.system import digests, named

VERSION = 1

Tags = list[tuple[str, str]]
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

    whole, where = hashlib.sha256(), ""
    for name in NLTK_FILES[package]:
        try:
            pointer = nltk.data.find(name)
            whole.update(name.encode() + b"\0" + bytes.fromhex(_content_of(pointer, name)))
        except (LookupError, OSError) as error:
            if refused := tuple(getattr(error, "_nltk_refused_writable", ())):
                raise ResourceError(
                    f"NLTK refuses its {package} data because other accounts may write to "
                    f"{', '.join(map(str, refused))}; run `chmod go-w` on them"
                ) from error
            raise ResourceError(
                f"NLTK's {package} data is missing; run `python -m nltk.downloader {package}`, "
                "or set NLTK_DATA to a folder that has it"
            ) from error
        where = where or str(pointer).rsplit("/", 1)[0]
    return where, whole.hexdigest()


def _content_of(pointer: Any, name: str) -> str:
    """Return the hash of the file, or entry of a zip file, of one of NLTK's pointers."""

    def read() -> str:
        with pointer.open() as file:
            return hashlib.sha256(file.read()).hexdigest()

    archive = getattr(pointer, "zipfile", None)
    return digests.remembered([Path(archive.filename if archive is not None else pointer.path)], name, read)


_read: dict[str, tuple[str, str]] = {}


def corpus(package: str) -> Any:
    """Return NLTK's reader of one of its corpora.

    NLTK opens a corpus once in a process. Here it is opened again if its place or content changed since the last call.

    Raises:
        ResourceError: the corpus is missing.
    """
    import nltk.corpus

    reader, there = getattr(nltk.corpus, package), nltk_package(package)
    if _read.get(package) != there:
        reader._unload()
        _read[package] = there
    reader.ensure_loaded()
    return reader


def wordnet_synonyms() -> Callable[[str], list[str]]:
    """Return a function that gives the synonyms of a word, as TextAttack's PWWS uses them.

    They are the one-word lemma names of all synsets of the word, without the word itself, sorted.
    """
    wordnet = corpus("wordnet")

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
        words = line.split()
        if len(words) != 2:
            raise ResourceError(f"{path}:{number}: a line must have two words, not {len(words)}")
        table[words[0]].add(words[1])
        table[words[1]].add(words[0])
    ordered = {word: sorted(others - {word}) for word, others in table.items()}
    return lambda word: list(ordered.get(word, ordered.get(word.lower(), [])))


def open_tagger(kind: str) -> Callable[[Sequence[str]], Tags]:
    """Return the tagger of a kind, `nltk` or `mini`. It takes words and returns (word, universal tag) for each."""
    return mini.pos_tags if kind == "mini" else NltkTagger()


class NltkTagger:
    """NLTK's averaged perceptron with the universal tag set, loaded once.

    It gives the tags of `nltk.pos_tag(words, tagset="universal")`.
    """

    REACH = 2
    """Number of following words that a word's tag depends on; it also depends on the words and tags before it."""

    def __init__(self, tagger: Any = None) -> None:
        from nltk.tag import PerceptronTagger, map_tag

        self._tagger, self._map = PerceptronTagger() if tagger is None else tagger, map_tag
        self._begun = lru_cache(maxsize=1 << 14)(self._begin)

    def __call__(self, words: Sequence[str]) -> Tags:
        """Return (word, tag) for each word."""
        return [(word, self._universal(tag)) for word, tag in self._tagger.tag(list(words))]

    def at(self, words: Sequence[str], place: int) -> str:
        """Return the tag of the word at index `place`.

        The words before it are tagged once and remembered, because attacks try many words at one place.
        """
        # Tags before this place do not depend on the word at `place`, so all words tried there share them.
        begun = max(0, place - self.REACH)
        tags = [*self._begun(tuple(words[:place]), begun)]
        self._go_on(tags, words, place + 1)
        return self._universal(tags[place])

    def _begin(self, words: tuple[str, ...], until: int) -> tuple[str, ...]:
        tags: list[str] = []
        self._go_on(tags, words, until)
        return tuple(tags)

    def _go_on(self, tags: list[str], words: Sequence[str], until: int) -> None:
        """Extend `tags` to the length `until`, as `PerceptronTagger.tag` does."""
        tagger = self._tagger
        context = [*tagger.START, *map(tagger.normalize, words), *tagger.END]
        for i in range(len(tags), until):
            tag = tagger.tagdict.get(words[i])
            if not tag:
                # The last tag and the one before it. For the first word they are the start markers, in NLTK's order.
                first, second = tagger.START
                previous = (tags[-1], tags[-2] if i > 1 else first) if i else (first, second)
                tag, _ = tagger.model.predict(tagger._get_features(i, words[i], context, *previous))
            tags.append(tag)

    def _universal(self, tag: str) -> str:
        return str(self._map("en-ptb", "universal", tag))


def nltk_stopwords() -> frozenset[str]:
    """Return NLTK's English stop words."""
    return frozenset(corpus("stopwords").words("english"))
