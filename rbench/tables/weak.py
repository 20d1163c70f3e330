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
from rbench.schema import STRONGEST_BUDGET, Flag, Job, Plan, RaisedFlag, Record
from rbench.schema.common import OfSearches
from rbench.score import Proportion
from rbench.store.runs import RunReader, read_columns

SEARCH_FLAGS: tuple[Flag, ...] = get_args(OfSearches)
LARGE_GAP = 0.05
"""What the flags call a difference: this share of the attacked texts."""
FEWEST_TEXTS = 50
"""Fewer texts say nothing of whether an attack does more than a random one."""
_FIELDS = ("example_id", "status", "num_queries", "texts_left", "original_prediction")


class ExampleOutcome(NamedTuple):
    """What became of one example."""

    example: str
    status: str
    queries: int
    left: int | None
    prediction: int | None


@dataclass(frozen=True)
class WeakAttacks:
    """The weak attacks of a RUN.

    Args:
        plan: the RUN's.
        records: by job key.
        store: where outcomes and rows are; None: only what records tell is known.
    """

    plan: Plan
    records: Mapping[str, Record]
    store: RunReader | None = None

    def raised(self, job: Job) -> tuple[RaisedFlag, ...]:
        """Return the flags of an attack, none of another job."""
        if job.key not in self._raised:  # each table asks for the same attacks many times
            self._raised[job.key] = tuple(self._found(job))
        return self._raised[job.key]

    def _found(self, job: Job) -> Iterator[RaisedFlag]:
        succeeded = self._counts(job)
        if job.attacking is None or succeeded is None or not succeeded.n:
            return
        reasons: tuple[tuple[Flag, str], ...] = (
            ("weak search", self._why_incomplete(job, succeeded)),
            ("few candidates", self._why_few_candidates(job, succeeded)),
            ("budget hit", self._cut(job)),
            self._random(job, succeeded),
            ("transfer beats direct", self._why_transfer_beats_direct(job, succeeded)),
            ("not deterministic", self._why_not_deterministic(job)),
        )
        yield from (RaisedFlag(flag=flag, because=because) for flag, because in reasons if because)

    # ------------------------------------------------------------------------------------------- from records alone

    def _why_incomplete(self, job: Job, share: Proportion) -> str:
        """A complete search of the same space fools the victim on more texts."""
        best = self._complete_searches.get(_search_place(job) or ())
        if best is None or not _exceeds(best.hits - share.hits, share.n, best.n):
            return ""
        fooled = f"it fools the victim on {share.hits} of {share.n} texts"
        return f"{fooled}, and the complete search of its space on {best.hits}"

    def _why_few_candidates(self, job: Job, share: Proportion) -> str:
        """The same search fools the victim on more texts if it has twice as many candidates of a word."""
        place = _search_place(job, twice=True)
        if place is None:
            return ""
        for other in self._same.get((place, *_name_and_search(job)), ()):
            more = self._counts(other)
            if more is not None and _exceeds(more.hits - share.hits, share.n, more.n):
                fooled = f"it fools the victim on {share.hits} of {share.n} texts"
                return f"{fooled}, with twice the candidates on {more.hits}"
        return ""

    @cached_property
    def _complete_searches(self) -> dict[tuple[str, ...], Proportion]:
        """What the complete searches found, by victim, seed and space; the most where there are several."""
        most_by_place: dict[tuple[str, ...], Proportion] = {}
        for job in self.plan.attacks:
            place, succeeded = _search_place(job), self._counts(job)
            if _name_and_search(job)[0] == "exhaustive" and place is not None and succeeded is not None:
                most_by_place[place] = max(succeeded, most_by_place.get(place, succeeded))
        return most_by_place

    @cached_property
    def _same(self) -> Mapping[tuple[Any, ...], list[Job]]:
        """Attacks in a space by place, name and search."""
        by_search: dict[tuple[Any, ...], list[Job]] = defaultdict(list)
        for job in self.plan.attacks:
            if (place := _search_place(job)) is not None:
                by_search[(place, *_name_and_search(job))].append(job)
        return by_search

    def _counts(self, job: Job) -> Proportion | None:
        """Return on how many of how many texts an attack that is done succeeded."""
        record = self.records.get(job.key)
        if record is None or record.status != "complete" or not {"succeeded", "failed"} <= record.counts.keys():
            return None
        return Proportion(record.counts["succeeded"], record.counts["succeeded"] + record.counts["failed"])

    # --------------------------------------------------------------------------------------------- from the outcomes

    def _cut(self, job: Job) -> str:
        """The queries of many texts were spent before its space was."""
        spec = job.attacking
        ended = self._ended(job) if spec is not None and _search_place(job) is not None else {}
        default = STRONGEST_BUDGET if _name_and_search(job)[0] == "strongest" else None
        budget = (spec.attack.query_budget or default) if spec is not None else None
        # Where an outcome says how much of its space was left, that decides; others have only their queries.
        cut_short = sum(
            example.status == "failed"
            and (example.left > 0 if example.left is not None else budget is not None and example.queries >= budget)
            for example in ended.values()
        )
        if not _exceeds(cut_short, len(ended), len(ended)):
            return ""
        return f"of {len(ended)} texts it ended on {cut_short} because their queries were spent"

    def _random(self, job: Job, share: Proportion) -> tuple[Flag, str]:
        """An order of words does no more than a random one in the same space, although there is more to find."""
        place, (name, search) = _search_place(job), _name_and_search(job)
        flag: Flag = "gradient masking" if search == "gradient" else "no better than random"
        if place is None or name != "inside" or search == "random":
            return flag, ""
        best = self._complete_searches.get(place)
        if best is not None and best.n == share.n:
            finds_nearly_all = best.hits - share.hits <= LARGE_GAP * share.n
            if finds_nearly_all and self._searched_all(place):
                return flag, ""  # there is little that an order could add
        for other in self._same.get((place, "inside", "random"), ()):
            mine, theirs = self._ended(job), self._ended(other)
            # Only texts that ended in both attacks count: one that errored in one of them would favour the other.
            in_both = [example for example in mine if example in theirs]
            fell = sum(mine[example].status == "succeeded" for example in in_both)
            by_chance = sum(theirs[example].status == "succeeded" for example in in_both)
            if len(in_both) >= FEWEST_TEXTS and fell - by_chance < LARGE_GAP * len(in_both):
                return (
                    flag,
                    f"it fools the victim on {fell} of {len(in_both)} texts, a random order of words on {by_chance}",
                )
        return flag, ""

    def _searched_all(self, place: tuple[str, ...]) -> bool:
        """Whether a complete search left no text of a space."""
        return any(
            all(example.left == 0 for example in ended.values())
            for job in self._same.get((place, "exhaustive", ""), ())
            if (ended := self._ended(job))
        )

    def _why_transfer_beats_direct(self, job: Job, share: Proportion) -> str:
        """Texts that the same attack made against another victim fool this one more often than its own."""
        encoder, finetune = self.plan.draw(job.parts[0]).encoder, job.parts[2]
        for other in self._transfers_by_attack.get(job.key, ()):
            record = self.records.get(other.key)
            if self.store is None or record is None or record.status != "complete":
                continue
            for row in self.store.rows(other):
                names, fell = row.names, int(row.numbers.get("fooled_right") or 0)
                # Of the rows of a transfer only those where this victim is the judge, and another one the maker.
                judged_here = (names.get("judge"), names.get("judge_finetune")) == (encoder, finetune)
                maker = names.get("encoder"), names.get("finetune")
                if judged_here and maker != (encoder, finetune) and _exceeds(fell - share.hits, share.n, share.n):
                    maker_name = "/".join(str(part) for part in maker)
                    fooled = f"it fools the victim on {share.hits} of {share.n} texts"
                    return f"{fooled}, and texts made against {maker_name} on {fell}"
        return ""

    def _why_not_deterministic(self, job: Job) -> str:
        """A function or endpoint answers the same originals otherwise in another attack."""
        if (victim := job.needs.get("victim", "")) not in self._asked:
            return ""
        mine = self._examples(job)
        for other in self._asked[victim]:
            if other.key == job.key:
                continue
            theirs = self._examples(other)
            # Outcomes of examples that errored have no prediction.
            shared = [example for example in mine if example in theirs]
            predictions = [(mine[example].prediction, theirs[example].prediction) for example in shared]
            answered_pairs = [pair for pair in predictions if None not in pair]
            if changed := sum(first != second for first, second in answered_pairs):
                return f"it answers {changed} of {len(answered_pairs)} originals otherwise when {other.parts[-1]} asks"
        return ""

    def _ended(self, job: Job) -> dict[str, ExampleOutcome]:
        """The examples on which an attack succeeded or failed."""
        return {
            key: example for key, example in self._examples(job).items() if example.status in ("succeeded", "failed")
        }

    def _examples(self, job: Job) -> dict[str, ExampleOutcome]:
        """What became of each example, by its id; empty where the RUN has no outcomes, or damaged ones."""
        if job.key not in self._read:
            record, examples = self.records.get(job.key), []
            if self.store is not None and record is not None and record.status == "complete":
                try:
                    examples = [ExampleOutcome(*row) for row in read_columns(self.store, job, record, _FIELDS)]
                except StoreError:  # the tables that need them say so
                    examples = []
            self._read[job.key] = {example.example: example for example in examples}
        return self._read[job.key]

    @cached_property
    def _transfers_by_attack(self) -> Mapping[str, list[Job]]:
        """By the key of an attack, the jobs that ask other victims about its texts."""
        by_attack: dict[str, list[Job]] = defaultdict(list)
        for job in self.plan.jobs:
            if job.what == "transfer":
                for key in job.needs.values():
                    by_attack[key].append(job)
        return by_attack

    @cached_property
    def _asked(self) -> Mapping[str, list[Job]]:
        """By the key of a victim that is a function or an endpoint, the attacks on it."""
        existing = {job.key: job.opening.victim for job in self.plan.jobs if job.opening is not None}
        by_victim: dict[str, list[Job]] = {key: [] for key, victim in existing.items() if victim.origin != "model"}
        for job in self.plan.attacks:
            if (victim := job.needs.get("victim", "")) in by_victim:
                by_victim[victim].append(job)
        return by_victim

    @cached_property
    def _raised(self) -> dict[str, tuple[RaisedFlag, ...]]:
        return {}

    @cached_property
    def _read(self) -> dict[str, dict[str, ExampleOutcome]]:
        return {}


