"""Reads what a classifier's config.json says, and refuses what cannot be attacked, before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rbench import hub
from rbench.encoders.heads import HEADED, has_head
from rbench.errors import ResourceError
from rbench.spec import TaskSpec, VictimSpec
from rbench.victims.labels import match


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
    """Return the order in which a model's logits stand for the task's labels (`labels.match`).

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
    kind = config.get("model_type")
    if kind not in _classifiers():
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


def _classifiers() -> frozenset[str]:
    """Return the model types for which transformers has a class with a head."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

    return frozenset(MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)


def _fetched(where: str) -> Path:
    from huggingface_hub import hf_hub_download

    repo, _, commit = where.partition("@")
    if (cached := hub.cached(repo, commit)) is not None:
        return cached / "config.json"
    try:
        return Path(hf_hub_download(repo, "config.json", revision=commit))
    except hub.failures() as error:
        raise ResourceError(f"{repo} has no config.json that can be read: {error}") from error
