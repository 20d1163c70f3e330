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
from rbench.system.below import SafeFolder

RUN_FILE = "run.json"
WEIGHTS_FILE = "model.safetensors"
STATE_FILE = "trainer_state.json"


def claim_folder(folder: Path, name: str, key: str) -> None:
    """Mark `folder` as holding the checkpoints of the training with this name and key, and make it.

    JobError if it holds those of another training.
    """
    below = SafeFolder(folder)
    if below.kind(folder / RUN_FILE) is not None and (below.read_json(folder / RUN_FILE) or {}).get("key") != key:
        raise JobError(
            f"{folder} holds the checkpoints of another training run (another encoder, seed, corpus or pairs to select "
            f"by), or its {RUN_FILE} is damaged; name another folder or remove it."
        )
    below.replace(folder / RUN_FILE, f"{json.dumps({'name': name, 'key': key})}\n".encode())


def good_checkpoints(folder: Path) -> Iterator[Path]:
    """Yield the checkpoints in `folder` that are complete and have only finite weights, the newest first."""
    folders = [path for path in _checkpoints(folder) if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(folders, key=lambda path: -int(path.name.rpartition("-")[2])):
        if _is_whole(path):
            yield path


def last_good_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint that `good_checkpoints` yields; None if there is none."""
    return next(good_checkpoints(folder), None)


def discard_checkpoints(folder: Path) -> None:
    """Remove the training's checkpoints and its mark. Anything else in `folder` stays."""
    below = SafeFolder(folder)
    for path in _checkpoints(folder):
        below.remove_tree(path)
    below.remove(folder / RUN_FILE)
    with contextlib.suppress(OSError):  # the folder is not empty, or not there
        folder.rmdir()


def _checkpoints(folder: Path) -> list[Path]:
    """Return the folders of checkpoints. Links are left out."""
    entries = SafeFolder(folder).entries(folder)
    return [path for path, kind in entries if kind == "folder" and path.name.startswith("checkpoint-")]


def _is_whole(path: Path) -> bool:
    """Return whether the checkpoint is complete and has only finite weights. The Trainer writes its state last."""
    import safetensors

    try:
        below = SafeFolder(path)
        json.loads(below.read(path / STATE_FILE))
        below.check(path)
        with safetensors.safe_open(path / WEIGHTS_FILE, framework="pt") as weights:
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
