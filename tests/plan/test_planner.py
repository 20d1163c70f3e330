"""Tests planning: the order of jobs, their keys, and which inputs change a key."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import PlanError
from rbench.plan.lineage import (
    as_loaded,
    as_trained,
    chain_of_bases,
    find_trained_root,
    find_weights_source,
    portable_encoder,
)
from rbench.plan.order import select_jobs
from rbench.plan.planner import CodeVersions, make_plan, training_for
from rbench.schema import (
    AskedSet,
    AttackJob,
    Choice,
    ContrastSpec,
    EncoderSpec,
    FinetuneJob,
    HubData,
    HubSplit,
    MeasureNeeds,
    Plan,
    PretrainJob,
    ResourceSource,
    StrategyNeeds,
    Suite,
    TaskSpec,
    Training,
    TrainSpec,
    content_key,
)
from tests.plan.builders import ATTACKS, ENCODERS, MLM, RESOURCES, TASKS, make_inputs, make_suite

OTHER = HubSplit(id="x/z", revision="main", split="test", columns={})
HUB = HubData(id="x/y", revision="main", splits={"train": "train"}, columns={}, elsewhere={"test": OTHER})


def names(plan: Plan) -> list[str]:
    return [job.name for job in plan.jobs]


def test_cells_are_the_product_and_everything_comes_after_its_needs() -> None:
    plan = make_plan(make_suite(), make_inputs())
    attacks = [job for job in plan.jobs if job.stage == "attack"]
    assert len(attacks) == 2 * 2 * 2 * 2
    assert len([job for job in plan.jobs if job.stage == "finetune"]) == 2 * 2 * 2
    assert names(plan).count("pretrain/tiny/seed0") == 1
    seen: set[str] = set()
    for job in plan.jobs:
        assert set(job.needs.values()) <= seen
        seen.add(job.key)
    assert len(seen) == len(plan.jobs)


def test_attacks_on_one_victim_stand_together() -> None:
    victims = [job.needs["victim"] for job in make_plan(make_suite(), make_inputs()).jobs if job.stage == "attack"]
    changes = sum(a != b for a, b in itertools.pairwise(victims))
    assert changes == len(set(victims)) - 1


def test_a_plan_goes_victim_by_victim_after_the_evaluations_and_trains_what_is_first_needed() -> None:
    sts = TaskSpec(name="sim", kind="sts", columns=("sentence1", "sentence2"))
    evaluated = ContrastSpec(name="set", task="a", generator="g", original={"text": "o"}, perturbed={"text": "p"})
    needs = MeasureNeeds(what=Choice(name="contrast"), of="victims", stores="predictions")
    known = make_inputs(
        tasks={**TASKS, "sim": sts},
        splits={("sim", "test"): "scored"},
        sets={"a": (AskedSet(needs=needs, set=evaluated, fingerprint="content"),)},
    )
    asked = make_suite(encoders=["lm", "cse-lm"], tasks=["a"], seeds=[0, 1], evaluate=["sim", "contrast"])
    plan = make_plan(asked, known)
    of_lm, of_cse = (
        [f"finetune/{e}/a/clean", f"measure/{e}/a/clean/set", f"attack/{e}/a/clean/swap", f"attack/{e}/a/clean/lm"]
        for e in ("lm", "cse-lm")
    )
    assert [name.removesuffix("/seed0") for name in names(plan)] == [
        *("measure/lm/sim", "pretrain/cse-lm", "measure/cse-lm/sim"),
        *of_lm[:3],
        "pretrain/tiny",
        *of_lm[3:],
        *of_cse,
        *(f"{name}/seed1" for name in (*of_lm, *of_cse)),
    ]
    # Without evaluations the second encoder is trained when the first has been attacked.
    alone = [
        name.removesuffix("/seed0") for name in names(make_plan(make_suite(encoders=["lm", "cse-lm"]), make_inputs()))
    ]
    assert (
        alone.index("attack/lm/a/clean/lm")
        < alone.index("pretrain/cse-lm")
        == alone.index("finetune/cse-lm/a/clean") - 1
    )


def test_what_is_built_of_an_encoder_comes_before_its_victims_and_needs_what_its_training_needed() -> None:
    word = EncoderSpec(name="word", base="tiny", train=MLM)
    positives = Choice(name="positives", options={"split": "train"})
    known = make_inputs(
        encoders={**ENCODERS, "word": word},
        models={"word": {"generator": "cse-lm", "other": "lm"}},
        training={
            "word": (RESOURCES.model_copy(update={"masked_lm": ResourceSource(kind="encoder", name="cse-tiny")}), {})
        },
        weights={"lm": "w", "cse-lm": "w"},
        splits={("a", "train"): "train of a"},
        building={"positives": MeasureNeeds(what=positives, of="trainings", label="positives")},
    )
    plan = make_plan(
        make_suite(encoders=["word"], tasks=["a"], attacks=["swap"], build=["positives"], seeds=[0]), known
    )
    assert [name for name in names(plan) if not name.startswith("pretrain")] == [
        "measure/word/a/positives/seed0",
        "finetune/word/a/clean/seed0",
        "attack/word/a/clean/swap/seed0",
    ]
    trained, built = (
        next(job for job in plan.jobs if job.parts[0] == "word" and job.stage == s) for s in ("pretrain", "measure")
    )
    made = {role: plan.job(key).parts for role, key in trained.needs.items()}
    assert made == {"base": ("tiny",), "options.generator": ("cse-lm",), "masked_lm": ("cse-tiny",)}
    assert built.needs == {"encoder": trained.key, **trained.needs}


def test_masked_lm_of_ours_is_a_need_of_its_attack_only() -> None:
    plan = make_plan(make_suite(encoders=["lm"]), make_inputs())
    pretrain = next(job.key for job in plan.jobs if job.stage == "pretrain")
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob):
            assert (job.needs.get("masked_lm") == pretrain) == (job.spec.attack.name == "lm")


def key_of(plan: Plan, name: str) -> str:
    return next(job.key for job in plan.jobs if job.name == name)


CELL = "attack/lm/a/clean/swap/seed0"


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"a": "other", "b": "db", "corpus": "dc"}},
        {"weights": {"lm": "other"}},
        {"resource_weights": {"synonyms": "other", "stopwords": "t"}},
        {"attacks": {**ATTACKS, "swap": ATTACKS["swap"].model_copy(update={"max_words": 3})}},
        {"resources": RESOURCES.model_copy(update={"synonyms": ResourceSource(kind="wordnet")})},
        {"encoders": {**ENCODERS, "lm": ENCODERS["lm"].model_copy(update={"pooling": "mean"})}},
    ],
)
def test_what_decides_an_outcome_changes_the_key(changed: dict[str, Any]) -> None:
    assert key_of(make_plan(make_suite(), make_inputs()), CELL) != key_of(
        make_plan(make_suite(), make_inputs(**changed)), CELL
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"a": "da", "b": "other", "corpus": "other"}},
        {"resource_weights": {"synonyms": "s", "stopwords": "other"}},
        {"resources": RESOURCES.model_copy(update={"stopwords": ResourceSource(kind="nltk"), "title": "new words"})},
        {"attacks": {**ATTACKS, "swap": ATTACKS["swap"].model_copy(update={"title": "x", "notes": ("y",)})}},
        {"tasks": {**TASKS, "a": TASKS["a"].model_copy(update={"title": "x", "licence": "y"})}},
        {"tasks": {**TASKS, "a": TASKS["a"].model_copy(update={"sizes": {"test": 20}, "hub": HUB})}},
    ],
)
def test_what_does_not_decide_an_outcome_leaves_the_key(changed: dict[str, Any]) -> None:
    assert key_of(make_plan(make_suite(), make_inputs()), CELL) == key_of(
        make_plan(make_suite(), make_inputs(**changed)), CELL
    )


def test_training_overrides_reach_only_their_task_and_change_its_victims() -> None:
    plain = make_plan(make_suite(), make_inputs())
    changed = make_plan(make_suite(training={"epochs": 4, "a": {"epochs": 9}}), make_inputs())
    for task, epochs in (("a", 9), ("b", 4)):
        name = f"finetune/lm/{task}/clean/seed0"
        job = next(job for job in changed.jobs if job.name == name)
        assert isinstance(job.spec, FinetuneJob)
        assert job.spec.training == Training(epochs=epochs)
        assert key_of(plain, name) != job.key
    assert training_for(make_suite(training={"a": {"epochs": 9}}), TASKS["b"]) == Training()


def test_order_of_a_suite_does_not_change_keys() -> None:
    first = make_plan(make_suite(), make_inputs())
    second = make_plan(make_suite(encoders=["lm", "tiny"], attacks=["lm", "swap"], seeds=[1, 0]), make_inputs())
    assert {job.key for job in first.jobs} == {job.key for job in second.jobs}


def test_num_examples_beyond_the_split_names_every_split_and_its_size() -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(make_suite(num_examples=21), make_inputs())
    assert all(named in str(caught.value) for named in ("21", "a: ", "20", "b: ", "10"))
    make_plan(make_suite(num_examples={"a": 20, "default": 10}), make_inputs())


def test_all_means_the_whole_split() -> None:
    plan = make_plan(make_suite(num_examples="all"), make_inputs())
    sizes = {j.spec.task.name: j.spec.num_examples for j in plan.jobs if isinstance(j.spec, AttackJob)}
    assert sizes == {"a": 20, "b": 10}


def test_bases_are_followed_to_where_weights_come_from() -> None:
    assert [spec.name for spec in chain_of_bases("cse-tiny", ENCODERS)] == ["cse-tiny"]
    assert [spec.name for spec in chain_of_bases("lm-2", ENCODERS)] == ["lm-2", "lm"]
    mean = as_loaded("lm-2", ENCODERS)
    assert (mean.base, mean.revision, mean.layers, mean.pooling) == ("org/lm", "abc", 2, "mean")
    assert as_loaded("tiny-mean", ENCODERS).base == "tiny"
    assert find_trained_root("tiny-mean", ENCODERS) == "tiny"
    assert find_trained_root("lm-2", ENCODERS) is None
    sources = {name: find_weights_source(name, ENCODERS) for name in ENCODERS}
    assert {name: spec.name if spec else None for name, spec in sources.items()} == {
        "tiny": None,
        "tiny-mean": None,
        "lm": "lm",
        "lm-2": "lm",
        "cse-lm": "lm",
        "cse-tiny": None,
    }


def test_a_trained_encoder_over_a_trained_one_needs_its_job() -> None:
    plan = make_plan(make_suite(encoders=["cse-tiny"], attacks=["swap"]), make_inputs())
    by_name = {job.name: job for job in plan.jobs}
    assert by_name["pretrain/cse-tiny/seed0"].needs == {"base": by_name["pretrain/tiny/seed0"].key}
    assert by_name["finetune/cse-tiny/a/clean/seed0"].needs == {"encoder": by_name["pretrain/cse-tiny/seed0"].key}


def test_bases_in_a_circle_are_refused() -> None:
    around = {"x": EncoderSpec(name="x", base="y"), "y": EncoderSpec(name="y", base="x")}
    with pytest.raises(PlanError) as caught:
        chain_of_bases("x", around)
    assert "x -> y -> x" in str(caught.value)
    own = {"x": EncoderSpec(name="x", base="x")}  # named like its folder
    assert [spec.name for spec in chain_of_bases("x", own)] == ["x"]


def test_jobs_hold_no_paths() -> None:
    def spec(base: str, data: str) -> EncoderSpec:
        return EncoderSpec.model_validate({"name": "x", "base": base, "train": {"objective": "mlm", "data": data}})

    here, there = spec("/home/me/own/", "/home/me/my.txt"), spec("../own", "data/my.txt")
    assert portable_encoder(here) == portable_encoder(there) == spec("own", "my.txt")
    for kept in (spec("org/model", "corpus"), spec("bert-base", "my.txt"), EncoderSpec(name="y", base="org/model")):
        assert portable_encoder(kept) == kept


def test_a_base_is_looked_for_under_its_own_name() -> None:
    """A folder that is called like the encoder (an export of it) is not what it is trained from."""
    spec = EncoderSpec.model_validate({"name": "x", "base": "org/lm", "train": {"objective": "mlm", "data": "c"}})
    source = find_weights_source("x", {"x": spec})
    assert source is not None and (source.name, source.base, source.train) == ("org/lm", "org/lm", None)


@given(st.sampled_from(["swap", "attack/lm/*/seed1", "finetune", "tiny", "*/b/*"]))
def test_select_takes_what_matches_and_what_that_needs(pattern: str) -> None:
    plan = make_plan(make_suite(), make_inputs())
    chosen = select_jobs(plan, [pattern])
    keys = {job.key for job in chosen}
    assert all(need in keys for job in chosen for need in job.needs.values())
    assert any(pattern.strip("*").split("*")[0] in job.name for job in chosen)
    assert [job for job in plan.jobs if job.key in keys] == list(chosen)


def test_select_refuses_a_pattern_without_a_match() -> None:
    with pytest.raises(PlanError) as caught:
        select_jobs(make_plan(make_suite(), make_inputs()), ["swap", "pwss"])
    assert "pwss" in str(caught.value)


def test_select_takes_what_matches_any_of_several_patterns() -> None:
    plan = make_plan(make_suite(), make_inputs())
    both = {job.key for pattern in ("*/a/*", "pretrain") for job in select_jobs(plan, [pattern])}
    assert {job.key for job in select_jobs(plan, ["*/a/*", "pretrain"])} == both
    assert select_jobs(plan, ()) == plan.jobs


def test_an_encoder_trained_from_a_folder_of_its_own_name_has_that_for_its_base() -> None:
    own = {"x": EncoderSpec(name="x", base="x", train=MLM)}
    plan = make_plan(
        make_suite(encoders=["x"], attacks=["swap"]), make_inputs(encoders={**ENCODERS, **own}, weights={"x": "w"})
    )
    job = next(job for job in plan.jobs if job.stage == "pretrain")
    assert isinstance(job.spec, PretrainJob)
    assert (job.needs, job.spec.base_fingerprint) == ({}, "w")
    source = find_weights_source("x", own)
    assert source is not None and (source.base, source.train) == ("x", None)


IN_DOMAIN = EncoderSpec(name="in", base="lm", train=TrainSpec(objective="simcse", data="in-domain"))


def test_an_in_domain_encoder_is_trained_once_a_task_on_its_training_texts() -> None:
    encoders = {**ENCODERS, "in": IN_DOMAIN, "in-mean": EncoderSpec(name="in-mean", base="in", pooling="mean")}
    known = make_inputs(
        encoders=encoders, weights={"in": "w"}, splits={("a", "train"): "train of a", ("b", "train"): "train of b"}
    )
    plan = make_plan(make_suite(encoders=["in", "in-mean"], attacks=["swap"]), known)
    pretrain = {job.name: job for job in plan.jobs if job.stage == "pretrain"}
    assert set(pretrain) == {"pretrain/in/a/seed0", "pretrain/in/b/seed0"}
    for task, job in zip("ab", pretrain.values(), strict=True):
        assert isinstance(job.spec, PretrainJob)
        assert job.spec.data_fingerprint == f"train of {task}"
        assert job.spec.encoder.train is not None and job.spec.encoder.train.data == task
        victims = [one for one in plan.jobs if one.stage == "finetune" and one.parts[1] == task]
        assert all(one.needs == {"encoder": job.key} for one in victims)
        # The same as one that names the task as its corpus, had that the same texts.
        named = as_trained(IN_DOMAIN, {}, task)
        other = make_plan(
            make_suite(encoders=["in"], tasks=[task], attacks=["swap"]),
            make_inputs(encoders={**ENCODERS, "in": named}, weights={"in": "w"}, data={task: f"train of {task}"}),
        )
        assert job.key in {one.key for one in other.jobs}


def test_an_in_domain_encoder_without_a_task_is_refused() -> None:
    sts = TaskSpec(name="sim", kind="sts", columns=("sentence1", "sentence2"))
    known = make_inputs(
        encoders={"in": IN_DOMAIN}, weights={"in": "w"}, tasks={"sim": sts}, splits={("sim", "test"): "scored"}
    )
    with pytest.raises(PlanError) as caught:
        make_plan(Suite(name="s", encoders=("in",), evaluate=("sim",)), known)  # type: ignore[arg-type]
    assert "encoder in " in str(caught.value)


def test_resources_of_a_training_are_in_its_key_and_their_masked_lm_among_its_needs() -> None:
    encoders = {"tiny": ENCODERS["tiny"], "word": EncoderSpec(name="word", base="lm", train=MLM)}

    def word(**training: Any) -> tuple[Plan, Any]:
        known = make_inputs(encoders={**encoders, "lm": ENCODERS["lm"]}, **training)
        plan = make_plan(make_suite(encoders=["word"], attacks=[], tasks=["a"], seeds=[0]), known)
        return plan, next(job for job in plan.jobs if job.parts == ("word",))

    plan, asking = word(training={"word": (RESOURCES, {"synonyms": "s"})}, weights={"word": "w"})
    _, other = word(training={"word": (RESOURCES, {"synonyms": "t"})}, weights={"word": "w"})
    _, plain = word(weights={"word": "w"})
    assert len({asking.key, other.key, plain.key}) == 3
    assert {role: plan.job(key).name for role, key in asking.needs.items()} == {"masked_lm": "pretrain/tiny/seed0"}
    assert not plain.needs


@pytest.mark.parametrize("tasks", [["x"], ["x", "y"]])
def test_the_pairs_of_each_task_that_selects_steps_are_in_the_key_of_the_training(tasks: list[str]) -> None:
    train = TrainSpec.model_validate({**MLM.model_dump(exclude_defaults=True), "select_by": tasks})
    encoders = {**ENCODERS, "tiny": ENCODERS["tiny"].model_copy(update={"train": train})}

    def key(**pairs: str) -> str:
        found = make_inputs(encoders=encoders, splits={(task, "validation"): pairs[task] for task in tasks})
        return key_of(make_plan(make_suite(encoders=["tiny"]), found), "pretrain/tiny/seed0")

    others = [{task: "other"} for task in tasks]
    keys = {key(**{"x": "f", "y": "g", **changed}) for changed in ({}, *others)}
    assert len(keys) == 1 + len(tasks)


@pytest.mark.parametrize(("stage", "module"), [("pretrain", "objectives/mlm"), ("finetune", "finetune/clean")])
def test_the_source_of_a_users_module_is_in_the_key_beside_versions_of_rbenchs_code(stage: str, module: str) -> None:
    code = {stage: CodeVersions(versions={"train.loop": 2})}
    keys = set()
    for source in ("", "abc"):
        found = make_inputs(code={**code, module: CodeVersions(source=source)})
        job: Any = next(job for job in make_plan(make_suite(encoders=["tiny"]), found).jobs if job.stage == stage)
        assert (job.spec.source, job.spec.versions) == (source, {"train.loop": 2})
        keys.add(job.key)
    assert len(keys) == 2


def test_a_strategy_gets_the_resources_that_it_needs_and_no_others() -> None:
    needs = {"words": StrategyNeeds(resources=("masked_lm", "stopwords"))}
    plan = make_plan(make_suite(encoders=["lm"], finetune=["clean", "words"]), make_inputs(strategies=needs))
    by_strategy = {job.parts[2]: job for job in plan.jobs if job.stage == "finetune"}
    clean, words = by_strategy["clean"].spec, by_strategy["words"].spec
    assert isinstance(clean, FinetuneJob) and isinstance(words, FinetuneJob)
    assert clean.resources is None and words.resources is not None
    assert (words.resources.masked_lm, words.resources.synonyms) == (RESOURCES.masked_lm, None)
    assert words.resource_fingerprints == {"stopwords": "t"}
    assert plan.job(by_strategy["words"].needs["masked_lm"]).name == "pretrain/tiny/seed0"


def test_a_strategy_on_generated_texts_needs_an_attack_on_what_the_clean_victim_was_trained_on() -> None:
    needs = {"gen": StrategyNeeds(attack="swap")}
    planned = make_suite(encoders=["lm"], tasks=["a"], finetune=["gen"], attacks=["swap"], seeds=[3])
    plan = make_plan(planned, make_inputs(strategies=needs))
    assert names(plan) == [
        "finetune/lm/a/clean/seed3",
        "attack/lm/a/clean/swap/train/seed3",
        "finetune/lm/a/gen/seed3",
        "attack/lm/a/gen/swap/seed3",
    ]
    made = plan.jobs[1].spec
    assert isinstance(made, AttackJob) and (made.split, made.num_examples) == ("train", 5)
    assert plan.jobs[2].needs == {"attack": plan.jobs[1].key} and plan.jobs[1].needs == {"victim": plan.jobs[0].key}
    fewer = (
        make_plan(planned.model_copy(update={"training": {"max_train": 2}}), make_inputs(strategies=needs)).jobs[1].spec
    )
    assert isinstance(fewer, AttackJob) and fewer.num_examples == 2


# ------------------------------------------------------------------------------------------- training by strategy


def test_a_strategy_may_say_how_it_is_trained() -> None:
    tenth = {"clean": {"train_share": 0.1, "learning_rate": 1e-4}}
    label = "clean[learning_rate=0.0001,train_share=0.1]"
    needs = {"clean": StrategyNeeds(), label: StrategyNeeds(training=tenth["clean"])}
    half = {"a": {"train_share": 0.5}}
    asked = make_suite(finetune=["clean", tenth], tasks=["a"], encoders=["lm"], seeds=[0], training=half)
    jobs = {
        job.parts[2]: job for job in make_plan(asked, make_inputs(strategies=needs)).jobs if job.stage == "finetune"
    }
    found = {name: job.spec.training for name, job in jobs.items() if isinstance(job.spec, FinetuneJob)}
    assert found == {"clean": Training(train_share=0.5), label: Training(train_share=0.1, learning_rate=1e-4)}
    alone = make_plan(make_suite(finetune=["clean"], tasks=["a"], training=half), make_inputs())
    assert jobs["clean"].key == key_of(alone, "finetune/lm/a/clean/seed0"), "another strategy beside it changes nothing"


def test_the_victim_of_adversarial_texts_is_trained_as_their_strategy_says() -> None:
    label = "gen[train_share=0.4]"
    needs = {label: StrategyNeeds(attack="swap", training={"train_share": 0.4})}
    asked = make_suite(finetune=[{"gen": {"train_share": 0.4}}], tasks=["a"], encoders=["lm"], attacks=[], seeds=[0])
    plan = make_plan(asked, make_inputs(strategies=needs))
    clean, attack, _ = plan.jobs
    assert isinstance(clean.spec, FinetuneJob) and clean.spec.training.train_share == 0.4
    assert isinstance(attack.spec, AttackJob) and attack.spec.num_examples == 2, "0.4 of 5 rows"


@pytest.mark.parametrize(
    ("training", "rows"),
    [
        ({}, 200),
        ({"max_train": 50}, 50),
        ({"max_train": 900}, 200),
        ({"train_share": 0.1}, 20),
        ({"train_share": 0.1, "max_train": 5}, 5),
        ({"train_share": 1e-4}, 1),
        ({"train_share": 1}, 200),
    ],
)
def test_rows_that_are_trained_on(training: dict[str, Any], rows: int) -> None:
    assert Training(**training).train_rows(200) == rows


def test_a_share_of_all_rows_is_no_other_job() -> None:
    assert content_key(Training()) == content_key(Training(train_share=None))
    assert content_key(Training(train_share=0.5)) != content_key(Training())


def test_what_is_trained_has_the_layers_that_its_bases_keep() -> None:
    def trained(own: int | None, bases: int | None) -> tuple[int | None, str]:
        encoders = {
            **ENCODERS,
            "cut": EncoderSpec(name="cut", base="lm", layers=bases),
            "over": EncoderSpec(name="over", base="cut", pooling="mean"),
            "cse": EncoderSpec(name="cse", base="over", layers=own, train=MLM),
        }
        plan = make_plan(
            make_suite(encoders=["cse"], attacks=["swap"]), make_inputs(encoders=encoders, weights={"cse": "w"})
        )
        (job,) = (job for job in plan.jobs if job.stage == "pretrain")
        assert isinstance(job.spec, PretrainJob)
        assert as_trained(encoders["cse"], encoders, None) == job.spec.encoder
        return job.spec.encoder.layers, job.key

    assert [trained(*given)[0] for given in ((None, 2), (1, 2), (3, 2), (3, None), (None, None))] == [2, 1, 2, 3, None]
    assert trained(None, 2)[1] != trained(None, 3)[1], "another network has another key"
    # A base that is trained itself has only the layers that it keeps already.
    below = {**ENCODERS, "tiny": ENCODERS["tiny"].model_copy(update={"layers": 1})}
    assert as_trained(below["cse-tiny"], below, None).layers is None
