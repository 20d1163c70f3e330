"""Estimates the hours of the suite `table1` as printed, by the model of `rbench plan --estimate`.

Twice: by the model as it is, whose measurements are of MiniLM, and with the seconds of a query that `papers_scale`
measured at BERT base's shape; on a GPU also with the trainings that `gpu` measured. Texts, seeds, encoders and settings
are read off the suite and its tasks; the number of queries of a text is the model's, that of fine-tuned victims.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cost_model import words as counted_words
from equality import RECIPES

from rbench import config
from rbench.config.registry import Registry
from rbench.plan.cost_model import (
    REFERENCE,
    Costs,
    Machines,
    Network,
    attack_seconds,
    costs,
    gpus,
    reading,
    tokens_of,
    training_seconds,
)
from rbench.plan.planner import training_for
from rbench.schema import EncoderSpec, TaskSpec

BERT_BASE = Network(12, 768, 3072)
WORDS = {"yelp": (152.0, 152.0), "mnli_mismatched": (11.0, 31.0)}
"""Words that may change, and all, of tasks that are not at hand, as TextFooler's paper counts them (a premise: 20)."""
LONG = 60
"""Words from which a task is estimated by the cells of IMDB, below by those of MR."""
MASKED_LM, SENTENCES = BERT_BASE.gflop(30) / REFERENCE, 1.0
"""How much larger the papers' masked LM and our sentence encoder are than those of the model's measurements."""
BESIDE = {
    "pwws": 0.0,
    "textfooler": SENTENCES,
    "textbugger": SENTENCES,
    "bae": (MASKED_LM + SENTENCES) / 2,
    "bertattack": (MASKED_LM + SENTENCES) / 2,
}
"""How much larger the other networks of an attack are, as `rbench.plan.work` has it."""


def ratio(model: Costs, recipe: str, tokens: float, measured: float) -> float:
    """Return measured seconds of a query over those that the model gives it on its reference machine."""
    expected = model.attack(recipe).per_query(BERT_BASE.gflop(tokens), BESIDE[recipe])
    return measured / (expected.network + expected.python)


