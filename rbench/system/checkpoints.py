"""What trainings share: folders of checkpoints (whose they are, which is the last to be trusted), and a single GPU.

transformers' Trainer writes a checkpoint, `checkpoint-STEP`, with its state last. A process that is killed leaves one
that is incomplete.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rbench.errors import JobError, StoreError
from rbench.system.below import Below

RUN = "run.json"
WEIGHTS = "model.safetensors"
STATE = "trainer_state.json"


def claim(folder: Path, name: str, key: str) -> None:
    """Mark `folder` as holding the checkpoints of the training with this name and key, and make it.

    JobError if it holds those of another training.
    """
    below = Below(folder)
    if below.kind(folder / RUN) is not None and (below.read_json(folder / RUN) or {}).get("key") != key:
        raise JobError(
            f"{folder} holds the checkpoints of another training run (another encoder, seed, corpus or pairs to select "
            f"by), or its {RUN} is damaged; name another folder or remove it."
        )
    below.replace(folder / RUN, f"{json.dumps({'name': name, 'key': key})}\n".encode())


def good(folder: Path) -> Iterator[Path]:
    """Yield the checkpoints in `folder` that are complete and have only finite weights, the newest first."""
    found = [path for path in _checkpoints(folder) if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(found, key=lambda path: -int(path.name.rpartition("-")[2])):
        if _whole(path):
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
    """Return whether the checkpoint is complete and has only finite weights. The Trainer writes its state last."""
    import safetensors

    try:
        below = Below(path)
        json.loads(below.read(path / STATE))
        below.check(path)
        with safetensors.safe_open(path / WEIGHTS, framework="pt") as weights:
            return all(bool(weights.get_tensor(name).isfinite().all()) for name in weights.keys())  # noqa: SIM118
    except (OSError, StoreError, ValueError, RecursionError):
        return False
    except safetensors.SafetensorError:  # truncated: the disk was full, or a copy was interrupted
        return False


def on_one_gpu(arguments: Any) -> Any:
    """Return transformers' TrainingArguments, changed so that one process trains on one GPU at most.

    By itself the Trainer splits each batch over all visible GPUs and makes it larger by their number. The result would
    then depend on the machine, and the key of a job would not say so. More GPUs are for more processes.
    """
    _ = arguments.device  # transformers counts the GPUs when this is first asked
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments
