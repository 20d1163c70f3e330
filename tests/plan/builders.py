"""Suites over made-up encoders, tasks and attacks, and what planning is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rbench.plan.planner import PlanInputs
from rbench.schema import (
    AttackSpec,
    Choice,
    Draw,
    EncoderSpec,
    MeasureNeeds,
    ResourceSet,
    ResourceSource,
    StrategyNeeds,
    Suite,
    TaskSpec,
    TrainSpec,
)

MLM = TrainSpec(objective="mlm", data="corpus", steps=10)


ENCODERS = {
    "tiny": EncoderSpec(name="tiny", architecture={"hidden_size": 8}, train=MLM),
    "tiny-mean": EncoderSpec(name="tiny-mean", base="tiny", pooling="mean"),
    "lm": EncoderSpec(name="lm", base="org/lm", revision="abc"),
    "lm-2": EncoderSpec(name="lm-2", base="lm", layers=2, pooling="mean"),
    "cse-lm": EncoderSpec(name="cse-lm", base="lm", train=MLM),
    "cse-tiny": EncoderSpec(name="cse-tiny", base="tiny-mean", train=MLM),
}


TASKS = {
    "a": TaskSpec(name="a", kind="single", columns=("text",), labels=("no", "yes")),
    "b": TaskSpec(name="b", kind="nli", columns=("premise", "hypothesis"), labels=("e", "n", "c")),
    "corpus": TaskSpec(name="corpus", kind="unlabelled", columns=("text",)),
}


ATTACKS = {
    "swap": AttackSpec(name="swap", recipe="PWWSRen2019", needs=("synonyms",)),
    "lm": AttackSpec(name="lm", recipe="BAEGarg2019", needs=("masked_lm", "stopwords")),
}


RESOURCES = ResourceSet(
    name="p",
    synonyms=ResourceSource(kind="mini"),
    stopwords=ResourceSource(kind="mini"),
    masked_lm=ResourceSource(kind="encoder", name="tiny"),
)


def make_inputs(**changes: Any) -> PlanInputs:
    """What planning has read of the entries, data and weights of `make_suite()`; `changes` replaces fields."""
    values: dict[str, Any] = {
        "encoders": ENCODERS,
        "tasks": TASKS,
        "attacks": ATTACKS,
        "resources": RESOURCES,
        "data": {"a": "da", "b": "db", "corpus": "dc"},
        "sizes": {"a": {"train": 5, "test": 20}, "b": {"train": 5, "test": 10}},
        "weights": {"lm": "w", "lm-2": "w", "cse-lm": "w"},
        "resource_weights": {"synonyms": "s", "stopwords": "t"},
    }
    return PlanInputs(**{**values, **changes})


def make_suite(**changes: Any) -> Suite:
    values: dict[str, Any] = {
        "name": "s",
        "encoders": ["tiny", "lm"],
        "tasks": ["a", "b"],
        "attacks": ["swap", "lm"],
        "seeds": [0, 1],
        "num_examples": 7,
    }
    return Suite.model_validate({**values, **changes})


DRAWS = {
    "tiny": Draw(encoder="tiny", train_seed=0),
    "tiny[seed=1]": Draw(encoder="tiny", train_seed=1),
    "tiny[seed=2]": Draw(encoder="tiny", train_seed=2),
}


def make_seeded_encoder(seed: int) -> Any:
    """The encoder `tiny` as trained with another seed."""
    train = ENCODERS["tiny"].train
    assert train is not None
    update = {"name": f"tiny[seed={seed}]", "train": train.model_copy(update={"seed": seed})}
    return ENCODERS["tiny"].model_copy(update=update)


def make_seeded_inputs(*seeds: int) -> PlanInputs:
    """`make_inputs()` for a suite with these training seeds."""
    draws = {label: draw for label, draw in DRAWS.items() if draw.train_seed in seeds}
    return make_inputs(
        encoders={**ENCODERS, **{f"tiny[seed={seed}]": make_seeded_encoder(seed) for seed in (1, 2)}}, draws=draws
    )


def make_full_suite() -> tuple[Suite, PlanInputs]:
    """A suite and its inputs with all that a plan may have: strategies, evaluations, a measure, training seeds."""
    graded = TaskSpec(name="sts", kind="sts", columns=("a", "b"))
    asked = make_suite(
        encoders=["tiny", "lm", "cse-tiny"],
        finetune=["clean", "augment"],
        evaluate=["sts", {"space": {}}],
        measured=["space"],
        train_seeds=[0, 1],
    )
    found = make_seeded_inputs(0, 1)
    needs = StrategyNeeds(attack="swap")
    return asked, replace(
        found,
        tasks={**TASKS, "sts": graded},
        splits={("sts", "test"): "dsts"},
        strategies={"clean": StrategyNeeds(), "augment": needs},
        measures={"space": MeasureNeeds(what=Choice(name="space"))},
    )
