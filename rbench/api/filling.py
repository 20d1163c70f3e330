"""Show a ranking while it fills: a line for each model whose attacks are done, among what a run shows of its jobs."""

from __future__ import annotations

from contextlib import suppress

from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.errors import RbenchError
from rbench.schema import Job, Plan
from rbench.store.job_status import load_statuses
from rbench.store.runs import RunStore
from rbench.system.progress import Progress
from rbench.tables import Results
from rbench.verdicts import ranks


class RankingProgress:
    """A `Progress` that passes on what it is told, each note once, and adds the lines of a ranking.

    Args:
        shower: what shows it.
    """

    def __init__(self, shower: Progress) -> None:
        self._shower = shower
        self._noted: set[str] = set()
        self._store: RunStore | None = None
        self._plan: Plan | None = None
        self._job: Job | None = None
        self._left: dict[str, set[str]] = {}

    def follow_run(self, plan: Plan, store: RunStore | None) -> None:
        """Say which RUN is ranked from here on; None: nothing is."""
        self._plan, self._store = plan, store
        done = load_statuses(store, plan).done if store is not None else frozenset()
        self._left = {}
        for job in plan.attacks:
            if job.key not in done:
                self._left.setdefault(job.parts[0], set()).add(job.key)

    def start(self, name: str, index: int, count: int) -> None:
        self._job = next((job for job in self._plan.jobs if job.name == name), None) if self._plan is not None else None
        self._shower.start(name, index, count)

    def update(self, done: int, total: int, text: str = "") -> None:
        self._shower.update(done, total, text)

    def finish(self, status: str) -> None:
        self._shower.finish(status)
        job, self._job = self._job, None
        if job is None or self._store is None or job.attacking is None:
            return
        left = self._left.get(job.parts[0], set())
        left.discard(job.key)
        if not left:
            with suppress(RbenchError):  # the ranking at the end says what is wrong
                self._show_line(job.parts[0], self._store)

    def note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._shower.note(text)

    def _show_line(self, encoder: str, store: RunStore) -> None:
        ranking = ranks.rank_models(Results.of(store, MetricCatalogue(Registry(()))), compared=False)
        for entry in ranking.entries:
            if entry.who.encoder == encoder and entry.value is not None and entry.value.value is not None:
                under = {ranks.display_attack(attack): share for attack, share in entry.by_attack.items()}
                clean = entry.clean.value if entry.clean is not None else None
                shares = {"clean": clean, "under attack": entry.value.value, **under}
                scores = ", ".join(f"{name} {100 * share:.1f}" for name, share in shares.items() if share is not None)
                self._shower.note(f"{entry.name}: {scores}")
