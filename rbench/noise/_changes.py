"""Changes a text at places that a seeded generator draws among those that a kind of noise could change."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise
from random import Random
from typing import Any, ClassVar, NamedTuple

import regex

from rbench.errors import JobError
from rbench.schema.extension import Extension, NoOptions
from rbench.system.words import word_spans

VERSION = 2

Span = tuple[int, int]
"""Start and end of a place in a text. They are equal where something is put between two characters."""
MOST_CLAUSES = 5
"""How many clauses degree 1 of a kind whose unit is `clauses` adds."""
_UNIT_COUNTS: dict[str, Callable[[str], int]] = {
    "letters": lambda text: sum(map(str.isalpha, text)),
    "words": lambda text: len(word_spans(text)),
    "clauses": lambda text: MOST_CLAUSES,
}
"""How many units a text has. A text has as many of any other unit as there are places that could be changed."""


class NoiseKind(Extension[NoOptions]):
    """Says where a kind of noise could change a text, and what it puts there. rbench draws the places.

    `matches` and `each_word` make `places` of a regular expression or of a function on words. Importing the file of a
    kind loads nothing heavy.
    """

    guide: ClassVar[str] = "docs/noise.md"

    unit: str
    """What a degree is a share of: `letters`, `words`, `clauses`; or what its places are, such as `spaces`."""
    only_for: str = ""
    """The texts that it can change, such as `Latin letters`, for plans; empty: texts in any script."""

    @abstractmethod
    def places(self, text: str) -> Sequence[Span]:
        """Return the places that could be changed, which do not overlap. Each counts as one unit."""

    @abstractmethod
    def put(self, found: str, rng: Random) -> str:
        """Return what takes the place of `found`, which is one of `places`. It differs from it."""


class Noised(NamedTuple):
    """A changed text, and how far it was changed."""

    text: str
    changed: int
    """How many units were changed."""
    possible: int
    """How many could be changed, at most `units`."""
    units: int
    """How many units the text has; 0 for a text without letters where letters are counted."""


def noised(kind: NoiseKind, text: str, degree: float, seed: str) -> Noised:
    """Change a share of a text's units.

    `degree` times the number of units is rounded up or down at random, so that its mean over texts is exact. No more
    units are changed than could be. The draw depends on the seed and the text alone: not on the order of texts, the
    process or PYTHONHASHSEED. What is changed at a degree is also changed at every higher one.

    Args:
        kind: a kind of noise.
        degree: the share of units to change, in 0..1; 0 leaves the text as it is.
        seed: names the draw. Kinds and repeated draws have seeds of their own.

    Raises:
        ValueError: the degree is not in 0..1.
        JobError: the kind's places overlap or lie outside of the text, or it puts no text, or what was there.
    """
    if not 0 <= degree <= 1:
        raise ValueError(f"degree {degree}: expected a number from 0 to 1")
    places = _checked_places(kind, text)
    count = _UNIT_COUNTS.get(kind.unit)
    units = len(places) if count is None else count(text)
    # The text is part of the seed, so that the same text is changed alike wherever it stands in a corpus.
    digest = blake2b(f"{seed}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    rng = Random(int.from_bytes(digest, "big"))
    possible = min(len(places), units)
    # For u uniform in 0..1, floor(x + u) has the mean x. One number is drawn whatever the degree, so that the draws
    # that follow are the same at every degree.
    wanted = min(int(degree * units + rng.random()), possible)
    changes: list[tuple[int, int, int, str]] = []
    for i in range(wanted):  # Fisher and Yates's shuffle, as far as it is needed: a longer one begins alike
        j = i + int(rng.random() * (len(places) - i))
        places[i], places[j] = places[j], places[i]
        start, end = places[i]
        replacement = kind.put(text[start:end], rng)
        if not isinstance(replacement, str) or replacement == text[start:end]:
            problem = "what was there" if isinstance(replacement, str) else f"{type(replacement).__name__}"
            raise JobError(
                f"{_file_of(kind)}: `put` returned {problem}, and a change is another text; see docs/noise.md"
            )
        changes.append((start, end, i, replacement))
    pieces: list[str] = []
    end_of_last = 0
    for start, end, _, replacement in sorted(changes):
        pieces += (text[end_of_last:start], replacement)
        end_of_last = end
    return Noised("".join((*pieces, text[end_of_last:])), wanted, possible, units)


def _checked_places(kind: NoiseKind, text: str) -> list[Span]:
    """Return the places of a kind in a text, in its order."""
    places = [*kind.places(text)]
    ordered = sorted(places)
    outside = [(start, end) for start, end in ordered if not 0 <= start <= end <= len(text)]
    overlapping = [(first, second) for first, second in pairwise(ordered) if first[1] > second[0]]
    if outside or overlapping:
        problem = f"{outside[0]} lies outside" if outside else f"{overlapping[0][0]} and {overlapping[0][1]} overlap in"
        remedy = f"the {len(text)} characters of a text; see docs/noise.md"
        raise JobError(f"{_file_of(kind)}: `places` returned wrong places: {problem} {remedy}")
    return places


def _file_of(kind: NoiseKind) -> str:
    return str(kind.path or type(kind).__name__)


def matches(pattern: str, flags: re.RegexFlag = re.NOFLAG, known: Callable[[str], bool] = lambda found: True) -> Any:
    r"""Return the method `places`, a static one, that finds all matches of a regular expression (package `regex`).

    There a combining mark is part of a word (`\w`), `\b` is a word boundary of Unicode, and `\p{L}\p{M}*` is a letter
    with its marks.

    Args:
        known: whether a match is one that the kind can replace. A pattern that ignores case also matches letters whose
            lower case is another one, such as the long s and the dotless i.
    """
    finditer = regex.compile(pattern, int(flags) | regex.WORD).finditer
    return staticmethod(lambda text: [found.span() for found in finditer(text) if known(found[0])])


def each_word(known: Callable[[str], object] = lambda word: True) -> Any:
    """Return the method `places` (a static method) that finds all words of a text, as `rbench.system.words` tells them.

    Args:
        known: whether a word is one that the kind can replace.
    """
    return staticmethod(lambda text: [(start, end) for start, end in word_spans(text) if known(text[start:end])])


def cased(word: str, like: str) -> str:
    """Return a word in lower case with the case of another: `There` for `there` like `Their`."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word
