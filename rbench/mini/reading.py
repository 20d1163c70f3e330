"""From a text to its meaning: a recursive-descent parser of the language, one token of look-ahead.

Grammar (upper case: a class of words)::

    text     = sentence { ("." | "!" | "?") sentence }
    sentence = clause [ (AND | BUT | ALTHOUGH) clause ] | ALTHOUGH clause clause
    clause   = thing verb [MANNER] [PREPOSITION thing] [TIME]
    thing    = DETERMINER [ADJECTIVE] NOUN [OF thing-without-of]
    verb     = BE [NOT | NEVER] state | [NEVER] FINITE rest | DO NOT BASE rest
    state    = [INTENSITY] ADJECTIVE | thing
    rest     = state (linking verb) | thing (transitive verb) | nothing (intransitive verb)

Case and punctuation within a sentence are ignored, `a` and `an` are one word; number and tense must agree.
"""

from __future__ import annotations

import re

from rbench.mini.lexicon import Concept, Form, load
from rbench.mini.meaning import Clause, Sentence, Thing

WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")
_TRANSITIVE = frozenset({"judge", "affect", "act", "meet"})


class _NotOfTheLanguage(Exception):
    """Raised inside the parser where the text stops making sense."""


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return [word.lower() for word in WORD.findall(text)]


def read(text: str) -> tuple[Sentence, ...] | None:
    """The meaning of each sentence of `text`; None where a word or the grammar is not of the language."""
    forms = load().forms
    sentences = []
    for part in _SENTENCE_END.split(text):
        words = words_of(part)
        if not words:
            continue
        if any(word not in forms for word in words):
            return None
        try:
            sentences.append(_Parser([forms[word] for word in words]).sentence())
        except _NotOfTheLanguage:
            return None
    return tuple(sentences) or None


class _Parser:
    def __init__(self, forms: list[Form]) -> None:
        self._forms = forms
        self._at = 0
        self._concepts = load().concepts

    # ------------------------------------------------------------------------------------------------- the tokens

    def _next(self) -> tuple[Form, Concept] | None:
        if self._at == len(self._forms):
            return None
        form = self._forms[self._at]
        return form, self._concepts[form.concept]

    def _take(self, part: str, *frames: str) -> Form | None:
        """The next word, where it is of this part of speech (and of one of these frames, where any is named)."""
        match self._next():
            case form, concept if concept.part == part and (not frames or concept.frame in frames):
                self._at += 1
                return form
        return None

    def _need(self, part: str, *frames: str) -> Form:
        form = self._take(part, *frames)
        if form is None:
            raise _NotOfTheLanguage
        return form

    # ------------------------------------------------------------------------------------------------ the grammar

    def sentence(self) -> Sentence:
        if self._take("word", "concession"):
            conceded = self._clause()
            sentence = Sentence((self._clause(),), (conceded,))
        else:
            first = self._clause()
            if self._take("word", "addition"):
                sentence = Sentence((first, self._clause()))
            elif self._take("word", "contrast"):
                sentence = Sentence((self._clause(),), (first,))
            elif self._take("word", "concession"):
                sentence = Sentence((first,), (self._clause(),))
            else:
                sentence = Sentence((first,))
        if self._next() is not None:
            raise _NotOfTheLanguage
        return sentence

    def _clause(self) -> Clause:
        subject = self._thing()
        verb, negated, past = self._verb(subject.plural)
        frame = self._concepts[verb].frame
        thing, quality, intensity = None, None, None
        if frame in ("be", "link"):
            thing, quality, intensity = self._state()
        elif frame in _TRANSITIVE:
            thing = self._thing()
        manner = self._take("manner") if frame not in ("be", "link") else None
        preposition = self._take("preposition")
        place = (preposition.concept, self._thing()) if preposition else None
        time = self._take("time")
        return Clause(
            subject=subject,
            verb=verb,
            negated=negated,
            object=thing,
            quality=quality,
            intensity=intensity,
            manner=manner.concept if manner else None,
            place=place,
            time=time.concept if time else None,
            past=past,
        )

    def _thing(self, *, nested: bool = False) -> Thing:
        determiner = self._need("determiner")
        adjective = self._take("adjective")
        noun = self._need("noun")
        plural = noun.feature == "plural"
        number = self._concepts[determiner.concept].frame
        if number != "either" and (number == "many") != plural:
            raise _NotOfTheLanguage
        of = self._thing(nested=True) if not nested and self._take("word", "of") else None
        return Thing(noun.concept, adjective.concept if adjective else None, of, plural)

    def _verb(self, plural: bool) -> tuple[str, bool, bool]:
        """The verb's concept, whether it is negated, whether it is in the past."""
        if be := self._take("be"):
            if be.feature.endswith("s") != plural:
                raise _NotOfTheLanguage
            return be.concept, self._take("word", "not", "never") is not None, be.feature.startswith("past")
        if do := self._take("do"):
            self._need("word", "not")
            verb = self._need("verb")
            if verb.feature != "base" or (do.feature != "past" and (do.feature == "presents") != plural):
                raise _NotOfTheLanguage
            return verb.concept, True, do.feature == "past"
        negated = self._take("word", "never") is not None
        verb = self._need("verb")
        if verb.feature != "past" and (verb.feature == "base") != plural:
            raise _NotOfTheLanguage
        return verb.concept, negated, verb.feature == "past"

    def _state(self) -> tuple[Thing | None, str | None, str | None]:
        following = self._next()
        if following is not None and following[1].part == "determiner":
            return self._thing(), None, None
        intensity = self._take("intensity")
        return None, self._need("adjective").concept, intensity.concept if intensity else None
