"""Choose how much `rbench eval` does in the minutes that it has: how many texts, and how many attacks of a fixed list.

A few first texts are attacked and timed. They are the first of the texts that the run attacks (a larger n extends the
sample), so they count as part of it. Then the largest step of a fixed ladder is taken that fits into the time. The
choice is a pair of n and attacks and nothing else, so whoever gives these two gets the same jobs anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rbench.errors import SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Job
from rbench.schema.jobs import content_key
from rbench.store.runs import RunStore
from rbench.system.processes import cores

DEFAULT_MINUTES = 15.0
"""The time of a command that says nothing of it."""
ORDER = ("textfooler", "textbugger", "exhaustive", "pwws")
"""The attacks, in the order in which more time adds them."""
USUAL_ATTACKS = ORDER[:3]
"""The attacks of a command that names n and no attacks."""
DEFAULT_TEXTS = 100
"""n of a command that names attacks and no n."""
FIRST_TEXTS = 4
"""Texts that are timed, of each model, task and attack."""
LADDER = (
    *((10, 1), (20, 1), (20, 2), (30, 2), (30, 3), (50, 3), (100, 3), (100, 4)),
    *((150, 4), (200, 4), (300, 4), (500, 4), (1000, 4)),
)
"""Steps of n and number of attacks, each with more work than the one before."""
PLANNED_SHARE = 0.9
"""The share of the time that is planned: the rest is for tables, figures and for what the first texts do not tell."""
MOST_WORKERS = 8


@dataclass(frozen=True)
class Chosen:
    """How many texts of a task are attacked, and by which attacks."""

    n: int
    attacks: tuple[str, ...]
    minutes: float | None = None
    """The time for which they were chosen; None: the user gave both, or one and the default of the other."""
    seconds: float | None = None
    """How long the rest was estimated to take; None where nothing was timed."""
    fits: bool = True
    """Whether that is within the time."""
    hurried: bool = False
    """Whether no time was left for similarity and the ranking of documents."""


class AttackSeconds(NamedTuple):
    """What the attacks of one sort take on this machine, all models and tasks together."""

    each: float
    """Seconds for one more text of each model and task."""
    opening: float
    """Seconds before the first text."""


def chosen_by_user(n: int | None, attacks: str | None, minutes: float | None) -> Chosen | None:
    """Return what a user chose; None where the time decides.

    Raises SuiteError where both are given, or a value is wrong.
    """
    if n is not None and n < 1:
        raise SuiteError(f"-n {n}: expected at least one text")
    if minutes is not None and not 0 < minutes < math.inf:
        raise SuiteError(f"--minutes {minutes:g}: expected more than 0")
    if n is None and attacks is None:
        return None
    if minutes is not None:
        what = " and ".join(flag for flag, value in (("-n", n), ("--attacks", attacks)) if value is not None)
        raise SuiteError(f"--minutes chooses n and the attacks, and {what} is given; leave one of the two out")
    names = USUAL_ATTACKS if attacks is None else tuple(name.strip() for name in attacks.split(","))
    if not all(names) or len({*names}) < len(names):
        raise SuiteError(f"--attacks {attacks}: name attacks, each once, such as {','.join(USUAL_ATTACKS)}")
    return Chosen(n or DEFAULT_TEXTS, names)


def choose(
    costs: Mapping[str, AttackSeconds],
    sizes: Iterable[int],
    minutes: float,
    spent: float,
    more: float = 0.0,
    done: int = FIRST_TEXTS,
) -> Chosen:
    """Take the largest step of the ladder that fits.

    Args:
        costs: what the attacks that were timed take, in their order.
        sizes: how many test texts the tasks have.
        minutes: all of the time.
        spent: seconds of it that are over.
        more: seconds for each text beside the attacks, such as those of a ranking.
        done: how many texts of each are done.
    """
    names, most = tuple(costs), max(sizes)
    steps = dict.fromkeys((min(n, most), min(k, len(names))) for n, k in LADDER)
    left = 60 * minutes * PLANNED_SHARE - spent
    chosen: Chosen | None = None
    for n, k in steps:
        step_costs = [costs[name] for name in names[:k]]
        seconds = sum(cost.opening + cost.each * max(0, n - done) for cost in step_costs) + more * max(0, n - done)
        # The first step of the ladder is taken even where it does not fit: `fits` then says so to the user.
        if chosen is None or seconds <= left:
            chosen = Chosen(n, names[:k], minutes, seconds, seconds <= left)
    assert chosen is not None, "the ladder has steps"
    return chosen


def time_attacks(store: RunStore, jobs: Sequence[Job], options: Options) -> AttackSeconds:
    """Return what some attacks took: of each job the seconds of its texts and those before them."""
    workers = options.workers or min(cores(), MOST_WORKERS)
    each = opening = 0.0
    for job in jobs:
        record = store.look(job).record
        outcomes = store.outcomes(job)
        if record is None or not outcomes:
            continue
        busy = sum(outcome.seconds for outcome in outcomes)
        at_once = min(workers, len(outcomes))
        each += busy / len(outcomes) / workers
        opening += max(0.0, record.provenance.seconds - busy / at_once) if record.provenance is not None else 0.0
    return AttackSeconds(each, opening)


def estimate_seconds_per_text(store: RunStore, jobs: Iterable[Job]) -> float:
    """Return about how many seconds all encoders take for a text, by the fine-tunings that are done.

    A fine-tuning encodes its training and validation texts, so this is rather too much.
    """
    total = 0.0
    for job in jobs:
        record = store.look(job).record
        if record is not None and record.provenance is not None:
            texts = record.counts.get("train_rows", 0) + record.counts.get("n", 0)
            total += record.provenance.seconds / max(1, texts)
    return total


def assume_costs(costs: Mapping[str, AttackSeconds], queries: Mapping[str, float]) -> dict[str, AttackSeconds]:
    """Return what all attacks take, where only the first of them were timed: the others by the queries that they ask.

    Args:
        costs: what those take that were timed.
        queries: of all attacks, in their order, how many queries one asks for a word.
    """
    first, cost = next(iter(costs.items()))
    each = {
        name: cost.each * query_rate / queries[first] if queries[first] else cost.each
        for name, query_rate in queries.items()
    }
    return {name: costs.get(name, AttackSeconds(each[name], cost.opening)) for name in queries}


def carry_over(store: RunStore, before: Sequence[Job], now: Sequence[Job]) -> int:
    """Give attacks that have none yet the outcomes that attacks of other numbers of texts have in a RUN.

    An attack of more texts begins with the texts of one of fewer (`execution.attacks.sample`), so it goes on where the
    other ended. One of fewer texts finds its own among those of more, and leaves the others alone.

    Returns how many outcomes were given.
    """
    earlier_jobs: dict[str, list[Job]] = {}
    for job in before:
        if job.attacking is not None:
            earlier_jobs.setdefault(_key_without_n(job), []).append(job)
    total = 0
    for job in now:
        others = (
            [one for one in earlier_jobs.get(_key_without_n(job), ()) if one.key != job.key] if job.attacking else []
        )
        if not others or any(store.part_files(job)):
            continue
        outcomes = {one.example_id: one for other in others for one in store.outcomes(other) if one.status != "errored"}
        if outcomes:
            store.write_outcomes(job, list(outcomes.values()))
            total += len(outcomes)
        for other in others:
            if _num_texts(other) <= _num_texts(job):
                store.below(other).remove_tree(store.folder(other))  # all that it holds is in the job of more texts
    return total


def _num_texts(job: Job) -> int:
    return job.attacking.num_examples if job.attacking is not None else 0


def _key_without_n(job: Job) -> str:
    """Return what tells an attack from others, whatever the number of its texts."""
    spec = job.attacking
    return job.key if spec is None else content_key([spec.model_copy(update={"num_examples": 1}), job.seed, job.needs])
