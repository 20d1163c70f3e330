"""Contractions: `do not` becomes `don't`, and the other way round where it can have only one meaning.

`it's` and `he'd` are left, because they may stand for `it is` or `it has`, `he had` or `he would`.
"""

from __future__ import annotations

import re
from random import Random

from rbench.noise import NoiseKind, cased, matches

VERSION = 3

_VERBS = ["are", "could", "did", "do", "does", "had", "has", "have", "is", "should", "was", "were", "would"]
_PAIRS = {f"{verb} not": f"{verb}n't" for verb in _VERBS} | {"cannot": "can't", "will not": "won't", "i am": "i'm"}
_PAIRS |= {f"{who} are": f"{who}'re" for who in ("you", "we", "they")}
_PAIRS |= {f"{who} have": f"{who}'ve" for who in ("i", "you", "we", "they")}
_PAIRS |= {f"{who} will": f"{who}'ll" for who in ("i", "you", "he", "she", "it", "we", "they")}
_OTHER = _PAIRS | {short: full for full, short in _PAIRS.items()}
_OTHER |= {f"{who} is": f"{who}'s" for who in ("it", "that", "he", "she")}

_FORMS = "|".join(sorted((re.escape(form).replace("'", "['’]") for form in _OTHER), key=len, reverse=True))

_PRONOUNS = "i|you|he|she|it|we|they|this|that|these|those|there"


def _plain(found: str) -> str:
    return found.lower().replace("’", "'")


class Contractions(NoiseKind):
    title = "two words contracted, or a contraction taken apart"
    unit = "words"
    only_for = "English"
    # Before a pronoun `n't` stays: `isn't it` is not `is not it`.
    places = matches(
        rf"\b(?:{_FORMS})\b(?= \w)(?!(?<=n['’]t) (?:{_PRONOUNS})\b)",
        re.IGNORECASE,
        lambda found: _plain(found) in _OTHER,
    )

    def put(self, found: str, rng: Random) -> str:
        """Return the other form."""
        other = _OTHER[_plain(found)]
        made = cased(other, found if len(found) > 3 else found[:1])
        return f"I{made[1:]}" if made.startswith(("i'", "i ")) else made
