"""Generate the tasks and the corpus of the embedded world. Each row's label is decided when its meaning is made.

Splits share no text. The first text of a row is never repeated. A second text (such as a hypothesis) may be repeated
only within the split in which it occurred first.

The second sentences of pairs are edits. A hypothesis edits one of a premise's facts: it is entailed, neutral or
contradictory. A sentence of graded similarity changes roles of the first at random, and the weights lost are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from rbench.mini.lexicon import TOPICS, load
from rbench.mini.meaning import Clause, MeaningSampler, Sentence, Thing, are_related, find_concepts
from rbench.mini.writing import SentenceWriter

Row = dict[str, Any]
CLASSIFICATION = {"train": 3000, "validation": 500, "test": 1000}
SIZES: dict[str, dict[str, int]] = {
    "mini-sentiment": CLASSIFICATION,
    "mini-topic": CLASSIFICATION,
    "mini-nli": {**CLASSIFICATION, "train": 6000},
    "mini-sts": CLASSIFICATION,
    "mini-corpus": {"train": 20000},
}
SENTENCE_LENGTHS = range(8, 17)
"""Length of a task's sentences in words. A hypothesis has at most 10."""
BREADTH = {"mini-nli": 8}
"""Number of most common concepts of each kind that a task uses: 6,000 pairs cannot teach a tiny model all antonyms."""

CostedClause = tuple[Clause, float, float]
"""A changed clause, the weight that the change lost, and the total weight of the roles considered."""
EditClause = Callable[[MeaningSampler, Clause], Clause | None]
DROP_SHARE = 0.9
"""Share of a fact's details that a hypothesis leaves out. A detail then hints at a neutral pair, as in human data."""


def generate(name: str, seed: int = 0) -> dict[str, list[Row]]:
    """Generate all splits of a generator (a key of SIZES). For a seed they are the same on every machine."""
    rng = Random(f"{name} {seed}")
    make_row = _MAKERS[name]
    world, writer = MeaningSampler(rng, BREADTH.get(name, 1000)), SentenceWriter(rng)
    sizes = SIZES[name]
    splits: dict[str, list[Row]] = {split: [] for split in sizes}
    owners: dict[str, str] = {}
    while any(len(splits[split]) < size for split, size in sizes.items()):
        row = make_row(world, writer)
        if row is None:
            continue
        first, *others = (value for value in row.values() if isinstance(value, str))
        # A second text must be in the split of its first row, or a hypothesis would leak from training into the test.
        split_of_others = {owners[text] for text in others if text in owners}
        split = split_of_others.pop() if split_of_others else rng.choices(list(sizes), list(sizes.values()))[0]
        if first not in owners and not split_of_others and len(splits[split]) < sizes[split]:
            owners.update(dict.fromkeys((first, *others), split))
            splits[split].append(row)
    return splits


def _has_usual_length(text: str) -> bool:
    return len(text.split()) in SENTENCE_LENGTHS


# ------------------------------------------------------------------------------------------------- the generators


def _make_sentiment(world: MeaningSampler, writer: SentenceWriter) -> Row | None:
    label = int(world.happens(0.5))
    text = writer.text(_make_judging(world, 1 if label else -1))
    return {"text": text, "label": label} if _has_usual_length(text) else None


def _make_judging(world: MeaningSampler, polarity: int) -> Sentence:
    """Make a sentence that praises or blames."""
    past = world.past()
    form = world.rng.choices(("one", "plain although", "although", "and", "outweighed"), (38, 16, 20, 20, 6))[0]
    verdict = world.verdict(polarity, past=past)
    if form == "one":
        return Sentence((world.setting(_distract(world, verdict), place=0.6, time=0.3),))
    if form == "plain although":
        return Sentence((_distract(world, verdict),), (world.draw_event(past=past),))
    if form == "although":
        return Sentence((_distract(world, verdict),), (world.verdict(-polarity, past=past),))
    if form == "and":
        return Sentence((verdict, world.verdict(polarity, past=past)))
    pair = [
        world.verdict(polarity, intensity="very", past=past),
        world.verdict(-polarity, intensity="slightly", past=past),
    ]
    world.rng.shuffle(pair)
    return Sentence(tuple(pair))


def _distract(world: MeaningSampler, clause: Clause) -> Clause:
    """Sometimes add an adjective of either polarity to the subject. It weighs less than any predicate."""
    subject = clause.subject
    if not world.happens(0.15):
        return clause
    return replace(clause, subject=replace(subject, quality=world.quality(subject.head, world.rng.choice((1, -1)))))


