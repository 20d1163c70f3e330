"""The batched search against a slow, obvious Algorithm 1 for one sentence, and the rules that the paper leaves open."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.words.substitution.search import BatchText, CandidateScores, TextGradients, WordSlot, search

DIM = 3


class World:
    """A made-up encoder, loss and language model: arbitrary, but the same for the same text.

    All numbers are small integers, so projections are exact and ties are common.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def _random(self, *what: object) -> random.Random:
        return random.Random(repr((self.seed, *what)))

    def vector(self, row: int, words: Sequence[str]) -> list[int]:
        rng = self._random("vector", row, tuple(words))
        return [rng.randint(-3, 3) for _ in range(DIM)]

    def direction(self, row: int, words: Sequence[str]) -> list[int]:
        rng = self._random("direction", row, tuple(words))
        return [rng.choice([-2, 0, 0, 2]) for _ in range(DIM)]

    def norms(self, row: int, words: Sequence[str]) -> list[float]:
        rng = self._random("norms", row, tuple(words))
        return [rng.choice([0.0, 1.0, 2.0, 3.0, -math.inf]) for _ in words]

    def replacements(self, row: int, words: Sequence[str], place: int) -> list[str]:
        rng = self._random("candidates", row, tuple(words), place)
        return rng.sample("abcdefgh", rng.choice([0, 0, 1, 2, 4]))

    def done(self, row: int, words: Sequence[str]) -> bool:
        return self._random("done", row, tuple(words)).random() < 0.15


def batched(world, texts, masks, max_words, calls=None, **options):
    def gradients(batch: list[BatchText]) -> TextGradients:
        if calls is not None:
            calls.append(len(batch))
        return TextGradients(
            torch.tensor([world.vector(*s) for s in batch], dtype=torch.float32),
            torch.tensor([world.direction(*s) for s in batch], dtype=torch.float32),
            [torch.tensor(world.norms(*s)) for s in batch],
        )

    def candidates(batch: list[WordSlot]) -> list[list[str]]:
        return [world.replacements(*slot) for slot in batch]

    def scores(batch: list[BatchText]) -> CandidateScores:
        vectors = torch.tensor([world.vector(*s) for s in batch], dtype=torch.float32)
        return CandidateScores(vectors, [world.done(*s) for s in batch])

    return search(
        texts, masks, gradients=gradients, candidates=candidates, scores=scores, max_words=max_words, **options
    )


def algorithm_1(
    world, row, words, mask, max_words, projection="signed", accept_flip=True, order="each_round", keep="always"
):
    """One sentence, one loop: (index, old, new, projection) of each step, the last done, and the words looked at.

    The defaults are the paper's algorithm as printed. `order` and `keep` are the ways of its authors' public code.
    """
    words, untouched, steps = list(words), {i for i in range(len(words)) if mask[i]}, []
    asked = without = 0
    at_start = world.norms(row, words)
    while len(steps) < max_words:
        z, v = world.vector(row, words), world.direction(row, words)
        length = math.sqrt(sum(x * x for x in v))
        norms = at_start if order == "once" else world.norms(row, words)
        chosen, found = None, []
        while not found:
            best = -math.inf
            chosen = None
            for i in range(len(words)):
                if i in untouched and norms[i] > best:
                    chosen, best = i, norms[i]
            if chosen is None:
                return steps, False, (asked, without)
            untouched.remove(chosen)
            found = world.replacements(row, words, chosen)
            asked, without = asked + 1, without + (not found)
        outcomes = []
        for new in found:
            text = [*words]
            text[chosen] = new
            z_j = world.vector(row, text)
            p = sum((a - b) * c for a, b, c in zip(z_j, z, v, strict=True)) / length if length else 0.0
            outcomes.append((p, new, world.done(row, text)))
        if accept_flip and any(done for _, _, done in outcomes):
            outcomes = [outcome for outcome in outcomes if outcome[2]]
        winner = outcomes[0]
        for outcome in outcomes[1:]:
            if abs(outcome[0]) > abs(winner[0]) if projection == "absolute" else outcome[0] > winner[0]:
                winner = outcome
        p, new, done = winner
        if keep == "positive" and p <= 0 and not done:
            continue
        steps.append((chosen, words[chosen], new, p))
        words[chosen] = new
        if done:
            return steps, True, (asked, without)
    return steps, False, (asked, without)


texts_and_masks = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), min_size=0, max_size=7), min_size=0, max_size=6
)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=texts_and_masks,
    max_words=st.integers(0, 5),
    projection=st.sampled_from(["signed", "absolute"]),
    accept_flip=st.booleans(),
    order=st.sampled_from(["each_round", "once"]),
    keep=st.sampled_from(["always", "positive"]),
    lookahead=st.integers(1, 3),
)
def test_the_batched_search_is_the_slow_one_sentence_by_sentence(seed, rows, max_words, lookahead, **options):
    world = World(seed)
    texts, masks = [[w for w, _ in row] for row in rows], [[m for _, m in row] for row in rows]
    results = batched(world, texts, masks, max_words, lookahead=lookahead, **options)
    assert len(results) == len(texts)
    for row, (text, mask, result) in enumerate(zip(texts, masks, results, strict=True)):
        expected, done, looked_at = algorithm_1(world, row, text, mask, max_words, **options)
        assert (result.asked, result.without) == looked_at
        assert [(s.index, s.old, s.new) for s in result.substitutions] == [step[:3] for step in expected]
        assert [s.projection for s in result.substitutions] == pytest.approx([step[3] for step in expected])
        assert [s.step for s in result.substitutions] == list(range(1, len(expected) + 1))
        assert result.done == done
        final = list(text)
        for step in expected:
            final[step[0]] = step[2]
        assert list(result.words) == final


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rows=texts_and_masks, budgets=st.lists(st.integers(0, 4), min_size=6, max_size=6))
def test_budgets_masks_and_no_word_twice(seed, rows, budgets):
    texts, masks = [[w for w, _ in row] for row in rows], [[m for _, m in row] for row in rows]
    results = batched(World(seed), texts, masks, budgets[: len(rows)])
    for mask, budget, result in zip(masks, budgets, results, strict=False):
        places = [s.index for s in result.substitutions]
        assert len(places) <= budget
        assert len(set(places)) == len(places)
        assert all(mask[i] for i in places)


