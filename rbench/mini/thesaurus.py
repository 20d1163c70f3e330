"""Look up hypernyms and inflections of a word. Synonyms and antonyms are in `lexical`.

The modules are separate because the source of `lexical` is hashed into the keys of attack jobs (`lexical.sources`), and
attacks use nothing of this module.
"""

from __future__ import annotations

from rbench.mini.lexicon import load

_FEATURES = ("singular", "plural", "base", "present", "past")


def hypernyms(word: str) -> list[str]:
    """Return the words of the next more general concept, in the same inflection; none if there is no such concept."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    more_general = lexicon.concepts[form.concept].isa if form else None
    if form is None or more_general is None:
        return []
    return [lexicon.inflected[other, form.feature] for other in lexicon.concepts[more_general].words]


def forms(word: str) -> list[str]:
    """Return the other inflections of a noun or verb, in the lexicon's order; none for `be` and `do`."""
    lexicon = load()
    form = lexicon.forms.get(word.lower())
    if form is None or lexicon.concepts[form.concept].part in ("be", "do"):
        return []
    others = (feature for feature in _FEATURES if feature != form.feature)
    return [lexicon.inflected[form.word, feature] for feature in others if (form.word, feature) in lexicon.inflected]
