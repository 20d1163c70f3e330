"""Interrupt a training at a step, and compare the weights of two trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def have_same_weights(first: Path, second: Path) -> bool:
    ours, theirs = read_weights(first), read_weights(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


class Interrupted(Exception):
    """Stands in for Ctrl-C."""


def interrupt_at(step: int) -> Any:
    """A progress that interrupts the training at a step."""

    def progress(done: int, total: int, text: str) -> None:
        if done == step:
            raise Interrupted

    return progress