def _make_topical(world: MeaningSampler, writer: SentenceWriter) -> Row | None:
    label = world.rng.randrange(len(TOPICS))
    text = writer.text(_make_about(world, TOPICS[label]))
    return {"text": text, "label": label} if _has_usual_length(text) else None


def _make_about(world: MeaningSampler, topic: str) -> Sentence:
    """Make a sentence about a topic. At most one place or conceded clause belongs to another topic."""
    past = world.past()
    clause = world.draw_topical(topic, past=past)
    other = world.rng.choice([name for name in TOPICS if name != topic])
    form = world.rng.choices(("one", "elsewhere", "event", "conceded"), (30, 25, 20, 25))[0]
    if form == "one":
        place = world.draw_thing("place", topic=topic) if world.happens(0.4) else world.draw_thing("place")
        clause = replace(clause, place=(world.one("preposition", "place"), place))
        return Sentence((world.setting(clause, place=0, time=0.4),))
    if form == "elsewhere":
        clause = replace(clause, place=(world.one("preposition", "place"), world.draw_thing("place", topic=other)))
        return Sentence((world.setting(clause, place=0, time=0.4),))
    if form == "event":
        return Sentence((clause,), (world.draw_event(past=past),))
    matter = world.draw_thing("thing", topic=other)
    distraction = Clause(world.draw_person(), world.one("verb", "act"), object=matter, past=past)
    return Sentence((clause,), (distraction,))


def _make_nli(world: MeaningSampler, writer: SentenceWriter) -> Row:
    label = world.rng.randrange(3)
    # Pairs are made until one fits the label, so that a label that is harder to make is not rarer.
    while True:
        premise = make_scene(world)
        hypothesis = make_claim(world, premise, label)
        if hypothesis is None:
            continue
        first, second = writer.text(premise), writer.text(Sentence((hypothesis,)))
        if _has_usual_length(first) and len(second.split()) <= 10:
            return {"premise": first, "hypothesis": second, "label": label}


def make_scene(world: MeaningSampler) -> Sentence:
    """Make a sentence of one or two events, of which some are negated."""
    past = world.past()
    events = [world.draw_event(past=past) for _ in range(2)]
    events = [replace(event, negated=world.happens(0.05)) for event in events]
    form = world.rng.choices(("one", "and", "although"), (86, 6, 8))[0]
    if form == "one":
        return Sentence((events[0],))
    return Sentence(tuple(events)) if form == "and" else Sentence((events[0],), (events[1],))


def _make_sts(world: MeaningSampler, writer: SentenceWriter) -> Row | None:
    form = world.rng.choices(("judging", "topic", "scene"), (40, 25, 35))[0]
    if form == "judging":
        first = _make_judging(world, world.rng.choice((1, -1)))
    else:
        first = _make_about(world, world.rng.choice(TOPICS)) if form == "topic" else make_scene(world)
    second, score = make_similar(world, first)
    texts = writer.text(first), writer.text(second)
    if not all(_has_usual_length(text) for text in texts):
        return None
    return {"sentence1": texts[0], "sentence2": texts[1], "score": score}


def _make_corpus(world: MeaningSampler, writer: SentenceWriter) -> Row | None:
    """Make a text of a sentence and one or two related ones: the same verdict, the same topic, or an entailed claim."""
    kind = world.rng.choices(("judging", "topic", "scene"), (40, 20, 40))[0]
    count = world.rng.choice((1, 2))
    if kind == "judging":
        polarity = world.rng.choice((1, -1))
        sentence = _make_judging(world, polarity)
        further = [world.verdict(polarity) for _ in range(count)]
    elif kind == "topic":
        topic = world.rng.choice(TOPICS)
        sentence = _make_about(world, topic)
        further = [world.draw_topical(topic) for _ in range(count)]
    else:
        narrow = MeaningSampler(world.rng, BREADTH["mini-nli"]) if world.happens(0.6) else world
        sentence = make_scene(narrow)
        further = [another_claim for _ in range(count) if (another_claim := make_claim(narrow, sentence, 0))]
    return {"text": writer.text(sentence, *(Sentence((clause,)) for clause in further))}


_MAKERS: dict[str, Callable[[MeaningSampler, SentenceWriter], Row | None]] = {
    "mini-sentiment": _make_sentiment,
    "mini-topic": _make_topical,
    "mini-nli": _make_nli,
    "mini-sts": _make_sts,
    "mini-corpus": _make_corpus,
}


