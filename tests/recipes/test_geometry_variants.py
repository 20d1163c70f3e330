"""The variants of the Geometry attack against a slow one: a text, a word, a candidate at a time, and real vectors."""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from rbench.config.code import find
from rbench.recipes import _textattack, build
from rbench.recipes.cached import SplicedText
from rbench.recipes.geometry import VictimGradients
from rbench.recipes.substitutes import word_budget
from rbench.recipes.victim import Victim
from tests.recipes import substitution_toy as toy
from tests.recipes import world
from tests.recipes.geometry import (
    build_attack,
    compute_gradients,
    encode_text,
    find_changed_words,
    predict_label,
    split_words,
)

textattack = _textattack.textattack
from textattack.constraints.pre_transformation import InputColumnModification  # noqa: E402
from textattack.shared import AttackedText  # noqa: E402

TEXTS = toy.sentences(np.random.default_rng(11), 14)
RELEASED = find("attacks", "geometry").open().Options(variant="released").model_dump(exclude={"variant"})
SWITCHES = {
    "source": "neighbours",
    "candidates": 2,
    "min_cosine": -1.0,
    "max_words": 1,
    "share": 0.25,
    "order": "once",
    "word_norm": "l1",
    "direction": "deepfool",
    "projection": "absolute",
    "keep": "positive",
    "accept_flip": False,
}
BACK = {
    "source": "masked_lm",
    "min_cosine": -1.0,
    "max_words": 2,
    "share": 1.0,
    "order": "each_round",
    "word_norm": "l2",
    "direction": "gradient",
    "keep": "always",
    "accept_flip": True,
}
CASES = [
    {},
    {"variant": "released"},
    *({name: value} for name, value in SWITCHES.items()),
    *(pytest.param({"variant": "released", name: value}, marks=pytest.mark.nightly) for name, value in BACK.items()),
]


@pytest.fixture(scope="module")
def victims():
    """A trained victim of two classes, and an untrained one of four, for which directions differ."""
    four = toy.classifier(labels=4, seed=2)
    with torch.no_grad():
        four.head.weight.mul_(torch.tensor([[0.1], [0.3], [1.2], [0.2]]))
    return Victim(toy.trained(), "two"), Victim(four, "four")


# ----------------------------------------------------------------------------------------------- the attack, by hand


def ordered(pieces, norm):
    """The numbers of the words, the largest gradient first."""
    if norm == "l1":
        sizes = [sum(abs(float(x)) for row in rows for x in row) for rows in pieces]
    else:
        sizes = [math.sqrt(sum(float(x) ** 2 for x in rows.mean(dim=0))) for rows in pieces]
    return sorted(range(len(pieces)), key=lambda i: -sizes[i])


def normal(classifier, z, label):
    """W_k - W_y for the k of the nearest boundary."""
    weight, bias = classifier.head.weight.detach().double(), classifier.head.bias.detach().double()
    logits = weight @ z + bias
    nearest = min(
        (abs(float(logits[k] - logits[label])) / float((weight[k] - weight[label]).norm()), k)
        for k in range(len(weight))
        if k != label
    )[1]
    return weight[nearest] - weight[label]


def neighbours(word, options):
    vectors = toy.word_vectors()
    if word not in vectors.index:
        return []
    cosines = {other: float(vectors.unit[vectors.index[word]] @ vectors.unit[i]) for other, i in vectors.index.items()}
    near = sorted((other for other in cosines if other != word), key=lambda other: -cosines[other])
    return [other for other in near if cosines[other] >= options.min_cosine][: options.candidates]


