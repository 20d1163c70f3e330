"""Fine-tuning strategies: two epochs over 16 rows, and the victim's logits, head and scores afterwards.

Of those for STS tasks: 16 pairs, and the scores of pairs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rbench.schema import Outcome, Training
from rbench.tasks import TaskData
from rbench.train import finetune
from rbench.train.finetune import FinetuneContext, FinetuneStrategy, sample_split
from tests.golden import formula, world
from tests.golden.case import Case, Value
from tests.golden.world import SENTENCES

FOLDER = "rbench/train/finetune"
TRAINING = Training(epochs=2, batch_size=4, learning_rate=5e-3, max_length=24)
SETTINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "clean": ({},),
    "freelb": (
        {},
        {"adv_lr": 1.0, "adv_init_mag": 0.5, "adv_max_norm": 0.8},
        {"adv_lr": 0.2, "adv_init_mag": 0.1, "adv_max_norm": 0.3, "norm_type": "linf"},
    ),
    "adversarial": (
        {"min_cosine": 0.0},
        {"until": "budget", "clean_epochs": 0, "keep": "last", "min_cosine": 0.0, "epochs": 2},
        {"variant": "released", "min_cosine": 0.0, "erring": "leave"},
    ),
    "random_substitutions": ({"min_cosine": 0.0}, {"variant": "released", "min_cosine": 0.0, "until": "budget"}),
    "pregenerated": ({}, {"texts": "successes"}),
    # The solver stops early at 0.5, at a point that differs by 1e-4 between processors.
    "probe": ({}, {"c": [0.2]}),
}


def strategy(name: str, folder: Path) -> Value:
    module = finetune.strategy(name)
    settings = [setting(module, options, world.data(), folder) for options in SETTINGS[name]]
    return {"defaults": module.Options().model_dump(mode="json"), "settings": settings}


def probe(folder: Path) -> Value:
    """Also on three labels of which no training row has the second: its weights are 0, and it is never predicted."""
    module = finetune.strategy("probe")
    return {**strategy("probe", folder), "never seen": setting(module, {}, world.data(labels=3), folder)}


def saved(folder: Path) -> Value:
    """A victim of two minds that was saved before, put together again."""
    module = finetune.strategy("saved")
    data, where = world.data(), folder / "saved victim"
    labels = list(data.spec.labels)
    world.victim(folder, data.spec).classifier.save(where, {"labels": labels})
    context = FinetuneContext(
        world.encoder(folder), data, TRAINING, 3, "cpu", lambda done, total, text: None, weights=where
    )
    victim, scores = module.run(module.Options(), context)
    logits = world.logits(victim, SENTENCES)
    return {"scores": scores, "logits": [formula.digest(column) for column in logits.T]}


def setting(module: FinetuneStrategy[Any], options: dict[str, Any], data: TaskData, folder: Path) -> Value:
    chosen: Any = module.Options.model_validate(options)
    with formula.portable_dropout():
        context = FinetuneContext(
            world.encoder(folder),
            data,
            TRAINING,
            seed=3,
            device="cpu",
            progress=lambda done, total, text: None,
            resources=world.resources(folder) if module.resources else None,
            generated=generated(data) if hasattr(chosen, "attack") else None,
        )
        victim, scores = module.run(chosen, context)
    logits = world.logits(victim, SENTENCES)
    return {
        "options": options,
        "scores": scores,
        "logits": [formula.digest(column) for column in logits.T],
        "predictions": logits.argmax(dim=1).tolist(),
        "head": formula.digest(victim.head.weight),
        "bias": dict(zip(data.spec.labels, victim.head.bias.tolist(), strict=True)),
    }


def scorer(name: str, folder: Path) -> Value:
    """A strategy for STS tasks, and the victim's scores of the validation pairs."""
    module = finetune.strategy(name)
    data = world.pairs()
    with formula.portable_dropout():
        context = FinetuneContext(world.encoder(folder), data, TRAINING, 3, "cpu", lambda done, total, text: None)
        victim, scores = module.run(module.Options(), context)
    return {
        "defaults": module.Options().model_dump(mode="json"),
        "scores": scores,
        "answers": victim.score_pairs([example.texts for example in data.split("validation")]).tolist(),
        "head": {key: formula.digest(tensor) for key, tensor in victim.head.state_dict().items()},
    }


def retriever(folder: Path) -> Value:
    """The strategy for rankings: vectors of documents, and nDCG of their ranking."""
    module = finetune.strategy("retriever")
    context = FinetuneContext(
        world.encoder(folder), world.queries(), TRAINING, 3, "cpu", lambda done, total, text: None
    )
    found, scores = module.run(module.Options(), context)
    return {"scores": scores, "corpus": [formula.digest(row) for row in found.corpus]}


def generated(data: TaskData) -> list[Outcome]:
    """Outcomes of an attack that put the words of every text in another order, with success on every second."""
    made = []
    for i, example in enumerate(sample_split(data, "train", None, 3)):
        (text,) = example.texts
        words = text.split()
        made.append(
            Outcome(
                example_id=example.id,
                status=("succeeded", "failed", "succeeded", "skipped")[i % 4],
                original=example.texts,
                perturbed=None if i % 4 == 3 else (" ".join([*words[2:], *words[:2]]),),
                label=int(example.label or 0),
            )
        )
    return made


def cases() -> list[Case]:
    computed = {name: partial(strategy, name) for name in SETTINGS} | {"probe": probe}
    computed |= {"saved": saved, "retriever": retriever}
    computed |= {name: partial(scorer, name) for name in ("cosine", "regression")}
    return [Case(f"finetune/{name}", (f"{FOLDER}/{name}.py",), compute) for name, compute in computed.items()]