# ---------------------------------------------------------------------------------------- hypotheses of inference


def make_claim(world: MeaningSampler, premise: Sentence, label: int) -> Clause | None:
    """Make a claim that `premise` entails (0), leaves open (1) or contradicts (2).

    Returns None if the fact that was drawn allows no such claim.
    """
    facts = [*premise.main, *premise.conceded]
    world.rng.shuffle(facts)
    fact, *others = facts
    edits: tuple[EditClause, ...] = (_make_entailed, _make_open, _make_contradicted)
    claimed = edits[label](world, fact)
    # The other facts must be unrelated to the claim, or the label would depend on them too.
    if claimed is None or any(are_related(_predicate_of(claimed), _predicate_of(other)) for other in others):
        return None
    return claimed


def _predicate_of(clause: Clause) -> str:
    return clause.quality or (clause.object.head if clause.verb == "be" and clause.object else clause.verb)


def _make_entailed(world: MeaningSampler, fact: Clause) -> Clause | None:
    if fact.negated:
        # An event that did not happen did not happen at any place or time, so details may be added.
        return world.setting(
            _strip_subject(world, fact), place=0.0 if fact.place else 0.3, time=0.0 if fact.time else 0.3
        )
    if world.happens(0.03) and (opposite := _replace_by_antonym(world, _shorten(world, fact))):
        return replace(opposite, negated=True, intensity=None)
    return _generalise(world, _shorten(world, fact))


def _make_contradicted(world: MeaningSampler, fact: Clause) -> Clause | None:
    if fact.negated:
        return replace(_strip_subject(world, fact), negated=False)
    shortened = _shorten(world, fact)
    if world.happens(0.75) and (opposite := _replace_by_antonym(world, shortened)):
        return opposite
    return replace(_generalise(world, shortened), negated=True)


def _make_open(world: MeaningSampler, fact: Clause) -> Clause | None:
    short = replace(_shorten(world, fact), negated=False)
    if not fact.negated and world.happens(0.92):
        return world.rng.choices((_add_detail, _specialise), (5, 1))[0](world, fact, short)
    edit = world.rng.choices((_change_predicate, _change_subject, _change_object), (4, 1, 1))[0]
    edited = edit(world, short)
    return replace(edited, negated=world.happens(0.1)) if edited else None


# ------------------------------------------------------------------------------------------- edits that keep the truth


def _shorten(world: MeaningSampler, fact: Clause) -> Clause:
    """Leave out most details of the fact."""
    manner_decides = load().concepts[fact.verb].frame == "show"
    return replace(
        fact,
        subject=_strip(world, fact.subject),
        object=_strip(world, fact.object) if fact.object else None,
        intensity=None if world.happens(DROP_SHARE) else fact.intensity,
        manner=None if world.happens(DROP_SHARE) and not manner_decides else fact.manner,
        place=None if world.happens(DROP_SHARE) else fact.place,
        time=None if world.happens(DROP_SHARE) else fact.time,
    )


def _strip(world: MeaningSampler, thing: Thing) -> Thing:
    return replace(
        thing,
        quality=None if world.happens(DROP_SHARE) else thing.quality,
        of=None if world.happens(DROP_SHARE) else thing.of,
    )


def _strip_subject(world: MeaningSampler, fact: Clause) -> Clause:
    return replace(fact, subject=_strip(world, fact.subject))


def _generalise(world: MeaningSampler, fact: Clause) -> Clause:
    """Sometimes replace subject, verb and object by their hypernyms."""
    if world.happens(0.35):
        fact = replace(fact, subject=_raise_to_hypernym(fact.subject))
    if world.happens(0.25) and (isa := load().concepts[fact.verb].isa):
        fact = replace(fact, verb=isa)
    if fact.object and world.happens(0.35):
        fact = replace(fact, object=_raise_to_hypernym(fact.object))
    return fact


def _raise_to_hypernym(thing: Thing) -> Thing:
    return replace(thing, head=load().concepts[thing.head].isa or thing.head)


# ------------------------------------------------------------------------------------------------ edits that break it


def _replace_by_antonym(world: MeaningSampler, fact: Clause) -> Clause | None:
    """Replace the fact's predicate by its antonym; None if it has none."""
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


def _change_predicate(world: MeaningSampler, fact: Clause) -> Clause | None:
    if fact.verb == "be" and fact.object:
        return None
    if fact.quality:
        return replace(fact, quality=world.other(fact.quality), intensity=None)
    return replace(fact, verb=world.other(fact.verb))