def slow(victim, source, text, label, options):
    """(final text, queries) of the attack with these options."""
    classifier, words = victim.classifier, split_words(text)
    free = {i for i, word in enumerate(words) if word not in toy.STOPWORDS}
    budget = min(options.max_words, math.floor(options.share * len(words)))
    queries, replaced, order, stale = 1, 0, None, True
    while free and replaced < budget:
        if stale:
            z, v, pieces = compute_gradients(classifier, text, label)
            if order is None or options.order == "each_round":
                queries += 1
                order = ordered(pieces, options.word_norm)
            v = normal(classifier, z, label) if options.direction == "deepfool" else v
            stale = False
        place = next(i for i in order if i in free)
        free.remove(place)
        words = split_words(text)
        start = [m for m in range(len(text)) if split_words(text[:m]) == words[:place]][-1]
        start = text.index(words[place], start)
        if options.source == "neighbours":
            found = neighbours(words[place], options)
        else:
            (found,) = source([(text, start, start + len(words[place]))])
        rows = []
        for new in found:
            other = text[:start] + new + text[start + len(words[place]) :]
            queries += 1
            at = encode_text(classifier, other)
            p = float((at.double() - z) @ v / v.norm())
            rows.append((p, other, int(classifier.head(at).argmax()) != label))
        if not rows:
            continue
        pool = [row for row in rows if row[2]] if options.accept_flip and any(row[2] for row in rows) else rows
        best = max(pool, key=lambda row: abs(row[0]) if options.projection == "absolute" else row[0])
        if options.keep == "positive" and best[0] <= 0 and not best[2]:
            continue
        text, replaced, stale = best[1], replaced + 1, True
        if best[2]:
            break
    return text, queries


@pytest.mark.parametrize("given", CASES, ids=lambda given: " ".join(f"{k}={v}" for k, v in given.items()) or "printed")
def test_each_variant_and_each_option_alone_is_the_slow_attack(victims, given):
    """The variants on both victims, an option alone on that of four classes: the slow attack takes seconds."""
    options = find("attacks", "geometry").open().Options(**given)
    whole = set(given) <= {"variant"}
    texts = TEXTS[0][: 4 if whole else 2]
    replaced = 0
    for victim in victims if whole else victims[1:]:
        attack = build_attack(victim, **given)
        for text in texts:
            label = predict_label(victim, text)
            result = attack.attack(text, label)
            found = (result.perturbed_result.attacked_text.text, result.perturbed_result.num_queries)
            assert found == slow(victim, attack.transformation.source, text, label, options)
            replaced += len(find_changed_words(result))
    assert replaced >= len(texts) // 2


@pytest.fixture(scope="module")
def end(victims):
    """What an attack on a text ends with, under options beside a base."""

    @functools.cache
    def found(which, text, **given):
        base = {"source": "neighbours", "candidates": 24, "min_cosine": -1.0, "accept_flip": False}
        victim = victims[which]
        result = build_attack(victim, **{**base, **given}).attack(text, predict_label(victim, text)).perturbed_result
        return result.attacked_text.text, result.num_queries

    return found


@pytest.mark.parametrize("name", [name for name in SWITCHES if name not in ("direction", "keep", "accept_flip")])
def test_each_option_acts(end, name):
    """Alone, it changes what some attack ends with, or how it gets there. The toy is too small for three of them."""
    given = {name: {"source": "masked_lm", "min_cosine": 0.5}.get(name, SWITCHES[name])}
    assert any(end(which, text) != end(which, text, **given) for text in TEXTS[0][:8] for which in (0, 1))


@pytest.mark.parametrize("given", [{}, {"variant": "released"}, {"keep": "positive"}, {"accept_flip": False}])
def test_the_options_reach_the_search(victims, given):
    method, options = (
        build_attack(victims[0], **given).search_method,
        find("attacks", "geometry").open().Options(**given),
    )
    assert method.options.model_dump() == options.model_dump()
    assert (method.gradients.direction, method.gradients.word_norm) == (options.direction, options.word_norm)


def test_deepfools_direction_is_the_normal_of_the_nearest_boundary(victims):
    victim = victims[1]
    weight = victim.classifier.head.weight.detach().double()
    along = {way: VictimGradients(victim, way) for way in ("deepfool", "gradient")}
    apart = 0
    for text in TEXTS[0][:4]:
        label = predict_label(victim, text)
        z, v, _ = compute_gradients(victim.classifier, text, label)
        looks = {way: gradients([AttackedText(text)], [label]) for way, gradients in along.items()}
        found = {way: look.at_logits[0] @ weight / look.lengths[0] for way, look in looks.items()}
        expected = normal(victim.classifier, z, label)
        assert torch.allclose(found["deepfool"], expected / expected.norm())
        assert torch.allclose(found["gradient"], v / v.norm(), atol=1e-4)
        apart += float(found["deepfool"] @ found["gradient"]) < 0.999
    assert apart


