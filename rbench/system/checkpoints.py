"""Folders with the checkpoints of one training: whose they are, and which is the last that can be trusted.

transformers' Trainer writes a checkpoint, `checkpoint-STEP`, with its state last. A process that is killed leaves one
that is incomplete.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from rbench.errors import JobError, StoreError
from rbench.system.below import SMALL, Below

RUN = "run.json"
WEIGHTS = "model.safetensors"
STATE = "trainer_state.json"


def claim(folder: Path, name: str, key: str) -> None:
    """Mark `folder` as holding the checkpoints of the training with this name and key, and make it.

    JobError if it holds those of another training.
    """
    below = Below(folder)
    if below.kind(folder / RUN) is not None and _key(below) != key:
        raise JobError(
            f"{folder} holds the checkpoints of another training run (another encoder, seed, corpus or pairs to select "
            f"by), or its {RUN} is damaged; name another folder or remove it."
        )
    below.replace(folder / RUN, f"{json.dumps({'name': name, 'key': key})}\n".encode())


def _key(below: Below) -> str | None:
    """Return the key of the training that owns the checkpoints; None if the file is damaged."""
    try:
        content = json.loads(below.read(below.root / RUN, SMALL))
    except (ValueError, RecursionError):
        return None
    return content.get("key") if isinstance(content, dict) else None


def good(folder: Path) -> Iterator[Path]:
    """Yield the checkpoints in `folder` that are complete and have only finite weights, the newest first."""
    found = [path for path in _checkpoints(folder) if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(found, key=lambda path: -int(path.name.rpartition("-")[2])):
        if _whole(path) and _finite(path):
            yield path


def last_good(folder: Path) -> Path | None:
    """Return the newest checkpoint that `good` yields; None if there is none."""
    return next(good(folder), None)


def discard(folder: Path) -> None:
    """Remove the training's checkpoints and its mark. Anything else in `folder` stays."""
    below = Below(folder)
    for path in _checkpoints(folder):
        below.remove_tree(path)
    below.remove(folder / RUN)
    with contextlib.suppress(OSError):  # the folder is not empty, or not there
        folder.rmdir()


def _checkpoints(folder: Path) -> list[Path]:
    """Return the folders of checkpoints. Links are left out."""
    found = Below(folder).entries(folder)
    return [path for path, kind in found if kind == "folder" and path.name.startswith("checkpoint-")]


def _whole(path: Path) -> bool:
    """Return whether the checkpoint is complete: the Trainer writes its state last."""
    try:
        below = Below(path)
        json.loads(below.read(path / STATE))
        below.check(path)
    except (OSError, StoreError, ValueError, RecursionError):
        return False
    return True


def _finite(path: Path) -> bool:
    import safetensors

    try:
        with safetensors.safe_open(path / WEIGHTS, framework="pt") as weights:
            return all(bool(weights.get_tensor(name).isfinite().all()) for name in weights.keys())  # noqa: SIM118
    except (safetensors.SafetensorError, OSError):  # truncated: the disk was full, or a copy was interrupted
        return False
