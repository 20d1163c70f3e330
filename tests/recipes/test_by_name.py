"""Every recipe of TextAttack runs by its name, on two texts, or is refused with the reason."""

from __future__ import annotations

import pytest

from rbench import config, recipes
from rbench.config.attacks import list_recipes as known
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.words.resources import Resources
from tests.recipes import world
from tests.recipes.conftest import bert, lm, one_thread, resources, single  # noqa: F401

RUN = sorted(name for name, recipe in known().items() if not recipe.refused)
REFUSED = sorted(known().keys() - set(RUN))


@pytest.mark.parametrize("name", RUN)
def test_it_attacks_two_texts(name: str, single: recipes.Victim, resources: Resources) -> None:  # noqa: F811
    spec = config.load_attack(name, Registry())
    recipes.check(spec)
    built = recipes.build(spec, single, resources, world.SINGLE)
    examples = world.examples(world.SINGLE, single, 2)
    outcomes = list(recipes.run(lambda: built, examples, spec=spec, task=world.SINGLE, seed=0))
    assert [(one.error, one.num_queries > 0) for one in outcomes] == [(None, True)] * 2


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(SuiteError, match=name):
        config.load_attack(name, Registry())


def test_all_are_told_apart() -> None:
    assert len(RUN) >= 10 and len(RUN) + len(REFUSED) == 24
