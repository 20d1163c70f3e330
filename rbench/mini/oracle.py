"""The oracle: give the true label of any text of the embedded world.

It parses the text and applies the definitions of labels below, which are functions of meanings. It does not know how a
row was generated. docs/mini-world.md gives the definitions in prose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from rbench.mini.lexicon import TOPICS, load
from rbench.mini.meaning import Clause, Sentence, Thing
from rbench.mini.reading import read

# Part of the keys of attacks on tasks with an oracle (config/versions.py): raised when a definition of a label changes.
# Such attacks are then run anew.
VERSION = 1

LABELLED = ("mini-sentiment", "mini-topic", "mini-nli", "mini-sts")
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
_STRENGTH = {"very": 6, None: 4, "slightly": 2}
meaning = lru_cache(maxsize=65536)(read)
"""Returns the meaning of a text; None if it is not of the language."""


def oracle(generator: str, texts: Sequence[str]) -> int | float | None:
    """Return the true label of one example, or for mini-sts its score, 0..5. Texts are in the order of the columns.

    Returns None if a text is not of the language (unknown word, broken grammar) or its meaning has no label.

    Raises:
        KeyError: the generator has no labels.
        ValueError: the number of texts is not that of the task's columns.
    """
    if generator not in LABELLED:
        raise KeyError(generator)
    meanings = [meaning(text) for text in texts]
    if len(meanings) != (1 if generator in ("mini-sentiment", "mini-topic") else 2):
        raise ValueError(f"{generator} takes another number of texts than {len(meanings)}")
    understood = [sentences for sentences in meanings if sentences is not None]
    if len(understood) < len(meanings):
        return None
    if generator == "mini-sentiment":
        return judge_sentiment(understood[0])
    if generator == "mini-topic":
        return find_topic(understood[0])
    return infer_relation(*understood) if generator == "mini-nli" else measure_similarity(*understood)


# ------------------------------------------------------------------------------------------------------- sentiment


def judge_sentiment(sentences: tuple[Sentence, ...]) -> int | None:
    """Return 1 for praise, 0 for blame, and None if both balance or nothing is judged.

    Conceded clauses count only if the main clauses give no verdict.
    """
    # Main clauses first: only if they balance do the conceded ones count.
    for clauses in ([c for s in sentences for c in s.main], [c for s in sentences for c in s.conceded]):
        total = sum(weigh_clause(clause) for clause in clauses)
        if total:
            return int(total > 0)
    return None


def weigh_clause(clause: Clause) -> int:
    """Return the signed strength of a clause, positive for praise.

    Its predicate weighs 4, with `very` 6, with `slightly` 2. A polar word inside a thing weighs 1. Negation reverses
    the predicate and does not affect words inside things.
    """
    concepts = load().concepts
    predicate_polarity, things = 0, list(clause.things)
    if clause.quality:
        predicate_polarity = concepts[clause.quality].polarity
    elif concepts[clause.verb].frame in ("be", "link") and clause.object:
        # "was a triumph", "was a brilliant film": the noun decides; if it is neutral, its adjective does.
        noun, adjective = clause.object.head, clause.object.quality
        predicate_polarity = concepts[noun].polarity or (concepts[adjective].polarity if adjective else 0)
        things.remove(clause.object)
    else:
        predicate_polarity = concepts[clause.verb].polarity or (
            concepts[clause.manner].polarity if clause.manner else 0
        )
    total = _STRENGTH[clause.intensity] * (-predicate_polarity if clause.negated else predicate_polarity)
    for thing in things:
        total += concepts[thing.head].polarity
        total += concepts[thing.quality].polarity if thing.quality else 0
    return total


# ----------------------------------------------------------------------------------------------------------- topic


def find_topic(sentences: tuple[Sentence, ...]) -> int | None:
    """Return the index in TOPICS of the topic with the largest weight; None for a tie or no topic.

    Subject, verb and object weigh 2, all other words 1. Words of conceded clauses weigh half.
    """
    votes: Counter[str] = Counter()
    for sentence in sentences:
        for clauses, weight in ((sentence.main, 2), (sentence.conceded, 1)):
            for clause in clauses:
                for name, share in _list_topics(clause):
                    votes[name] += weight * share
    ranked = votes.most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return TOPICS.index(ranked[0][0])


def _list_topics(clause: Clause) -> Iterator[tuple[str, int]]:
    concepts = load().concepts
    core = (clause.subject.head, clause.verb, clause.object.head if clause.object else None)
    modifiers = [clause.quality, clause.manner, *(thing.quality for thing in clause.things)]
    modifiers += [thing.of.head for thing in clause.things if thing.of]
    modifiers += [clause.place[1].head] if clause.place else []
    for names, share in ((core, 2), (modifiers, 1)):
        for name in names:
            if name and (topic_name := concepts[name].topic):
                yield topic_name, share


# ------------------------------------------------------------------------------------------------------- inference


def infer_relation(premise: tuple[Sentence, ...], hypothesis: tuple[Sentence, ...]) -> int | None:
    """Return ENTAILMENT, NEUTRAL or CONTRADICTION; None if the premise contradicts itself about a claim.

    Conceded clauses are facts like main clauses.
    """
    facts = _list_clauses(premise)
    verdicts = [_judge_claim(facts, claim) for claim in _list_clauses(hypothesis)]
    if None in verdicts:
        return None
    if CONTRADICTION in verdicts:
        return CONTRADICTION
    return NEUTRAL if NEUTRAL in verdicts else ENTAILMENT


def _list_clauses(sentences: tuple[Sentence, ...]) -> list[Clause]:
    return [clause for sentence in sentences for clause in (*sentence.main, *sentence.conceded)]


def _judge_claim(facts: list[Clause], claim: Clause) -> int | None:
    entailed = any(_entails(fact, claim) for fact in facts)
    # A claim is contradicted where its denial follows from a fact.
    denied = replace(claim, negated=not claim.negated)
    contradicted = any(_entails(fact, denied) for fact in facts)
    if entailed and contradicted:
        return None
    if entailed:
        return ENTAILMENT
    return CONTRADICTION if contradicted else NEUTRAL


def _entails(fact: Clause, claim: Clause) -> bool:
    if fact.negated:
        # "Did not run" entails "did not run fast": a negated event may become more specific, never more general.
        return claim.negated and is_a(fact.subject, claim.subject) and _event_is_a(claim, fact)
    if claim.negated:
        return _excludes(fact, claim)
    return is_a(fact.subject, claim.subject) and _event_is_a(fact, claim)


def is_a(thing: Thing, other: Thing) -> bool:
    """Return whether `other` describes `thing` too.

    Its head is the same or a hypernym, and its quality and its `of` phrase, if any, hold for `thing`.
    """
    if not _is_kind_of(thing.head, other.head) or other.quality not in (None, thing.quality):
        return False
    return other.of is None or (thing.of is not None and is_a(thing.of, other.of))


def _event_is_a(event: Clause, other: Clause) -> bool:
    """Return whether `other` describes `event` too, apart from subject and negation."""
    if not _is_kind_of(event.verb, other.verb) or event.quality != other.quality:
        return False
    return (
        other.intensity in (None, event.intensity)
        and other.manner in (None, event.manner)
        and _setting_holds(event, other)
    )


def _setting_holds(event: Clause, other: Clause) -> bool:
    if (event.object is None) != (other.object is None):
        return False
    if event.object and other.object and not is_a(event.object, other.object):
        return False
    if other.place:
        same_preposition = event.place is not None and event.place[0] == other.place[0]
        if not same_preposition or not is_a(event.place[1], other.place[1]):  # type: ignore[index]
            return False
    return other.time in (None, event.time)


def _excludes(fact: Clause, claim: Clause) -> bool:
    """Return whether both cannot be true, apart from negation: their predicates are antonyms about the same things."""
    if not is_a(fact.subject, claim.subject):
        return False
    if fact.quality or claim.quality:
        are_opposite = fact.verb == claim.verb and _are_opposed(fact.quality, claim.quality)
        return are_opposite and _setting_holds(fact, claim)
    if load().concepts[fact.verb].frame in ("be", "link"):
        are_opposite = bool(fact.object and claim.object and _are_opposed(fact.object.head, claim.object.head))
        return (
            are_opposite
            and fact.verb == claim.verb
            and claim.place in (None, fact.place)
            and claim.time in (None, fact.time)
        )
    if _are_opposed(fact.verb, claim.verb):
        return claim.manner in (None, fact.manner) and _setting_holds(fact, claim)
    return (
        _is_kind_of(fact.verb, claim.verb) and _are_opposed(fact.manner, claim.manner) and _setting_holds(fact, claim)
    )


def _is_kind_of(name: str, other: str) -> bool:
    return other in load().ancestors[name]


def _are_opposed(name: str | None, other: str | None) -> bool:
    if name is None or other is None:
        return False
    lexicon = load()
    antonyms = {lexicon.concepts[kind].antonym for kind in lexicon.ancestors[name]} - {None}
    return any(kind in antonyms for kind in lexicon.ancestors[other])


# ------------------------------------------------------------------------------------------------------ similarity


def measure_similarity(first: tuple[Sentence, ...], second: tuple[Sentence, ...]) -> float | None:
    """Return the shared meaning, 0 to 5 in steps of 0.1: the weighted share of roles that agree, clause by clause.

    Subject and object weigh 2, the verb (with `be`, its predicate) 3, every other role 1. A hypernym counts half.
    Returns None if either side has several sentences.
    """
    if len(first) != 1 or len(second) != 1:
        return None
    agreed = total = 0.0
    for first_clauses, second_clauses in ((first[0].main, second[0].main), (first[0].conceded, second[0].conceded)):
        for index in range(max(len(first_clauses), len(second_clauses))):
            roles = [
                _find_roles(clauses[index]) if index < len(clauses) else {}
                for clauses in (first_clauses, second_clauses)
            ]
            for role in roles[0].keys() | roles[1].keys():
                total += _ROLE_WEIGHTS[role]
                if role in roles[0] and role in roles[1]:
                    agreed += _ROLE_WEIGHTS[role] * _score_overlap(roles[0][role], roles[1][role])
    return round(5 * agreed / total, 1)


_ROLE_WEIGHTS = {
    "subject": 2, "verb": 3, "object": 2, "subject quality": 1, "object quality": 1, "subject of": 1, "object of": 1,
    "intensity": 1, "manner": 1, "place": 1, "time": 1,
}  # fmt: skip


def _find_roles(clause: Clause) -> dict[str, tuple[str, str]]:
    """Map each role to a pair: a part that must be equal, and a concept of which a hypernym counts half."""
    predicate = clause.quality or clause.verb
    nominal = clause.verb == "be" and clause.object is not None
    roles = {"verb": (f"{clause.negated} {clause.verb if clause.quality or nominal else ''}", predicate)}
    for role, thing in (("subject", clause.subject), ("object", clause.object)):
        if thing:
            roles[role] = ("", thing.head)
            if thing.quality:
                roles[f"{role} quality"] = ("", thing.quality)
            if thing.of:
                roles[f"{role} of"] = ("", thing.of.head)
    for role, name in (("intensity", clause.intensity), ("manner", clause.manner), ("time", clause.time)):
        if name:
            roles[role] = ("", name)
    if clause.place:
        roles["place"] = (clause.place[0], clause.place[1].head)
    return roles


def _score_overlap(first: tuple[str, str], second: tuple[str, str]) -> float:
    if first[0] != second[0]:
        return 0.0
    if first[1] == second[1]:
        return 1.0
    return 0.5 if _is_kind_of(first[1], second[1]) or _is_kind_of(second[1], first[1]) else 0.0
