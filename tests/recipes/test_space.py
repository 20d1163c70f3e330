"""Attacks in a declared space: the complete search is brute force, and no search finds what it says does not exist."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.metrics import MetricCatalogue, Observations
from rbench.recipes import Victim, _textattack
from rbench.recipes import space as spaces
from rbench.recipes.ensemble import Strongest
from rbench.schema import Outcome, Space
from rbench.tasks import Example
from rbench.words.substitution.segmentation import SegmentedTexts
from rbench.words.substitution.space import SpaceSubstitutions
from tests.recipes import world

textattack = _textattack.textattack
SEARCHES = ("deletion", "pwws", "greedy", "beam")
SMALL = {"k": 4, "cosine": 0.3, "pos": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_bert(tmp_path_factory.mktemp("bert"), 3, head=True)


@pytest.fixture(scope="module")
def victim(folder: Path) -> Victim:
    return world.victim(folder, world.SINGLE)


def outcomes(
    victim: Any, folder: Path, name: str, examples: list[Example], task: Any, pooled: int = 1, **options: Any
) -> list[Outcome]:
    spec = world.spec(name, **options)
    path = world.ROOT / "attacks" / f"{name}.py"

    def build() -> Any:
        return world.recipes.build(spec, victim, world.resources(folder), task, path=path)

    found = list(world.recipes.run(build, examples, spec=spec, task=task, seed=0, pooled=pooled))
    order = [example.id for example in examples]
    return sorted(found, key=lambda one: order.index(one.example_id))


def short(victim: Any, n: int, words: int = 7) -> list[Example]:
    """Examples of few words, labelled by the victim's own prediction."""
    found = []
    for example in world.examples(world.SINGLE, victim, 60):
        text = " ".join(example.texts[0].split()[:words])
        found.append(Example(example.id, (text,), int(victim([text]).argmax())))
    return found[:n]


def brute_force(victim: Any, space: Space, resources: Any, example: Example) -> Iterator[bool]:
    """For 1, 2, ... words: whether some text flips, by itertools alone."""
    found = SpaceSubstitutions(space, resources)(example.texts)
    parts = SegmentedTexts([example.texts])
    for size in range(1, space.max_words + 1):
        texts = []
        for places in itertools.combinations(range(len(found)), size):
            for chosen in itertools.product(*(found[place] for place in places)):
                words = list(parts.words[0])
                for place, new in zip(places, chosen, strict=True):
                    words[place] = new
                texts.append(parts.columns(0, tuple(words))[0])
        yield bool(texts) and bool((np.asarray(victim(texts)).argmax(axis=1) != example.label).any())


@pytest.mark.parametrize(
    ("words", "k", "n"), [pytest.param(1, 6, 40, marks=pytest.mark.nightly), (2, 4, 12), (3, 2, 10)]
)
def test_it_equals_brute_force(victim: Victim, folder: Path, words: int, k: int, n: int) -> None:
    space = Space(**SMALL | {"k": k, "max_words": words})
    examples = short(victim, n)
    found = outcomes(victim, folder, "exhaustive", examples, world.SINGLE, space=space.model_dump())
    resources, fell = world.resources(folder), 0
    for example, outcome in zip(examples, found, strict=True):
        flips = list(brute_force(victim, space, resources, example))
        assert outcome.texts_left == 0
        assert (outcome.status == "succeeded") == any(flips)
        assert outcome.robust_words == (flips.index(True) if any(flips) else words)
        fell += any(flips)
    assert 0 < fell < n


def test_the_words_that_a_complete_search_needs_are_the_fewest_there_are(victim: Victim, folder: Path) -> None:
    """On 15 texts, against a minimum by itertools alone. No attack needs fewer: its gap is never below 0."""
    space = Space(**SMALL | {"max_words": 2})
    examples = short(victim, 15)
    flips = [list(brute_force(victim, space, world.resources(folder), example)) for example in examples]
    fewest = np.array([one.index(True) + 1 if any(one) else np.inf for one in flips])
    assert len(fewest) == 15 and {1.0, 2.0, np.inf} <= {*fewest}

    def needed(name: str, **options: Any) -> tuple[list[Outcome], Any]:
        found = outcomes(victim, folder, name, examples, world.SINGLE, space=space.model_dump(), **options)
        return found, np.array([one.num_words_changed if one.status == "succeeded" else np.inf for one in found])

    complete, words = needed("exhaustive")
    assert words.tolist() == fewest.tolist()
    assert [one.robust_words for one in complete] == [min(words - 1, 2) for words in fewest]
    several, gaps = [complete], {}
    for search in SEARCHES:
        for put_back in (False, True):
            found, words = needed("inside", search=search, put_back=put_back)
            several.append(found)
            assert (words >= fewest).all() and {one.status for one in found} <= {"succeeded", "failed"}
            gaps[search, put_back] = float((np.minimum(words, 3) - np.minimum(fewest, 3)).mean())
    assert all(gaps[search, True] <= gaps[search, False] for search in SEARCHES)
    assert gaps["beam", False] <= gaps["greedy", False] < gaps["deletion", False] < 0.2, gaps
    metric = MetricCatalogue()["words_needed"]
    observed = [Observations.of(one, has_oracle=False) for one in several]
    assert metric.value(Observations.together(observed, metric.harm)).tolist() == np.minimum(fewest, 6).tolist()


