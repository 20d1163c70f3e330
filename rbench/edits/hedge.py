"""What was stated becomes a mere possibility: `is` and `may be`, `opened` and `may have opened`.

Texts that deny something or already hedge are left.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbench.edits import EditKind, Labelled, Replacement, TaggedText
from rbench.edits._verbs import finite_verb, is_negated, participle

VERSION = 1

_BE = {"am": "may be", "is": "may be", "are": "may be", "was": "may have been", "were": "may have been"}
_HEDGED = {
    "may",
    "might",
    "could",
    "perhaps",
    "possibly",
    "probably",
    "maybe",
    "apparently",
    "seems",
    "seemed",
    "likely",
}


class Hedge(EditKind):
    title = "a statement, turned into a possibility"
    labelled = Labelled(changed=187, n=200)
    needs = ("pos_tagger",)

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield the first finite verb behind `may`."""
        verb = finite_verb(text)
        if verb is None or is_negated(text) or any(text.lower(i) in _HEDGED for i in range(len(text.words))):
            return
        if verb.form == "AUX":
            if verb.lemma in _BE:
                yield text.replaced(verb.at, verb.at, _BE[verb.lemma])
        elif verb.form == "VBZ":
            yield text.replaced(verb.at, verb.at, f"may {verb.lemma}")
        elif (past := participle(verb.lemma)) is not None:
            yield text.replaced(verb.at, verb.at, f"may have {past}")
