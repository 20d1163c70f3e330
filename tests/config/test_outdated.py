"""Tests what is left out of a suite whose profile or overrides have taken away what it speaks of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rbench import config as loading
from rbench.errors import SuiteError
from rbench.schema import Suite
from tests.config.bundled import REGISTRY, list_suite_profiles, load_bundled
from tests.config.conftest import World

ONLY_OF_ADCL = "adcl-table9"
"""The suite that shows what ADCL trains on, and so measures nothing of any other encoder."""
CLAIMS = "claims:\n  - {id: a, lower: trained, than: plain}\n  - {id: b, of: plain, at_most: 60}\n"


def append(world: World, text: str) -> None:
    world.suite((world.folder / "my.yaml").read_text() + text)


def overrides(suite: Suite) -> Iterator[tuple[str, tuple[str, ...]]]:
    """An encoder, a metric and a seed that are the user's, and one task and attack of several."""
    yield "encoders", ("encoders=[mini-bert-packaged]",)
    yield "tables", ("tables=[clean]", "seeds=[7]")
    if len(suite.tasks) > 1:
        yield "tasks", (f"tasks=[{suite.tasks[-1]}]",)
    if len(suite.attacks) > 1:
        yield "attacks", (f"attacks=[{loading.label_as_yaml(suite.attacks[-1].label)}]",)


SOME = {ONLY_OF_ADCL, "adcl-table8", "cline-table5", "two-sided", "vadvcse-table4"}
"""Suites that differ in what they have: attacks, sets of pairs, similarity, claims. All take a minute."""
EVERY = [
    pytest.param(name, profile, marks=() if name in SOME and profile is None else pytest.mark.nightly)
    for name, profile in list_suite_profiles()
]


@pytest.mark.parametrize(("name", "profile"), EVERY)
def test_a_bundled_suite_takes_overrides_of_each_axis(name: str, profile: str | None) -> None:
    stated = load_bundled(name, profile).suite
    for key, override in overrides(stated):
        if name == ONLY_OF_ADCL and key == "encoders":
            with pytest.raises(SuiteError) as caught:
                loading.load(name, registry=REGISTRY, profile=profile, overrides=override)
            assert "positives" in str(caught.value)
            continue
        loaded = loading.load(name, registry=REGISTRY, profile=profile, overrides=override)
        said = [note for note in loaded.notes if note.startswith("left out")]
        left = {claim.id for claim in stated.claims} - {claim.id for claim in loaded.suite.claims}
        assert len(said) <= 1
        assert all(claim in said[0] for claim in left), override
        assert len(getattr(loaded.suite, key)) == 1


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("noise", "local"),
        *(
            pytest.param(name, profile, marks=pytest.mark.nightly)
            for name, profile in (("strength", "local"), ("table1", "side-by-side"), ("robustness-report", None))
        ),
    ],
)
def test_the_claims_on_encoders_that_an_override_replaces_are_left_out(name: str, profile: str | None) -> None:
    stated = load_bundled(name, profile).suite
    loaded = loading.load(name, registry=REGISTRY, profile=profile, overrides=["encoders=[mini-bert-packaged]"])
    named = {claim.id for claim in stated.claims if any(one.encoder for _, one in claim.subjects)}
    assert named
    assert not named & {claim.id for claim in loaded.suite.claims}


def test_the_claims_of_a_profile_outlive_no_override(world: World) -> None:
    append(world, "  mine:\n    seeds: 3\n    " + CLAIMS.replace("\n", "\n    ") + "\n")
    assert [claim.id for claim in world.load("mine").suite.claims] == ["a", "b"]
    loaded = world.load("mine", "encoders=[plain]")
    assert [claim.id for claim in loaded.suite.claims] == ["b"]
    assert loaded.notes[-1].endswith(": claims a")


def test_a_claim_that_was_wrong_before_the_override_stays_an_error(world: World) -> None:
    append(world, CLAIMS.replace("trained", "traned"))
    assert '"traned"' in world.error(None, "encoders=[plain]")


def test_claims_that_an_override_states_are_checked(world: World) -> None:
    assert '"trained"' in world.error(None, "encoders=[plain]", "claims=[{id: a, lower: trained, than: plain}]")


def test_a_table_that_an_override_states_is_checked(world: World) -> None:
    assert "needs `evaluate: [space]`" in world.error(None, "tables=[space]")


def test_two_claims_that_share_an_alias_are_told_apart(world: World) -> None:
    append(
        world,
        "claims:\n  - {id: a, of: &it {encoder: plain, attack: words}, at_most: 60}\n"
        "  - {id: b, metric: any_attack, of: {encoder: plain}, at_most: 60}\n"
        "  - {id: c, lower: *it, than: trained, where: {attack: words}}\n",
    )
    assert [claim.id for claim in world.load(None, "encoders=[plain]").suite.claims] == ["a", "b"]


def test_seeds_of_training_are_left_out_where_nothing_is_trained(world: World) -> None:
    append(world, "train_seeds: [1, 2]\n")
    assert world.load().suite.train_seeds == (1, 2)
    loaded = world.load(None, "encoders=[plain]")
    assert loaded.suite.train_seeds == ()
    assert loaded.notes[-1].endswith(": train_seeds")
    assert "rbench trains none" in world.error(None, "encoders=[plain]", "train_seeds=[1]")


def test_an_override_that_leaves_nothing_to_measure_is_refused() -> None:
    with pytest.raises(SuiteError) as caught:
        loading.load("adcl-figure3", registry=REGISTRY, overrides=["attacks=[]"])
    assert "`attacks`" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_claims_of_a_suite_without_a_file_are_left_out_too() -> None:
    suite = {
        "name": "mine",
        "encoders": ["mini-bert-packaged", "simcse-mini-packaged"],
        "tasks": ["mini-sentiment"],
        "attacks": ["textfooler"],
        "resources": "mini",
        "claims": [
            {"id": "a", "lower": "simcse-mini-packaged", "than": "mini-bert-packaged"},
            {"id": "b", "of": "mini-bert-packaged", "at_most": 60},
        ],
    }
    loaded = loading.load_mapping(suite, registry=REGISTRY, overrides=["encoders=[mini-bert-packaged]"])
    assert [claim.id for claim in loaded.suite.claims] == ["b"]
