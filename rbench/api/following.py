"""Show one progress for all processes that run the jobs of a RUN, read from what they write there."""

from __future__ import annotations

import time
from collections.abc import Callable

from rbench.progress import Progress
from rbench.spec import Job, Record
from rbench.storage.board import TeamBoard
from rbench.storage.team import Team

EVERY = 1.0
"""Seconds between two looks, or ten times as long as a look takes."""
SHOWN = 2
"""Jobs under way that are named."""


class Following:
    """Follows the jobs that other processes run. It takes none.

    Args:
        board: made before the processes start, so that it tells their records from older ones.
    """

    def __init__(
        self,
        todo: list[Job],
        team: Team,
        board: TeamBoard,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {job.key: job for job in todo}
        self._count, self._team, self._board, self._progress = len(todo), team, board, progress
        self._clock, self._next = clock, 0.0
        self.failed: list[Record] = []
        self.skipped: list[Job] = []

    @property
    def over(self) -> bool:
        """Whether every job has ended, or needs one that failed."""
        self._settle()
        return not self._left

    @property
    def left(self) -> list[Job]:
        """The jobs that have not ended."""
        return [*self._left.values()]

    def look(self) -> None:
        """Show what has changed, unless the last look was a moment ago."""
        if (began := self._clock()) < self._next:
            return
        self._settle()
        doing = [one["doing"] for one in self._team.members.living()]
        at = [_step(one) for one in doing if one.get("job")]
        more = [f"{len(at) - SHOWN} more"] if len(at) > SHOWN else []
        text = "; ".join([*self._trouble(), *at[:SHOWN], *more])
        self._progress.update(self._count - len(self._left), self._count, text)
        self._next = self._clock() + max(EVERY, 10 * (self._clock() - began))

    def _trouble(self) -> list[str]:
        """Return what is to be seen at each look, since jobs that failed or are not run count as ended."""
        failed = [f"{len(self.failed)} failed"] if self.failed else []
        return [*failed, *([f"{len(self.skipped)} not run"] if self.skipped else [])]

    def _settle(self) -> None:
        """Take note of the jobs that ended."""
        gone = {record.job.key for record in self.failed} | {job.key for job in self.skipped}
        for job in [*self._left.values()]:
            if gone.intersection(job.needs.values()):
                gone.add(job.key)
                self.skipped.append(self._left.pop(job.key))
            elif (record := self._board.ended(job, needed=False)) is not None:
                del self._left[job.key]
                failed = record.status == "failed"
                self._progress.note(f"{job.name}: failed: {record.reason}" if failed else f"{job.name}: complete")
                if failed:
                    gone.add(job.key)
                    self.failed.append(record)


def _step(doing: dict[str, object]) -> str:
    return f"{doing['job']} {doing.get('done')}/{doing['total']}" if doing.get("total") else str(doing["job"])
