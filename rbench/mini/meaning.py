"""Represent the meaning of a sentence of the embedded world, apart from its words.

All names are concept names. Number and tense are kept for agreement only: meanings that differ in nothing else are
equal. Determiners have no meaning: every noun phrase denotes one definite thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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
