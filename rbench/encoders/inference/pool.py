"""Run many attacks concurrently in one thread: each waits where it queries a model, and a batch serves all of them.

Attacks are nested calls into TextAttack, so each runs in a coroutine (greenlet), which can be suspended at any depth.
Threads could be suspended too. But TextAttack's random transformations use numpy's global generator, and caches are
plain dictionaries. With coroutines the order is fixed, no locks are needed, and each attack has its own random state.

A model on another machine (`RemoteModel`) is asked from threads, and attacks go on while others wait for it. Then the
order in which attacks go on depends on time. Their outcomes do not, because each has its own random state.
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

REMOTE_BATCHES = 4
"""Batches for a `RemoteModel` that are under way at once, each for a part of the attacks."""


def used_seconds() -> float:
    """Return the seconds that the current job has used: its own steps, and its share of each batch by number of keys.

    Only differences are meaningful. Outside `run_jobs`, and with a width of 1, this is wall-clock time.
    """
    running = getcurrent()
    now = time.perf_counter()
    return running.spent + now - running.resumed if isinstance(running, _JobCoroutine) else now


class BoundedMemo(Generic[K, V]):
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
        by_key = {key: self.get(key) for key in dict.fromkeys(wanted)}
        if missing := [key for key, value in by_key.items() if value is None]:
            for key, computed in zip(missing, compute(missing), strict=True):
                # Values are collected here too, because a small memo may drop the first while it stores the last.
                by_key[key] = computed
                self.put(key, computed)
        return [value for key in wanted if (value := by_key[key]) is not None]

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
            dropped_key, dropped_value = self._entries.popitem(last=False)
            self.used -= self._size(dropped_key, dropped_value)


class JobTimedOut(Exception):
    """A job took longer than it may."""


_time_limit: ContextVar[tuple[float, float] | None] = ContextVar("limit", default=None)
"""End on the `used_seconds` of the job that runs now, and its seconds. Each coroutine has a value of its own."""


@contextmanager
def limit_seconds(seconds: float | None) -> Iterator[None]:
    """Limit the seconds that the job which runs now may take in the block, by its `used_seconds`. None: no limit.

    A job that is over its limit ends where it asks a model next: a question that is being answered is not cut off,
    because other jobs may share its batch, and caches stay whole.
    """
    token = _time_limit.set(None if seconds is None else (used_seconds() + seconds, seconds))
    try:
        yield
    finally:
        _time_limit.reset(token)


class BatchedModel(Generic[K, V]):
    """A model that many jobs query: it maps each key to a value.

    Inside `run_jobs`, a query waits until no job can continue without an answer. It is then computed in one batch with
    the queries of other jobs. Outside of `run_jobs` it is computed immediately. A key is computed once in a batch, and
    not again while `memo` has it.

    Args:
        compute: returns the values of distinct keys, in their order. An RbenchError is raised in each job of a batch,
            anything else in those whose own keys raise it again.
        memo: caches values. None caches nothing.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], memo: BoundedMemo[K, V] | None = None) -> None:
        self._compute, self.memo = compute, memo

    def __call__(self, keys: Iterable[K]) -> list[V]:
        """Return the value of each key, in order. Keys may repeat. Raises TimedOut if the job took too long."""
        limit = _time_limit.get()
        if limit is not None and used_seconds() > limit[0]:
            raise JobTimedOut(f"it took longer than {limit[1]:g} s (--max-seconds)")
        wanted = list(keys)
        by_key: dict[K, Any] = {key: None if self.memo is None else self.memo.get(key) for key in dict.fromkeys(wanted)}
        if missing := [key for key, value in by_key.items() if value is None]:
            running = getcurrent()
            by_key |= running.ask(self, missing) if isinstance(running, _JobCoroutine) else self.answer(missing)
        return [by_key[key] for key in wanted]

    def answer(self, keys: list[K]) -> dict[K, V]:
        """Compute these keys now, and cache their values."""
        answers = dict(zip(keys, self._compute(keys), strict=True))
        if self.memo is not None:
            for key, value in answers.items():
                self.memo.put(key, value)
        return answers


