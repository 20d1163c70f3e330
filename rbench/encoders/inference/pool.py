"""Run many attacks concurrently in one thread: each waits where it queries a model, and a batch serves all of them.

Attacks are nested calls into TextAttack, so each runs in a coroutine (greenlet), which can be suspended at any depth.
Threads could be suspended too. But TextAttack's random transformations use numpy's global generator, and caches are
plain dictionaries. With coroutines the order is fixed, no locks are needed, and each attack has its own random state.

A model on another machine (`Remote`) is asked from threads, and attacks go on while others wait for it. Then the order
in which attacks go on depends on time. Their outcomes do not, because each has its own random state.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from greenlet import getcurrent, greenlet

from rbench.errors import RbenchError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

GROUPS = 4
"""Batches for a `Remote` that are under way at once, each for a part of the attacks."""


def clock() -> float:
    """Return the seconds that the current job has used: its own steps, and its share of each batch by number of keys.

    Only differences are meaningful. Outside `run`, and with a width of 1, this is wall-clock time.
    """
    here = getcurrent()
    now = time.perf_counter()
    return here.spent + now - here.resumed if isinstance(here, _Attack) else now


class Memo(Generic[K, V]):
    """Keep at most `limit` bytes of values; beyond that, drop the least recently used ones.

    `size(key, value)` estimates the bytes of an entry. The last entry is kept whatever its size. The cache is not
    thread-safe.
    """

    def __init__(self, limit: int, size: Callable[[K, V], int]) -> None:
        self.limit, self.used, self._size = limit, 0, size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of `key` and mark it as the most recently used; None if there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def filled(self, keys: Iterable[K], compute: Callable[[list[K]], Iterable[V]]) -> list[V]:
        """Return the value of each key, in order. `compute` gives those of distinct keys without one, all at once."""
        wanted = list(keys)
        found = {key: self.get(key) for key in dict.fromkeys(wanted)}
        if new := [key for key, value in found.items() if value is None]:
            for key, made in zip(new, compute(new), strict=True):
                # Values are collected here too, because a small memo may drop the first while it stores the last.
                found[key] = made
                self.put(key, made)
        return [value for key in wanted if (value := found[key]) is not None]

    def clear(self) -> None:
        """Forget all values."""
        self._entries.clear()
        self.used = 0

    def put(self, key: K, value: V) -> None:
        """Keep `value` for `key`, and drop the least recently used entries while the limit is exceeded."""
        old = self._entries.pop(key, None)
        if old is not None:
            self.used -= self._size(key, old)
        self._entries[key] = value
        self.used += self._size(key, value)
        while self.used > self.limit and len(self._entries) > 1:
            gone, what = self._entries.popitem(last=False)
            self.used -= self._size(gone, what)


class TimedOut(Exception):
    """A job took longer than it may."""


_limit: ContextVar[tuple[float, float] | None] = ContextVar("limit", default=None)
"""End on the `clock` of the job that runs now, and its seconds. Each coroutine has a value of its own."""


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Limit the seconds that the job which runs now may take in the block, by its `clock`. None: no limit.

    A job that is over its limit ends where it asks a model next: a question that is being answered is not cut off,
    because other jobs may share its batch, and caches stay whole.
    """
    token = _limit.set(None if seconds is None else (clock() + seconds, seconds))
    try:
        yield
    finally:
        _limit.reset(token)