def toy(candidates, vectors, done=(), direction=(1.0, 0.0), norms=(1.0,)):
    """A search over one text of as many words as `norms` that starts at the origin."""
    return search(
        [["old"] * len(norms)],
        [[True] * len(norms)],
        gradients=lambda batch: TextGradients(
            torch.zeros(len(batch), 2), torch.tensor([direction] * len(batch)), [torch.tensor(norms) for _ in batch]
        ),
        candidates=lambda batch: [candidates for _ in batch],
        scores=lambda batch: CandidateScores(
            torch.tensor([vectors[next(w for w in s.words if w != "old")] for s in batch]),
            [any(w in done for w in s.words) for s in batch],
        ),
        max_words=1,
    )[0]


def test_a_tie_goes_to_the_first_candidate():
    result = toy(["b", "a", "c"], {"a": [1.0, 0.0], "b": [1.0, 5.0], "c": [0.0, 9.0]})
    assert result.substitutions[0].new == "b"


def test_the_projection_is_a_length_along_the_unit_direction():
    result = toy(["a"], {"a": [3.0, 4.0]}, direction=(0.0, 7.0))
    assert result.substitutions[0].projection == pytest.approx(4.0)


def test_a_vanished_gradient_takes_the_first_candidate():
    result = toy(["b", "a"], {"a": [9.0, 0.0], "b": [1.0, 0.0]}, direction=(0.0, 0.0))
    assert (result.substitutions[0].new, result.substitutions[0].projection) == ("b", 0.0)


def test_the_largest_projection_is_taken_even_if_negative():
    assert toy(["a", "b"], {"a": [-2.0, 0.0], "b": [-1.0, 0.0]}).substitutions[0].new == "b"


def test_a_flipping_candidate_goes_before_a_larger_projection():
    vectors = {"a": [9.0, 0.0], "b": [1.0, 0.0], "c": [2.0, 0.0]}
    result = toy(["a", "b", "c"], vectors, done={"b", "c"})
    assert (result.substitutions[0].new, result.done) == ("c", True)


def test_absolute_projection_admits_the_most_negative():
    options = {
        "gradients": lambda batch: TextGradients(torch.zeros(1, 1), torch.ones(1, 1), [torch.ones(1)]),
        "candidates": lambda batch: [["a", "b"]],
        "scores": lambda batch: CandidateScores(torch.tensor([[-5.0], [1.0]])),
        "max_words": 1,
    }
    signed = search([["old"]], [[True]], **options)[0].substitutions[0]
    absolute = search([["old"]], [[True]], projection="absolute", **options)[0].substitutions[0]
    assert (signed.new, absolute.new, absolute.projection) == ("b", "a", -5.0)


def test_the_batch_is_asked_as_one():
    calls: list[int] = []
    results = batched(World(3), [list("abcdefgh")] * 6, [[True] * 8] * 6, 3, calls=calls, accept_flip=False)
    assert calls[0] == 6
    assert len(calls) <= 1 + max(len(r.substitutions) for r in results)


def counted(order, keep, *, separate=True):
    """(texts whose norms were asked, texts whose directions alone were asked, the results) of a larger search."""
    world, norms, plain = World(5), [], []

    def directions(batch):
        plain.append(len(batch))
        return TextGradients(
            torch.tensor([world.vector(*s) for s in batch], dtype=torch.float32),
            torch.tensor([world.direction(*s) for s in batch], dtype=torch.float32),
        )

    more = {"directions": directions} if separate else {}
    results = batched(world, [list("abcdefgh")] * 9, [[True] * 8] * 9, 5, norms, order=order, keep=keep, **more)
    return sum(norms), sum(plain), results


def test_gradients_are_asked_once_for_each_text_that_needs_them():
    steps = sum(len(one.substitutions) - one.done for one in counted("each_round", "always")[2])
    norms, plain, results = counted("each_round", "always")
    assert norms >= 9 and plain == 0
    norms, plain, results = counted("once", "always")
    assert norms == 9
    assert 0 < plain <= sum(len(one.substitutions) for one in results)
    assert counted("once", "always", separate=False)[2] == results
    kept, _, results = counted("each_round", "positive")  # a word that stays costs no gradients
    assert kept <= 9 + sum(len(one.substitutions) for one in results)
    assert steps > 0


def test_the_last_round_ends_the_search_whatever_it_gave():
    results = search(
        [["old"] * 3],
        [[True] * 3],
        gradients=lambda batch: TextGradients(torch.zeros(1, 1), torch.ones(1, 1), [torch.ones(3)]),
        candidates=lambda batch: [["a"] for _ in batch],
        scores=lambda batch: CandidateScores(torch.tensor([[-1.0]]), last=True),
        max_words=3,
        keep="positive",
    )
    assert (results[0].words, results[0].asked, results[0].done) == (("old",) * 3, 1, False)
