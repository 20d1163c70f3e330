"""Reads what a classifier's config.json says, and refuses what cannot be attacked, before anything is loaded.

A classifier's labels are matched with a task's by name or by a map that the user gives; never by position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.config.registry import unknown
from rbench.encoders.model_metadata import HEADED, has_head
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.system import hub


def read_config(where: str) -> dict[str, Any]:
    """Return the content of config.json in a folder, or of a model on the hub (`id@commit`).

    Raises:
        ResourceError: it is not there, or is not a JSON object.
    """
    path = Path(where) / "config.json" if Path(where).is_dir() else _fetched(where)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ResourceError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ResourceError(f"{path} is not the configuration of a model: it holds no JSON object")
    return found


def labels_of(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the labels in the order of the logits. Without names they are `LABEL_0`, `LABEL_1` as in transformers."""
    named = config.get("id2label")
    if isinstance(named, dict) and named:
        return tuple(str(named.get(str(i), f"LABEL_{i}")) for i in range(len(named)))
    count = config.get("num_labels", config.get("_num_labels", 2))
    return tuple(f"LABEL_{i}" for i in range(count if isinstance(count, int) else 2))


def check_config(spec: VictimSpec, config: dict[str, Any], task: TaskSpec) -> tuple[int, ...]:
    """Return the order in which a model's logits stand for the task's labels (`match`).

    Raises:
        ResourceError: the model has no head, needs Python code of its own, scores instead of classifying or gives
            several labels to a text, or its labels do not match those of the task.
    """
    try:
        _check_model(config)
        if len(task.columns) > 2:
            raise ResourceError(f"it reads one text or two, and {task.name} has {len(task.columns)} columns")
        return match(labels_of(config), task.labels, spec.labels)
    except ResourceError as error:
        raise ResourceError(f"victim `{spec.name}` on {task.name}: {error}") from error


def _check_model(config: dict[str, Any]) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

    kind = config.get("model_type")
    if kind not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:  # the types that have a class with a head
        own = config.get("auto_map")
        raise ResourceError(
            "it needs Python code of its own (`auto_map` in its config.json), which rbench does not run. Write a "
            "function that asks it, and name that: {function: module:function, version: ...}"
            if own
            else f"transformers has no {HEADED} for its `model_type` {kind!r} in config.json"
        )
    if not has_head(config):
        wrote = ", ".join(map(str, config.get("architectures") or ())) or "not stated"
        raise ResourceError(
            f"it has no head for classification: its config.json names the architecture {wrote}, and a classifier's "
            f"ends in {HEADED}. An encoder is named under `encoders`, or with --encoder, and is fine-tuned"
        )
    if config.get("problem_type") == "regression" or len(labels_of(config)) == 1:
        raise ResourceError(
            "it gives one number to a text (regression), and attacks on models that exist need classes. Name the "
            "encoder below it under `encoders` to attack an STS task"
        )
    if config.get("problem_type") == "multi_label_classification":
        raise ResourceError("it may give several labels to one text, and rbench attacks classifiers that give one")


def _fetched(where: str) -> Path:
    from huggingface_hub import hf_hub_download

    repo, _, commit = where.partition("@")
    if (cached := hub.cached(repo, commit)) is not None:
        return cached / "config.json"
    try:
        return Path(hf_hub_download(repo, "config.json", revision=commit))
    except hub.failures() as error:
        raise ResourceError(f"{repo} has no config.json that can be read: {error}") from error


def match(theirs: Sequence[str], task_labels: Sequence[str], given: Mapping[str, str]) -> tuple[int, ...]:
    """Return, for each label of the task in its order, the index of the classifier's label that means it.

    A label in `given` means what it is mapped to. Any other label means the task's label of its name, without regard
    to case. Labels are never matched by position, because a wrong match gives plausible wrong numbers.

    Args:
        theirs: the classifier's labels in the order of its answers.
        task_labels: the task's labels in the order of its ids.
        given: labels of the task by labels of the classifier. The latter are names, or numbers from 0 for labels in
            the order of `theirs`.

    Raises:
        ResourceError: the numbers of labels differ, a label in `given` does not exist, a label matches none of the
            task's, or two match the same. The message says what to write.
    """
    if len(theirs) != len(task_labels):
        raise ResourceError(
            f"it has {len(theirs)} labels ({_listed(theirs)}), and the task has {len(task_labels)} "
            f"({_listed(task_labels)}); take a classifier with the task's labels, or a task with the classifier's. "
            f"If your table merely lacks a class, name them all: `--labels {','.join(theirs)}`, or `labels: "
            f"[{', '.join(theirs)}]` where a suite names the table"
        )
    ours = {label.casefold(): i for i, label in enumerate(task_labels)}
    said = _given(theirs, task_labels, given)
    meant = [said.get(i, label).casefold() for i, label in enumerate(theirs)]
    strange = [label for label, name in zip(theirs, meant, strict=True) if name not in ours]
    if strange:
        raise ResourceError(
            f"its labels {_listed(strange)} are none of the task's ({_listed(task_labels)}). Say what each means, "
            f"with one of the task's in place of each question mark: {remedy(theirs)}"
        )
    for name in meant:
        if meant.count(name) > 1:
            both = [label for label, other in zip(theirs, meant, strict=True) if other == name]
            raise ResourceError(
                f"its labels {_listed(both)} both mean {task_labels[ours[name]]}; give each a label of its own, in "
                f"place of its question mark: {remedy(theirs)}"
            )
    return tuple(meant.index(label.casefold()) for label in task_labels)


def _given(theirs: Sequence[str], task_labels: Sequence[str], given: Mapping[str, str]) -> dict[int, str]:
    """Return what the user says of each label of the classifier, by its index."""
    there = {label.casefold(): i for i, label in reversed([*enumerate(theirs)])}
    known = {label.casefold() for label in task_labels}
    found: dict[int, str] = {}
    for key, label in given.items():
        index = there.get(key.casefold(), int(key) if key.isdecimal() and int(key) < len(theirs) else None)
        if index is None:
            raise ResourceError(f"`labels`: {unknown('label of the classifier', key, theirs)}")
        if label.casefold() not in known:
            raise ResourceError(f"`labels`: {unknown('label of the task', label, task_labels)}")
        if index in found and found[index].casefold() != label.casefold():
            raise ResourceError(f"`labels`: {theirs[index]} is mapped twice, to {found[index]} and to {label}")
        found[index] = label
    return found


def remedy(theirs: Sequence[str]) -> str:
    """Return what to write, with a question mark for each label of the task. Pasted as it is, it is refused.

    No order is proposed, because one that is wrong would be pasted too.
    """
    written = ", ".join(f"{their}: ?" for their in theirs)
    options = ",".join(f"{their}=?" for their in theirs)
    return (
        f"`labels: {{{written}}}` in a suite or victim file, or `--label-map {options}` for a classifier without a file"
    )


def _listed(labels: Sequence[str]) -> str:
    shown = [str(label) for label in labels[:10]]
    return ", ".join(shown) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