class RemoteModel(BatchedModel[K, V]):
    """A model that computes elsewhere. Inside `run_jobs`, jobs go on while others wait for it.

    Args:
        compute: as for `BatchedModel`. It is called in threads, several at once.
        stop: called where answers are no longer wanted; what is under way should then end soon.
    """

    def __init__(self, compute: Callable[[list[K]], Sequence[V]], stop: Callable[[], None]) -> None:
        super().__init__(compute)
        self.stop = stop
        self._threads = ThreadPoolExecutor(REMOTE_BATCHES, thread_name_prefix="rbench remote")
        self._asked: dict[K, Future[dict[K, V]]] = {}

    def begin(self, keys: list[K]) -> dict[K, Future[dict[K, V]]]:
        """Ask for distinct keys, but not for those under way. Return by key what will have its value."""
        self._asked = {key: future for key, future in self._asked.items() if not future.done()}
        new = [key for key in keys if key not in self._asked]
        if new:
            self._asked |= dict.fromkeys(new, self._threads.submit(self.answer, new))
        return {key: self._asked[key] for key in keys}


def run_jobs(jobs: Iterable[Callable[[], T]], width: int) -> Iterator[T]:
    """Run the jobs and yield their results in the order in which they end. At most `width` jobs run at a time.

    An exception in a job ends the run. The random numbers of a job (`random`, numpy's and torch's global generators)
    do not depend on other jobs.
    """
    if width <= 1:
        for job in jobs:
            yield job()
        return
    source = iter(jobs)
    waiting: list[_JobCoroutine] = []
    remote_batches: list[_RemoteBatch] = []
    ended: list[Any] = []
    try:
        while True:
            while len(waiting) + sum(len(batch_ahead.attacks) for batch_ahead in remote_batches) < width and (
                next_job := next(source, None)
            ):
                _resume_job(_JobCoroutine(next_job), waiting, ended)
                _send_waiting(waiting, remote_batches, max(1, width // REMOTE_BATCHES))
                yield from _pop_ended(ended)
            if not waiting and not remote_batches:
                return
            for attack, answer in _next_answered(waiting, remote_batches):
                _resume_job(attack, waiting, ended, answer)
                _send_waiting(waiting, remote_batches, max(1, width // REMOTE_BATCHES))
            yield from _pop_ended(ended)
    finally:
        for flight in remote_batches:
            flight.asked.stop()


class _JobCoroutine(greenlet):
    """A job that is suspended when it queries a `BatchedModel`."""

    asked: BatchedModel[Any, Any]
    keys: list[Any]

    def __init__(self, job: Callable[[], Any]) -> None:
        super().__init__(job)
        self.generators: Any = None
        self.spent = self.resumed = 0.0

    def ask(self, model: BatchedModel[K, V], keys: list[K]) -> dict[K, V]:
        """Suspend the job until its answers are there, and return them."""
        self.asked, self.keys = model, keys
        parent = self.parent
        assert parent is not None
        answer = parent.switch()
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def _resume_job(attack: _JobCoroutine, waiting: list[_JobCoroutine], ended: list[Any], *answer: Any) -> None:
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
        # Saved at once, because the next job draws from the same global generators.
        attack.generators = random.getstate(), np.random.get_state(), torch.get_rng_state()
        waiting.append(attack)


class _RemoteBatch:
    """Attacks that wait for the same answers of a `RemoteModel`."""

    def __init__(self, attacks: list[_JobCoroutine], model: RemoteModel[Any, Any]) -> None:
        self.attacks, self.asked = attacks, model
        self.start = time.perf_counter()
        self.futures = model.begin(list(dict.fromkeys(key for attack in attacks for key in attack.keys)))

    @property
    def done(self) -> bool:
        return all(future.done() for future in self.futures.values())

    def collect_answers(self, under_way: int) -> list[tuple[_JobCoroutine, Any]]:
        """Return the answers to each attack. Its share of the time is that of `under_way` flights at once."""
        seconds = (time.perf_counter() - self.start) / under_way
        total = sum(len(attack.keys) for attack in self.attacks)
        answers: list[tuple[_JobCoroutine, Any]] = []
        for attack in self.attacks:
            attack.spent += seconds * len(attack.keys) / total
            try:
                answers.append((attack, {key: self.futures[key].result()[key] for key in attack.keys}))
            except Exception as error:  # raised again in the job, which handles it for its own example
                answers.append((attack, error))
        return answers


def _send_waiting(waiting: list[_JobCoroutine], remote_batches: list[_RemoteBatch], min_jobs: int) -> None:
    """Ask a `RemoteModel` for all attacks that wait for it, once there are enough of them and not too many flights."""
    for model in {attack.asked: None for attack in waiting if isinstance(attack.asked, RemoteModel)}:
        group = [attack for attack in waiting if attack.asked is model]
        if len(group) >= min_jobs and len(remote_batches) < REMOTE_BATCHES and isinstance(model, RemoteModel):
            remote_batches.append(_RemoteBatch(group, model))
            waiting[:] = [attack for attack in waiting if attack.asked is not model]


def _next_answered(waiting: list[_JobCoroutine], remote_batches: list[_RemoteBatch]) -> list[tuple[_JobCoroutine, Any]]:
    """Return attacks that can go on, with their answers. Waits only where there is nothing to compute here."""
    # Answers that have arrived are handed on first: those attacks can ask again while this process computes.
    arrived = next((remote_batch for remote_batch in remote_batches if remote_batch.done), None)
    if arrived is None:
        waiting_here = [attack for attack in waiting if not isinstance(attack.asked, RemoteModel)]
        if waiting_here:
            waiting_elsewhere = [attack for attack in waiting if isinstance(attack.asked, RemoteModel)]
            answers = _answer_busiest(waiting_here)
            waiting[:] = waiting_elsewhere + waiting_here
            return answers
        _send_waiting(waiting, remote_batches, 1)
        while (arrived := next((remote_batch for remote_batch in remote_batches if remote_batch.done), None)) is None:
            under_way = {
                future
                for remote_batch in remote_batches
                for future in remote_batch.futures.values()
                if not future.done()
            }
            wait(under_way, return_when=FIRST_COMPLETED)
    answers = arrived.collect_answers(len(remote_batches))
    remote_batches.remove(arrived)
    return answers


def _answer_busiest(waiting: list[_JobCoroutine]) -> list[tuple[_JobCoroutine, Any]]:
    """Answer the queries of the model with the most keys, and remove the jobs that wait for it from `waiting`.

    Other models wait, because their batches may still grow.
    """
    sizes: dict[BatchedModel[Any, Any], int] = {}
    for attack in waiting:
        sizes[attack.asked] = sizes.get(attack.asked, 0) + len(attack.keys)
    busiest = max(sizes, key=lambda model: sizes[model])
    served = [attack for attack in waiting if attack.asked is busiest]
    waiting[:] = [attack for attack in waiting if attack.asked is not busiest]
    start = time.perf_counter()
    try:
        answers = busiest.answer(list(dict.fromkeys(key for attack in served for key in attack.keys)))
    except Exception as error:  # raised again in each job that asked, which handles it for its own example
        if len(served) == 1 or isinstance(error, RbenchError):
            return [(attack, error) for attack in served]
        # Nobody foresaw it, so one text may be behind it. Those of other jobs must not suffer: each is answered alone.
        return [answered for attack in served for answered in _answer_busiest([attack])]
    # A job pays for its share of the keys, so that its seconds do not depend on how many jobs share a batch.
    seconds = time.perf_counter() - start
    for attack in served:
        attack.spent += seconds * len(attack.keys) / sizes[busiest]
    return [(attack, {key: answers[key] for key in attack.keys}) for attack in served]


def _pop_ended(ended: list[Any]) -> Iterator[Any]:
    while ended:
        yield ended.pop(0)
