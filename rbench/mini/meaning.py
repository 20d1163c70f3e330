"""Represent the meaning of a sentence of the embedded world, apart from its words, and draw such meanings.

All names are concept names. Number and tense are kept for agreement only: meanings that differ in nothing else are
equal. Determiners have no meaning: every noun phrase denotes one definite thing. A seeded generator draws meanings
(`World`); labels are made elsewhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from random import Random

from rbench.mini.lexicon import Concept, load

CONCEPT_EXPONENT = 1.0
MARKED = 0.12
"""Weight of the marked one of two antonyms relative to the other, except for words of praise and blame."""
NOUN_FRAMES = ("person", "animal", "thing", "part", "object", "place")


@dataclass(frozen=True)
class Thing:
    """A noun phrase: `the [quality] head [of the ...]`."""

    head: str
    quality: str | None = None
    of: Thing | None = None
    plural: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Clause:
    """One statement. A linking verb has a `quality` or an `object` (a noun predicate), never both."""

    subject: Thing
    verb: str
    negated: bool = False
    object: Thing | None = None
    quality: str | None = None
    intensity: str | None = None
    manner: str | None = None
    place: tuple[str, Thing] | None = None
    time: str | None = None
    past: bool = field(default=True, compare=False)

    @property
    def things(self) -> tuple[Thing, ...]:
        """Return all things of the clause, including those in `of` phrases."""
        found = [self.subject, self.object, self.place[1] if self.place else None]
        return tuple(part for thing in found if thing for part in (thing, thing.of) if part)


@dataclass(frozen=True)
class Sentence:
    """The clauses that are stated (`main`) and those that are conceded (`conceded`: "although ...,", "... but")."""

    main: tuple[Clause, ...]
    conceded: tuple[Clause, ...] = ()


# ---------------------------------------------------------------------------------------------------------- drawing


@cache
def concepts(part: str, frames: tuple[str, ...], topic: str | None = None, polarity: int = 0) -> tuple[Concept, ...]:
    """Return the concepts of a part of speech with one of the frames, the topic and the polarity."""
    return tuple(c for c in load().of(part, *frames, topic=topic) if c.polarity == polarity)


@cache
def _weighted(
    part: str, frames: tuple[str, ...], topic: str | None, polarity: int, breadth: int
) -> tuple[tuple[Concept, ...], tuple[float, ...]]:
    """Return the first `breadth` such concepts of each frame, with cumulative weights by Zipf's law."""
    ranks: Counter[str] = Counter()
    found, weights = [], []
    for concept in concepts(part, frames, topic, polarity):
        ranks[concept.frame] += 1
        if ranks[concept.frame] <= breadth:
            found.append(concept)
            weights.append(ranks[concept.frame] ** -CONCEPT_EXPONENT * _marking(concept))
    return tuple(found), tuple(accumulate(weights))


@cache
def _unrelated(name: str, breadth: int) -> tuple[tuple[Concept, ...], tuple[float, ...]]:
    """Return concepts that can replace `name`, unrelated to it, with cumulative weights."""
    concept = load().concepts[name]
    anywhere = NOUN_FRAMES if concept.part == "noun" else (concept.frame,)
    for frames, topic in (((concept.frame,), concept.topic), (anywhere, None)):
        choices, _ = _weighted(concept.part, frames, topic, concept.polarity, breadth)
        found = tuple(c for c in choices if not related(c.name, name))
        if found:
            break
    weights = (rank**-CONCEPT_EXPONENT * _marking(other) for rank, other in enumerate(found, start=1))
    return found, tuple(accumulate(weights))


def _marking(concept: Concept) -> float:
    """Return the factor on a concept's frequency: `MARKED` for a marked antonym without polarity, else 1."""
    return MARKED if concept.marked and not concept.polarity else 1.0


@cache
def related(first: str, second: str) -> bool:
    """Whether two concepts are the same, antonyms, or one is a kind of the other (or of the other's antonym)."""
    lexicon = load()
    ours, theirs = set(lexicon.ancestors[first]), set(lexicon.ancestors[second])
    opposites = {lexicon.concepts[name].antonym for name in ours}
    return bool(first in theirs or second in ours or opposites & theirs or ours & theirs)


