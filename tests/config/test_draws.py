"""Tests `train_seeds` of a suite: which encoders are drawn, under which labels and keys, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbench.config import LoadedSuite
from rbench.plan.planner import PlanInputs, make_plan
from rbench.schema import AttackJob, Draw, Job, Plan, PretrainJob
from tests.config.conftest import World

SUITE = "encoders: {encoders}\ntasks: [reviews, pairs]\nattacks: [words]\nresources: world\nseeds: [0, 1]\n"
MORE = {
    "encoders/pooled.yaml": "base: trained\npooling: mean\n",
    "encoders/white.yaml": "base: pooled\npooling: mean\ntrain: {objective: whitening, data: corpus}\n",
    "encoders/white-plain.yaml": "base: plain\npooling: mean\ntrain: {objective: whitening, data: corpus}\n",
    "encoders/white-random.yaml": (
        "architecture: {hidden_size: 8}\npooling: mean\ntrain: {objective: whitening, data: corpus}\n"
    ),
    "encoders/third.yaml": "base: bottom\ntrain: {objective: simcse, data: corpus, seed: 3}\n",
    "encoders/inside.yaml": "base: bottom\ntrain: {objective: simcse, data: in-domain}\n",
}
CORPORA = {name: name for name in ("reviews", "pairs", "corpus")}
SIZES = {"train": 10**6, "test": 10**6}


@pytest.fixture(scope="session")
def drawn_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("drawn"))
    for name, text in MORE.items():
        world.write(name, text)
    return world


def loaded(world: World, encoders: str, more: str = "") -> LoadedSuite:
    world.suite(SUITE.format(encoders=encoders) + more)
    return world.load()


def planned(found: LoadedSuite) -> Plan:
    """The plan, with names in place of content hashes."""
    return make_plan(
        found.suite,
        PlanInputs(
            encoders=found.encoders,
            tasks=found.tasks,
            attacks=found.attacks,
            resources=found.resources,
            data=CORPORA,
            sizes=dict.fromkeys(CORPORA, SIZES),
            weights=dict.fromkeys(found.encoders, "w"),
            splits={(name, "train"): name for name in CORPORA},
            models=found.models,
            strategies=found.strategies,
            draws=found.draws,
        ),
    )


def keys(plan: Plan, **of: Any) -> dict[str, str]:
    return {job.name: job.key for job in plan.jobs if all(getattr(job, k) == v for k, v in of.items())}


def below(plan: Plan, job: Job) -> list[Job]:
    """The job and all that it needs."""
    return [job, *(other for key in job.needs.values() for other in below(plan, plan.job(key)))]


def test_without_the_axis_nothing_changes(drawn_world: World) -> None:
    plain = loaded(drawn_world, "[plain, trained, pooled]")
    empty = loaded(drawn_world, "[plain, trained, pooled]", "train_seeds: []\n")
    assert plain == empty and plain.draws == {}
    assert planned(plain).jobs == planned(empty).jobs and planned(plain).draws == {}


def test_a_draw_is_the_encoder_that_its_label_names(drawn_world: World) -> None:
    """The draw of another seed is what `{trained: {seed: 1}}` is, and that of the own seed is the encoder itself."""
    drawn = loaded(drawn_world, "[trained]", "train_seeds: [1, 0]\n")
    named = loaded(drawn_world, "[trained, {trained: {seed: 1}}]")
    assert drawn.encoders == named.encoders and drawn.models == named.models
    assert drawn.draws == {
        "trained[seed=1]": Draw(encoder="trained", train_seed=1),
        "trained": Draw(encoder="trained", train_seed=0),
    }
    assert keys(planned(drawn)) == keys(planned(named))


def test_options_stay_in_the_label(drawn_world: World) -> None:
    found = loaded(drawn_world, "[{trained: {steps: 7}}]", "train_seeds: [0, 2]\n")
    assert list(found.draws) == ["trained[steps=7]", "trained[seed=2,steps=7]"]
    assert {draw.encoder for draw in found.draws.values()} == {"trained[steps=7]"}
    train = found.encoders["trained[seed=2,steps=7]"].train
    assert train is not None and (train.seed, train.steps) == (2, 7)


@pytest.mark.parametrize(
    ("encoder", "own", "label"),
    [
        ("trained", 0, "trained[seed=1]"),
        ("pooled", 0, "trained[seed=1]"),
        ("white", 0, "trained[seed=1]"),
        ("third", 3, "third[seed=1]"),
        ("white-random", 0, "white-random[seed=1]"),
        ("plain", None, None),
        ("white-plain", None, None),
    ],
)
def test_the_seed_reaches_one_training_and_what_lies_below_it_is_shared(
    drawn_world: World, encoder: str, own: int | None, label: str | None
) -> None:
    """`trained` stands on `bottom`, which keeps its seed. `pooled` and the whitening on it draw nothing themselves."""
    plan = planned(loaded(drawn_world, f"[third, {encoder}]" if encoder != "third" else "[third]", "train_seeds: [1]"))
    label_of = f"{encoder}[seed=1]" if label is not None else encoder
    assert label_of in {job.spec.encoder for job in plan.jobs if isinstance(job.spec, AttackJob)}
    victims = [job for job in plan.jobs if job.stage == "attack" and job.parts[0] == label_of]
    trainings = {job.parts[0]: job for one in victims for job in below(plan, one) if job.stage == "pretrain"}
    seeds = {}
    for name, job in trainings.items():
        assert isinstance(job.spec, PretrainJob) and job.spec.encoder.train is not None
        assert job.seed == job.spec.encoder.train.seed
        seeds[name] = job.seed
    assert {name: seed for name, seed in seeds.items() if seed} == ({label: 1} if label is not None else {})
    assert seeds.get("bottom", 0) == 0
    if own is not None:
        again = planned(loaded(drawn_world, f"[{encoder}]", f"train_seeds: [{own}]"))
        once = planned(loaded(drawn_world, f"[{encoder}]"))
        assert again.jobs == once.jobs, "with its own seed a draw is the encoder without the axis"


def test_in_domain_encoders_are_drawn_for_each_task(drawn_world: World) -> None:
    plan = planned(loaded(drawn_world, "[inside]", "train_seeds: [0, 1]"))
    assert {job.parts for job in plan.jobs if job.stage == "pretrain" and job.parts[0] != "bottom"} == {
        (label, task) for label in ("inside", "inside[seed=1]") for task in ("reviews", "pairs")
    }


@settings(max_examples=8)
@given(
    encoders=st.lists(st.sampled_from(["plain", "trained", "pooled", "third", "white"]), min_size=1, unique=True),
    train_seeds=st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
    seeds=st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
)
def test_all_seeds_cross(drawn_world: World, encoders: list[str], train_seeds: list[int], seeds: list[int]) -> None:
    if encoders == ["plain"]:
        encoders = ["plain", "trained"]
    drawn_world.suite(SUITE.format(encoders=encoders))
    plan = planned(drawn_world.load(None, f"train_seeds={train_seeds}", f"seeds={seeds}"))
    attacks = [job for job in plan.jobs if job.stage == "attack"]
    cells = [(plan.draw(job.parts[0]), job.parts[1], job.seed) for job in attacks]
    expected = {
        (Draw(encoder=encoder, train_seed=train_seed), task, seed)
        for encoder in encoders
        for train_seed in (train_seeds if encoder != "plain" else [None])
        for task in ("reviews", "pairs")
        for seed in seeds
    }
    assert len(cells) == len(set(cells)) and set(cells) == expected
    assert len({job.key for job in plan.jobs}) == len({job.name for job in plan.jobs}) == len(plan.jobs)
    rounds = [train_seeds.index(draw.train_seed) if draw.train_seed is not None else 0 for draw, _, _ in cells]
    assert rounds == sorted(rounds), "one training seed is finished before the next begins"
    before: set[str] = set()
    for job in plan.jobs:
        assert before >= set(job.needs.values())
        before.add(job.key)
    alone = planned(drawn_world.load(None, f"seeds={seeds}"))
    shared = {name: key for name, key in keys(alone).items() if name in keys(plan)}
    assert shared.items() <= keys(plan).items(), "what has the same name has the same key"


@pytest.mark.parametrize(
    ("encoders", "more", "message"),
    [
        ("[plain]", "train_seeds: [0, 1]", "my.yaml:6:14: `train_seeds`: rbench trains none of this suite's encoders"),
        ("[white-plain, plain]", "train_seeds: 0", "none of this suite's encoders (white-plain, plain) with a seed"),
        (
            "[trained, {trained: {seed: 5}}]",
            "train_seeds: [0]",
            "my.yaml:1:32: `train_seeds` sets the seed of trained; remove `seed` here, or `train_seeds`",
        ),
        ("[trained]", "train_seeds: [0, 1, 0]", "`train_seeds` lists 0"),
        ("[trained]", "train_seeds: [-1]", "`train_seeds[0]`: "),
        ("[trained]", "train_seeds: [true]", "`train_seeds[0]`: "),
    ],
)
def test_what_is_refused(drawn_world: World, encoders: str, more: str, message: str) -> None:
    drawn_world.suite(SUITE.format(encoders=encoders) + more)
    assert message in drawn_world.error()


def test_a_profile_and_an_override_change_the_axis(drawn_world: World) -> None:
    profiles = "train_seeds: [0, 1]\nprofiles:\n  one: {train_seeds: 2}\n  none: {encoders: [plain], train_seeds: []}\n"
    drawn_world.suite(SUITE.format(encoders="[trained]") + profiles)
    assert [draw.train_seed for draw in drawn_world.load("one").draws.values()] == [2]
    assert drawn_world.load("none").draws == {}
    assert list(drawn_world.load(None, "train_seeds=[4]").draws) == ["trained[seed=4]"]