@pytest.mark.parametrize(("words", "texts"), [pytest.param(1, 40, marks=pytest.mark.nightly), (2, 12)])
def test_no_search_finds_what_the_complete_one_calls_robust(
    victim: Victim, folder: Path, words: int, texts: int
) -> None:
    space = Space(**SMALL | {"max_words": words}).model_dump()
    examples = short(victim, texts)
    exact = outcomes(victim, folder, "exhaustive", examples, world.SINGLE, space=space)
    robust = {one.example_id for one in exact if one.status == "failed"}
    fell = {one.example_id for one in exact if one.status == "succeeded"}
    assert robust and fell
    union: set[str] = set()
    for search in SEARCHES:
        own = outcomes(victim, folder, "inside", examples, world.SINGLE, space=space, search=search)
        union |= {one.example_id for one in own if one.status == "succeeded"}
        assert max(one.num_words_changed for one in own) <= words
    assert union <= fell
    ensemble = outcomes(victim, folder, "strongest", examples, world.SINGLE, space=space)
    assert {one.example_id for one in ensemble if one.status == "succeeded"} == fell, "its last search is complete"
    assert max(one.num_words_changed for one in ensemble) <= words


def test_the_ensemble_with_few_queries_stays_in_the_space(victim: Victim, folder: Path) -> None:
    space = Space(**SMALL | {"max_words": 3})
    examples = short(victim, 12)
    found = outcomes(victim, folder, "strongest", examples, world.SINGLE, space=space.model_dump(), query_budget=90)
    assert max(one.num_queries for one in found) <= 90
    of = SpaceSubstitutions(space, world.resources(folder))
    for one in (one for one in found if one.status == "succeeded"):
        assert one.perturbed is not None and one.original is not None
        before, after = (SegmentedTexts([texts]).words[0] for texts in (one.original, one.perturbed))
        changed = [i for i, word in enumerate(after) if word != before[i]]
        assert 0 < len(changed) <= 3 and all(after[i] in of(one.original)[i] for i in changed)
    assert {one.status for one in found} == {"succeeded", "failed"}


def test_a_budget_leaves_texts_and_says_how_many(victim: Victim, folder: Path) -> None:
    space = Space(**SMALL | {"max_words": 2})
    examples = short(victim, 12)
    options = {"space": space.model_dump()}
    whole = outcomes(victim, folder, "exhaustive", examples, world.SINGLE, **options)
    some = outcomes(victim, folder, "exhaustive", examples, world.SINGLE, query_budget=40, **options)
    cut = 0
    for all_, part in zip(whole, some, strict=True):
        assert part.num_queries <= 40
        if all_.status == part.status == "failed":
            assert part.texts_left == all_.num_queries - part.num_queries
            cut += bool(part.texts_left)
        if part.status == "succeeded":
            assert all_.status == "succeeded"
    assert cut


def test_a_bound_on_the_words_of_an_attack_bounds_the_complete_search(victim: Victim, folder: Path) -> None:
    def found(words: int, **options: Any) -> list[Any]:
        space = Space(**SMALL | {"max_words": words}).model_dump()
        several = outcomes(victim, folder, "exhaustive", short(victim, 8), world.SINGLE, space=space, **options)
        return [(one.status, one.perturbed, one.num_queries, one.robust_words) for one in several]

    assert found(2, max_words=1) == found(1)


@pytest.mark.parametrize("name", ["exhaustive", "inside", "strongest"])
def test_many_examples_at_once_give_the_same(name: str, victim: Victim, folder: Path) -> None:
    options = {"space": SMALL | {"max_words": 2}, "query_budget": 60}
    examples = short(victim, 8)
    alone = outcomes(victim, folder, name, examples, world.SINGLE, **options)
    together = outcomes(victim, folder, name, examples, world.SINGLE, pooled=6, **options)
    for one, other in zip(alone, together, strict=True):
        assert one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})