class Batched(Generic[K, V]):
    """A model that many jobs query: it maps each key to a value.

    Inside `run`, a query waits until no job can continue without an answer. It is then computed in one batch with the
    queries of other jobs. Outside of `run` it is computed immediately. A key is computed once in a batch, and not again
    while `memo` has it.

    Args:
        compute: returns the values of distinct keys, in their order. An RbenchError is raised in each job of a batch,
            anything else in those whose own keys raise it again.
        memo: caches values. None caches nothing.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], memo: Memo[K, V] | None = None) -> None:
        self._compute, self.memo = compute, memo

    def __call__(self, keys: Iterable[K]) -> list[V]:
        """Return the value of each key, in order. Keys may repeat. Raises TimedOut if the job took too long."""
        limit = _limit.get()
        if limit is not None and clock() > limit[0]:
            raise TimedOut(f"it took longer than {limit[1]:g} s (--max-seconds)")
        wanted = list(keys)
        found: dict[K, Any] = {key: None if self.memo is None else self.memo.get(key) for key in dict.fromkeys(wanted)}
        if missing := [key for key, value in found.items() if value is None]:
            here = getcurrent()
            found |= here.ask(self, missing) if isinstance(here, _Attack) else self.answer(missing)
        return [found[key] for key in wanted]

    def answer(self, keys: list[K]) -> dict[K, V]:
        """Compute these keys now, and cache their values."""
        answers = dict(zip(keys, self._compute(keys), strict=True))
        if self.memo is not None:
            for key, value in answers.items():
                self.memo.put(key, value)
        return answers


class Remote(Batched[K, V]):
    """A model that computes elsewhere. Inside `run`, jobs go on while others wait for it.

    Args:
        compute: as for `Batched`. It is called in threads, several at once.
        stop: called where answers are no longer wanted; what is under way should then end soon.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], stop: Callable[[], None]) -> None:
        super().__init__(compute)
        self.stop = stop
        self._threads = ThreadPoolExecutor(GROUPS, thread_name_prefix="rbench remote")
        self._asked: dict[K, Future[dict[K, V]]] = {}

    def begin(self, keys: list[K]) -> dict[K, Future[dict[K, V]]]:
        """Ask for distinct keys, but not for those under way. Return by key what will have its value."""
        self._asked = {key: future for key, future in self._asked.items() if not future.done()}
        new = [key for key in keys if key not in self._asked]
        if new:
            self._asked |= dict.fromkeys(new, self._threads.submit(self.answer, new))
        return {key: self._asked[key] for key in keys}


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
    flights: list[_Flight] = []
    ended: list[Any] = []
    try:
        while True:
            while len(waiting) + sum(len(one.attacks) for one in flights) < width and (new := next(source, None)):
                _resume(_Attack(new), waiting, ended)
                _depart(waiting, flights, max(1, width // GROUPS))
                yield from _drain(ended)
            if not waiting and not flights:
                return
            for attack, answer in _answered(waiting, flights):
                _resume(attack, waiting, ended, answer)
                _depart(waiting, flights, max(1, width // GROUPS))
            yield from _drain(ended)
    finally:
        for flight in flights:
            flight.asked.stop()


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
        return answer  # type: ignore[no-any-return]


def _resume(attack: _Attack, waiting: list[_Attack], ended: list[Any], *answer: Any) -> None:
    """Run one job until its next query or its end, with its own random state."""
    # When a greenlet ends, control returns to its parent, so the parent must be whoever resumed it last.
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


class _Flight:
    """Attacks that wait for the same answers of a `Remote`."""

    def __init__(self, attacks: list[_Attack], asked: Remote[Any, Any]) -> None:
        self.attacks, self.asked = attacks, asked
        self.start = time.perf_counter()
        self.futures = asked.begin(list(dict.fromkeys(key for attack in attacks for key in attack.keys)))

    @property
    def done(self) -> bool:
        return all(future.done() for future in self.futures.values())

    def landed(self, under_way: int) -> list[tuple[_Attack, Any]]:
        """Return the answers to each attack. Its share of the time is that of `under_way` flights at once."""
        seconds = (time.perf_counter() - self.start) / under_way
        total = sum(len(attack.keys) for attack in self.attacks)
        answers: list[tuple[_Attack, Any]] = []
        for attack in self.attacks:
            attack.spent += seconds * len(attack.keys) / total
            try:
                answers.append((attack, {key: self.futures[key].result()[key] for key in attack.keys}))
            except Exception as error:  # raised again in the job, which handles it for its own example
                answers.append((attack, error))
        return answers


def _depart(waiting: list[_Attack], flights: list[_Flight], least: int) -> None:
    """Ask a `Remote` for all attacks that wait for it, once there are enough of them and not too many flights."""
    for asked in {attack.asked: None for attack in waiting if isinstance(attack.asked, Remote)}:
        group = [attack for attack in waiting if attack.asked is asked]
        if len(group) >= least and len(flights) < GROUPS and isinstance(asked, Remote):
            flights.append(_Flight(group, asked))
            waiting[:] = [attack for attack in waiting if attack.asked is not asked]


def _answered(waiting: list[_Attack], flights: list[_Flight]) -> list[tuple[_Attack, Any]]:
    """Return attacks that can go on, with their answers. Waits only where there is nothing to compute here."""
    # Answers that have arrived are handed on first: those attacks can ask again while this process computes.
    landed = next((flight for flight in flights if flight.done), None)
    if landed is None:
        here = [attack for attack in waiting if not isinstance(attack.asked, Remote)]
        if here:
            elsewhere = [attack for attack in waiting if isinstance(attack.asked, Remote)]
            answers = _answer_busiest(here)
            waiting[:] = elsewhere + here
            return answers
        _depart(waiting, flights, 1)
        while (landed := next((flight for flight in flights if flight.done), None)) is None:
            under_way = {future for flight in flights for future in flight.futures.values() if not future.done()}
            wait(under_way, return_when=FIRST_COMPLETED)
    answers = landed.landed(len(flights))
    flights.remove(landed)
    return answers


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
        if len(served) == 1 or isinstance(error, RbenchError):
            return [(attack, error) for attack in served]
        # Nobody foresaw it, so one text may be behind it. Those of other jobs must not suffer: each is answered alone.
        return [answered for attack in served for answered in _answer_busiest([attack])]
    seconds = time.perf_counter() - start
    for attack in served:
        attack.spent += seconds * len(attack.keys) / sizes[asked]
    return [(attack, {key: answers[key] for key in attack.keys}) for attack in served]


def _drain(ended: list[Any]) -> Iterator[Any]:
    while ended:
        yield ended.pop(0)
