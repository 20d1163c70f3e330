"""The checkpoints of a fine-tuning. After an interruption it goes on from the last one, with the same result on a CPU.

transformers' Trainer writes one at the end of each epoch: weights, optimizer, scheduler, the states of all generators
of random numbers, and its own state. What it does not know of lies in its state too (`Checkpoints.state`): the
accuracies so far, and the figures that the strategy counts.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import transformers
from pydantic import BaseModel, TypeAdapter, ValidationError
from torch import Tensor, uint8
from transformers.trainer_callback import ExportableState

from rbench.system import checkpoints

AFTER = 60.0
"""Seconds after which checkpoints are complete. The optimizer is twice as large as the weights, and a suite may have
hundreds of short fine-tunings. Until then checkpoints hold the weights alone, from which the best are chosen."""
_NEEDED = ("optimizer.pt", "scheduler.pt", "rng_state.pth")


class Checkpoints(transformers.TrainerCallback, ExportableState):  # type: ignore[misc]
    """Decides what a Trainer writes at the end of an epoch, and finds where to go on.

    Args:
        folder: holds the Trainer's checkpoints.
        of: says of which training the checkpoints must be (`fingerprint`); None: no checkpoint is for going on.
        best: the weights of each epoch are written in any case, because the best epoch is kept.
        accuracies: validation accuracy of each scored epoch so far.
        tally: a dataclass with what the strategy counts, or None.
        unchanged: called before each checkpoint; raises if what the fine-tuning read has changed since.
    """

    def __init__(
        self,
        folder: Path,
        *,
        of: str | None,
        best: bool,
        accuracies: list[float],
        tally: Any,
        unchanged: Callable[[], object],
    ) -> None:
        self._folder, self._of, self._best = folder, of, best
        self._accuracies, self._tally, self._unchanged = accuracies, tally, unchanged
        self._begun = time.monotonic()
        self._resumed = False

    def state(self) -> dict[str, Any]:
        """Return what the Trainer writes into a checkpoint's state for this callback."""
        tally = None if self._tally is None else TypeAdapter(type(self._tally)).dump_python(self._tally, mode="json")
        return {"args": {}, "attributes": {"of": self._of, "accuracies": self._accuracies, "tally": tally}}

    def resume(self) -> Path | None:
        """Return the checkpoint to go on from, None to begin anew. Accuracies and tally become what they were then.

        Checkpoints from which nothing can go on are removed: incomplete ones, and those of other trainings.
        """
        last, kept = None, list[Path]()
        good = list(checkpoints.good(self._folder)) if self._of is not None else []
        for path in good:  # the newest first
            state = json.loads((path / checkpoints.STATE).read_text(encoding="utf-8"))
            best = self._folder / f"checkpoint-{state.get('best_global_step')}"
            needed = [path, best] if self._best and state.get("best_global_step") else [path]
            if all((path / name).is_file() for name in _NEEDED) and set(needed) <= set(good) and self._restore(state):
                last, kept = path, needed
                break
        for path in self._folder.glob("checkpoint-*"):
            if path not in kept:
                shutil.rmtree(path)
        self._resumed = last is not None
        return last

    def _restore(self, state: Mapping[str, Any]) -> bool:
        """Set accuracies and tally to those of a checkpoint's state; return False if it is of another training."""
        said = state.get("stateful_callbacks", {}).get(type(self).__name__, {}).get("attributes", {})
        if said.get("of") != self._of:
            return False
        if self._tally is not None:
            try:
                tally = TypeAdapter(type(self._tally)).validate_python(said["tally"])
            except ValidationError:
                return False
            vars(self._tally).update(vars(tally))
        self._accuracies[:] = said["accuracies"]
        return True

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Name the best checkpoint by its place today: the cache may have been moved."""
        if state.best_global_step:
            state.best_model_checkpoint = str(self._folder / f"checkpoint-{state.best_global_step}")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Decide what the checkpoint of this epoch holds."""
        if not control.should_save:
            return
        self._unchanged()
        # A resumed run replaces complete checkpoints, so it writes complete ones from its first epoch.
        complete = self._of is not None and (self._resumed or time.monotonic() - self._begun >= AFTER)
        args.save_only_model = not complete
        control.should_save = complete or self._best


def fingerprint(weights: Mapping[str, Tensor], rows: Iterable[Mapping[str, Any]], *others: object) -> str:
    """Return a hash of what a training begins with.

    Args:
        weights: of encoder and head, before the first step.
        rows: the training examples as inputs, with `input_ids` and `labels`.
        others: all else that decides the result: models, numbers, texts.
    """
    said = hashlib.sha256()
    for name, value in sorted(weights.items()):
        said.update(name.encode())
        said.update(value.detach().cpu().contiguous().reshape(-1).view(uint8).numpy().tobytes())
    for row in rows:
        said.update(repr((row["input_ids"], row["labels"])).encode())
    plain = [other.model_dump(mode="json") if isinstance(other, BaseModel) else other for other in others]
    said.update(json.dumps(plain, sort_keys=True).encode())
    return said.hexdigest()
