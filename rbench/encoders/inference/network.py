"""Run a network on token ids in batches of equal length.

On a CPU batches have no padding, which saves computation, and a row's output does not depend on its batch. It does not
depend on the other rows, nor on their number, because linear layers compute multiples of eight rows (`backends`). The
outcomes of attacks are therefore the same for any number of workers, in any order, and after a resume.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rbench.encoders.inference import backends
from rbench.errors import JobError

log = logging.getLogger("rbench")

TokenRow = tuple[tuple[int, ...], tuple[int, ...] | None]
"""Token ids of one input, and its token type ids if the tokenizer gives them."""

MAX_ROWS = {"cpu": 64, "cuda": 1024}
MAX_TOKENS = {"cpu": 2048, "cuda": 1 << 16}
"""Limits of a batch. On a CPU, larger batches do not fit into its caches and take longer for each row."""
BATCH_SIZES = (1024, 512, 256, 128, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Numbers of rows that a batch may have. They are few, because compiling code for a new shape takes time and memory."""
LENGTH_STEP = {"cpu": 1, "cuda": 16}
"""Lengths are padded to a multiple of this. On a GPU a little padding costs less than small batches."""


def build_rows(encoded: Any) -> list[TokenRow]:
    """Convert a tokenizer's output for a list of texts, without padding, into rows."""
    types = encoded.get("token_type_ids")
    return [(tuple(ids), None if types is None else tuple(types[i])) for i, ids in enumerate(encoded["input_ids"])]


MEASURED_SENTENCE = "The film is good, and its story is told well. " * 8
"""What back-ends are measured on: some networks read only what their own tokenizer writes (T5 needs its last token)."""


def read_padding(tokenizer: Any) -> tuple[int, int]:
    """Return token id and token type id of padding."""
    return (tokenizer.pad_token_id or 0, tokenizer.pad_token_type_id)


class Network:
    """Compute `read(module, **inputs)` for rows of token ids.

    Args:
        module: a network in eval mode on `device`. It is shared, not copied, with every back-end.
        read: calls the module with tensors `input_ids`, `attention_mask` and, if it takes them, `token_type_ids`, each
            (rows, tokens), and returns a tensor with one entry for each row.
        tokenizer: writes the rows; says how they are padded, and gives the rows on which back-ends are measured.
        pad: token id and token type id of padding; None: those of the tokenizer.
        name: the network's name in messages.
        shown: describes a row in a message. The default gives its number of tokens.
        device: a torch device.
        backend: one of `backends.BACKENDS`, or "auto", which measures them and takes the fastest; or "fastest", which
            measures those that use the module's own weights, and need no time to prepare.
        step: lengths are padded to a multiple of this. None takes `PAD_STEP`. A step above 1 makes batches larger, but
            then outputs depend on the batch by rounding.
        most: the most rows of a batch; None takes `MAX_ROWS`.
    """

    def __init__(
        self,
        module: nn.Module,
        read: Callable[..., Tensor],
        *,
        tokenizer: Any = None,
        pad: tuple[int, int] | None = None,
        name: str = "network",
        shown: Callable[[TokenRow], str] = lambda row: f"a text of {len(row[0])} tokens",
        device: str = "cpu",
        backend: str = "auto",
        step: int | None = None,
        most: int | None = None,
    ) -> None:
        self.name, self.shown, self.device = name, shown, torch.device(device)
        self.pad = pad or ((0, 0) if tokenizer is None else read_padding(tokenizer))
        kind = self.device.type
        remote_part = backends.find_remote_part(module)  # as many texts as its requests under way hold
        most = most or (None if remote_part is None else remote_part.most)
        self.max_rows, self.max_tokens, self.step = most or MAX_ROWS[kind], MAX_TOKENS[kind], step or LENGTH_STEP[kind]
        self.rows_read = 0
        """Number of rows computed so far."""
        sample = None if tokenizer is None else lambda rows, tokens: self._sample(tokenizer, rows, tokens)
        self.backend, self._call = backends.choose_backend(
            module, read, device=self.device, wanted=backend, sample=sample
        )

    def _sample(self, tokenizer: Any, rows: int, tokens: int) -> dict[str, Tensor]:
        row = build_rows(tokenizer([MEASURED_SENTENCE], truncation=True, max_length=tokens))
        return build_tensors(row * rows, self.pad, 1, self.device)

    def __call__(self, rows: Sequence[TokenRow], progress: Callable[[int], object] | None = None) -> list[Tensor]:
        """Return the output of `read` for each row, on the network's device.

        `progress` is called after each batch with its number of rows.

        Raises:
            JobError: `read` did not return one entry for each row, or one row does not fit into the GPU's memory.
        """
        answers: list[Tensor | None] = [None] * len(rows)
        for places in divide_into_batches(rows, self.max_rows, self.max_tokens, self.step):
            for place, answer in zip(places, self._whole([rows[i] for i in places]), strict=True):
                answers[place] = answer
            if progress is not None:
                progress(len(places))
        return [answer for answer in answers if answer is not None]

    def _whole(self, rows: list[TokenRow]) -> list[Tensor]:
        try:
            answers = self._call(build_tensors(rows, self.pad, self.step, self.device))
        except torch.cuda.OutOfMemoryError as error:
            return self._compute_halves(rows, error)
        self.rows_read += len(rows)
        if answers.ndim < 1 or len(answers) != len(rows):
            raise JobError(
                f"{self.name} gave an answer of shape {tuple(answers.shape)} for {len(rows)} texts, the first of them "
                f"{self.shown(rows[0])}"
            )
        return list(answers)

    def _compute_halves(self, rows: list[TokenRow], error: Exception) -> list[Tensor]:
        """Compute the rows in two halves: the GPU's memory is full. Later batches are smaller too. Warn once."""
        torch.cuda.empty_cache()
        if len(rows) == 1:
            raise JobError(
                f"{self.name}: even alone, {self.shown(rows[0])} does not fit into the GPU's memory; free some of it, "
                "lower `max_length`, or use --device cpu"
            ) from error
        half = len(rows) // 2
        if self.max_rows >= MAX_ROWS[self.device.type]:
            log.warning("%s: GPU memory is full; continuing with smaller batches", self.name)
        self.max_rows = max(1, min(self.max_rows - 1, half))
        return self._whole(rows[:half]) + self._whole(rows[half:])


