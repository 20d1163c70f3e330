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
from rbench.encoders.locate import fingerprint, on_hub, searched
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.schema.unlisted import is_path
from rbench.system import hub
from rbench.system.digests import Located
from rbench.victims.config import check_config, read_config


def locate(spec: VictimSpec, task: TaskSpec, models_path: Sequence[Path] = ()) -> Located:
    """Return where a classifier is, after checking that its labels match those of the task.

    A model is looked for as a path, then as a folder on the model search path, then on the hub. Its fingerprint is the
    hash of config, weights and tokenizer, or the hub's commit. Functions and endpoints are asked a fixed probe, and
    their fingerprint is the hash of the answers.

    Raises:
        ResourceError: it is nowhere, cannot be asked, or does not fit the task. The message says what to do.
    """
    if spec.origin != "model":
        mark = partial(probed, spec=spec, task=task)
        where = f"{spec.origin} {spec.function or spec.name}"
        return Located(where, mark(where), mark)
    place = located(spec, models_path)
    if Path(place.where).is_dir():
        check_model(Path(place.where))
    check_config(spec, read_config(place.where), task)
    return place


def probed(where: str, *, spec: VictimSpec, task: TaskSpec) -> str:
    """Return the fingerprint of the answers that a function or an endpoint gives now, and of a function's source."""
    from rbench.victims.remote_classifier import open_answers

    answers = open_answers(spec, task).fingerprint()
    source = source_of(spec)
    return answers if source is None else hashlib.sha256(f"{answers} {source}".encode()).hexdigest()


def source_of(spec: VictimSpec) -> str | None:
    """Return the hash of the Python file in which a function stands; None of other victims, and where there is none."""
    if spec.function is None:
        return None
    from rbench.victims.function import imported

    function = inspect.unwrap(imported(spec.function, Path.cwd()))
    while isinstance(function, functools.partial):
        function = function.func
    for one in (function, type(function)):
        try:
            file = inspect.getsourcefile(one)
        except TypeError:
            continue
        if file is not None and Path(file).is_file():
            return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    return None


def located(spec: VictimSpec, models_path: Sequence[Path] = ()) -> Located:
    """Return where a model is. Its labels are not looked at. Raises ResourceError where it is nowhere."""
    assert spec.model is not None
    folder = _folder(spec.model, models_path)
    if folder is not None:
        try:
            if is_adapter(folder):
                return adapters.merged(folder)
        except ResourceError as error:
            raise ResourceError(f"victim `{spec.name}`: {error}") from error
        if not (folder / "config.json").is_file():
            raise ResourceError(
                f"victim `{spec.name}`: {folder} has no config.json, so transformers did not save a model there. Name "
                "the folder that `model.save_pretrained(...)` and `tokenizer.save_pretrained(...)` wrote"
            )
        return Located(str(folder), fingerprint(folder), fingerprint)
    if is_path(spec.model) or not hub.is_repo_id(spec.model):
        raise ResourceError(f"victim `{spec.name}`: there is no folder {spec.model}")
    try:
        return on_hub(spec.model, spec.revision)
    except ResourceError as error:
        at = f" --revision {spec.revision}" if spec.revision else ""
        reason = str(error).rstrip(".")
        raise ResourceError(
            f"victim `{spec.name}`: {spec.model} is no folder here and none in {searched(models_path)}; {reason}. A "
            f"folder is written as a path (./{spec.model}). From the hub: `hf download {spec.model}{at} --local-dir "
            f"DIR/{spec.model}`, then pass --models DIR"
        ) from error


def _folder(model: str, models_path: Sequence[Path]) -> Path | None:
    """Return the folder that is meant, or None. A path wins; other text is looked up on the model search path first."""
    if is_path(model):
        path = Path(model).expanduser()
        return path if path.is_dir() else None
    if ".." in Path(model).parts:
        return None
    found = next((root / model for root in models_path if (root / model / "config.json").is_file()), None)
    return found or (Path(model) if (Path(model) / "config.json").is_file() else None)
