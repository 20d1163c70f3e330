"""Adversarial sets: test texts that one attack changed against one victim, which other victims are scored on."""

from __future__ import annotations

from typing import Literal

from rbench.spec.common import Count, Strict, TaskKind


class AdversarialSet(Strict):
    """Says which adversarial texts a set holds. It never holds the place of the set."""

    name: str
    encoder: str
    """Label of the encoder of the victim that was attacked."""
    finetune: str
    """Label of the victim's fine-tuning strategy."""
    attack: str
    """Label of the attack."""
    seed: Count
    """Seed of the victim, of the sample of test texts and of the attack."""
    victim: str | None = None
    """Key of the fine-tuning that made the victim. None: the set is made in the same RUN, and the job needs its attack.
    """

    def without_effect(self) -> frozenset[str]:
        return frozenset({"victim"}) if self.victim is None else frozenset()


class SetFile(Strict):
    """The file `rbench.json` of a set that `rbench build adversarial` wrote. The texts lie beside it, as parquet."""

    format: Literal[1] = 1
    task: str
    kind: TaskKind
    columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    """Names of the classes; empty for an STS task."""
    encoder: str
    finetune: str
    attack: str
    seed: Count
    victim: str
    """Key of the fine-tuning that made the victim."""
    job: str
    """Key of the attack."""
    only: Literal["all", "attacked", "successes"]
    """Which examples are rows: all, those that were attacked, or those with which the attack succeeded."""
    counts: dict[str, int]
    """How many rows there are (`rows`), and of all attacked examples how many have which status (`succeeded`, `failed`,
    `skipped`, `errored`) and how many there are (`total`)."""
    fingerprint: str
    """Content hash of the rows, 64 hex digits."""

    def named(self, name: str) -> AdversarialSet:
        """Return what a job's specification says of the set."""
        own = {key: getattr(self, key) for key in ("encoder", "finetune", "attack", "seed", "victim")}
        return AdversarialSet(name=name, **own)
