"""Generate the tasks and the corpus of the embedded world. Each row's label is decided when its meaning is made.

Splits share no text. The first text of a row is never repeated. A second text (such as a hypothesis) may be repeated
only within the split in which it occurred first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from rbench.mini.lexicon import TOPICS
from rbench.mini.meaning import Clause, Sentence
from rbench.mini.pairs import claim, similar
from rbench.mini.world import World
from rbench.mini.writing import Writer

Row = dict[str, Any]
CLASSIFICATION = {"train": 3000, "validation": 500, "test": 1000}
SIZES: dict[str, dict[str, int]] = {
    "mini-sentiment": CLASSIFICATION,
    "mini-topic": CLASSIFICATION,
    "mini-nli": {**CLASSIFICATION, "train": 6000},
    "mini-sts": CLASSIFICATION,
    "mini-corpus": {"train": 20000},
}
WORDS = range(8, 17)
"""Length of a task's sentences in words. A hypothesis has at most 10."""
BREADTH = {"mini-nli": 8}
"""Number of most common concepts of each kind that a task uses: 6,000 pairs cannot teach a tiny model all antonyms."""


def generate(name: str, seed: int = 0) -> dict[str, list[Row]]:
    """Generate all splits of a generator (a key of SIZES). For a seed they are the same on every machine."""
    rng = Random(f"{name} {seed}")
    make = _MAKERS[name]
    world, writer = World(rng, BREADTH.get(name, 1000)), Writer(rng)
    sizes = SIZES[name]
    splits: dict[str, list[Row]] = {split: [] for split in sizes}
    owners: dict[str, str] = {}
    while any(len(splits[split]) < size for split, size in sizes.items()):
        row = make(world, writer)
        if row is None:
            continue
        first, *others = (value for value in row.values() if isinstance(value, str))
        owning = {owners[text] for text in others if text in owners}
        split = owning.pop() if owning else rng.choices(list(sizes), list(sizes.values()))[0]
        if first not in owners and not owning and len(splits[split]) < sizes[split]:
            owners.update(dict.fromkeys((first, *others), split))
            splits[split].append(row)
    return splits


def _fits(text: str) -> bool:
    return len(text.split()) in WORDS


# ------------------------------------------------------------------------------------------------- the generators


def _sentiment(world: World, writer: Writer) -> Row | None:
    label = int(world.chance(0.5))
    text = writer.text(_judging(world, 1 if label else -1))
    return {"text": text, "label": label} if _fits(text) else None


def _judging(world: World, polarity: int) -> Sentence:
    """Make a sentence that praises or blames."""
    past = world.past()
    form = world.rng.choices(("one", "plain although", "although", "and", "outweighed"), (38, 16, 20, 20, 6))[0]
    verdict = world.verdict(polarity, past=past)
    if form == "one":
        return Sentence((world.setting(_distracted(world, verdict), place=0.6, time=0.3),))
    if form == "plain although":
        return Sentence((_distracted(world, verdict),), (world.event(past=past),))
    if form == "although":
        return Sentence((_distracted(world, verdict),), (world.verdict(-polarity, past=past),))
    if form == "and":
        return Sentence((verdict, world.verdict(polarity, past=past)))
    pair = [
        world.verdict(polarity, intensity="very", past=past),
        world.verdict(-polarity, intensity="slightly", past=past),
    ]
    world.rng.shuffle(pair)
    return Sentence(tuple(pair))


def _distracted(world: World, clause: Clause) -> Clause:
    """Sometimes add an adjective of either polarity to the subject. It weighs less than any predicate."""
    subject = clause.subject
    if not world.chance(0.15):
        return clause
    return replace(clause, subject=replace(subject, quality=world.quality(subject.head, world.rng.choice((1, -1)))))


def _topic(world: World, writer: Writer) -> Row | None:
    label = world.rng.randrange(len(TOPICS))
    text = writer.text(_about(world, TOPICS[label]))
    return {"text": text, "label": label} if _fits(text) else None


