"""Plays the jobs of a plan on several processes, for `benchmarks/efficiency.py`."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """Something that one process does at a time: a job, or all chunks of an attack."""

    name: str
    needs: tuple[str, ...]
    """Names of the parts that must have ended before. Those that are not in the schedule have ended."""
    seconds: float
    """Of each chunk."""
    chunks: int = 1


@dataclass(frozen=True)
class Schedule:
    """How long a plan takes."""

    seconds: float
    work: float
    """The sum of all parts, in seconds of one process."""
    chain: tuple[str, ...]
    """The parts of the longest chain in which each needs the one before: no number of processes is faster."""
    chain_seconds: float


def play(parts: Sequence[Part], processes: int) -> Schedule:
    """Return how long so many equal processes take.

    Args:
        parts: in the order in which processes take them; each comes after all that it needs.
    """
    index = {part.name: i for i, part in enumerate(parts)}
    needs = [[index[name] for name in part.needs if name in index] for part in parts]
    ends = _run(parts, needs, processes)
    chains: list[tuple[float, int | None]] = []  # of each part the longest chain that ends with it, and the part before
    for part, before in zip(parts, needs, strict=True):
        longest = max(before, key=lambda i: chains[i][0], default=None)
        chains.append((part.seconds + (0.0 if longest is None else chains[longest][0]), longest))
    last = max(range(len(parts)), key=lambda i: chains[i][0], default=None)
    chain: deque[str] = deque()
    at = last
    while at is not None:
        chain.appendleft(parts[at].name)
        at = chains[at][1]
    return Schedule(
        seconds=ends,
        work=sum(part.seconds * part.chunks for part in parts),
        chain=tuple(chain),
        chain_seconds=0.0 if last is None else chains[last][0],
    )


def _run(parts: Sequence[Part], needs: Sequence[Sequence[int]], processes: int) -> float:
    """Return when the last process ends."""
    waiting = [len(before) for before in needs]
    after: list[list[int]] = [[] for _ in parts]
    for i, before in enumerate(needs):
        for j in before:
            after[j].append(i)
    ready = [i for i, n in enumerate(waiting) if n == 0]  # a heap: the first in the plan's order comes first
    to_take, to_end = [part.chunks for part in parts], [part.chunks for part in parts]
    free, now = processes, 0.0
    busy: list[tuple[float, int]] = []
    while ready or busy:
        while free and ready:
            i = ready[0]
            heapq.heappush(busy, (now + parts[i].seconds, i))
            free, to_take[i] = free - 1, to_take[i] - 1
            if not to_take[i]:
                heapq.heappop(ready)
        now, i = heapq.heappop(busy)
        free, to_end[i] = free + 1, to_end[i] - 1
        if not to_end[i]:
            for j in after[i]:
                waiting[j] -= 1
                if not waiting[j]:
                    heapq.heappush(ready, j)
    return now
