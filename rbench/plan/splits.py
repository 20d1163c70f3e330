"""Which splits the jobs of a suite need of its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rbench import load as loading
from rbench.score.sts import FEWEST
from rbench.spec import COSINE
from rbench.spec.jobs import split_of

if TYPE_CHECKING:
    from rbench.tasks import TaskData


def without_training(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each task with classes on which encoders would be fine-tuned and that has no training rows.

    A task may have test rows alone: a classifier that exists needs no others.
    """
    wrong = []
    for name in loaded.tuning if loaded.suite.encoders else ():
        if name not in data or loaded.tasks[name].kind == "sts" or "train" in data[name].sizes:
            continue
        local = loaded.tasks[name].local
        whole = local is not None and local.split is not None
        remedy = "leave `split: test` out, and the table is divided" if whole else "add a train file beside the others"
        wrong.append(
            f"encoders are fine-tuned on the task {name}, and it has no train split ({data[name].origin}); {remedy}. A "
            "classifier that exists is attacked without one"
        )
    return wrong


def without_measured(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each split of a task that a measure of encoders needs and that is not there."""
    return [
        f"evaluate: {label}: task {task} has no {split} split here; it has {', '.join(data[task].sizes)}"
        for label, needs in loaded.measures.items()
        for task, splits in needs.splits.items()
        for split in splits
        if task in data and split not in data[task].sizes
    ]


def scored(loaded: loading.Loaded, data: Mapping[str, TaskData], problems: list[str]) -> dict[tuple[str, str], str]:
    """Fingerprint the splits on which encoders are scored, in evaluations and to select training steps."""
    users: dict[tuple[str, str], str] = {(e.task, e.split): "evaluate" for e in loaded.suite.evaluations}
    for name, spec in loaded.encoders.items():
        for task in spec.train.selecting if spec.train is not None else ():
            assert spec.train is not None
            users.setdefault((task, spec.train.select_split), f"encoder {name}: select_by")
    found = {}
    for (task, split), user in users.items():
        sizes = data[task].sizes if task in data else {split: FEWEST}  # a missing task has its problem already
        if split not in sizes:
            problems.append(f"{user}: task {task} has no {split} split here; it has {', '.join(sizes)}")
        elif sizes[split] < FEWEST:
            problems.append(f"{user}: the {split} split of {task} has {sizes[split]} pairs; {FEWEST} are needed")
        elif task in data:
            found[task, split] = data[task].split_fingerprint(split)
    return found


def without_pairs(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> list[str]:
    """Return a problem for each split of an STS task that a strategy of the suite fits or trains on and that is too
    small or not there."""
    wrong = []
    for task, strategies in loaded.tuning.items():
        if task not in data or loaded.tasks[task].kind != "sts":
            continue
        sizes = data[task].sizes
        for strategy in strategies:
            for split in ("validation", *(["train"] if strategy.name != COSINE else [])):
                if sizes.get(split, 0) < FEWEST:
                    wrong.append(
                        f"{strategy.name} needs {FEWEST} pairs in the {split} split of {task}, which has "
                        f"{sizes.get(split, 0)} here (its splits: {', '.join(sizes)}). Put {task}/{split}.jsonl beside "
                        "the others in a data folder"
                    )
    return wrong


def trained_on(loaded: loading.Loaded, data: Mapping[str, TaskData]) -> dict[tuple[str, str], str]:
    """Fingerprint the training splits whose texts in-domain encoders are trained on."""
    tasks = [name for name in loaded.suite.tasks if name in data] if loaded.in_domain else []
    return {(name, "train"): data[name].split_fingerprint("train") for name in tasks}


def read_alone(loaded: loading.Loaded, data: Mapping[str, TaskData], problems: list[str]) -> dict[tuple[str, str], str]:
    """Fingerprint the splits that measures read alone, because their options name one."""
    found: dict[tuple[str, str], str] = {}
    users = [("build", needs) for needs in loaded.building.values()]
    users += [(f"evaluate: {label}", needs) for label, needs in loaded.measures.items()]
    for user, needs in users:
        for task, what in (needs.tasks or dict.fromkeys(loaded.suite.tasks, needs.what)).items():
            split = split_of(what)
            if split is None or task not in data:
                continue
            if split in data[task].sizes:
                found[task, split] = data[task].split_fingerprint(split)
            else:
                problems.append(f"{user}: task {task} has no {split} split here; it has {', '.join(data[task].sizes)}")
    return found
