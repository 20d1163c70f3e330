"""More of what the lexicon says of a word, beside `lexical.synonyms` and `lexical.antonyms`.

A module of its own, because attacks ask for neither: the hash of `lexical` stands in their jobs.
"""

from __future__ import annotations

from rbench.mini.lexicon import load

_FEATURES = ("singular", "plural", "base", "present", "past")


def hypernyms(word: str) -> list[str]:
    """The words of the concept one step more general, in the same inflection; none where there is no such concept."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    above = lexicon.concepts[form.concept].isa if form else None
    if form is None or above is None:
        return []
    return [lexicon.inflected[other, form.feature] for other in lexicon.concepts[above].words]


def forms(word: str) -> list[str]:
    """The word's other inflections, of nouns and verbs, as the lexicon lists them; none for `be` and `do`."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    if form is None or lexicon.concepts[form.concept].part in ("be", "do"):
        return []
    others = (feature for feature in _FEATURES if feature != form.feature)
    return [lexicon.inflected[form.word, feature] for feature in others if (form.word, feature) in lexicon.inflected]