def _about(world: World, topic: str) -> Sentence:
    """Make a sentence about a topic. At most one place or conceded clause belongs to another topic."""
    past = world.past()
    clause = world.topical(topic, past=past)
    other = world.rng.choice([name for name in TOPICS if name != topic])
    form = world.rng.choices(("one", "elsewhere", "event", "conceded"), (30, 25, 20, 25))[0]
    if form == "one":
        where = world.thing("place", topic=topic) if world.chance(0.4) else world.thing("place")
        clause = replace(clause, place=(world.one("preposition", "place"), where))
        return Sentence((world.setting(clause, place=0, time=0.4),))
    if form == "elsewhere":
        clause = replace(clause, place=(world.one("preposition", "place"), world.thing("place", topic=other)))
        return Sentence((world.setting(clause, place=0, time=0.4),))
    if form == "event":
        return Sentence((clause,), (world.event(past=past),))
    matter = world.thing("thing", topic=other)
    distraction = Clause(world.person(), world.one("verb", "act"), object=matter, past=past)
    return Sentence((clause,), (distraction,))


def _nli(world: World, writer: Writer) -> Row:
    label = world.rng.randrange(3)
    # Pairs are made until one fits the label, so that a label that is harder to make is not rarer.
    while True:
        premise = _scene(world)
        hypothesis = claim(world, premise, label)
        if hypothesis is None:
            continue
        first, second = writer.text(premise), writer.text(Sentence((hypothesis,)))
        if _fits(first) and len(second.split()) <= 10:
            return {"premise": first, "hypothesis": second, "label": label}


def _scene(world: World) -> Sentence:
    """Make a sentence of one or two events, of which some are negated."""
    past = world.past()
    events = [world.event(past=past) for _ in range(2)]
    events = [replace(event, negated=world.chance(0.05)) for event in events]
    form = world.rng.choices(("one", "and", "although"), (86, 6, 8))[0]
    if form == "one":
        return Sentence((events[0],))
    return Sentence(tuple(events)) if form == "and" else Sentence((events[0],), (events[1],))


def _sts(world: World, writer: Writer) -> Row | None:
    first = _anything(world)
    second, score = similar(world, first)
    texts = writer.text(first), writer.text(second)
    if not all(_fits(text) for text in texts):
        return None
    return {"sentence1": texts[0], "sentence2": texts[1], "score": score}


def _anything(world: World) -> Sentence:
    form = world.rng.choices(("judging", "topic", "scene"), (40, 25, 35))[0]
    if form == "judging":
        return _judging(world, world.rng.choice((1, -1)))
    return _about(world, world.rng.choice(TOPICS)) if form == "topic" else _scene(world)


def _corpus(world: World, writer: Writer) -> Row | None:
    """Make a text of a sentence and one or two related ones: the same verdict, the same topic, or an entailed claim."""
    kind = world.rng.choices(("judging", "topic", "scene"), (40, 20, 40))[0]
    count = world.rng.choice((1, 2))
    if kind == "judging":
        polarity = world.rng.choice((1, -1))
        sentence = _judging(world, polarity)
        more = [world.verdict(polarity) for _ in range(count)]
    elif kind == "topic":
        topic = world.rng.choice(TOPICS)
        sentence = _about(world, topic)
        more = [world.topical(topic) for _ in range(count)]
    else:
        scene = World(world.rng, BREADTH["mini-nli"]) if world.chance(0.6) else world
        sentence = _scene(scene)
        more = [again for _ in range(count) if (again := claim(scene, sentence, 0))]
    return {"text": writer.text(sentence, *(Sentence((clause,)) for clause in more))}


_MAKERS: dict[str, Callable[[World, Writer], Row | None]] = {
    "mini-sentiment": _sentiment,
    "mini-topic": _topic,
    "mini-nli": _nli,
    "mini-sts": _sts,
    "mini-corpus": _corpus,
}
