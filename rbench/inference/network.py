"""A network that reads token ids, in batches of equal length.

No batch has padding on a CPU, so that nothing is computed in vain, and a row's answer does not depend on what it was
batched with: not on the other rows, and, because linear layers see whole eights of rows (`backends`), not on their
number either. Outcomes of attacks are then the same for any number of workers, any order, and after a resume.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rbench.errors import JobError
from rbench.inference import backends

log = logging.getLogger("rbench")

Row = tuple[tuple[int, ...], tuple[int, ...] | None]
"""Token ids of one input and, where the tokenizer gives them, its token type ids."""

MAX_ROWS = {"cpu": 64, "cuda": 1024}
MAX_TOKENS = {"cpu": 2048, "cuda": 1 << 16}
"""Largest batches. On a CPU larger ones fall out of its caches and take longer for each row."""
SIZES = (1024, 512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Rows in a batch. Back-ends make code for each new shape, which takes time and memory: a few sizes are reused."""
STEP = {"cpu": 1, "cuda": 16}
"""Lengths are rounded up to a multiple of this: a GPU would rather pad a little than run small batches."""


def rows_of(encoded: Any) -> list[Row]:
    """Rows from what a tokenizer returns for a list of texts, not padded."""
    types = encoded.get("token_type_ids")
    return [(tuple(ids), None if types is None else tuple(types[i])) for i, ids in enumerate(encoded["input_ids"])]


class Network:
    """`read(module, **inputs)` for rows of token ids.

    Args:
        module: a network in eval mode on `device`; shared, not copied, whatever the back-end.
        read: calls it with tensors `input_ids`, `attention_mask` and, if it takes them, `token_type_ids`, each
            (rows, tokens), and returns a tensor with one entry a row.
        pad: token id and token type id of padding.
        name: for messages.
        shown: what a row is in a message; its number of tokens where the text is not known.
        backend: one of `backends.BACKENDS`, or "auto": the one that a short measurement finds fastest.
        step: lengths are rounded up to a multiple of this; None: `STEP`. More than 1 makes batches larger for a little
            padding, and answers depend on what they are batched with, by rounding.
    """

    def __init__(
        self,
        module: nn.Module,
        read: Callable[..., Tensor],
        *,
        pad: tuple[int, int] = (0, 0),
        name: str = "network",
        shown: Callable[[Row], str] = lambda row: f"a text of {len(row[0])} tokens",
        device: str = "cpu",
        backend: str = "auto",
        step: int | None = None,
    ) -> None:
        self.name, self.shown, self.device, self.pad = name, shown, torch.device(device), pad
        kind = self.device.type
        self.max_rows, self.max_tokens, self.step = MAX_ROWS[kind], MAX_TOKENS[kind], step or STEP[kind]
        self.rows_read = 0
        """Rows that the network has seen so far."""
        self.backend, self._call = backends.ready(module, read, device=self.device, wanted=backend)

    def __call__(self, rows: Sequence[Row]) -> list[Tensor]:
        """What `read` gives for each row, on the network's device.

        Raises:
            JobError: it did not give one entry a row, or one row alone does not fit into the GPU's memory.
        """
        answers: list[Tensor | None] = [None] * len(rows)
        for places in batches(rows, self.max_rows, self.max_tokens, self.step):
            for place, answer in zip(places, self._whole([rows[i] for i in places]), strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _whole(self, rows: list[Row]) -> list[Tensor]:
        try:
            answers = self._call(tensors(rows, self.pad, self.step, self.device))
        except torch.cuda.OutOfMemoryError as error:
            return self._halved(rows, error)
        self.rows_read += len(rows)
        if answers.ndim < 1 or len(answers) != len(rows):
            raise JobError(
                f"{self.name} gave an answer of shape {tuple(answers.shape)} for {len(rows)} texts, the first of them "
                f"{self.shown(rows[0])}"
            )
        return list(answers)

    def _halved(self, rows: list[Row], error: Exception) -> list[Tensor]:
        """The GPU's memory is full: smaller batches from now on, said once."""
        torch.cuda.empty_cache()
        if len(rows) == 1:
            raise JobError(
                f"{self.name}: alone, {self.shown(rows[0])} does not fit into the GPU's memory; free it, lower "
                "`max_length`, or use --device cpu"
            ) from error
        half = len(rows) // 2
        if self.max_rows >= MAX_ROWS[self.device.type]:
            log.warning("%s: GPU memory is full; going on with smaller batches", self.name)
        self.max_rows = max(1, min(self.max_rows - 1, half))
        return self._whole(rows[:half]) + self._whole(rows[half:])


def batches(rows: Sequence[Row], max_rows: int, max_tokens: int, step: int) -> Iterator[list[int]]:
    """Places of rows that go together: of one width, at most `max_rows` and `max_tokens` (one row at least).

    Widths are lengths rounded up to a multiple of `step`.
    """
    widths: dict[int, list[int]] = defaultdict(list)
    for place, (ids, _) in enumerate(rows):
        widths[-(-len(ids) // step) * step].append(place)
    for width, places in sorted(widths.items()):
        most = max(1, min(max_rows, max_tokens // max(1, width)))
        while places:
            size = next(size for size in SIZES if size <= min(most, len(places)))
            yield places[:size]
            places = places[size:]


def tensors(rows: Sequence[Row], pad: tuple[int, int], step: int, device: torch.device) -> dict[str, Tensor]:
    """Inputs of a network, (rows, width) each, padded to the longest row's length rounded up as `batches` does."""
    width = -(-max(len(ids) for ids, _ in rows) // step) * step
    ids = np.full((len(rows), width), pad[0], dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    types = np.full((len(rows), width), pad[1], dtype=np.int64)
    for i, (row, kinds) in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
        if kinds is not None:
            types[i, : len(row)] = kinds
    inputs = {"input_ids": ids, "attention_mask": mask}
    if rows[0][1] is not None:
        inputs["token_type_ids"] = types
    return {name: torch.from_numpy(values).to(device) for name, values in inputs.items()}
