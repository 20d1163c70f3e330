"""Make sentence pairs of graded similarity: change roles of a sentence at random and add up the weights lost."""

from __future__ import annotations

from dataclasses import replace

from rbench.mini.lexicon import load
from rbench.mini.meaning import Clause, Sentence, Thing
from rbench.mini.world import World

Costed = tuple[Clause, float, float]
"""A changed clause, the weight that the change lost, and the total weight of the roles considered."""


def similar(world: World, sentence: Sentence) -> tuple[Sentence, float]:
    """Return a changed copy of `sentence` with the same structure, and their similarity, 0..5 in steps of 0.1."""
    rate = world.rng.choice((0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0))
    lost = total = 0.0
    sides = []
    for clauses in (sentence.main, sentence.conceded):
        changed = []
        for clause in clauses:
            made, cost, weight = _change(world, clause, rate)
            changed.append(made)
            lost, total = lost + cost, total + weight
        sides.append(tuple(changed))
    return Sentence(sides[0], sides[1]), round(5 * (total - lost) / total, 1)


def _change(world: World, clause: Clause, rate: float) -> Costed:
    steps = (_subject, _predicate, _object, _details)
    lost = total = 0.0
    for step in steps:
        clause, cost, weight = step(world, clause, rate)
        lost, total = lost + cost, total + weight
    return clause, lost, total


def _subject(world: World, clause: Clause, rate: float) -> Costed:
    thing, lost, total = _thing(world, clause.subject, rate)
    return replace(clause, subject=thing), lost, total


def _object(world: World, clause: Clause, rate: float) -> Costed:
    if clause.object is None:
        return clause, 0, 0
    thing, lost, total = _thing(world, clause.object, rate)
    return replace(clause, object=thing), lost, total


def _thing(world: World, thing: Thing, rate: float) -> tuple[Thing, float, float]:
    lost, total = 0.0, 2.0 + (thing.quality is not None) + (thing.of is not None)
    isa = load().concepts[thing.head].isa
    if world.chance(rate):
        if isa and world.chance(0.4):
            thing, lost = replace(thing, head=isa), lost + 1
        else:
            thing, lost = replace(thing, head=world.other(thing.head)), lost + 2
    if thing.quality and world.chance(rate):
        thing, lost = replace(thing, quality=None), lost + 1
    if thing.of and world.chance(rate):
        thing, lost = replace(thing, of=replace(thing.of, head=world.other(thing.of.head))), lost + 1
    return thing, lost, total


def _predicate(world: World, clause: Clause, rate: float) -> Costed:
    if not world.chance(rate):
        return clause, 0, 3
    if (clause.verb == "be" and clause.object) or world.chance(0.25):
        return replace(clause, negated=not clause.negated), 3, 3
    said = clause.quality or clause.verb
    antonym = load().concepts[said].antonym
    other = antonym if antonym and world.chance(0.4) else world.other(said)
    return replace(clause, quality=other) if clause.quality else replace(clause, verb=other), 3, 3


def _details(world: World, clause: Clause, rate: float) -> Costed:
    lost = total = 0.0
    if clause.intensity:
        total += 1
        if world.chance(rate):
            clause, lost = replace(clause, intensity=None), lost + 1
    if clause.manner:
        total += 1
        if world.chance(rate):
            clause, lost = replace(clause, manner=world.other(clause.manner)), lost + 1
    if clause.time:
        total += 1
        if world.chance(rate):
            clause, lost = replace(clause, time=None), lost + 1
    if clause.place:
        total += 1
        if world.chance(rate):
            preposition, thing = clause.place
            clause, lost = replace(clause, place=(preposition, replace(thing, head=world.other(thing.head)))), lost + 1
    return clause, lost, total