# ------------------------------------------------------------------------------------------------- what a variant is


def test_released_is_what_the_authors_code_does():
    assert RELEASED == {
        "source": "neighbours",
        "candidates": 24,
        "min_cosine": 0.5,
        "unknown": "discard",
        "max_words": 50,
        "share": 0.4,
        "order": "once",
        "word_norm": "l1",
        "direction": "deepfool",
        "projection": "signed",
        "keep": "positive",
        "accept_flip": False,
    }


@pytest.mark.parametrize("given", [{}, {"variant": "released"}, {"variant": "released", "candidates": 3}])
def test_the_control_has_the_source_the_cap_and_the_budget_of_the_attack(given):
    geometry, control = (find("attacks", name).open().Options(**given).model_dump() for name in NAMES)
    assert control.items() <= geometry.items()
    assert set(control) == {"variant", "source", "candidates", "min_cosine", "unknown", "max_words", "share"}


NAMES = ("geometry", "random")


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_need_no_masked_lm(victims, name):
    module = find("attacks", name).open()
    without = SimpleNamespace(word_vectors=toy.word_vectors(), stopwords=toy.STOPWORDS)
    options = module.Options(variant="released")
    assert module.needs(options) == ("word_vectors", "stopwords")
    assert module.needs(module.Options()) == module.resources
    np.random.seed(0)
    assert find_changed_words(module.build(victims[0], without, options, None).attack(TEXTS[0][0], TEXTS[1][0]))


@pytest.mark.parametrize("name", NAMES)
def test_the_share_counts_the_words_of_the_columns_that_may_change(victims, name):
    pair = OrderedDict(premise=" ".join(["good"] * 20), hypothesis="fine film seems lovely dull plot the tale superb")
    sizes = []
    for ignored in ({"premise"}, set()):
        attack = build_attack(victims[1], name=name, share=0.25, min_cosine=-1.0, source="neighbours", max_words=50)
        attack.goal_function._is_goal_complete = lambda *args: False  # it never ends before its budget
        attack.pre_transformation_constraints.append(InputColumnModification(["premise", "hypothesis"], ignored))
        np.random.seed(0)
        sizes.append(len(find_changed_words(attack.attack(pair, predict_label(victims[1], tuple(pair.values()))))))
    assert sizes == [2, 7]


@pytest.mark.parametrize("name", NAMES)
def test_the_share_does_not_count_a_premise_that_the_built_attack_protects(name, tmp_path):
    world.write_bert(tmp_path / "victim", 0, head=False)
    world.write_bert(tmp_path / "lm", 2, head=True)
    spec = world.spec(name, variant="released", share=0.25, min_cosine=-1.0)
    victim, path = world.victim(tmp_path / "victim", world.PAIR), world.ROOT / "attacks" / f"{name}.py"
    built = build(spec, victim, world.resources(tmp_path / "lm"), world.PAIR, path=path)
    text = SplicedText(OrderedDict(premise=" ".join(["good"] * 40), hypothesis="a b c d e f g h"))
    assert word_budget(built.search_method, text, built.search_method.options) == 2


@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_refused(name):
    for given in (
        {"share": 1.5},
        {"variant": "paper"},
        {"source": "thesaurus"},
        {"variant": "released", "unknown": "keep"},
    ):
        with pytest.raises(ValidationError):
            find("attacks", name).open().Options(**given)


@pytest.fixture(scope="module")
def unbounded(victims):
    """For each victim texts and labels, and what they become without a budget."""
    found = []
    for victim in victims:
        free, pairs = (
            build_attack(victim, variant="released"),
            [(text, predict_label(victim, text)) for text in TEXTS[0][:6]],
        )
        found.append([(text, label, free.attack(text, label).perturbed_result) for text, label in pairs])
    return found


@pytest.mark.parametrize("budget", [2, 6])
def test_a_query_budget_is_never_passed(victims, unbounded, budget):
    for victim, ends in zip(victims, unbounded, strict=True):
        attack = build_attack(victim, variant="released")
        attack.goal_function.query_budget = budget
        for text, label, free in ends:
            limited = attack.attack(text, label).perturbed_result
            assert limited.num_queries <= budget
            if free.num_queries < budget:
                assert limited.attacked_text.text == free.attacked_text.text
