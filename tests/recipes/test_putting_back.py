"""Words put back after a success: none can be put back alone any more, queries are counted, and off is TextAttack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from textattack import Attack
from textattack.constraints import Constraint
from textattack.goal_functions import UntargetedClassification
from textattack.search_methods import SearchMethod
from textattack.transformations.word_swaps.word_swap import WordSwap

from rbench.recipes import Victim
from rbench.recipes.cached import make_cached
from rbench.recipes.putting_back import putting_back
from rbench.schema import Outcome
from tests.recipes import world


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_bert(tmp_path_factory.mktemp("bert"), 3, head=True)


@pytest.fixture(scope="module")
def victim(folder: Path) -> Victim:
    return world.victim(folder, world.SINGLE)


def attacked(victim: Victim, folder: Path, name: str, n: int = 14, **options: Any) -> list[Outcome]:
    spec = world.spec(name, **options)
    path = world.ROOT / "attacks" / f"{name}.py"
    found = path if path.exists() else None

    def build() -> Any:
        return world.recipes.build(spec, victim, world.resources(folder), world.SINGLE, path=found)

    examples = world.examples(world.SINGLE, victim, n)
    return list(world.recipes.run(build, examples, spec=spec, task=world.SINGLE, seed=0, pooled=1))


SPACE = {"k": 4, "cosine": 0.3, "pos": False, "max_words": 8}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("inside", {"space": SPACE, "search": "random"}),
        pytest.param("inside", {"space": SPACE, "search": "deletion"}, marks=pytest.mark.nightly),
        ("pwws", {}),
        ("exhaustive", {"space": {**SPACE, "k": 2, "max_words": 2}}),
    ],
)
def test_no_word_that_is_left_can_be_put_back_alone(
    victim: Victim, folder: Path, name: str, options: dict[str, Any]
) -> None:
    plain = attacked(victim, folder, name, **options)
    fewer = attacked(victim, folder, name, put_back=True, **options)
    saved = 0
    for one, other in zip(plain, fewer, strict=True):
        assert (one.example_id, one.status) == (other.example_id, other.status)
        if one.status != "succeeded":
            assert one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})
            continue
        assert other.num_words_changed <= one.num_words_changed
        assert (other.num_queries > one.num_queries) == (one.num_words_changed > 1)
        saved += one.num_words_changed - other.num_words_changed
        before, after = one.original[0].split(), other.perturbed[0].split()  # type: ignore[index]
        changed = [i for i, word in enumerate(after) if word != before[i]]
        for i in changed if len(changed) > 1 else ():
            text = " ".join(before[at] if at == i else word for at, word in enumerate(after))
            assert int(victim([text]).argmax()) == one.label, "put back alone, it no longer succeeds"
        assert int(victim([other.perturbed[0]]).argmax()) == other.perturbed_prediction != one.label  # type: ignore[index]
    assert name != "inside" or options["search"] != "random" or saved > 0


HARM = {
    "fox gnu hen": 0.9,
    "ant gnu hen": 0.6,
    "fox bee hen": 0.8,
    "fox gnu cat": 0.3,
    "fox bee cat": 0.7,
    "ant gnu cat": 0.2,
    "ant bee hen": 0.4,
    "ant bee cat": 0.1,
}
"""The probability of the wrong class, for a text and all that is between it and what a search made of it."""


class Known:
    """A victim of known probabilities."""

    model = None

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        return torch.tensor([[1 - HARM[text], HARM[text]] for text in texts])


class ReplacesAll(SearchMethod):  # type: ignore[misc]
    is_black_box = True

    def perform_search(self, initial_result: Any) -> Any:
        text = initial_result.attacked_text.replace_words_at_indices([0, 1, 2], ["fox", "gnu", "hen"])
        return self.get_goal_results([text])[0][0]


class Swap(WordSwap):  # type: ignore[misc]
    def _get_replacement_words(self, word: str) -> list[str]:
        return []


class Forbids(Constraint):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        super().__init__(True)
        self.text = text

    def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
        return bool(transformed_text.text != self.text)


@pytest.mark.parametrize(("forbidden", "kept"), [("", "fox bee cat"), ("fox bee hen", "ant gnu hen")])
def test_of_the_texts_that_still_succeed_the_most_harmful_that_is_allowed_is_kept(forbidden: str, kept: str) -> None:
    made = Attack(UntargetedClassification(Known()), [Forbids(forbidden)], Swap(), ReplacesAll())
    made = putting_back(make_cached(made))
    assert made.attack("ant bee cat", 0).perturbed_result.attacked_text.text == kept


def test_the_query_budget_ends_it(victim: Victim, folder: Path) -> None:
    options = {"space": SPACE, "search": "random"}
    plain = attacked(victim, folder, "inside", **options)
    most = max((one for one in plain if one.status == "succeeded"), key=lambda one: one.num_words_changed)
    assert most.num_words_changed > 2
    limited = attacked(victim, folder, "inside", put_back=True, query_budget=most.num_queries + 1, **options)
    (same,) = [one for one in limited if one.example_id == most.example_id]
    assert same.status == "succeeded" and same.num_queries == most.num_queries + 1


def test_it_is_off_unless_a_suite_asks_for_it_and_then_keys_are_as_they_were() -> None:
    off, on = world.spec("pwws"), world.spec("pwws", put_back=True)
    assert off.put_back is False and "put_back" in off.without_effect()
    assert on.put_back is True and "put_back" not in on.without_effect()
