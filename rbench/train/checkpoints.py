"""Manage the checkpoints of a training run: whose they are, and which is the last complete one with finite weights."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Collection
from pathlib import Path

import safetensors

from rbench.errors import JobError
from rbench.score import Pairs
from rbench.spec import EncoderSpec
from rbench.spec.jobs import content_key

RUN = "run.json"
WEIGHTS = "model.safetensors"


def claim(folder: Path, spec: EncoderSpec, seed: int, texts: list[str], pairs: Collection[Pairs] = ()) -> None:
    """Mark `folder` as holding this run's checkpoints. JobError if it holds those of another run.

    `pairs` are the sentence pairs that steps are selected by.
    """
    corpus = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    rated = [[some.first, some.second, some.gold] for some in pairs]
    key = content_key({"encoder": spec, "seed": seed, "texts": corpus, "pairs": rated})
    record = folder / RUN
    if record.is_file() and _key(record) != key:
        raise JobError(
            f"{folder} holds the checkpoints of another training run (another encoder, seed, corpus or pairs to select "
            f"by), or its {RUN} is damaged; name another folder or remove it."
        )
    folder.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"encoder": spec.name, "key": key}) + "\n", encoding="utf-8")


def _key(record: Path) -> str | None:
    """Return the key of the run that owns the checkpoints; None if the file is damaged."""
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return content.get("key") if isinstance(content, dict) else None


def last_good(folder: Path) -> Path | None:
    """Return the newest checkpoint in `folder` that is complete and has only finite weights; None if there is none."""
    found = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()]
    for path in sorted(found, key=lambda path: -int(path.name.rpartition("-")[2])):
        if _whole(path) and _finite(path):
            return path
    return None


def discard(folder: Path) -> None:
    """Remove the run's checkpoints and its mark. Anything else in `folder` stays."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)
    (folder / RUN).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder is not empty
        folder.rmdir()


def _whole(path: Path) -> bool:
    """Return whether the checkpoint is complete: the Trainer writes its state last."""
    try:
        json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _finite(path: Path) -> bool:
    try:
        with safetensors.safe_open(path / WEIGHTS, framework="pt") as weights:
            return all(bool(weights.get_tensor(name).isfinite().all()) for name in weights.keys())  # noqa: SIM118
    except safetensors.SafetensorError:  # truncated: the disk was full, or a copy was interrupted
        return False
