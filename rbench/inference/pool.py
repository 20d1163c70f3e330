"""Many attacks at once in one thread: each stops where it needs a model, and one batch answers them all.

Attacks are nested calls of other people's code, so each runs in a coroutine (greenlet) that can stop anywhere in them.
Threads would do that too, but TextAttack's random transformations draw from numpy's global generator, and caches are
plain dictionaries: with coroutines the order is fixed, nothing needs a lock, and each keeps its own generators.
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
    """Seconds that the job under way has taken: its own steps, and of each batch its share by number of questions.

    Only differences mean something. Outside `run`, and with a width of 1, it is the time that passes.
    """
    here = getcurrent()
    now = time.perf_counter()
    return here.spent + now - here.resumed if isinstance(here, _Attack) else now


class Batched(Generic[K, V]):
    """A model as many ask it: keys in, one value each.

    Inside `run` a question waits until no attack can go on without an answer, and is then computed together with
    what the others asked; elsewhere it is computed at once. Each key is computed once a batch, and once in all while
    `memo` remembers it.

    Args:
        compute: values for distinct keys, in their order. What it raises is raised where the question was asked.
        memo: where answers are kept; None: nowhere.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], memo: Memo[K, V] | None = None) -> None:
        self._compute, self.memo = compute, memo

    def __call__(self, keys: Iterable[K]) -> list[V]:
        """The value of each key, in order; keys may repeat."""
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
        """Compute these now, and remember them."""
        answers = dict(zip(keys, self._compute(keys), strict=True))
        if self.memo is not None:
            for key, value in answers.items():
                self.memo.put(key, value)
        return answers


def run(jobs: Iterable[Callable[[], T]], width: int) -> Iterator[T]:
    """What each job returns, in the order in which they end; at most `width` of them are under way at a time.

    What a job raises ends the run. Random numbers drawn by one job (`random`, numpy's and torch's global generators)
    do not depend on the others.
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
            _go_on(_Attack(new), waiting, ended)
            yield from _drained(ended)
        if not waiting:
            return
        for attack, answer in _answered(waiting):
            _go_on(attack, waiting, ended, answer)
        yield from _drained(ended)


class _Attack(greenlet):
    """A job that stops where it asks a `Batched`."""

    asked: Batched[Any, Any]
    keys: list[Any]

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__(job)
        self.generators: Any = None
        self.spent = self.resumed = 0.0

    def ask(self, asked: Batched[K, V], keys: list[K]) -> dict[K, V]:
        """Stop here until the answers are there."""
        self.asked, self.keys = asked, keys
        parent = self.parent
        assert parent is not None
        answer = parent.switch()
        if isinstance(answer, Exception):
            raise answer
        answers: dict[K, V] = answer
        return answers


def _go_on(attack: _Attack, waiting: list[_Attack], ended: list[Any], *answer: Any) -> None:
    """Run one job until its next question or its end, with its own random generators."""
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


def _answered(waiting: list[_Attack]) -> list[tuple[_Attack, Any]]:
    """Answer the model that was asked most, and take those who asked it off the list: the others' batches may grow."""
    sizes: dict[Batched[Any, Any], int] = {}
    for attack in waiting:
        sizes[attack.asked] = sizes.get(attack.asked, 0) + len(attack.keys)
    asked = max(sizes, key=lambda model: sizes[model])
    served = [attack for attack in waiting if attack.asked is asked]
    waiting[:] = [attack for attack in waiting if attack.asked is not asked]
    start = time.perf_counter()
    try:
        answers = asked.answer(list(dict.fromkeys(key for attack in served for key in attack.keys)))
    except Exception as error:  # raised again in every job that asked: each says what that means for its example
        return [(attack, error) for attack in served]
    seconds = time.perf_counter() - start
    for attack in served:
        attack.spent += seconds * len(attack.keys) / sizes[asked]
    return [(attack, {key: answers[key] for key in attack.keys}) for attack in served]


def _drained(ended: list[Any]) -> Iterator[Any]:
    while ended:
        yield ended.pop(0)