def divide_into_batches(rows: Sequence[TokenRow], max_rows: int, max_tokens: int, step: int) -> Iterator[list[int]]:
    """Yield the indices of the rows of each batch.

    The rows of a batch have the same width, which is their length rounded up to a multiple of `step`. A batch has at
    most `max_rows` rows and `max_tokens` tokens, but at least one row.
    """
    widths: dict[int, list[int]] = defaultdict(list)
    for place, (ids, _) in enumerate(rows):
        widths[-(-max(1, len(ids)) // step) * step].append(place)
    for width, places in sorted(widths.items()):
        rows_allowed = max(1, min(max_rows, max_tokens // max(1, width)))
        while places:
            # One of few sizes, so that back-ends compile code for few shapes. The rest of the rows is the next batch.
            num_rows = next(num_rows for num_rows in BATCH_SIZES if num_rows <= min(rows_allowed, len(places)))
            yield places[:num_rows]
            places = places[num_rows:]


def build_tensors(rows: Sequence[TokenRow], pad: tuple[int, int], step: int, device: torch.device) -> dict[str, Tensor]:
    """Return a network's inputs, each (rows, width). The width is the longest length, rounded up as in
    `divide_into_batches`.

    A row without tokens becomes one token of padding that the network reads.
    """
    width = -(-max(1, *(len(ids) for ids, _ in rows)) // step) * step
    if all(len(ids) == width for ids, _ in rows):
        ids, mask = np.array([row for row, _ in rows], dtype=np.int64), np.ones((len(rows), width), dtype=np.int64)
        types = np.array([token_types or () for _, token_types in rows], dtype=np.int64)
    else:
        ids = np.full((len(rows), width), pad[0], dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        types = np.full((len(rows), width), pad[1], dtype=np.int64)
        for i, (row, token_types) in enumerate(rows):
            # A tokenizer without special tokens makes nothing of an empty text. A network needs one token: padding,
            # seen.
            ids[i, : len(row)], mask[i, : max(1, len(row))] = row, 1
            if token_types is not None:
                types[i, : len(row)] = token_types
    inputs = {"input_ids": ids, "attention_mask": mask}
    if rows[0][1] is not None:
        inputs["token_type_ids"] = types
    return {name: torch.from_numpy(values).to(device) for name, values in inputs.items()}
