"""Represent the meaning of a sentence of the embedded world, apart from its words, and draw such meanings.

All names are concept names. Number and tense are kept for agreement only: meanings that differ in nothing else are
equal. Determiners have no meaning: every noun phrase denotes one definite thing. A seeded generator draws meanings
(`MeaningSampler`); labels are made elsewhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from random import Random

from rbench.mini.lexicon import Concept, load

# The order of draws decides all rows: any change of it changes the fingerprint of each generated task, and so the keys
# of all jobs on them.
CONCEPT_EXPONENT = 1.0
MARKED_WEIGHT = 0.12
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
        noun_phrases = [self.subject, self.object, self.place[1] if self.place else None]
        return tuple(part for thing in noun_phrases if thing for part in (thing, thing.of) if part)


@dataclass(frozen=True)
class Sentence:
    """The clauses that are stated (`main`) and those that are conceded (`conceded`: "although ...,", "... but")."""

    main: tuple[Clause, ...]
    conceded: tuple[Clause, ...] = ()


# ---------------------------------------------------------------------------------------------------------- drawing


@cache
def find_concepts(
    part: str, frames: tuple[str, ...], topic: str | None = None, polarity: int = 0
) -> tuple[Concept, ...]:
    """Return the concepts of a part of speech with one of the frames, the topic and the polarity."""
    return tuple(c for c in load().of(part, *frames, topic=topic) if c.polarity == polarity)


@cache
def _weigh_concepts(
    part: str, frames: tuple[str, ...], topic: str | None, polarity: int, breadth: int
) -> tuple[tuple[Concept, ...], tuple[float, ...]]:
    """Return the first `breadth` such concepts of each frame, with cumulative weights by Zipf's law."""
    ranks: Counter[str] = Counter()
    chosen, weights = [], []
    for concept in find_concepts(part, frames, topic, polarity):
        ranks[concept.frame] += 1
        if ranks[concept.frame] <= breadth:
            chosen.append(concept)
            weights.append(ranks[concept.frame] ** -CONCEPT_EXPONENT * _marking_factor(concept))
    return tuple(chosen), tuple(accumulate(weights))


@cache
def _weigh_unrelated(name: str, breadth: int) -> tuple[tuple[Concept, ...], tuple[float, ...]]:
    """Return concepts that can replace `name`, unrelated to it, with cumulative weights."""
    concept = load().concepts[name]
    any_frame = NOUN_FRAMES if concept.part == "noun" else (concept.frame,)
    for frames, topic in (((concept.frame,), concept.topic), (any_frame, None)):
        choices, _ = _weigh_concepts(concept.part, frames, topic, concept.polarity, breadth)
        unrelated = tuple(c for c in choices if not are_related(c.name, name))
        if unrelated:
            break
    weights = (rank**-CONCEPT_EXPONENT * _marking_factor(other) for rank, other in enumerate(unrelated, start=1))
    return unrelated, tuple(accumulate(weights))


def _marking_factor(concept: Concept) -> float:
    """Return the factor on a concept's frequency: `MARKED_WEIGHT` for a marked antonym without polarity, else 1."""
    return MARKED_WEIGHT if concept.marked and not concept.polarity else 1.0


@cache
def are_related(first: str, second: str) -> bool:
    """Whether two concepts are the same, antonyms, or one is a kind of the other (or of the other's antonym)."""
    lexicon = load()
    first_kinds, second_kinds = set(lexicon.ancestors[first]), set(lexicon.ancestors[second])
    opposites = {lexicon.concepts[name].antonym for name in first_kinds}
    return bool(
        first in second_kinds or second in first_kinds or opposites & second_kinds or first_kinds & second_kinds
    )


