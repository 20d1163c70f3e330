"""Synonyms, part-of-speech tags and stop words: from NLTK's data, from a folder, from the embedded world."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from rbench.errors import ResourceError

Tags = list[tuple[str, str]]


def wordnet_synonyms() -> Callable[[str], list[str]]:
    """All one-word lemma names of all synsets of a word, itself left out, sorted: what TextAttack's PWWS swaps in."""
    from nltk.corpus import wordnet

    wordnet.ensure_loaded()

    @cache
    def synonyms(word: str) -> tuple[str, ...]:
        lemmas = {lemma for synset in wordnet.synsets(word) for lemma in synset.lemma_names()}
        return tuple(sorted(lemma for lemma in lemmas if lemma != word and "_" not in lemma))

    return lambda word: list(synonyms(word))


def listed_synonyms(path: Path) -> Callable[[str], list[str]]:
    """Synonyms from a text file with two words a line (space or tab between them), good in both directions.

    Raises:
        ResourceError: a line that is not two words; names the file and line.
    """
    table: dict[str, set[str]] = defaultdict(set)
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split()
        if len(words) != 2:
            raise ResourceError(f"{path}:{number}: a line is two words, not {len(words)}")
        table[words[0]].add(words[1])
        table[words[1]].add(words[0])
    ordered = {word: sorted(others - {word}) for word, others in table.items()}
    return lambda word: list(ordered.get(word, ()))


def nltk_tagger() -> Callable[[Sequence[str]], Tags]:
    """NLTK's averaged perceptron with the universal tag set: `nltk.pos_tag(words, tagset="universal")`, loaded once."""
    from nltk.tag import PerceptronTagger, map_tag

    tagger = PerceptronTagger()
    return lambda words: [(word, map_tag("en-ptb", "universal", tag)) for word, tag in tagger.tag(list(words))]


def nltk_stopwords() -> frozenset[str]:
    """NLTK's English stop words."""
    from nltk.corpus import stopwords

    return frozenset(stopwords.words("english"))