def table1(model: Costs, on: Machines, data: Path, cells: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return hours by attack, of trainings, and in all.

    Args:
        on: the machine that the cells were measured on.
        data: a folder with TASK/SPLIT.jsonl, for the words of tasks.
        cells: what `papers_scale` measured, by "TASK, ATTACK".
    """
    loaded = config.load("table1", registry=Registry())
    suite, victims = loaded.suite, len(loaded.suite.encoders) * len(loaded.suite.seeds)
    plain, measured = Counter[str](), Counter[str]()
    tuning, lengths = 0.0, {}
    for name in suite.tasks:
        task, how = loaded.tasks[name], training_for(suite, loaded.tasks[name])
        words = lengths[name] = words_of(data, task)
        texts = victims * _number(suite.examples_for(name), task)
        for recipe in RECIPES:
            each = attack_seconds(model, recipe, BERT_BASE, words, how.max_length, BESIDE[recipe]) * texts
            plain[recipe] += on.seconds(each, 1, attack=True) / 3600  # type: ignore[assignment]
            cell = cells[f"{'imdb' if words[1] > LONG else 'mr'}, {recipe}"]
            measured[recipe] += (each.network + each.python) * cell["over_model"] / on.workers / 3600  # type: ignore[assignment]
        rows, scored = how.train_rows(task.sizes["train"]), task.sizes["validation"]
        gflop = reading(BERT_BASE, how.epochs * (3 * rows + scored), words[1], how.max_length)
        seconds = training_seconds(model.tuning["clean"], gflop, how.epochs * (rows + scored / 4) / how.batch_size)
        tuning += victims * on.seconds(seconds, 1, attack=False) / 3600
    training = sum(_pretraining(model, on, spec, loaded.tasks) for spec in loaded.encoders.values())
    both = {"fine-tuning": tuning, "training the encoders": training}
    return {
        "what": f"{len(suite.tasks)} tasks, {len(suite.attacks)} attacks, {victims} victims a task",
        "machine": f"{on.name}, {on.workers} processes for attacks",
        "words": {name: [round(x, 1) for x in found] for name, found in lengths.items()},
        "hours_by_the_model": _hours(plain, both),
        "hours_with_measured_queries": _hours(measured, both),
        "attacks_measured_over_model": round(measured.total() / plain.total(), 2),
        "model_error_on_committed_runs": {
            "what": "predicted over measured hours; each run by a model that was fitted without it",
            **{run: error["all"] for run, error in model.errors.items()},
            "geometric_mean": round(
                math.exp(sum(math.log(e["all"]) for e in model.errors.values()) / len(model.errors)), 2
            ),
            "four_of_five_within_a_factor_of": model.spread,
        },
    }


def _hours(attacks: Counter[str], rest: Mapping[str, float]) -> dict[str, float]:
    found = {**attacks, **rest}
    return {name: round(hours, 1) for name, hours in found.items()} | {"all": round(sum(found.values()), 1)}


def _number(wanted: int | str, task: TaskSpec) -> int:
    return wanted if isinstance(wanted, int) else task.sizes["test"]


def words_of(data: Path, task: TaskSpec) -> tuple[float, float]:
    """Return the words of an example that may change, and all."""
    return counted_words(data, task.model_dump()) if (data / task.name).is_dir() else WORDS[task.name]


def _pretraining(model: Costs, on: Machines, spec: EncoderSpec, tasks: Mapping[str, TaskSpec]) -> float:
    """Return the hours of training an encoder; 0 if rbench does not train it."""
    how = spec.train
    if how is None:
        return 0.0
    per_step = how.batch_size * how.gradient_accumulation
    texts = how.steps * per_step if how.steps else (how.epochs or 1) * tasks[how.data].sizes["train"]
    rate = model.training.get(how.objective, model.other_training)
    seconds = training_seconds(
        rate, reading(BERT_BASE, 3 * texts, how.max_length / 2, how.max_length), texts / per_step
    )
    return on.seconds(seconds, 1, attack=False) / 3600


def on_gpu(document: Mapping[str, Any], gpu: str, data: Path, processes: Sequence[int]) -> dict[str, Any]:
    """Return the hours of `table1` on one GPU, by the model and from what `gpu` measured.

    Args:
        document: what `gpu` wrote.
        gpu: its name in `rbench.plan.cost_model.PEAK`.
        data: as for `table1`.
        processes: numbers of worker processes on the GPU. Where a cell was not measured with so many, the rate of one
            process stands for it.
    """
    rest = _trainings(document, data)
    found: dict[str, Any] = {}
    for count in processes:
        where = f"{count} process{'es' if count > 1 else ''}"
        cells, alone = {}, []
        for name in ("mr", "imdb"):
            for recipe in RECIPES:
                single = document["attacks"][f"trained weights, {name}, 1 process, {recipe}"]
                cell = document["attacks"].get(f"trained weights, {name}, {where}, {recipe}")
                alone += [f"{name}, {recipe}"] if cell is None else []
                networks = single["networks"]
                tokens = networks["tokens_per_second"] / networks["forward_passes_per_second"]
                seconds = 1 / (cell or single)["queries_per_second"]
                cells[f"{name}, {recipe}"] = {"over_model": ratio(costs(), recipe, tokens, seconds)}
        table = table1(costs(), gpus(costs(), 1, gpu), data, cells)
        attacks = {name: value for name, value in table["hours_with_measured_queries"].items() if name in RECIPES}
        found |= {"what": table["what"], "by the model": table["hours_by_the_model"]}
        found[where] = {**attacks, **rest, "all": round(sum(attacks.values()) + sum(rest.values()), 1)}
        found[where] |= {"with the rate of one process": alone} if alone else {}
    return found


def _trainings(document: Mapping[str, Any], data: Path) -> dict[str, float]:
    """Return the hours of fine-tuning and of training the encoders, from steps a second that `gpu` measured.

    A text of fine-tuning takes the time of one of MR's and IMDB's, by operations, and a third of it for validation. The
    scoring by STS-B that selects a checkpoint is not counted.
    """
    loaded = config.load("table1", registry=Registry())
    suite, victims = loaded.suite, len(loaded.suite.encoders) * len(loaded.suite.seeds)
    cells = [document["tune"][f"trained, {name}"] for name in ("mr", "imdb")]
    low, high = (BERT_BASE.gflop(cell["mean_tokens"]) for cell in cells)
    fast, slow = (1 / cell["steps_per_second"] / cell["settings"]["batch_size"] for cell in cells)
    tuning = training = 0.0
    for name in suite.tasks:
        task, how = loaded.tasks[name], training_for(suite, loaded.tasks[name])
        gflop = BERT_BASE.gflop(tokens_of(words_of(data, task)[1], how.max_length))
        each = fast + (slow - fast) * (gflop - low) / (high - low)
        scored = min(how.max_validation or math.inf, task.sizes["validation"])
        tuning += victims * how.epochs * (how.train_rows(task.sizes["train"]) + scored / 3) * each / 3600
    for spec in loaded.encoders.values():
        if (train := spec.train) is not None:
            texts = (train.epochs or 1) * loaded.tasks[train.data].sizes["train"]
            training += texts / document["train"][train.objective]["texts_per_second"] / 3600
    return {"fine-tuning": round(tuning, 1), "training the encoders": round(training, 1)}
