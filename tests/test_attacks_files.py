"""Tests that every file in attacks/ loads, passes its checks, builds, and has a title and a reference."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbench import config, recipes
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.recipes.binding import dry_build, group_parameters, list_components
from rbench.recipes.build import recipe_class
from rbench.schema import AttackSpec
from rbench.words.resources import Resources
from tests.recipes import world
from tests.recipes.conftest import bert, lm, one_thread, resources, single  # noqa: F401

FOLDER = Path(__file__).resolve().parents[1] / "attacks"
NAMES = sorted(path.stem for path in FOLDER.iterdir() if path.suffix in (".yaml", ".py"))
RECIPES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
PUBLISHED = re.compile(r"^  (\S+): \S+  # TextAttack: (\S+)", re.MULTILINE)
"""A parameter that is not as TextAttack publishes it: its file says on its line what TextAttack has."""


def spec_of(name: str) -> AttackSpec:
    return config.load_attack(name, Registry())


@pytest.mark.parametrize("name", NAMES)
def test_it_loads_checks_builds_and_attacks(name: str, single: recipes.Victim, resources: Resources) -> None:  # noqa: F811
    spec = spec_of(name).model_copy(update={"query_budget": 60})
    recipes.check(spec)
    path = Registry().path("attacks", name)
    built = recipes.build(spec, single, resources, world.SINGLE, path=path)
    examples = world.examples(world.SINGLE, single, 2)
    outcomes = list(recipes.run(lambda: built, examples, spec=spec, task=world.SINGLE, seed=0))
    assert [o.example_id for o in outcomes] == [e.id for e in examples]
    assert [o.error for o in outcomes] == [None] * 2


@pytest.mark.parametrize("name", NAMES)
def test_it_is_titled_referenced_and_costed(name: str) -> None:
    spec = spec_of(name)
    assert spec.title and (spec.reference or spec.control or name in ("exhaustive", "random"))
    assert "queries_per_word" in (FOLDER / f"{name}.yaml").read_text() if name in RECIPES else spec.queries_per_word > 0


@pytest.mark.parametrize("name", RECIPES)
def test_it_says_what_it_does_on_pairs(name: str) -> None:
    notes = " ".join(spec_of(name).notes)
    assert "On NLI only the hypothesis changes" in notes or "on NLI only the hypothesis changes" in notes
    assert "on other pairs both texts may" in notes


@pytest.mark.parametrize("name", RECIPES)
def test_needs_are_exactly_what_the_recipe_asks_for(name: str) -> None:
    spec = spec_of(name)
    assert set(recipes.needs(spec)) == set(spec.needs)


def value(part: Any, name: str) -> Any:
    found = getattr(part, name)
    return None if found == float("inf") else found


@pytest.mark.parametrize("name", RECIPES)
def test_written_parameters_are_the_published_ones_or_say_what_is_published(name: str) -> None:
    spec = spec_of(name)
    published, _ = dry_build(spec, recipe_class(spec))
    different = {}
    for key, written in spec.parameters.items():
        component, _, parameter = key.partition(".")
        (part,) = (p for p in list_components(published) if type(p).__name__ == component)
        if value(part, parameter) != written:
            different[key] = value(part, parameter)
    said = PUBLISHED.findall((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert different == {key: yaml.safe_load(other) for key, other in said}


@pytest.mark.parametrize("name", RECIPES)
def test_every_argument_that_the_published_recipe_passes_is_written_out(name: str) -> None:
    """Read off the recipe's source: `Component(argument=...)`."""
    spec = spec_of(name)
    published = recipe_class(spec.model_copy(update={"limits": None}))
    tree = ast.parse(textwrap.dedent(inspect.getsource(published.build)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    passed = {f"{call.func.id}.{keyword.arg}" for call in calls for keyword in call.keywords}  # type: ignore[attr-defined]
    passed -= {"StopwordModification.stopwords"}  # a list of 250 words
    assert passed <= set(spec.parameters), sorted(passed - set(spec.parameters))


LIMITS = ("WordEmbeddingDistance", "PartOfSpeech", "UniversalSentenceEncoder")


@pytest.mark.parametrize("name", ["pwws", "textbugger"])
def test_adjusted_attacks_have_the_limits_of_textfooler_adjusted_and_all_else_of_their_own(name: str) -> None:
    adjusted, plain, limiting = (spec_of(one) for one in (f"{name}-adjusted", name, "textfooler-adjusted"))
    attacks = []
    for spec in (adjusted, plain, limiting):
        recipe = recipe_class(spec)
        attacks.append(dry_build(spec, recipe, group_parameters(dry_build(spec, recipe)[0], spec))[0])
    made, without, limits = ({type(part).__name__: repr(part) for part in list_components(one)} for one in attacks)
    assert {one: made[one] for one in LIMITS} == {one: limits[one] for one in LIMITS}
    assert {one: made[one] for one in without if one not in LIMITS} == {
        one: said for one, said in without.items() if one not in LIMITS
    }
    assert made.keys() == {*without, *LIMITS}


def test_a_limiting_recipe_that_is_not_there_is_named() -> None:
    spec = spec_of("pwws-adjusted").model_copy(update={"limits": "TextFoolerJin2091"})
    with pytest.raises(SuiteError) as caught:
        recipes.check(spec)
    assert "TextFoolerJin2019" in str(caught.value)


def test_berts_k_is_in_its_notes() -> None:
    assert "K = 8" in " ".join(spec_of("bertattack").notes)
    assert "K = 48" in " ".join(spec_of("bertattack-paper").notes)
