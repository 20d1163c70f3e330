"""Two parts of a statement exchange their roles: `before` and `after`, `from A to B`, who did it to whom.

Subject and object are exchanged where both are names, or both are nouns of one number behind a determiner, around a
past tense. Verbs that say the same of both (`met`, `married`) are left.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbench.edits import EditKind, Labelled, Replacement, TaggedText
from rbench.edits._verbs import finite_verb

VERSION = 1

_ORDER = {"before": "after", "after": "before"}
_SYMMETRIC = {"meet", "marry", "equal", "resemble", "match", "contact", "join", "kiss", "face", "fight"}
_SYMMETRIC |= {"seem", "become"}
"""Verbs that say the same of both, or of one alone."""
_SET_EXPRESSIONS = {"all", "long", "that", "this", "yesterday", "tomorrow"}
"""Words after `before` and `after` with which these mean something else."""


_INDEFINITE = {"someone", "somebody", "everyone", "everybody", "nobody", "something", "nothing"}


class Roles(EditKind):
    title = "who did it, where from or what came first, exchanged"
    labelled = Labelled(changed=191, n=200)
    needs = ("pos_tagger",)

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield `before` and `after` exchanged, the ends of a way exchanged, and subject and object exchanged."""
        for i in range(1, len(text.words)):
            if _parts_two_events(text, i):
                yield text.replaced(i, i, _ORDER[text.lower(i)])
            elif _begins_a_way(text, i):
                yield _exchanged(text, (i + 1, i + 1), (i + 3, i + 3))
        yield from _subject_and_object(text)


def _parts_two_events(text: TaggedText, i: int) -> bool:
    """Whether a word is a `before` or `after` with what follows it."""
    is_order = text.lower(i) in _ORDER and text.tag(i) in ("ADP", "CONJ")
    return is_order and text.tag(i + 1) not in ("", ".") and text.lower(i + 1) not in _SET_EXPRESSIONS


def _begins_a_way(text: TaggedText, i: int) -> bool:
    """Whether `from A to B` begins here, with two different nouns or numbers."""
    if text.lower(i) != "from" or text.lower(i + 2) != "to" or not text.follow_directly(i, i + 3):
        return False
    ends = {text.tag(i + 1), text.tag(i + 3)} <= {"NOUN", "NUM"} and text.lower(i + 1) != text.lower(i + 3)
    return ends and text.tag(i + 4) != "NOUN"


def _subject_and_object(text: TaggedText) -> Iterator[Replacement]:
    verb = finite_verb(text)
    if verb is None or verb.form != "VBD" or verb.lemma in _SYMMETRIC:
        return
    i = verb.at
    before, after = _noun(text, i - 1, -1), _noun(text, i + 1, 1)
    if before is None or after is None or not text.follow_directly(before[0], after[1]):
        return
    head, other = text.words[before[1]], text.words[after[1]]
    apart = head.lower() != other.lower() and head.lower().endswith("s") == other.lower().endswith("s")
    if apart and text.tag(after[1] + 1) != "NOUN":
        yield _exchanged(text, before, after)


def _noun(text: TaggedText, at: int, step: int) -> tuple[int, int] | None:
    """Return the first and the last word of a name, or of a determiner with a noun, beside a verb."""
    if not 0 <= at < len(text.words):
        return None
    noun = at if step < 0 else at + (text.tag(at) == "DET")
    first = noun - (text.tag(noun - 1) == "DET") if noun > 0 else noun
    named = text.words[noun][:1].isupper() if 0 <= noun < len(text.words) else False
    is_noun = text.tag(noun) == "NOUN" and text.lower(noun) not in _INDEFINITE
    is_alone = first == noun and not named
    return (first, noun) if is_noun and not is_alone and not (first > 0 and step < 0) else None


def _exchanged(text: TaggedText, one: tuple[int, int], other: tuple[int, int]) -> Replacement:
    """Return the replacement in which two stretches of words change places, with a capital at the text's beginning."""
    start, end = text.spans[one[0]][0], text.spans[other[1]][1]
    first, last = (text.text[text.spans[a][0] : text.spans[b][1]] for a, b in (one, other))
    between = text.text[text.spans[one[1]][1] : text.spans[other[0]][0]]
    if start == 0:
        last = last[:1].upper() + last[1:]
        first = first[:1].lower() + first[1:] if text.tag(one[0]) == "DET" else first
    return Replacement(start, end, f"{last}{between}{first}")
