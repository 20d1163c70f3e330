"""Compares a classifier in several number formats with fp32: speed, probabilities and predictions. For `gpu`."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from rbench.encoders.classify import build_network
from rbench.encoders.inference import build_rows

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
FORMATS = ("tf32", "bf16 autocast", "fp16 autocast", "bf16", "fp16")
"""What is compared: products in TF32, products in half precision where autocast takes it, and weights in it."""


def precisions(classifier: Any, texts: list[str], device: str) -> dict[str, Any]:
    """Return speed and deviations of each format on these texts; of fp32 itself, the deviation from float64."""
    encoded = build_rows(classifier.tokenizer(texts, truncation=True, max_length=classifier.max_length))
    exact, _ = probabilities(classifier, encoded, device, "fp64", 1)
    base, seconds = probabilities(classifier, encoded, device, "fp32")
    found: dict[str, Any] = {
        "texts": len(texts),
        "fp32": {"texts_per_second": round(len(texts) / seconds, 1), "from_float64": deviation(base, exact)},
    }
    for kind in FORMATS:
        if device == "cpu" and kind == "tf32":
            continue
        said, took = probabilities(classifier, encoded, device, kind)
        found[kind] = {
            "times_as_fast": round(seconds / took, 2),
            "texts_per_second": round(len(texts) / took, 1),
            **deviation(said, base),
        }
    return found


def probabilities(
    classifier: Any, encoded: list[Any], device: str, kind: str, rounds: int = 5
) -> tuple[torch.Tensor, float]:
    """Return the probabilities in float64, and the median seconds of reading all texts, token ids to probabilities."""
    name, _, cast = kind.partition(" ")
    module = classifier if cast or name not in DTYPES else copy.deepcopy(classifier).to(DTYPES[name])
    casting = torch.autocast(torch.device(device).type, DTYPES[name]) if cast else nullcontext()
    network = build_network(module, device=device, backend="torch")
    seconds = []
    with tensor_cores(kind == "tf32"), casting:
        for _ in range(rounds + 1):
            start = synchronized(device)
            logits = torch.stack(network(encoded))
            seconds.append(synchronized(device) - start)
    return logits.double().softmax(dim=1).cpu(), statistics.median(seconds[1:] or seconds)


def deviation(found: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    gaps = (found - expected).abs().amax(dim=1)
    changed = int((found.argmax(dim=1) != expected.argmax(dim=1)).sum())
    return {
        "largest": float(f"{gaps.max():.3g}"),
        "99 percent": float(f"{gaps.quantile(0.99):.3g}"),
        "median": float(f"{gaps.median():.3g}"),
        "predictions_changed": changed,
        "share_changed": float(f"{changed / len(gaps):.3g}"),
    }


def rate(device: str, kind: str, size: int) -> float:
    """Return the TFLOPS of a square matrix product of random numbers."""
    dtype = DTYPES.get(kind, torch.float32)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    with tensor_cores(kind == "tf32"):
        seconds = min(timed(device, lambda: a @ b) for _ in range(6))
    return round(2 * size**3 / seconds / 1e12, 2)


@contextmanager
def tensor_cores(allowed: bool) -> Iterator[None]:
    """Let products of float32 be computed in TF32, or not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def synchronized(device: str) -> float:
    """Return the clock once the device has nothing left to do."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(device: str, call: Callable[[], Any]) -> float:
    start = synchronized(device)
    call()
    return synchronized(device) - start
