"""Defines plans: all jobs of a suite, and which of them are its attacks."""

from __future__ import annotations

from rbench.spec.common import Count, Strict
from rbench.spec.jobs import Job
from rbench.spec.suite import Suite


class Draw(Strict):
    """One of the trainings of an encoder that a suite with `train_seeds` compares."""

    encoder: str
    """The suite's encoder, by name or label."""
    train_seed: Count | None = None
    """The seed of the training; None where the suite has no `train_seeds`, or rbench does not train the encoder."""


class Plan(Strict):
    """All jobs of a suite, in an order in which each job comes after those that it needs."""

    suite: Suite
    jobs: tuple[Job, ...]
    draws: dict[str, Draw] = {}
    """In a suite with `train_seeds`: which encoder and training seed each label in the jobs' names stands for. The
    label is `simcse-mini[seed=1]`, or `simcse-mini` where 1 is the encoder's own seed. Encoders that rbench does not
    train are not in it."""
    texts: bool = True
    """Whether the RUN keeps texts. In a RUN that was begun without texts, or stripped of them, no job writes any."""

    def draw(self, label: str) -> Draw:
        """Return the encoder and training seed that a label stands for."""
        return self.draws.get(label, Draw(encoder=label))

    @property
    def attacks(self) -> list[Job]:
        """The attacks on test texts that tables, claims and conditions are about.

        Where a suite asks for attacks, one that only makes an adversarial set of another victim, attack or seed is none
        of them.
        """
        every = [job for job in self.jobs if job.attacking is not None and job.attacking.split == "test"]
        if not self.suite.attacks:
            return every
        of_sets = {key for job in self.jobs if job.measuring and job.measuring.set for key in job.needs.values()}
        return [job for job in every if job.key not in of_sets or self._asks_for(job)]

    def _asks_for(self, attack: Job) -> bool:
        """Whether the suite's own lists name the encoder, task, strategy, attack and seed of an attack."""
        assert attack.attacking is not None
        (label, task, strategy, name), suite = attack.parts, self.suite
        draw = self.draw(label)
        tuned = {one.label for one in suite.finetune}
        return (
            draw.encoder in suite.lineup
            and draw.train_seed in (None, *suite.train_seeds)
            and task in suite.tasks
            and (strategy in tuned or attack.attacking.task.kind == "sts")
            and name in {one.label for one in suite.attacks}
            and attack.seed in suite.seeds
        )

    def job(self, key: str) -> Job:
        """Return the job with this key. Raises KeyError where there is none."""
        for job in self.jobs:
            if job.key == key:
                return job
        raise KeyError(key)