class World:
    """Draws things and clauses with `rng`, from the `breadth` most common concepts of each frame."""

    def __init__(self, rng: Random, breadth: int = 1000) -> None:
        self.rng = rng
        self.breadth = breadth

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def one(self, part: str, *frames: str, topic: str | None = None, polarity: int = 0) -> str:
        """Draw a concept and return its name. Concepts that the lexicon lists first are more frequent."""
        found, weights = _weighted(part, frames, topic, polarity, self.breadth)
        return self.rng.choices(found, cum_weights=weights)[0].name

    def other(self, name: str) -> str:
        """Draw a concept that can replace `name`, unrelated to it."""
        found, weights = _unrelated(name, self.breadth)
        return self.rng.choices(found, cum_weights=weights)[0].name

    # -------------------------------------------------------------------------------------------------- things

    def thing(self, *frames: str, topic: str | None = None, quality: float = 0.25, plural: float = 0.12) -> Thing:
        """Draw a noun phrase without polarity. `quality` and `plural` are the rates of adjectives and plurals."""
        head = self.one("noun", *frames, topic=topic)
        return Thing(head, self.quality(head) if self.chance(quality) else None, plural=self.chance(plural))

    def quality(self, head: str, polarity: int = 0) -> str:
        """Draw an adjective that can describe `head`."""
        return self.one("adjective", "any", "person" if self._lives(head) else "thing", polarity=polarity)

    def person(self, **options: float) -> Thing:
        return self.thing("person", **options)  # type: ignore[arg-type]

    def subject_matter(self) -> Thing:
        """Draw something that can be judged: a thing or, half of the time, a part of a thing."""
        if self.chance(0.5):
            return self.thing("thing", quality=0.3)
        part = self.thing("part", quality=0.1, plural=0.1)
        return replace(part, of=self.thing("thing", quality=0.15, plural=0.1)) if self.chance(0.7) else part

    def _lives(self, head: str) -> bool:
        return load().concepts[head].frame in ("person", "animal")

    # ------------------------------------------------------------------------------------------------- clauses

    def event(self, *, past: bool = True) -> Clause:
        """Draw a clause without polarity: an event or a state."""
        kind = self.rng.choices(("act", "meet", "do", "state"), (28, 14, 30, 28))[0]
        if kind == "state":
            return self.setting(self._state(past), place=0.5, time=0.25)
        subject = self.thing("person", "animal") if kind == "do" else self.person()
        clause = Clause(subject, self.one("verb", kind), past=past)
        if kind == "act":
            clause = replace(clause, object=self.thing("object", "thing", quality=0.3))
        elif kind == "meet":
            clause = replace(clause, object=self.thing("person", "animal", quality=0.3))
        if self.chance(0.15):
            clause = replace(clause, manner=self.one("manner", "manner"))
        return self.setting(clause)

    def _state(self, past: bool) -> Clause:
        subject = self.thing("person", "thing", "object", "animal", quality=0.0)
        intensity = self.one("intensity") if self.chance(0.2) else None
        while not load().concepts[quality := self.quality(subject.head)].antonym:  # it is gradable
            pass
        return Clause(subject, "be", quality=quality, intensity=intensity, past=past)

    def setting(self, clause: Clause, *, place: float = 0.55, time: float = 0.3) -> Clause:
        """Add a place or company and a time to a clause, at these rates."""
        if self.chance(place):
            if self._lives(clause.subject.head) and self.chance(0.2):
                clause = replace(clause, place=("with", self.person(quality=0.15)))
            else:
                where = self.one("preposition", "place")
                clause = replace(clause, place=(where, self.thing("place", quality=0.2, plural=0.1)))
        return replace(clause, time=self.one("time")) if self.chance(time) else clause

    def verdict(self, polarity: int, *, intensity: str | None = None, past: bool = True) -> Clause:
        """Draw a clause whose predicate praises (1) or blames (-1). With `intensity` the predicate is an adjective."""
        negated = intensity is None and self.chance(0.12)
        sign = -polarity if negated else polarity
        kinds = (("quality", 44), ("judge", 23), ("affect", 13), ("noun", 10), ("manner", 10))
        kind = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        if intensity or kind == "quality":
            subject = self.person() if self.chance(0.25) else self.subject_matter()
            verb = "be" if self.chance(0.8) else "seem"
            if intensity is None and not negated and self.chance(0.2):
                intensity = "very"
            clause = Clause(subject, verb, quality=self.quality(subject.head, sign), intensity=intensity)
        elif kind == "judge":
            verb = self.one("verb", "judge", polarity=sign)
            clause = Clause(self.person(quality=0.15), verb, object=self.subject_matter())
        elif kind == "affect":
            verb = self.one("verb", "affect", polarity=sign)
            clause = Clause(self.subject_matter(), verb, object=self.person())
        elif kind == "noun":
            subject = self.subject_matter()
            noun = Thing(self.one("noun", "quality", polarity=sign), plural=subject.plural)
            clause = Clause(subject, "be", object=noun)
        else:
            lives = self.chance(0.7)
            subject = self.person() if lives else self.thing("thing", "object")
            verb = self.rng.choice(("perform", "respond")) if lives else "function"
            clause = Clause(subject, verb, manner=self.one("manner", "manner", polarity=sign))
        return replace(clause, negated=negated, past=past)

    def topical(self, topic: str, *, past: bool = True) -> Clause:
        """Draw a clause whose subject, verb or object belongs to the topic, and that has no word of another topic."""
        person = self.thing("person", topic=topic) if self.chance(0.55) else self.person()
        kind = self.rng.choices(("act", "plain act", "do", "state"), (35, 25, 20, 20))[0]
        matter = self.thing("thing", topic=topic, quality=0.2)
        if kind == "act":
            clause = Clause(person, self.one("verb", "act", topic=topic), object=matter)
        elif kind == "plain act":
            clause = Clause(person, self.one("verb", "act"), object=matter)
        elif kind == "do":
            clause = Clause(person, self.one("verb", "do", topic=topic))
        else:
            clause = Clause(matter, "be", quality=self.quality(matter.head))
        if self.chance(0.1):
            quality = self.one("adjective", "any", topic=topic)
            clause = replace(clause, subject=replace(clause.subject, quality=quality))
        return replace(clause, past=past)

    def past(self) -> bool:
        return self.chance(0.88)
