"""Finds weak attacks in a RUN: those of whose success rate the RUN itself shows that it is too low, or means little.

Everything is computed from what the RUN holds: an attack that could be compared with nothing has no flag.
docs/health.md says when each flag is raised, docs/strength.md what it costs to be able to raise it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, get_args

from rbench.errors import StoreError
from rbench.schema import STRONGEST_BUDGET, Flag, Job, Plan, Raised, Record
from rbench.schema.common import OfSearches
from rbench.score import Share
from rbench.store.runs import Reader, read_fields

OF_SEARCHES: tuple[Flag, ...] = get_args(OfSearches)
GAP = 0.05
"""What the flags call a difference: this share of the attacked texts."""
LEAST = 50
"""Fewer texts say nothing of whether an attack does more than a random one."""
_FIELDS = ("example_id", "status", "num_queries", "texts_left", "original_prediction")


class Seen(NamedTuple):
    """What became of one example."""

    example: str
    status: str
    queries: int
    left: int | None
    prediction: int | None


@dataclass(frozen=True)
class Weak:
    """The weak attacks of a RUN.

    Args:
        plan: the RUN's.
        records: by job key.
        store: where outcomes and rows are; None: only what records tell is known.
    """

    plan: Plan
    records: Mapping[str, Record]
    store: Reader | None = None

    def raised(self, job: Job) -> tuple[Raised, ...]:
        """Return the flags of an attack, none of another job."""
        if job.key not in self._raised:  # each table asks for the same attacks many times
            self._raised[job.key] = tuple(self._found(job))
        return self._raised[job.key]

    def _found(self, job: Job) -> Iterator[Raised]:
        own = self._counts(job)
        if job.attacking is None or own is None or not own.n:
            return
        found: tuple[tuple[Flag, str], ...] = (
            ("weak search", self._incomplete(job, own)),
            ("few candidates", self._more_candidates(job, own)),
            ("budget hit", self._cut(job)),
            self._random(job, own),
            ("transfer beats direct", self._transferred(job, own)),
            ("not deterministic", self._changing(job)),
        )
        yield from (Raised(flag=flag, because=said) for flag, said in found if said)

    # ------------------------------------------------------------------------------------------- from records alone

    def _incomplete(self, job: Job, own: Share) -> str:
        """A complete search of the same space fools the victim on more texts."""
        best = self._complete.get(_place(job) or ())
        if best is None or not _exceeds(best.hits - own.hits, own.n, best.n):
            return ""
        return (
            f"it fools the victim on {own.hits} of {own.n} texts, and the complete search of its space on {best.hits}"
        )

    def _more_candidates(self, job: Job, own: Share) -> str:
        """The same search fools the victim on more texts if it has twice as many candidates of a word."""
        place = _place(job, twice=True)
        for other in self._same.get((place, *_search(job)), ()) if place is not None else ():
            more = self._counts(other)
            if more is not None and _exceeds(more.hits - own.hits, own.n, more.n):
                return f"it fools the victim on {own.hits} of {own.n} texts, with twice the candidates on {more.hits}"
        return ""

    @cached_property
    def _complete(self) -> dict[tuple[str, ...], Share]:
        """What the complete searches found, by victim, seed and space; the most where there are several."""
        found: dict[tuple[str, ...], Share] = {}
        for job in self.plan.attacks:
            place, of = _place(job), self._counts(job)
            if _search(job)[0] == "exhaustive" and place is not None and of is not None:
                found[place] = max(of, found.get(place, of))
        return found

    @cached_property
    def _same(self) -> Mapping[tuple[Any, ...], list[Job]]:
        """Attacks in a space by place, name and search."""
        found: dict[tuple[Any, ...], list[Job]] = defaultdict(list)
        for job in self.plan.attacks:
            if (place := _place(job)) is not None:
                found[(place, *_search(job))].append(job)
        return found

    def _counts(self, job: Job) -> Share | None:
        """Return on how many of how many texts an attack that is done succeeded."""
        record = self.records.get(job.key)
        if record is None or record.status != "complete" or not {"succeeded", "failed"} <= record.counts.keys():
            return None
        return Share(record.counts["succeeded"], record.counts["succeeded"] + record.counts["failed"])

    # --------------------------------------------------------------------------------------------- from the outcomes

    def _cut(self, job: Job) -> str:
        """The queries of many texts were spent before its space was."""
        spec = job.attacking
        seen = self._ended(job) if spec is not None and _place(job) is not None else {}
        default = STRONGEST_BUDGET if _search(job)[0] == "strongest" else None
        budget = (spec.attack.query_budget or default) if spec is not None else None
        cut = sum(
            one.status == "failed"
            and (one.left > 0 if one.left is not None else budget is not None and one.queries >= budget)
            for one in seen.values()
        )
        if not _exceeds(cut, len(seen), len(seen)):
            return ""
        return f"of {len(seen)} texts it ended on {cut} because their queries were spent"

    def _random(self, job: Job, own: Share) -> tuple[Flag, str]:
        """An order of words does no more than a random one in the same space, although there is more to find."""
        place, (name, search) = _place(job), _search(job)
        flag: Flag = "gradient masking" if search == "gradient" else "no better than random"
        if place is None or name != "inside" or search == "random":
            return flag, ""
        best = self._complete.get(place)
        if best is not None and best.n == own.n and best.hits - own.hits <= GAP * own.n and self._asked_all(place):
            return flag, ""  # it finds nearly all there is, so there is little that an order could add
        for other in self._same.get((place, "inside", "random"), ()):
            mine, theirs = self._ended(job), self._ended(other)
            # Only texts that ended in both attacks count: one that errored in one of them would favour the other.
            both = [one for one in mine if one in theirs]
            fell, by_chance = (sum(of[one].status == "succeeded" for one in both) for of in (mine, theirs))
            if len(both) >= LEAST and fell - by_chance < GAP * len(both):
                return (
                    flag,
                    f"it fools the victim on {fell} of {len(both)} texts, a random order of words on {by_chance}",
                )
        return flag, ""

    def _asked_all(self, place: tuple[str, ...]) -> bool:
        """Whether a complete search left no text of a space."""
        return any(
            all(one.left == 0 for one in seen.values())
            for job in self._same.get((place, "exhaustive", ""), ())
            if (seen := self._ended(job))
        )

    def _transferred(self, job: Job, own: Share) -> str:
        """Texts that the same attack made against another victim fool this one more often than its own."""
        encoder, finetune = self.plan.draw(job.parts[0]).encoder, job.parts[2]
        for other in self._transfers.get(job.key, ()):
            record = self.records.get(other.key)
            if self.store is None or record is None or record.status != "complete":
                continue
            for row in self.store.rows(other):
                names, fell = row.names, int(row.numbers.get("fooled_right") or 0)
                judged = (names.get("judge"), names.get("judge_finetune")) == (encoder, finetune)
                maker = names.get("encoder"), names.get("finetune")
                if judged and maker != (encoder, finetune) and _exceeds(fell - own.hits, own.n, own.n):
                    made = "/".join(str(part) for part in maker)
                    return (
                        f"it fools the victim on {own.hits} of {own.n} texts, and texts made against {made} on {fell}"
                    )
        return ""

    def _changing(self, job: Job) -> str:
        """A function or endpoint answers the same originals otherwise in another attack."""
        if (victim := job.needs.get("victim", "")) not in self._asked:
            return ""
        mine = self._seen(job)
        for other in self._asked[victim]:
            if other.key == job.key:
                continue
            theirs = self._seen(other)
            told = [(mine[one].prediction, theirs[one].prediction) for one in mine if one in theirs]
            both = [one for one in told if None not in one]
            if changed := sum(first != second for first, second in both):
                return f"it answers {changed} of {len(both)} originals otherwise when {other.parts[-1]} asks"
        return ""

    def _ended(self, job: Job) -> dict[str, Seen]:
        """The examples on which an attack succeeded or failed."""
        return {key: one for key, one in self._seen(job).items() if one.status in ("succeeded", "failed")}

    def _seen(self, job: Job) -> dict[str, Seen]:
        """What became of each example, by its id; empty where the RUN has no outcomes, or damaged ones."""
        if job.key not in self._read:
            record, found = self.records.get(job.key), []
            if self.store is not None and record is not None and record.status == "complete":
                try:
                    found = [Seen(*row) for row in read_fields(self.store, job, record, _FIELDS)]
                except StoreError:  # the tables that need them say so
                    found = []
            self._read[job.key] = {one.example: one for one in found}
        return self._read[job.key]

    @cached_property
    def _transfers(self) -> Mapping[str, list[Job]]:
        """By the key of an attack, the jobs that ask other victims about its texts."""
        found: dict[str, list[Job]] = defaultdict(list)
        for job in self.plan.jobs:
            if job.what == "transfer":
                for key in job.needs.values():
                    found[key].append(job)
        return found

    @cached_property
    def _asked(self) -> Mapping[str, list[Job]]:
        """By the key of a victim that is a function or an endpoint, the attacks on it."""
        given = {job.key: job.opening.victim for job in self.plan.jobs if job.opening is not None}
        found: dict[str, list[Job]] = {key: [] for key, victim in given.items() if victim.origin != "model"}
        for job in self.plan.attacks:
            if (victim := job.needs.get("victim", "")) in found:
                found[victim].append(job)
        return found

    @cached_property
    def _raised(self) -> dict[str, tuple[Raised, ...]]:
        return {}

    @cached_property
    def _read(self) -> dict[str, dict[str, Seen]]:
        return {}


def _exceeds(hits: int, n: int, others: int) -> bool:
    """Whether so many of n texts are shown to be more than the gap; not where the other attack had other texts."""
    return n == others and hits > 0 and (Share(hits, n).interval() or (0.0, 0.0))[0] > GAP


def _search(job: Job) -> tuple[str, str]:
    """Return the attack's name, and its search where it has a choice."""
    of = job.attacking.attack if job.attacking is not None else None
    return (of.name, str(of.parameters.get("search", ""))) if of is not None else ("", "")


def _place(job: Job, twice: bool = False) -> tuple[str, ...] | None:
    """Return what attacks that may find the same texts have in common: victim, seed, space, limits; None: no space.

    Args:
        twice: of the space with twice as many candidates.
    """
    spec = job.attacking
    if spec is None or "space" not in spec.attack.parameters:
        return None
    space = dict(spec.attack.parameters["space"])
    if twice:
        space["k"] = 2 * space["k"]
    limits = (space, spec.attack.max_words, spec.attack.protect)
    return (*job.parts[:3], str(job.seed), json.dumps(limits, sort_keys=True, default=str))
