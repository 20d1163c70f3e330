"""Finds the verb of a text's first statement, for kinds that change what is said of it."""

from __future__ import annotations

from typing import NamedTuple

from rbench.edits._changes import TaggedText

VERSION = 1

BE = {"am", "is", "are", "was", "were"}
AUXILIARIES = BE | {"can", "could", "will", "would", "should", "must", "may", "might", "do", "does", "did"}
PERFECT = {"has", "have", "had"}
"""Auxiliaries where a participle follows, and else verbs like others."""
NEGATIONS = {"not", "never", "no", "nobody", "nothing", "none", "neither", "nor", "hardly", "without", "cannot"}
_QUESTIONS = {"who", "what", "when", "where", "why", "how", "which", "whose"}


class FiniteVerb(NamedTuple):
    """A verb form that agrees with its subject."""

    at: int
    """Its place among the words of the text."""
    lemma: str
    form: str
    """The Penn Treebank tag: VBZ (third person) or VBD (past); AUX for an auxiliary, after which `not` can stand."""


def is_negated(text: TaggedText) -> bool:
    """Whether a text has a word that negates."""
    return any(text.lower(i) in NEGATIONS or text.lower(i).endswith("n't") for i in range(len(text.words)))


def finite_verb(text: TaggedText) -> FiniteVerb | None:
    """Return the first finite verb of a statement; None for a question, an order and where no form is clear.

    Base forms are passed over: they may be infinitives, and plural presents look the same.
    """
    if "?" in text.text or text.lower(0) in _QUESTIONS:
        return None
    for i in range(1, len(text.words)):  # the first word of a statement is not its verb
        word = text.lower(i)
        if word in AUXILIARIES or (word in PERFECT and _is_participle(text.lower(i + 1))):
            return FiniteVerb(i, word, "AUX")
        if text.tag(i) == "VERB" and (found := _inflected(word, text.lower(i - 1))) is not None:
            return FiniteVerb(i, *found)
    return None


def _inflected(word: str, before: str) -> tuple[str, str] | None:
    """Return the base form and the tag of a word that is a third person or a past tense and nothing else."""
    import lemminflect

    if before in ("to", "a", "an", "the"):
        return None
    lemmas = lemminflect.getAllLemmas(word, "VERB").get("VERB", ())
    for lemma in lemmas[:1]:
        forms = lemminflect.getAllInflections(lemma, "VERB")
        if word == lemma:
            return None
        found = next((form for form in ("VBZ", "VBD") if word in forms.get(form, ())), None)
        return (lemma, found) if found is not None else None
    return None


def participle(lemma: str) -> str | None:
    """Return the past participle of a verb; None where lemminflect's dictionary lists none."""
    import lemminflect

    forms = lemminflect.getAllInflections(lemma, "VERB")
    found = forms.get("VBN") or forms.get("VBD")
    return str(found[0]) if found else None


def _is_participle(word: str) -> bool:
    import lemminflect

    return any(
        word in lemminflect.getAllInflections(lemma, "VERB").get(form, ())
        for lemma in lemminflect.getAllLemmas(word, "VERB").get("VERB", ())
        for form in ("VBN", "VBD")
    )
