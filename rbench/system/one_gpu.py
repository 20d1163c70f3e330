"""Keeps a training on one GPU, whatever the machine shows."""

from __future__ import annotations

from typing import Any


def on_one_gpu(arguments: Any) -> Any:
    """Return transformers' TrainingArguments, changed so that one process trains on one GPU at most.

    By itself the Trainer splits each batch over all visible GPUs and makes it larger by their number. The result would
    then depend on the machine, and the key of a job would not say so. More GPUs are for more processes.
    """
    _ = arguments.device  # transformers counts the GPUs when this is first asked
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments
