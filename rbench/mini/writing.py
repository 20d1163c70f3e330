"""Write a meaning as a text in the grammar of `reading`, and texts in other words.

Synonyms are drawn by frequency and inflected.
"""

from __future__ import annotations

from bisect import bisect
from random import Random

from rbench.mini.lexicon import load
from rbench.mini.meaning import Clause, Sentence, Thing
from rbench.mini.reading import read

VERSION = 1

_DETERMINERS = {
    "subject": (("the", 60), ("this", 8), ("that", 6), ("my", 6), ("our", 6), ("her", 4), ("his", 4), ("a", 6)),
    "other": (
        ("the", 50),
        ("a", 22),
        ("this", 6),
        ("that", 4),
        ("my", 4),
        ("our", 4),
        ("her", 3),
        ("his", 3),
        ("their", 4),
    ),
    "predicate": (("a", 1),),
    "many": (("the", 60), ("these", 12), ("those", 8), ("some", 10), ("our", 4), ("her", 3), ("their", 3)),
}
_NEVER_SHARE = 0.35
MAX_TRIES = 8
"""Largest number of times that `paraphrase` writes a text again until it differs from the original."""
_ORDERS = (("although", 40), ("but", 35), ("although-last", 25))


class SentenceWriter:
    """Write sentences. All random choices come from `rng`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lexicon = load()

    def text(self, *sentences: Sentence) -> str:
        """Write the sentences, each with a capital and a full stop, joined by spaces."""
        return " ".join(self._write_sentence(sentence) for sentence in sentences)

    def _write_sentence(self, sentence: Sentence) -> str:
        main = f" {self._word('and')} ".join(self._clause(clause) for clause in sentence.main)
        if sentence.conceded:
            (concession,) = (self._clause(clause) for clause in sentence.conceded)
            order = self._pick(_ORDERS)
            if order == "although":
                main = f"{self._word('although')} {concession}, {main}"
            elif order == "but":
                main = f"{concession}, {self._word('but')} {main}"
            else:
                main = f"{main} {self._word('although')} {concession}"
        return main[0].upper() + main[1:] + "."

    def _clause(self, clause: Clause) -> str:
        words = [self._thing(clause.subject, "subject"), self._verb(clause)]
        if clause.quality:
            words += [self._word(clause.intensity)] if clause.intensity else []
            words.append(self._word(clause.quality))
        elif clause.object:
            words.append(self._thing(clause.object, "predicate" if clause.verb == "be" else "other"))
        if clause.manner:
            words.append(self._word(clause.manner))
        if clause.place:
            words += [self._word(clause.place[0]), self._thing(clause.place[1], "other")]
        if clause.time:
            words.append(self._word(clause.time))
        return " ".join(words)

    def _thing(self, thing: Thing, role: str) -> str:
        noun = self._word(thing.head, "plural" if thing.plural else "singular")
        words = [self._word(thing.quality), noun] if thing.quality else [noun]
        determiner = self._pick(_DETERMINERS["many" if thing.plural else role])
        if determiner == "a" and words[0][0] in "aeiou":
            determiner = "an"
        text = " ".join((determiner, *words))
        return f"{text} of {self._thing(thing.of, 'other')}" if thing.of else text

    def _verb(self, clause: Clause) -> str:
        plural = clause.subject.plural
        never = clause.negated and self._rng.random() < _NEVER_SHARE
        if clause.verb == "be":
            feature = ("past" if clause.past else "present") + ("s" if plural else "")
            negation = (" never" if never else " not") if clause.negated else ""
            return self._lexicon.inflected["be", feature] + negation
        if clause.negated and not never:
            feature = "past" if clause.past else "presents" if plural else "present"
            return f"{self._lexicon.inflected['do', feature]} not {self._word(clause.verb, 'base')}"
        finite = self._word(clause.verb, "past" if clause.past else "base" if plural else "present")
        return f"never {finite}" if never else finite

    def _word(self, concept: str, feature: str = "") -> str:
        entry = self._lexicon.concepts[concept]
        word = entry.words[bisect(entry.weights, self._rng.random())]
        return self._lexicon.inflected[word, feature]

    def _pick(self, options: tuple[tuple[str, int], ...]) -> str:
        remaining = self._rng.random() * sum(weight for _, weight in options)
        for option, weight in options:
            remaining -= weight
            if remaining < 0:
                return option
        return options[-1][0]


def paraphrase(text: str, seed: int = 0) -> str | None:
    """Return another text with the meaning of `text`. It depends on `text` and the seed only.

    Only choices without meaning may change: synonyms, determiners, `not` or `never`, and the order of a contrast. So
    labels stay (docs/mini-world.md).

    Returns `text` itself if no try differs, and None if `text` is not of the language.
    """
    meaning = read(text)
    if meaning is None:
        return None
    writer = SentenceWriter(Random(f"{seed}\0{text}"))
    tries = (writer.text(*meaning) for _ in range(MAX_TRIES))
    return next((other for other in tries if other != text), text)