class MeaningSampler:
    """Draws things and clauses with `rng`, from the `breadth` most common concepts of each frame."""

    def __init__(self, rng: Random, breadth: int = 1000) -> None:
        self.rng = rng
        self.breadth = breadth

    def happens(self, share: float) -> bool:
        return self.rng.random() < share

    def one(self, part: str, *frames: str, topic: str | None = None, polarity: int = 0) -> str:
        """Draw a concept and return its name. Concepts that the lexicon lists first are more frequent."""
        candidates, weights = _weigh_concepts(part, frames, topic, polarity, self.breadth)
        return self.rng.choices(candidates, cum_weights=weights)[0].name

    def other(self, name: str) -> str:
        """Draw a concept that can replace `name`, unrelated to it."""
        candidates, weights = _weigh_unrelated(name, self.breadth)
        return self.rng.choices(candidates, cum_weights=weights)[0].name

    # -------------------------------------------------------------------------------------------------- things

    def draw_thing(self, *frames: str, topic: str | None = None, quality: float = 0.25, plural: float = 0.12) -> Thing:
        """Draw a noun phrase without polarity. `quality` and `plural` are the rates of adjectives and plurals."""
        head = self.one("noun", *frames, topic=topic)
        return Thing(head, self.quality(head) if self.happens(quality) else None, plural=self.happens(plural))

    def quality(self, head: str, polarity: int = 0) -> str:
        """Draw an adjective that can describe `head`."""
        return self.one("adjective", "any", "person" if self._is_alive(head) else "thing", polarity=polarity)

    def draw_person(self, **options: float) -> Thing:
        return self.draw_thing("person", **options)  # type: ignore[arg-type]

    def draw_subject_matter(self) -> Thing:
        """Draw something that can be judged: a thing or, half of the time, a part of a thing."""
        if self.happens(0.5):
            return self.draw_thing("thing", quality=0.3)
        part = self.draw_thing("part", quality=0.1, plural=0.1)
        return replace(part, of=self.draw_thing("thing", quality=0.15, plural=0.1)) if self.happens(0.7) else part

    def _is_alive(self, head: str) -> bool:
        return load().concepts[head].frame in ("person", "animal")

    # ------------------------------------------------------------------------------------------------- clauses

    def draw_event(self, *, past: bool = True) -> Clause:
        """Draw a clause without polarity: an event or a state."""
        kind = self.rng.choices(("act", "meet", "do", "state"), (28, 14, 30, 28))[0]
        if kind == "state":
            return self.setting(self._state(past), place=0.5, time=0.25)
        subject = self.draw_thing("person", "animal") if kind == "do" else self.draw_person()
        clause = Clause(subject, self.one("verb", kind), past=past)
        if kind == "act":
            clause = replace(clause, object=self.draw_thing("object", "thing", quality=0.3))
        elif kind == "meet":
            clause = replace(clause, object=self.draw_thing("person", "animal", quality=0.3))
        if self.happens(0.15):
            clause = replace(clause, manner=self.one("manner", "manner"))
        return self.setting(clause)

    def _state(self, past: bool) -> Clause:
        subject = self.draw_thing("person", "thing", "object", "animal", quality=0.0)
        intensity = self.one("intensity") if self.happens(0.2) else None
        while not load().concepts[quality := self.quality(subject.head)].antonym:  # it is gradable
            pass
        return Clause(subject, "be", quality=quality, intensity=intensity, past=past)

    def setting(self, clause: Clause, *, place: float = 0.55, time: float = 0.3) -> Clause:
        """Add a place or company and a time to a clause, at these rates."""
        if self.happens(place):
            if self._is_alive(clause.subject.head) and self.happens(0.2):
                clause = replace(clause, place=("with", self.draw_person(quality=0.15)))
            else:
                preposition = self.one("preposition", "place")
                clause = replace(clause, place=(preposition, self.draw_thing("place", quality=0.2, plural=0.1)))
        return replace(clause, time=self.one("time")) if self.happens(time) else clause

    def verdict(self, polarity: int, *, intensity: str | None = None, past: bool = True) -> Clause:
        """Draw a clause whose predicate praises (1) or blames (-1). With `intensity` the predicate is an adjective."""
        negated = intensity is None and self.happens(0.12)
        sign = -polarity if negated else polarity
        kinds = (("quality", 44), ("judge", 23), ("affect", 13), ("noun", 10), ("manner", 10))
        kind = self.rng.choices([k for k, _ in kinds], [w for _, w in kinds])[0]
        if intensity or kind == "quality":
            # Under negation the word itself must be of the other polarity: "was not dull" praises.
            subject = self.draw_person() if self.happens(0.25) else self.draw_subject_matter()
            verb = "be" if self.happens(0.8) else "seem"
            if intensity is None and not negated and self.happens(0.2):
                intensity = "very"
            clause = Clause(subject, verb, quality=self.quality(subject.head, sign), intensity=intensity)
        elif kind == "judge":
            verb = self.one("verb", "judge", polarity=sign)
            clause = Clause(self.draw_person(quality=0.15), verb, object=self.draw_subject_matter())
        elif kind == "affect":
            verb = self.one("verb", "affect", polarity=sign)
            clause = Clause(self.draw_subject_matter(), verb, object=self.draw_person())
        elif kind == "noun":
            subject = self.draw_subject_matter()
            noun = Thing(self.one("noun", "quality", polarity=sign), plural=subject.plural)
            clause = Clause(subject, "be", object=noun)
        else:
            lives = self.happens(0.7)
            subject = self.draw_person() if lives else self.draw_thing("thing", "object")
            verb = self.rng.choice(("perform", "respond")) if lives else "function"
            clause = Clause(subject, verb, manner=self.one("manner", "manner", polarity=sign))
        return replace(clause, negated=negated, past=past)

    def draw_topical(self, topic: str, *, past: bool = True) -> Clause:
        """Draw a clause whose subject, verb or object belongs to the topic, and that has no word of another topic."""
        person = self.draw_thing("person", topic=topic) if self.happens(0.55) else self.draw_person()
        kind = self.rng.choices(("act", "plain act", "do", "state"), (35, 25, 20, 20))[0]
        matter = self.draw_thing("thing", topic=topic, quality=0.2)
        if kind == "act":
            clause = Clause(person, self.one("verb", "act", topic=topic), object=matter)
        elif kind == "plain act":
            clause = Clause(person, self.one("verb", "act"), object=matter)
        elif kind == "do":
            clause = Clause(person, self.one("verb", "do", topic=topic))
        else:
            clause = Clause(matter, "be", quality=self.quality(matter.head))
        if self.happens(0.1):
            quality = self.one("adjective", "any", topic=topic)
            clause = replace(clause, subject=replace(clause.subject, quality=quality))
        return replace(clause, past=past)

    def past(self) -> bool:
        return self.happens(0.88)
