"""Finds a classifier that exists: a folder or a hub id, and what stands for a function or an endpoint."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rbench.encoders import adapters
from rbench.encoders.foreign import check_model, is_adapter
from rbench.encoders.locate import format_search_path, hash_model, locate_on_hub
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.schema.unlisted import is_path
from rbench.system import hub
from rbench.system.digests import FingerprintedPlace
from rbench.victims.config import check_config, read_config


def locate(spec: VictimSpec, task: TaskSpec, models_path: Sequence[Path] = ()) -> FingerprintedPlace:
    """Return where a classifier is, after checking that its labels match those of the task.

    A model is looked for as a path, then as a folder on the model search path, then on the hub. Its fingerprint is the
    hash of config, weights and tokenizer, or the hub's commit. Functions and endpoints are asked a fixed probe, and
    their fingerprint is the hash of the answers.

    Raises:
        ResourceError: it is nowhere, cannot be asked, or does not fit the task. The message says what to do.
    """
    if spec.origin != "model":
        probe = partial(probe_fingerprint, spec=spec, task=task)
        where = f"{spec.origin} {spec.function or spec.name}"
        return FingerprintedPlace(where, probe(where), probe)
    place = locate_model(spec, models_path)
    if Path(place.where).is_dir():
        check_model(Path(place.where))
    check_config(spec, read_config(place.where), task)
    return place


def probe_fingerprint(where: str, *, spec: VictimSpec, task: TaskSpec) -> str:
    """Return the fingerprint of the answers that a function or an endpoint gives now, and of a function's source."""
    from rbench.victims.remote_classifier import open_answers

    answers = open_answers(spec, task).fingerprint()
    source = hash_source(spec)
    return answers if source is None else hashlib.sha256(f"{answers} {source}".encode()).hexdigest()


def hash_source(spec: VictimSpec) -> str | None:
    """Return the hash of the Python file in which a function stands; None of other victims, and where there is none."""
    if spec.function is None:
        return None
    from rbench.victims.function import import_function

    function = inspect.unwrap(import_function(spec.function, Path.cwd()))
    # What decides the answers stands in the innermost function, and a wrapper's file need not change when that does.
    while isinstance(function, functools.partial):
        function = function.func
    for candidate in (function, type(function)):
        try:
            file = inspect.getsourcefile(candidate)
        except TypeError:
            continue
        if file is not None and Path(file).is_file():
            return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return None


def locate_model(spec: VictimSpec, models_path: Sequence[Path] = ()) -> FingerprintedPlace:
    """Return where a model is. Its labels are not looked at. Raises ResourceError where it is nowhere."""
    assert spec.model is not None
    folder = _find_folder(spec.model, models_path)
    if folder is not None:
        if is_adapter(folder):
            return adapters.merge_adapter(folder)
        return FingerprintedPlace(str(folder), hash_model(folder), hash_model)
    if is_path(spec.model) or not hub.is_repo_id(spec.model):
        raise ResourceError(f"victim `{spec.name}`: there is no folder {spec.model}")
    try:
        return locate_on_hub(spec.model, spec.revision)
    except ResourceError as error:
        revision_option = f" --revision {spec.revision}" if spec.revision else ""
        reason = str(error).rstrip(".")
        raise ResourceError(
            f"victim `{spec.name}`: {spec.model} is no folder here and none in {format_search_path(models_path)}; "
            f"{reason}. A folder is written as a path (./{spec.model}). From the hub: `hf download "
            f"{spec.model}{revision_option} --local-dir DIR/{spec.model}`, then pass --models DIR"
        ) from error


def _find_folder(model: str, models_path: Sequence[Path]) -> Path | None:
    """Return the folder that is meant, or None. A path wins; other text is looked up on the model search path first."""
    if is_path(model):
        path = Path(model).expanduser()
        return path if path.is_dir() else None
    if ".." in Path(model).parts:
        return None
    on_search_path = next((root / model for root in models_path if (root / model / "config.json").is_file()), None)
    return on_search_path or (Path(model) if (Path(model) / "config.json").is_file() else None)
