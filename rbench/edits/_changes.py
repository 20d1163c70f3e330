"""Edits a text in one place, which a seeded generator draws among those that a kind of edit could change."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from random import Random
from typing import Any, ClassVar, NamedTuple, Protocol

from rbench.errors import JobError
from rbench.schema import ResourceKind
from rbench.schema.extension import Extension, NoOptions
from rbench.score.statistics import wilson
from rbench.system.words import word_spans

VERSION = 1

LEAST_SURE = 0.8
"""The lower 95% bound of the share of edits that changed the meaning, from which on a kind counts as sure."""


class Replacement(NamedTuple):
    """A change of a text: what stands from `start` to `end` becomes `text`. Alone it is a whole edit."""

    start: int
    end: int
    text: str


class Labelled(NamedTuple):
    """What the people found who read edits of a kind without knowing which kind made them."""

    changed: int = 0
    """How many of the edits they found to change the meaning, by all of them."""
    n: int = 0
    """How many edits they read; 0: nobody has read any."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95% interval of the share; None where nobody has read any."""
        return wilson(self.changed, self.n)


class WordTools(Protocol):
    """What kinds look words up in: the resources of a suite's resource set (`rbench.words.resources.Resources`)."""

    @property
    def thesaurus(self) -> Any:
        """Maps a word and its universal tag to related words (`rbench.words.resources.thesaurus`)."""

    def pos_tags(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return (word, universal tag) for each word."""


class TaggedText:
    """A text with its words, and their parts of speech where the kind `needs` a `pos_tagger`."""

    def __init__(self, text: str, tools: WordTools | None = None) -> None:
        self.text = text
        self.spans = word_spans(text)
        """Start and end of each word, in order."""
        self.words = [text[start:end] for start, end in self.spans]
        self._tools = tools

    @cached_property
    def tags(self) -> list[str]:
        """The universal tag of each word: NOUN, VERB, ADJ, ADV, DET, ADP, PRON, NUM and so on."""
        return [tag for _, tag in self._given("pos_tagger").pos_tags(self.words)] if self.words else []

    def opposites(self, i: int) -> tuple[str, ...]:
        """Return the antonyms of a word, in its inflection and in lower case; those of frequent senses come first."""
        found: tuple[str, ...] = self._given("synonyms").thesaurus(self.words[i], self.tags[i]).antonyms
        return found

    def lower(self, i: int) -> str:
        """Return a word in lower case, and nothing for a place outside of the text."""
        return self.words[i].lower().replace("’", "'") if 0 <= i < len(self.words) else ""

    def tag(self, i: int) -> str:
        """Return the tag of a word, and nothing for a place outside of the text."""
        return self.tags[i] if 0 <= i < len(self.words) else ""

    def replaced(self, first: int, last: int, text: str) -> Replacement:
        """Return the replacement of the words from `first` to `last`, with the capital of the first one.

        An `a` or `an` right before them becomes what the new text asks for.
        """
        start, end = self.spans[first][0], self.spans[last][1]
        found = self.text[start:end]
        if found[:1].isupper() and self.lower(first) != "i":
            text = text[:1].upper() + text[1:]
        if self.lower(first - 1) in ("a", "an") and text:
            article = "an" if text[0].lower() in "aeiou" else "a"
            before = self.words[first - 1]
            start = self.spans[first - 1][0]
            text = f"{article.capitalize() if before[0].isupper() else article} {text}"
        return Replacement(start, end, text)

    def removed(self, first: int, last: int) -> Replacement:
        """Return the removal of the words from `first` to `last`, with the spaces after them."""
        start, end = self.spans[first][0], self.spans[last][1]
        after = re.match(r"\s*", self.text[end:])
        assert after is not None
        end += len(after[0])
        if self.text[start : start + 1].isupper() and end < len(self.text):
            return Replacement(start, end + 1, self.text[end].upper())
        return Replacement(start, end, "")

    def follow_directly(self, first: int, last: int) -> bool:
        """Whether between the words from `first` to `last` there are spaces alone, and no other sign."""
        if not 0 <= first <= last < len(self.words):
            return False
        gaps = (self.text[self.spans[i][1] : self.spans[i + 1][0]] for i in range(first, last))
        return all(gap.isspace() for gap in gaps)

    def _given(self, resource: str) -> WordTools:
        assert self._tools is not None, f"a kind of edit asks for {resource}: state it in its `needs`"
        return self._tools


class EditKind(Extension[NoOptions]):
    """Says where a kind of edit could change what a text says, what it writes there, and how sure the change is.

    Importing the file of a kind loads nothing heavy.
    """

    guide: ClassVar[str] = "docs/edits.md"

    only_for: str = "English"
    """The texts that it can change, for plans."""
    needs: tuple[ResourceKind, ...] = ()
    """What it looks up: `pos_tagger` for parts of speech, `synonyms` for antonyms."""
    labelled: Labelled = Labelled()
    """What people found who read edits of this kind. Where its lower 95% bound is below 80%, or nobody has read any,
    the kind is uncertain: its numbers are shown, and no number over several kinds counts them."""

    @abstractmethod
    def replacements(self, text: TaggedText) -> Iterable[Replacement]:
        """Return the changes that could be made, each of them alone an edit; none where the kind does not apply."""

    @property
    def sure(self) -> bool:
        """Whether enough people's labels say that its edits change the meaning."""
        found = self.labelled.interval
        return found is not None and found[0] >= LEAST_SURE


def every_edit(kind: EditKind, text: str, seed: str, tools: WordTools | None = None) -> Iterator[str]:
    """Yield all texts that a kind makes of one, in an order that depends on the seed and the text alone.

    Args:
        kind: a kind of edit.
        seed: names the draw. Kinds have seeds of their own.
        tools: what the kind `needs`.

    Raises:
        JobError: the kind writes outside of the text, or writes what was there.
    """
    replacements = [*dict.fromkeys(kind.replacements(TaggedText(text, tools)))]
    digest = blake2b(f"{kind.name}\0{seed}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    Random(int.from_bytes(digest, "big")).shuffle(replacements)
    for start, end, new in replacements:
        if not 0 <= start <= end <= len(text) or text[start:end] == new:
            raise JobError(
                f"{kind.path or type(kind).__name__}: `replacements` returned ({start}, {end}, {new!r}), which lies "
                f"outside of the {len(text)} characters of a text, or changes nothing; see {kind.guide}"
            )
        yield f"{text[:start]}{new}{text[end:]}"


def edited(kind: EditKind, text: str, seed: str, tools: WordTools | None = None) -> str | None:
    """Return a text with one edit of a kind, drawn as `every_edit` says; None where the kind does not apply."""
    return next(every_edit(kind, text, seed, tools), None)


def needs_of(kinds: Iterable[EditKind]) -> tuple[ResourceKind, ...]:
    """Return the resources that some kinds need, each once."""
    return tuple(dict.fromkeys(need for kind in kinds for need in kind.needs))
