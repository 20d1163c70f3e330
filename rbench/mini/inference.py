"""Hypotheses for premises: a claim that follows, that does not, or that cannot be true, made by editing one fact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rbench.mini.lexicon import load
from rbench.mini.meaning import Clause, Sentence, Thing
from rbench.mini.world import World, concepts, related

Edit = Callable[[World, Clause], Clause | None]
DROP = 0.9
"""Share of details of a fact that a hypothesis leaves out, so that one hints at a neutral pair, as in human data."""


def claim(world: World, premise: Sentence, label: int) -> Clause | None:
    """A claim that `premise` entails (0), leaves open (1) or contradicts (2); None where this fact allows none."""
    facts = [*premise.main, *premise.conceded]
    world.rng.shuffle(facts)
    fact, *others = facts
    edits: tuple[Edit, ...] = (_entailed, _open, _contradicted)
    made = edits[label](world, fact)
    # The other fact must have nothing to say about the claim, or the label would hang on both.
    if made is None or any(related(_said(made), _said(other)) for other in others):
        return None
    return made


def _said(clause: Clause) -> str:
    return clause.quality or (clause.object.head if clause.verb == "be" and clause.object else clause.verb)


def _entailed(world: World, fact: Clause) -> Clause | None:
    if fact.negated:
        # What did not happen at all did not happen there and then either.
        return world.setting(
            _bare_subject(world, fact), place=0.0 if fact.place else 0.3, time=0.0 if fact.time else 0.3
        )
    if world.chance(0.03) and (opposite := _antonym(world, _shortened(world, fact))):
        return replace(opposite, negated=True, intensity=None)
    return _generalised(world, _shortened(world, fact))


def _contradicted(world: World, fact: Clause) -> Clause | None:
    if fact.negated:
        return replace(_bare_subject(world, fact), negated=False)
    short = _shortened(world, fact)
    if world.chance(0.75) and (opposite := _antonym(world, short)):
        return opposite
    return replace(_generalised(world, short), negated=True)


def _open(world: World, fact: Clause) -> Clause | None:
    short = replace(_shortened(world, fact), negated=False)
    if not fact.negated and world.chance(0.92):
        return world.rng.choices((_more_detail, _more_specific), (5, 1))[0](world, fact, short)
    edit = world.rng.choices((_other_predicate, _other_subject, _other_object), (4, 1, 1))[0]
    made = edit(world, short)
    return replace(made, negated=world.chance(0.1)) if made else None


# ------------------------------------------------------------------------------------------- edits that keep the truth


def _shortened(world: World, fact: Clause) -> Clause:
    """The fact with most of its details left out."""
    return replace(
        fact,
        subject=_bare(world, fact.subject),
        object=_bare(world, fact.object) if fact.object else None,
        intensity=None if world.chance(DROP) else fact.intensity,
        manner=None if world.chance(DROP) and not _manner_decides(fact) else fact.manner,
        place=None if world.chance(DROP) else fact.place,
        time=None if world.chance(DROP) else fact.time,
    )


def _manner_decides(fact: Clause) -> bool:
    return load().concepts[fact.verb].frame == "show"


def _bare(world: World, thing: Thing) -> Thing:
    return replace(
        thing,
        quality=None if world.chance(DROP) else thing.quality,
        of=None if world.chance(DROP) else thing.of,
    )


def _bare_subject(world: World, fact: Clause) -> Clause:
    return replace(fact, subject=_bare(world, fact.subject))


def _generalised(world: World, fact: Clause) -> Clause:
    """Sometimes a hypernym in place of the subject, the verb or the object."""
    if world.chance(0.35):
        fact = replace(fact, subject=_hypernym(fact.subject))
    if world.chance(0.25) and (isa := load().concepts[fact.verb].isa):
        fact = replace(fact, verb=isa)
    if fact.object and world.chance(0.35):
        fact = replace(fact, object=_hypernym(fact.object))
    return fact


def _hypernym(thing: Thing) -> Thing:
    return replace(thing, head=load().concepts[thing.head].isa or thing.head)


# ------------------------------------------------------------------------------------------------ edits that break it


def _antonym(world: World, fact: Clause) -> Clause | None:
    """The fact with its predicate reversed, where that has an antonym."""
    lexicon = load().concepts
    if fact.quality:
        opposite = lexicon[fact.quality].antonym
        return replace(fact, quality=opposite, intensity=None) if opposite else None
    if fact.verb == "be" and fact.object:
        opposite = lexicon[fact.object.head].antonym
        return replace(fact, object=Thing(opposite, plural=fact.object.plural)) if opposite else None
    if opposite := lexicon[fact.verb].antonym:
        return replace(fact, verb=opposite)
    if fact.manner and (opposite := lexicon[fact.manner].antonym):
        return replace(fact, manner=opposite)
    return None


def _other_predicate(world: World, fact: Clause) -> Clause | None:
    if fact.verb == "be" and fact.object:
        return None
    if fact.quality:
        return replace(fact, quality=world.other(fact.quality), intensity=None)
    return replace(fact, verb=world.other(fact.verb))


def _other_subject(world: World, fact: Clause) -> Clause | None:
    return replace(fact, subject=Thing(world.other(fact.subject.head), plural=fact.subject.plural))


def _other_object(world: World, fact: Clause) -> Clause | None:
    if not fact.object or fact.verb == "be":
        return None
    return replace(fact, object=Thing(world.other(fact.object.head), plural=fact.object.plural))


def _more_detail(world: World, fact: Clause, short: Clause) -> Clause | None:
    """The short fact with a detail that the whole fact does not give."""
    if fact.place is None and world.chance(0.5):
        return world.setting(short, place=1.0, time=0.0)
    if fact.time is None and world.chance(0.5):
        return replace(short, time=world.one("time"))
    if fact.object and short.object and fact.verb != "be" and fact.object.quality is None and world.chance(0.5):
        return replace(short, object=replace(short.object, quality=world.quality(short.object.head)))
    if fact.subject.quality is None:
        return replace(short, subject=replace(short.subject, quality=world.quality(short.subject.head)))
    return None


def _more_specific(world: World, fact: Clause, short: Clause) -> Clause | None:
    """The short fact with a hyponym in place of the subject."""
    head = fact.subject.head
    frame = load().concepts[head].frame
    kinds = [c.name for c in concepts("noun", (frame,)) if c.isa == head]
    return replace(short, subject=Thing(world.rng.choice(kinds), plural=fact.subject.plural)) if kinds else None