def test_protected_columns_are_left_alone(folder: Path) -> None:
    victim = world.victim(folder, world.PAIR)
    examples = world.examples(world.PAIR, victim, 6)
    options = {"space": SMALL | {"max_words": 2}, "query_budget": 200}
    for name in ("exhaustive", "inside", "strongest"):
        changed = outcomes(victim, folder, name, examples, world.PAIR, **options)
        assert all(one.perturbed is None or one.perturbed[0] == one.original[0] for one in changed if one.original)


# ---------------------------------------------------------------------------------------------- constructed victims

TEXT = "alpha beta gamma delta"


class Words(textattack.models.wrappers.ModelWrapper):  # type: ignore[misc, name-defined]
    """The log-odds of class 1 by a function of the set of words that are marked."""

    def __init__(self, odds: Callable[[set[str]], float]) -> None:
        self.model, self.odds = None, odds

    def __call__(self, texts: list[str]) -> Any:
        return np.array([[0.0, self.odds(set(text.split()))] for text in texts])


class Fixed:
    """Substitutions of a word: itself with a number behind it."""

    def __call__(self, columns: tuple[str, ...], protected: Any = ()) -> list[tuple[str, ...]]:
        return [tuple(f"{word}{i}" for i in (1, 2)) for word in columns[0].split()]


def attacked(odds: Callable[[set[str]], float], search: Any, max_words: int) -> Any:
    constraints = [
        textattack.constraints.pre_transformation.RepeatModification(),
        textattack.constraints.overlap.MaxWordsPerturbed(max_num_words=max_words),
    ]
    goal = textattack.goal_functions.UntargetedClassification(Words(odds))
    search.attack = textattack.Attack(goal, constraints, spaces.WordSwapInSpace(Fixed()), search)  # type: ignore[arg-type]
    return search.attack.attack(TEXT, 0)


def fooled(odds: Callable[[set[str]], float], search: Any, max_words: int) -> bool:
    return isinstance(attacked(odds, search, max_words), textattack.attack_results.SuccessfulAttackResult)


def test_greedy_is_exact_where_the_score_is_modular() -> None:
    rng, seen = random.Random(0), set()
    for _ in range(40):
        weights = {f"{word}{i}": rng.uniform(-1, 2) for word in TEXT.split() for i in (1, 2)}

        def odds(words: set[str], weights: dict[str, float] = weights) -> float:
            return sum(weights.get(word, 0.0) for word in words) - 3

        exact = fooled(odds, spaces.CompleteSearch(Space(max_words=2)), 2)
        assert fooled(odds, spaces.searched("greedy"), 2) == exact
        seen.add(exact)
    assert seen == {True, False}


def test_greedy_misses_two_words_that_fool_together_only() -> None:
    def odds(words: set[str]) -> float:
        if {"alpha1", "beta2"} <= words:
            return 1.0
        return -1.0 + 0.1 * ("gamma1" in words) - 0.1 * len(words & {"alpha1", "beta2"})

    search = spaces.CompleteSearch(Space(max_words=2))
    result = attacked(odds, search, 2)
    assert set(result.perturbed_result.attacked_text.words) == {"alpha1", "beta2", "gamma", "delta"}
    assert (search.robust_words, search.texts_left) == (1, 0)
    assert not any(fooled(odds, spaces.searched(name), 2) for name in ("deletion", "greedy"))
    assert fooled(odds, Strongest(Space(max_words=2)), 2)


# ------------------------------------------------------------------------------------------------ order and numbers


@cache
def some() -> tuple[list[int], list[float]]:
    rng = random.Random(5)
    places = [rng.randrange(5) for _ in range(14)]
    return places, [round(rng.uniform(-1, 1), 3) for _ in places]


@pytest.mark.parametrize("size", [2, 3])
def test_combinations_come_best_first_each_once(size: int) -> None:
    places, drops = some()
    found = list(spaces.choose_best_first(places, drops, size))
    sums = [sum(drops[i] for i in one) for one in found]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(sums))
    every = [c for c in itertools.combinations(range(len(places)), size) if len({places[i] for i in c}) == size]
    assert sorted(tuple(sorted(one)) for one in found) == every
    assert spaces.count_combinations(places, size) == len(every)
