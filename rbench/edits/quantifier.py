"""How many, how often or how much: `all` and `no`, `many` and `few`, `always` and `never`, `at least` and `at most`."""

from __future__ import annotations

from collections.abc import Iterator

from rbench.edits import EditKind, Labelled, Replacement, TaggedText

VERSION = 1

_LEFT_BEFORE = {"a", "the", "not", "so", "at", "very", "first"}
_LEFT_AFTER = {"way", "day", "time"}
"""Words beside which a word of amount belongs to a set expression."""
_BEFORE_NOUNS = {"all": "no", "every": "no", "each": "no", "many": "few", "few": "many", "most": "few", "several": "no"}
"""Words that count what the next noun names."""
_ALONE = {
    "everyone": "no one",
    "everybody": "nobody",
    "everything": "nothing",
    "nobody": "everybody",
    "nothing": "everything",
    "always": "never",
    "often": "rarely",
    "rarely": "often",
    "seldom": "often",
}
_PAIRS = {
    ("at", "least"): "at most",
    ("at", "most"): "at least",
    ("more", "than"): "less than",
    ("less", "than"): "more than",
    ("fewer", "than"): "more than",
    ("a", "few"): "many",
    ("no", "one"): "everyone",
}


class Quantifier(EditKind):
    title = "how many or how often, changed to another amount"
    labelled = Labelled(changed=189, n=200)
    needs = ("pos_tagger",)

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield each word of amount with another one in its place."""
        for i in range(len(text.words)):
            word, following = text.lower(i), text.lower(i + 1)
            if (word, following) in _PAIRS and text.follow_directly(i, i + 1):
                yield text.replaced(i, i + 1, _PAIRS[word, following])
            elif word in _ALONE:
                yield text.replaced(i, i, _ALONE[word])
            elif word in _BEFORE_NOUNS and _counts_a_noun(text, i):
                yield text.replaced(i, i, _BEFORE_NOUNS[word])


def _counts_a_noun(text: TaggedText, i: int) -> bool:
    """Whether a word stands right before a noun, and is part of no set expression."""
    free = text.lower(i - 1) not in _LEFT_BEFORE and text.lower(i + 1) not in _LEFT_AFTER
    return free and text.follow_directly(i, i + 1) and text.tag(i + 1) == "NOUN"
