"""An adjective or a verb becomes its opposite: `good` and `bad`, `opened` and `closed`, by WordNet's direct antonyms.

The antonym has the inflection of the word. Auxiliaries are left, and so are words whose first antonym is the word with
a prefix that makes another sense of it (`different`, `indifferent`).
"""

from __future__ import annotations

from collections.abc import Iterator

from rbench.edits import EditKind, Labelled, Replacement, TaggedText
from rbench.edits._verbs import AUXILIARIES, PERFECT

VERSION = 1
USES = ("resources.thesaurus",)

_LEFT = AUXILIARIES | PERFECT | {"be", "been", "being", "having", "different", "own", "same", "other", "going", "go"}


class Antonym(EditKind):
    title = "an adjective or verb, in the place of its opposite"
    labelled = Labelled(changed=172, n=200)
    needs = ("synonyms", "pos_tagger")

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield each adjective or verb with its first antonym."""
        for i in range(len(text.words)):
            if text.tag(i) in ("ADJ", "VERB") and text.lower(i) not in _LEFT:
                for other in text.opposites(i)[:1]:
                    yield text.replaced(i, i, other)
