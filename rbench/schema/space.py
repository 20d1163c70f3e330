"""A space of substitutions: which texts an attack may make of a text, whatever the victim and the search."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field

from rbench.schema.common import Positive, ResourceKind, Strict

STRONGEST_BUDGET = 5000
"""Queries of a text by the attack `strongest` where it sets no `query_budget`."""


class Space(Strict):
    """A declared space. A text of it differs from the original in at most `max_words` words, by substitutions that
    depend on the original alone, not on each other and not on the victim.

    So two attacks in one space can be compared: what one of them finds, the other could have found.
    """

    candidates: Literal["counterfitted", "synonyms"] = "counterfitted"
    """Where the replacements of a word come from. `counterfitted`: its nearest words in the word vectors of the
    resource profile. `synonyms`: the profile's synonyms (WordNet, or a list such as PPDB)."""
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
        return hashlib.sha256(text.encode()).hexdigest()[:16]