def _change_subject(world: MeaningSampler, fact: Clause) -> Clause | None:
    return replace(fact, subject=Thing(world.other(fact.subject.head), plural=fact.subject.plural))


def _change_object(world: MeaningSampler, fact: Clause) -> Clause | None:
    if not fact.object or fact.verb == "be":
        return None
    return replace(fact, object=Thing(world.other(fact.object.head), plural=fact.object.plural))


def _add_detail(world: MeaningSampler, fact: Clause, short: Clause) -> Clause | None:
    """Add a detail that the whole fact does not have to the short fact."""
    if fact.place is None and world.happens(0.5):
        return world.setting(short, place=1.0, time=0.0)
    if fact.time is None and world.happens(0.5):
        return replace(short, time=world.one("time"))
    if fact.object and short.object and fact.verb != "be" and fact.object.quality is None and world.happens(0.5):
        return replace(short, object=replace(short.object, quality=world.quality(short.object.head)))
    if fact.subject.quality is None:
        return replace(short, subject=replace(short.subject, quality=world.quality(short.subject.head)))
    return None


def _specialise(world: MeaningSampler, fact: Clause, short: Clause) -> Clause | None:
    """Replace the subject of the short fact by a hyponym; None if it has none."""
    head = fact.subject.head
    frame = load().concepts[head].frame
    kinds = [c.name for c in find_concepts("noun", (frame,)) if c.isa == head]
    return replace(short, subject=Thing(world.rng.choice(kinds), plural=fact.subject.plural)) if kinds else None


# ---------------------------------------------------------------------------------------------------- similarity


def make_similar(world: MeaningSampler, sentence: Sentence) -> tuple[Sentence, float]:
    """Return a changed copy of `sentence` with the same structure, and their similarity, 0..5 in steps of 0.1."""
    rate = world.rng.choice((0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0))
    lost = total = 0.0
    sides = []
    for clauses in (sentence.main, sentence.conceded):
        changed = []
        for clause in clauses:
            changed_clause, cost, weight = _change_clause(world, clause, rate)
            changed.append(changed_clause)
            lost, total = lost + cost, total + weight
        sides.append(tuple(changed))
    return Sentence(sides[0], sides[1]), round(5 * (total - lost) / total, 1)


def _change_clause(world: MeaningSampler, clause: Clause, rate: float) -> CostedClause:
    subject, lost, total = _change_thing(world, clause.subject, rate)
    clause, total = replace(clause, subject=subject), total + 3
    if world.happens(rate):
        lost += 3
        if (clause.verb == "be" and clause.object) or world.happens(0.25):
            clause = replace(clause, negated=not clause.negated)
        else:
            word = clause.quality or clause.verb
            antonym = load().concepts[word].antonym
            word = antonym if antonym and world.happens(0.4) else world.other(word)
            clause = replace(clause, quality=word) if clause.quality else replace(clause, verb=word)
    if clause.object is not None:
        thing, cost, weight = _change_thing(world, clause.object, rate)
        clause, lost, total = replace(clause, object=thing), lost + cost, total + weight
    for role in ("intensity", "manner", "time"):
        named: str | None = getattr(clause, role)
        total += named is not None
        if named is not None and world.happens(rate):
            other: Any = world.other(named) if role == "manner" else None
            clause, lost = replace(clause, **{role: other}), lost + 1
    if clause.place:
        total += 1
        if world.happens(rate):
            preposition, thing = clause.place
            clause, lost = replace(clause, place=(preposition, replace(thing, head=world.other(thing.head)))), lost + 1
    return clause, lost, total


def _change_thing(world: MeaningSampler, thing: Thing, rate: float) -> tuple[Thing, float, float]:
    lost, total = 0.0, 2.0 + (thing.quality is not None) + (thing.of is not None)
    isa = load().concepts[thing.head].isa
    if world.happens(rate):
        if isa and world.happens(0.4):
            thing, lost = replace(thing, head=isa), lost + 1
        else:
            thing, lost = replace(thing, head=world.other(thing.head)), lost + 2
    if thing.quality and world.happens(rate):
        thing, lost = replace(thing, quality=None), lost + 1
    if thing.of and world.happens(rate):
        thing, lost = replace(thing, of=replace(thing.of, head=world.other(thing.of.head))), lost + 1
    return thing, lost, total
