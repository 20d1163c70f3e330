"""Reads what a classifier's config.json says, and refuses what cannot be attacked, before anything is loaded.

A classifier's labels are matched with a task's by name or by a map that the user gives; never by position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbench.config.registry import unknown_message
from rbench.encoders.model_metadata import HEADED_ENDING, has_head
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.system import hub
from rbench.system.own_code import failing_in


def read_config(where: str) -> dict[str, Any]:
    """Return the content of config.json in a folder, or of a model on the hub (`id@commit`).

    Raises:
        ResourceError: it is not there, or is not a JSON object.
    """
    path = Path(where) / "config.json" if Path(where).is_dir() else _fetch_config(where)
    with failing_in(path):
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def read_labels(config: dict[str, Any]) -> tuple[str, ...]:
    """Return the labels in the order of the logits. Without names they are `LABEL_0`, `LABEL_1` as in transformers."""
    named = config.get("id2label")
    if isinstance(named, dict) and named:
        return tuple(str(named.get(str(i), f"LABEL_{i}")) for i in range(len(named)))
    count = config.get("num_labels", config.get("_num_labels", 2))
    return tuple(f"LABEL_{i}" for i in range(count if isinstance(count, int) else 2))


def check_config(spec: VictimSpec, config: dict[str, Any], task: TaskSpec) -> tuple[int, ...]:
    """Return the order in which a model's logits stand for the task's labels (`match_labels`).

    Raises:
        ResourceError: the model has no head or gives several labels to a text, or its labels do not match those of the
            task.
    """
    try:
        _check_head(config)
        return match_labels(read_labels(config), task.labels, spec.labels)
    except ResourceError as error:
        raise ResourceError(f"victim `{spec.name}` on {task.name}: {error}") from error


def _check_head(config: dict[str, Any]) -> None:
    if not has_head(config):
        architectures = ", ".join(map(str, config.get("architectures") or ())) or "not stated"
        raise ResourceError(
            f"it has no head for classification: its config.json names the architecture {architectures}, and a "
            f"classifier's ends in {HEADED_ENDING}. An encoder is named under `encoders`, or with --encoder, and is "
            "fine-tuned"
        )
    if config.get("problem_type") == "multi_label_classification":
        raise ResourceError("it may give several labels to one text, and rbench attacks classifiers that give one")


def _fetch_config(where: str) -> Path:
    from huggingface_hub import hf_hub_download

    repo, _, commit = where.partition("@")
    if (cached := hub.cached_snapshot(repo, commit)) is not None:
        return cached / "config.json"
    try:
        return Path(hf_hub_download(repo, "config.json", revision=commit))
    except hub.failure_types() as error:
        raise ResourceError(f"{repo} has no config.json that can be read: {error}") from error


def match_labels(model_labels: Sequence[str], task_labels: Sequence[str], given: Mapping[str, str]) -> tuple[int, ...]:
    """Return, for each label of the task in its order, the index of the classifier's label that means it.

    A label in `given` means what it is mapped to. Any other label means the task's label of its name, without regard
    to case. Labels are never matched by position, because a wrong match gives plausible wrong numbers.

    Args:
        model_labels: the classifier's labels in the order of its answers.
        task_labels: the task's labels in the order of its ids.
        given: labels of the task by labels of the classifier. The latter are names, or numbers from 0 for labels in
            the order of `model_labels`.

    Raises:
        ResourceError: the numbers of labels differ, a label in `given` is none of the classifier's, a label matches
            none of the task's, or two match the same. The message says what to write.
    """
    if len(model_labels) != len(task_labels):
        raise ResourceError(
            f"it has {len(model_labels)} labels ({_list_labels(model_labels)}), and the task has {len(task_labels)} "
            f"({_list_labels(task_labels)}); take a classifier with the task's labels, or a task with the "
            f"classifier's. If your table merely lacks a class, name them all: `--labels {','.join(model_labels)}`, or "
            f"`labels: [{', '.join(model_labels)}]` where a suite names the table"
        )
    task_index = {label.casefold(): i for i, label in enumerate(task_labels)}
    given_by_index = _labels_by_index(model_labels, given)
    meanings = [given_by_index.get(i, label).casefold() for i, label in enumerate(model_labels)]
    unmatched = [label for label, name in zip(model_labels, meanings, strict=True) if name not in task_index]
    if unmatched:
        raise ResourceError(
            f"its labels {_list_labels(unmatched)} are none of the task's ({_list_labels(task_labels)}). Say what each "
            f"means, with one of the task's in place of each question mark: {propose_label_map(model_labels)}"
        )
    # Counts agree, and every label means one of the task's; only two for one can still go wrong.
    for name in meanings:
        if meanings.count(name) > 1:
            clashing = [label for label, other in zip(model_labels, meanings, strict=True) if other == name]
            raise ResourceError(
                f"its labels {_list_labels(clashing)} both mean {task_labels[task_index[name]]}; give each a label of "
                f"its own, in place of its question mark: {propose_label_map(model_labels)}"
            )
    return tuple(meanings.index(label.casefold()) for label in task_labels)


def _labels_by_index(model_labels: Sequence[str], given: Mapping[str, str]) -> dict[int, str]:
    """Return what the user says of each label of the classifier, by its index."""
    # Reversed, so that of two labels that differ in case alone the first keeps its name.
    index_by_label = {label.casefold(): i for i, label in reversed([*enumerate(model_labels)])}
    by_index: dict[int, str] = {}
    for key, label in given.items():
        index = index_by_label.get(key.casefold())
        if index is None and key.isdecimal() and int(key) < len(model_labels):
            index = int(key)
        if index is None:
            raise ResourceError(f"`labels`: {unknown_message('label of the classifier', key, model_labels)}")
        by_index[index] = label
    return by_index


def propose_label_map(model_labels: Sequence[str]) -> str:
    """Return what to write, with a question mark for each label of the task. Pasted as it is, it is refused.

    No order is proposed, because one that is wrong would be pasted too.
    """
    entries = ", ".join(f"{label}: ?" for label in model_labels)
    options = ",".join(f"{label}=?" for label in model_labels)
    return (
        f"`labels: {{{entries}}}` in a suite or victim file, or `--label-map {options}` for a classifier without a file"
    )


def _list_labels(labels: Sequence[str]) -> str:
    shown = [str(label) for label in labels[:10]]
    return ", ".join(shown) + (f" and {len(labels) - 10} more" if len(labels) > 10 else "")
