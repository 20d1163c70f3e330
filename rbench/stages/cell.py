"""The examples of one attack job, which this process attacks chunk by chunk, beside other processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rbench.spec import Digest, Job, Outcome
from rbench.stages.context import Context
from rbench.storage.board import CHUNK, chunks
from rbench.storage.runs import Parts
from rbench.system.leases import Lease
from rbench.tasks import Example


class Cell:
    """What is done of a job, and what this process may do.

    Args:
        chosen: the job's examples. Their order is that of the job's outcomes in the end.
    """

    def __init__(self, job: Job, chosen: Sequence[Example], context: Context) -> None:
        self._job, self._chosen, self._context, self._team = job, chosen, context, context.team
        self._parts = Parts(context.store, job, {one.id for one in chosen}, context.team.member.id, self._counts)
        self._open: dict[str, tuple[Lease, set[str]]] = {}
        self._told = 0
        self._look()

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcomes that are there, by example, from whatever process."""
        return self._parts.outcomes

    @property
    def complete(self) -> list[Outcome] | None:
        """The outcomes of all examples, in their order; None while some are missing."""
        self._look()
        found = [self.outcomes.get(one.id) for one in self._chosen]
        return [one for one in found if one is not None] if None not in found else None

    def examples(self) -> Iterator[Example]:
        """Take chunk after chunk that no other process has. Yields the examples of each that have no outcome yet.

        A chunk is taken when its first example is asked for, and given back when all of its examples have outcomes
        (`append`). The longest texts of a chunk come first, so that worker processes end together.

        Raises JobError if too many processes died with a chunk.
        """
        for number in range(chunks(len(self._chosen))):
            chunk = self._chosen[number * CHUNK : (number + 1) * CHUNK]
            if not self._missing(chunk):
                continue
            self._look()  # whether those who died with this chunk had got further
            left = len(self._missing(chunk))
            lease = self._team.take(self._job, f"{number:04}", done=f"all but {left}") if left else None
            if lease is None:
                continue
            self._team.check_deaths(self._job, f"examples {number * CHUNK + 1} to {number * CHUNK + len(chunk)}")
            self._look()  # what the last holder had done
            if missing := self._missing(chunk):
                self._open[missing[0].id] = lease, {one.id for one in missing}
                yield from sorted(missing, key=lambda one: one.length, reverse=True)
            else:
                lease.give_back()

    def append(self, outcome: Outcome) -> None:
        """Store an outcome. Raises LeaseLost, and stores nothing, if another process has taken over its chunk."""
        self._team.check(self._job)
        self._parts.append(outcome)
        for first, (lease, waiting) in self._open.items():
            if outcome.example_id in waiting:
                waiting.remove(outcome.example_id)
                if not waiting:
                    lease.give_back()
                    del self._open[first]
                return

    def close(self) -> None:
        """Sync what this process has stored."""
        self._parts.close()

    def merge(self, outcomes: Sequence[Outcome]) -> Digest:
        """Write all outcomes into one file; return the digest for the job's record."""
        self._team.check(self._job)
        return self._parts.merge(outcomes)

    def _missing(self, chunk: Sequence[Example]) -> list[Example]:
        return [one for one in chunk if one.id not in self.outcomes]

    def _look(self) -> None:
        self._parts.look()
        for note in self._parts.notes[self._told :]:
            self._context.progress.note(note)
        self._told = len(self._parts.notes)

    def _counts(self, writer: str | None, outcome: Outcome) -> bool:
        """Whether an errored outcome counts as done: this process, or one that is still here, has just tried it.

        One that timed out counts in any case. `rbench run --retry-timeouts` removes it before it starts.
        """
        if outcome.timed_out:
            return True
        return writer is not None and (writer == self._team.member.id or self._team.members.alive(writer))
