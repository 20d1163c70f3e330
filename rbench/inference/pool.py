"""Run many attacks concurrently in one thread: each waits where it queries a model, and a batch serves all of them.

Attacks are nested calls into TextAttack, so each runs in a coroutine (greenlet), which can be suspended at any depth.
Threads could be suspended too. But TextAttack's random transformations use numpy's global generator, and caches are
plain dictionaries. With coroutines the order is fixed, no locks are needed, and each attack has its own random state.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from greenlet import getcurrent, greenlet

from rbench.inference.memo import K, Memo, V

T = TypeVar("T")


def clock() -> float:
    """Return the seconds that the current job has used: its own steps, and its share of each batch by number of keys.

    Only differences are meaningful. Outside `run`, and with a width of 1, this is wall-clock time.
    """
    here = getcurrent()
    now = time.perf_counter()
    return here.spent + now - here.resumed if isinstance(here, _Attack) else now


class Batched(Generic[K, V]):
    """A model that many jobs query: it maps each key to a value.

    Inside `run`, a query waits until no job can continue without an answer. It is then computed in one batch with the
    queries of other jobs. Outside of `run` it is computed immediately. A key is computed once in a batch, and not again
    while `memo` has it.

    Args:
        compute: returns the values of distinct keys, in their order. Its exceptions are raised in each job that asked.
        memo: caches values. None caches nothing.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], memo: Memo[K, V] | None = None) -> None:
        self._compute, self.memo = compute, memo

    def __call__(self, keys: Iterable[K]) -> list[V]:
        """Return the value of each key, in order. Keys may repeat."""
        wanted = list(keys)
        known: dict[K, V] = {}
        missing: dict[K, None] = {}
        for key in wanted:
            if key in known or key in missing:
                continue
            value = None if self.memo is None else self.memo.get(key)
            if value is None:
                missing[key] = None
            else:
                known[key] = value
        if missing:
            here = getcurrent()
            known |= here.ask(self, list(missing)) if isinstance(here, _Attack) else self.answer(list(missing))
        return [known[key] for key in wanted]

    def answer(self, keys: list[K]) -> dict[K, V]:
        """Compute these keys now, and cache their values."""
        answers = dict(zip(keys, self._compute(keys), strict=True))
        if self.memo is not None:
            for key, value in answers.items():
                self.memo.put(key, value)
        return answers


def run(jobs: Iterable[Callable[[], T]], width: int) -> Iterator[T]:
    """Run the jobs and yield their results in the order in which they end. At most `width` jobs run at a time.

    An exception in a job ends the run. The random numbers of a job (`random`, numpy's and torch's global generators)
    do not depend on other jobs.
    """
    if width <= 1:
        for job in jobs:
            yield job()
        return
    source = iter(jobs)
    waiting: list[_Attack] = []
    ended: list[Any] = []
    while True:
        while len(waiting) < width and (new := next(source, None)) is not None:
            _resume(_Attack(new), waiting, ended)
            yield from _drain(ended)
        if not waiting:
            return
        for attack, answer in _answer_busiest(waiting):
            _resume(attack, waiting, ended, answer)
        yield from _drain(ended)


class _Attack(greenlet):
    """A job that is suspended when it queries a `Batched`."""

    asked: Batched[Any, Any]
    keys: list[Any]

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__(job)
        self.generators: Any = None
        self.spent = self.resumed = 0.0

    def ask(self, asked: Batched[K, V], keys: list[K]) -> dict[K, V]:
        """Suspend the job until its answers are there, and return them."""
        self.asked, self.keys = asked, keys
        parent = self.parent
        assert parent is not None
        answer = parent.switch()
        if isinstance(answer, Exception):
            raise answer
        answers: dict[K, V] = answer
        return answers


def _resume(attack: _Attack, waiting: list[_Attack], ended: list[Any], *answer: Any) -> None:
    """Run one job until its next query or its end, with its own random state."""
    attack.parent = getcurrent()
    if attack.generators is not None:
        random.setstate(attack.generators[0])
        np.random.set_state(attack.generators[1])
        torch.set_rng_state(attack.generators[2])
    attack.resumed = time.perf_counter()
    result = attack.switch(*answer)
    attack.spent += time.perf_counter() - attack.resumed
    if attack.dead:
        ended.append(result)
    else:
        attack.generators = random.getstate(), np.random.get_state(), torch.get_rng_state()
        waiting.append(attack)


def _answer_busiest(waiting: list[_Attack]) -> list[tuple[_Attack, Any]]:
    """Answer the queries of the model with the most keys, and remove the jobs that wait for it from `waiting`.

    Other models wait, because their batches may still grow.
    """
    sizes: dict[Batched[Any, Any], int] = {}
    for attack in waiting:
        sizes[attack.asked] = sizes.get(attack.asked, 0) + len(attack.keys)
    asked = max(sizes, key=lambda model: sizes[model])
    served = [attack for attack in waiting if attack.asked is asked]
    waiting[:] = [attack for attack in waiting if attack.asked is not asked]
    start = time.perf_counter()
    try:
        answers = asked.answer(list(dict.fromkeys(key for attack in served for key in attack.keys)))
    except Exception as error:  # raised again in each job that asked, which handles it for its own example
        return [(attack, error) for attack in served]
    seconds = time.perf_counter() - start
    for attack in served:
        attack.spent += seconds * len(attack.keys) / sizes[asked]
    return [(attack, {key: answers[key] for key in attack.keys}) for attack in served]


def _drain(ended: list[Any]) -> Iterator[Any]:
    while ended:
        yield ended.pop(0)
