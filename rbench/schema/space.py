"""A space of substitutions: which texts an attack may make of a text, whatever the victim and the search.

`ObservedByCell` is what is known to fool a victim in a space: an entry of the file that `rbench judge best` keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field

from rbench.schema.common import Checked, Count, Positive, ResourceKind, Strict

STRONGEST_BUDGET = 5000
"""Queries of a text by the attack `strongest` where it sets no `query_budget`."""


class Space(Strict):
    """A declared space. A text of it differs from the original in at most `max_words` words, by substitutions that
    depend on the original alone, not on each other and not on the victim.

    So two attacks in one space can be compared: what one of them finds, the other could have found.
    """

    candidates: Literal["counterfitted", "synonyms"] = "counterfitted"
    """Where the replacements of a word come from. `counterfitted`: its nearest words in the word vectors of the
    resource set. `synonyms`: the set's synonyms (WordNet, or a list such as PPDB)."""
    k: Positive = 50
    """At most so many replacements of a word, before the filters by cosine and part of speech."""
    cosine: Annotated[float, Field(ge=-1, le=1)] | None = 0.5
    """Least cosine of the word vectors of a word and its replacement; null: no filter. With `synonyms`, a replacement
    without a vector does not pass it."""
    pos: bool = True
    """Whether a replacement must have the part of speech of its word in the original text; a noun may stand for a verb
    and a verb for a noun, as in TextFooler."""
    max_words: Positive = 1
    """At most so many words are replaced."""
    stop_words: Literal["keep", "replace"] = "keep"
    """Whether stop words stay as they are."""

    @property
    def needed(self) -> tuple[ResourceKind, ...]:
        """The kinds of resources that give the substitutions."""
        vectors = self.candidates == "counterfitted" or self.cosine is not None
        asked: dict[ResourceKind, bool] = {
            "word_vectors": vectors,
            "synonyms": self.candidates == "synonyms",
            "pos_tagger": self.pos,
            "stopwords": self.stop_words == "keep",
        }
        return tuple(kind for kind, needed in asked.items() if needed)

    @property
    def fingerprint(self) -> str:
        """A hash of what is declared. The resources behind it have fingerprints of their own; a key holds both."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]


Hash = Annotated[str, Field(pattern="^[0-9a-f]{16,64}$")]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Text = Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
Key = tuple[str, str, str]


class KnownAdversarial(Checked):
    """The text with the fewest words replaced that is known to change a victim's prediction, in a declared space."""

    victim: Name
    """The hash of its weights, as the records of RUNs have it; of a function or an endpoint its name and version."""
    unverifiable: bool = False
    """Whether it is a function or an endpoint: nobody can say that another one of the same name is the same."""
    text: Hash
    """`text_hash` the original and its label."""
    space: Hash
    """`space_place` the space."""
    label: Count
    original: Text
    adversarial: Text
    words: Positive
    """How many words of the original are replaced."""
    queries: Count
    """How many queries the attack that found it took."""
    attack: Name
    """The attack that found it."""

    @property
    def key(self) -> Key:
        """What there is one entry for."""
        return self.victim, self.text, self.space

    def wrong(self) -> Iterator[str]:
        if self.text != text_hash(self.original, self.label):
            yield "`text` is not the hash of the original and its label"
        if len(self.adversarial) != len(self.original) or self.adversarial == self.original:
            yield "`adversarial` is no changed text with the columns of the original"


def text_hash(original: Sequence[str], label: int) -> str:
    """Return the hash of a text's columns and its label, 64 hex digits."""
    return sha256(json.dumps([*original, label]).encode()).hexdigest()


def space_place(space: Space, resources: Mapping[str, str], protected: Sequence[str]) -> str:
    """Return the fingerprint of what texts a space has: of the declared space, its resources and protected columns.

    Args:
        resources: the fingerprints of resources by kind. Those that the space does not need are left out.
        protected: the columns that stay as they are.
    """
    needed = {str(kind): resources.get(kind, "") for kind in sorted(space.needed)}
    return sha256(json.dumps([space.fingerprint, needed, sorted(protected)]).encode()).hexdigest()[:16]
