"""Measure how fast a core of this machine multiplies matrices, for estimates of time."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from rbench.errors import StoreError
from rbench.system.below import SMALL_BYTES, SafeFolder

PRODUCT_SHAPE = 128, 384, 1536
"""Rows, columns and columns of the product: that of a layer of MiniLM, short enough to be done without interruption."""
SECONDS = 2.0


def gflops(file: Path, about: str) -> float:
    """Return the billions of operations a second of one thread: the best of products that are taken for two seconds.

    Other work on the machine makes products slower and none faster, so the best one is what the core can do.

    Args:
        file: where the number is remembered. If it cannot be read or written, the number is measured each time.
        about: the machine and the versions that the number is for.
    """
    remembered: dict[str, float] = {}
    below = SafeFolder(file.parent)
    with suppress(OSError, StoreError, ValueError, TypeError, AttributeError):
        remembered = {str(name): float(value) for name, value in json.loads(below.read(file, SMALL_BYTES)).items()}
    if remembered.get(about, 0.0) > 0:
        return remembered[about]
    measured = round(_measured(), 1)
    with suppress(OSError, StoreError):
        below.replace(file, (json.dumps(remembered | {about: measured}, indent=1) + "\n").encode())
    return measured


def _measured() -> float:
    import torch

    rows, inner, columns = PRODUCT_SHAPE
    threads, best = torch.get_num_threads(), float("inf")
    torch.set_num_threads(1)
    try:
        left, right = torch.ones(rows, inner), torch.ones(inner, columns)
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            torch.mm(left, right)
            best = min(best, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
    return 2 * rows * inner * columns / best / 1e9
