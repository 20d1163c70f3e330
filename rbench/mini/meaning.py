"""What a sentence of the embedded world says, apart from the words it is said in.

All names are concept names. Number and tense are kept for agreement only: two meanings that differ in nothing else are
equal. Determiners carry no meaning here; each thing in a sentence's small world is one definite thing.
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
    """One statement. After a linking verb stands a `quality` or an `object` (a noun predicate), never both."""

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
        """All things that it names, those within `of` included."""
        found = [self.subject, self.object, self.place[1] if self.place else None]
        return tuple(part for thing in found if thing for part in (thing, thing.of) if part)


@dataclass(frozen=True)
class Sentence:
    """What is stated (`main`) and what is granted before a contrast (`conceded`: "although ...,", "... but")."""

    main: tuple[Clause, ...]
    conceded: tuple[Clause, ...] = ()
