"""Folders with the checkpoints of one training: whose they are, and which is the last that can be trusted.

transformers' Trainer writes a checkpoint, `checkpoint-STEP`, with its state last. A process that is killed leaves one
that is incomplete.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from rbench.errors import JobError

RUN = "run.json"
WEIGHTS = "model.safetensors"
STATE = "trainer_state.json"


def claim(folder: Path, name: str, key: str) -> None:
    """Mark `folder` as holding the checkpoints of the training with this name and key, and make it.

    JobError if it holds those of another training.
    """
    record = folder / RUN
    if record.is_file() and _key(record) != key:
        raise JobError(
            f"{folder} holds the checkpoints of another training run (another encoder, seed, corpus or pairs to select "
            f"by), or its {RUN} is damaged; name another folder or remove it."
        )
    folder.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"name": name, "key": key}) + "\n", encoding="utf-8")


def _key(record: Path) -> str | None:
    """Return the key of the training that owns the checkpoints; None if the file is damaged."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return content.get("key") if isinstance(content, dict) else None


def good(folder: Path) -> Iterator[Path]:
    """Yield the checkpoints in `folder` that are complete and have only finite weights, the newest first."""
    found = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(found, key=lambda path: -int(path.name.rpartition("-")[2])):
        if _whole(path) and _finite(path):
            yield path


def last_good(folder: Path) -> Path | None:
    """Return the newest checkpoint that `good` yields; None if there is none."""
    return next(good(folder), None)


def discard(folder: Path) -> None:
    """Remove the training's checkpoints and its mark. Anything else in `folder` stays."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)
    (folder / RUN).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder is not empty, or not there
        folder.rmdir()


def _whole(path: Path) -> bool:
    """Return whether the checkpoint is complete: the Trainer writes its state last."""
    try:
        json.loads((path / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _finite(path: Path) -> bool:
    import safetensors

    try:
        with safetensors.safe_open(path / WEIGHTS, framework="pt") as weights:
            return all(bool(weights.get_tensor(name).isfinite().all()) for name in weights.keys())  # noqa: SIM118
    except (safetensors.SafetensorError, OSError):  # truncated: the disk was full, or a copy was interrupted
        return False
