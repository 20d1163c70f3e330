"""Describes this machine without heavy imports, so that a process that imports it can measure the memory of others."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def processor() -> str:
    """Return the name of the processor, and on Linux its family and model: clouds give several generations one name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    said: dict[str, str] = {}
    for key, _, value in (line.partition(":") for line in lines):
        said.setdefault(key.strip(), value.strip())
    numbers = [f"{what} {said[key]}" for what, key in (("family", "cpu family"), ("model", "model")) if key in said]
    return said.get("model name", platform.processor()) + (f" ({', '.join(numbers)})" if numbers else "")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