def _exceeds(hits: int, n: int, others: int) -> bool:
    """Whether so many of n texts are shown to be more than the gap; not where the other attack had other texts."""
    # One-sided use of a 95% interval: its lower limit must lie above the gap, so few texts raise no flag.
    return n == others and hits > 0 and (Proportion(hits, n).interval() or (0.0, 0.0))[0] > LARGE_GAP


def _name_and_search(job: Job) -> tuple[str, str]:
    """Return the attack's name, and its search where it has a choice."""
    attack = job.attacking.attack if job.attacking is not None else None
    return (attack.name, str(attack.parameters.get("search", ""))) if attack is not None else ("", "")


def _search_place(job: Job, twice: bool = False) -> tuple[str, ...] | None:
    """Return what attacks that may find the same texts have in common: victim, seed, space, limits; None: no space.

    Args:
        twice: of the space with twice as many candidates.
    """
    spec = job.attacking
    if spec is None or "space" not in spec.attack.parameters:
        return None
    # Searches of one space differ in `search` and budget alone, so neither is a part of the place.
    space = dict(spec.attack.parameters["space"])
    if twice:
        space["k"] = 2 * space["k"]
    limits = (space, spec.attack.max_words, spec.attack.protect)
    return (*job.parts[:3], str(job.seed), json.dumps(limits, sort_keys=True, default=str))
