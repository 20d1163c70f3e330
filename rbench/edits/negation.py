"""A statement becomes its denial, or a denial a statement: `is` and `is not`, `liked` and `did not like`.

A text without a negation gets one at its first finite verb. Of a text with `not`, `n't` or `never` it is taken out.
After `do`, `does` or `did` the verb is inflected again, so that `did not like` becomes `liked`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rbench.edits import EditKind, Labelled, Replacement, TaggedText
from rbench.edits._verbs import finite_verb, is_negated

VERSION = 2

_DO = {"do": None, "does": "VBZ", "did": "VBD"}
"""Auxiliaries that stand beside `not` alone, with the inflection that the verb takes without them."""
_SHORT = {"can't": "can", "won't": "will", "shan't": "shall", "cannot": "can"}
_AFTER_NOT = {"only", "just", "merely", "least", "always", "necessarily", "all", "every", "everyone"}
"""Words before which `not` limits what is said, and does not deny it."""


class Negation(EditKind):
    title = "a negation put in or taken out"
    labelled = Labelled(changed=178, n=200)
    needs = ("pos_tagger",)

    def replacements(self, text: TaggedText) -> Iterator[Replacement]:
        """Yield the denial of the first finite verb, or each negation taken out."""
        if is_negated(text):
            yield from _without(text)
        elif (verb := finite_verb(text)) is not None:
            if verb.form == "AUX":
                if text.lower(verb.at + 1) not in _AFTER_NOT:
                    start = end = text.spans[verb.at][1]
                    yield Replacement(start, end, " not")
            else:
                auxiliary = "does" if verb.form == "VBZ" else "did"
                yield text.replaced(verb.at, verb.at, f"{auxiliary} not {verb.lemma}")


def _without(text: TaggedText) -> Iterator[Replacement]:
    for i in range(1, len(text.words)):
        word = text.lower(i)
        if word == "never" or (word == "not" and text.lower(i + 1) not in _AFTER_NOT):
            before = text.lower(i - 1)
            if word == "not" and before in _DO and text.follow_directly(i - 1, i + 1):
                yield from _inflected(text, i - 1, i + 1, before)
            elif word == "never" or before not in ("or", "but", "if", "why"):
                yield text.removed(i, i)
        elif word in _SHORT:
            yield text.replaced(i, i, _SHORT[word])
        elif word.endswith("n't") and word != "ain't":  # "ain't" may be "am not", "is not" or "has not"
            auxiliary = word[:-3]
            if auxiliary not in _DO:
                yield text.replaced(i, i, auxiliary)
            elif text.follow_directly(i, i + 1):
                yield from _inflected(text, i, i + 1, auxiliary)


def _inflected(text: TaggedText, first: int, verb: int, auxiliary: str) -> Iterator[Replacement]:
    """Yield the verb without its auxiliary, in the auxiliary's inflection; nothing where the dictionary has none."""
    import lemminflect

    form, lemma = _DO[auxiliary], text.lower(verb)
    if lemma not in lemminflect.getAllLemmas(lemma, "VERB").get("VERB", ()):
        return
    found = (lemma,) if form is None else lemminflect.getAllInflections(lemma, "VERB").get(form, ())
    if found:
        yield text.replaced(first, verb, found[0])
