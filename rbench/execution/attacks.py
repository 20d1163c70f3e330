"""Run jobs that attack a victim. A process attacks the examples of one chunk by chunk, beside other processes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rbench import score
from rbench.errors import JobError, ModelChangedError
from rbench.execution.cluster.membership import Lease
from rbench.execution.cluster.scheduler import CHUNK, count_chunks
from rbench.execution.inputs import JobInputs, ProvenanceMaker, RunContext, endpoint_of, victim_hash
from rbench.schema import AttackJob, Digest, Job, Outcome, Record, Score, error_kind
from rbench.schema.results import error_line
from rbench.store.runs import PartialOutcomes
from rbench.tasks import Example

TOLERATED = 0.1
"""Maximum share of a job's examples that may error. With more, too few remain and the job fails."""

DEATHS_TO_ISOLATE = 2
"""Processes that died with one chunk, after which its job's examples are attacked in worker processes only."""


def sample(examples: list[Example], n: int, seed: int, task: str) -> list[Example]:
    """Return the first `n` of a permutation of `examples` seeded by (seed, task). A larger n extends the sample."""
    # Seeded by the task alone: every encoder and attack gets the same examples, so that they are compared in pairs.
    digest = hashlib.sha256(f"sample:{seed}:{task}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "big")))
    return [examples[i] for i in generator.permutation(len(examples))[:n]]


def attack(job: Job, spec: AttackJob, context: RunContext, source: ProvenanceMaker) -> Record | None:
    """Attack the examples that have no outcome yet, and store each outcome as soon as it is there.

    Returns None if other processes still attack some of the examples. The one that ends last makes the record.

    Raises JobError if more than a tenth of the examples errored, not counting those that timed out.
    """
    data = context.data(spec.task, spec.data_fingerprint)
    if spec.split == "train":
        from rbench.train.finetune import sample_split

        chosen = sample_split(data, "train", spec.num_examples, job.seed)
    else:
        chosen = sample(data.split(spec.split), spec.num_examples, job.seed, spec.task.name)
    inputs = JobInputs(job, context)
    attack_task = _build_attack_task(job, spec, context, inputs)
    input_hashes = {
        "weights_hash": victim_hash(inputs),
        "resources": inputs.hashes(spec.resources, spec.resource_fingerprints),
    }
    inputs.check()  # the hashes must be those of the opened files
    writer = OutcomeWriter(job, chosen, context)
    context.progress.update(len(writer.outcomes), len(chosen), _format_asr(writer.outcomes.values()))
    with closing(writer):
        missing = len(chosen) - len(writer.outcomes)
        isolated = context.team.died(job) >= DEATHS_TO_ISOLATE
        try:
            # `examples` is lazy: a chunk is leased only when workers ask for its first example.
            for outcome in context.workers.run(attack_task, writer.examples(), missing, apart=isolated):
                writer.append(outcome)
                context.progress.update(len(writer.outcomes), len(chosen), _format_asr(writer.outcomes.values()))
        except ModelChangedError:
            writer.discard()  # nobody knows which of them are of the other model
            raise
    all_outcomes = writer.complete
    if all_outcomes is None or context.team.take(job) is None:
        return None
    # Another process may have merged the chunks after this one looked and before it took the lease.
    if (existing := context.store.look(job).record) is not None and _is_final(existing):
        return existing
    # Merged before errors are counted: a job that fails keeps its outcomes, and only the errored ones are tried again.
    stored = writer.merge(all_outcomes)
    where = context.store.folder(job).relative_to(context.store.root) / "outcomes.jsonl"
    _check_errors(all_outcomes, where, quoting=context.store.texts)
    return Record(
        job=job,
        status="complete",
        scores=_build_scores(all_outcomes, spec),
        counts=score.count_outcomes(all_outcomes),
        health=score.attack_health(all_outcomes),
        provenance=source(
            dataset_fingerprint=data.fingerprint,
            backend=context.workers.backend(attack_task),
            max_seconds=context.workers.config.max_seconds,
            **input_hashes,
        ),
        outcomes=stored,
    )


def _is_final(record: Record) -> bool:
    """Whether a record needs not be made again."""
    return record.status == "complete" and score.record_problem(record) is None


def _build_scores(outcomes: Collection[Outcome], spec: AttackJob) -> tuple[Score, ...]:
    """Return the metrics of the attacked sample; of STS pairs also errors and correlations, before and after."""
    scores = tuple(score.attack_scores(outcomes, oracle=spec.task.has_oracle).values())
    return scores + (score.StsDeviations.of(outcomes).scores() if spec.task.of_kind.has_scores else ())


def _check_errors(
    outcomes: Collection[Outcome], place: Path = Path("outcomes.jsonl"), *, quoting: bool = False
) -> None:
    """Raise JobError where more than a tenth errored.

    Args:
        place: the file of the outcomes, below the RUN.
        quoting: whether the message may quote an error. An error may quote a text, which some RUNs must not hold.
    """
    errors = [outcome.error or "" for outcome in outcomes if _counts_as_error(outcome)]
    kinds = Counter(map(error_kind, errors))
    if kinds.total() > TOLERATED * len(outcomes):
        named = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
        line = error_line(errors[0]) if quoting else ""
        first = f" The first: {line}." if line else ""
        raise JobError(
            f"{kinds.total()} of {len(outcomes)} examples errored ({named}), more than a tenth.{first} "
            f"Their errors are in {place}; run the same command again to attack them again."
        )


def _counts_as_error(outcome: Outcome) -> bool:
    """Whether an outcome counts as an error in `TOLERATED`. One that timed out does not: its user set the limit."""
    return outcome.status == "errored" and not outcome.timed_out


def _build_attack_task(job: Job, spec: AttackJob, context: RunContext, inputs: JobInputs) -> Any:
    """Put together what a worker needs: the victim and the resources. A masked LM that rbench trained is in the cache.

    Workers keep resources from one attack to the next, so they get all resources of the suite.
    """
    from rbench.recipes import AttackTask

    places = inputs.places(context.resources)
    for kind in spec.attack.needs:
        if kind in places:  # otherwise the attack says what is missing
            inputs.open(places[kind])
    module = context.modules.get(("attacks", spec.attack.name))
    victim = inputs.victim()
    inputs.open(victim)
    return AttackTask(
        spec=spec.attack,
        path=module.path if module is not None else None,
        task=spec.task,
        seed=job.seed,
        victim=victim,
        name=context.plan.job(job.needs["victim"]).name,
        given=inputs.existing_classifier(),
        resources=context.resources,
        places=tuple(sorted(places.items())),
        digest=module.digest if module is not None else None,
        foreign=module is not None and not module.bundled,
        remote=endpoint_of(job, context) is not None,
    )


def _format_asr(outcomes: Any) -> str:
    statuses: list[str] = [outcome.status for outcome in outcomes]
    hit, missed = statuses.count("succeeded"), statuses.count("failed")
    return f"ASR {100 * hit / (hit + missed):.0f}% of {hit + missed}" if hit + missed else ""


class OutcomeWriter:
    """What is done of a job, and what this process may do.

    Args:
        chosen: the job's examples. Their order is that of the job's outcomes in the end.
    """

    def __init__(self, job: Job, chosen: Sequence[Example], context: RunContext) -> None:
        self._job, self._chosen, self._context, self._team = job, chosen, context, context.team
        self._parts = PartialOutcomes(
            context.store, job, {example.id for example in chosen}, context.team.member.id, self._counts
        )
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
        outcomes = [self.outcomes[example.id] for example in self._chosen if example.id in self.outcomes]
        return outcomes if len(outcomes) == len(self._chosen) else None

    def examples(self) -> Iterator[Example]:
        """Take chunk after chunk that no other process has. Yields the examples of each that have no outcome yet.

        A chunk is taken when its first example is asked for, and given back when all of its examples have outcomes
        (`append`). The longest texts of a chunk come first, so that worker processes end together.

        Raises JobError if too many processes died with a chunk.
        """
        for number in range(count_chunks(len(self._chosen))):
            chunk = self._chosen[number * CHUNK : (number + 1) * CHUNK]
            if not self._missing(chunk):
                continue
            self._look()  # whether those who died with this chunk had got further
            num_missing = len(self._missing(chunk))
            lease = self._team.take(self._job, f"{number:04}", done=f"all but {num_missing}") if num_missing else None
            if lease is None:
                continue
            self._team.check_deaths(self._job, f"examples {number * CHUNK + 1} to {number * CHUNK + len(chunk)}")
            self._look()  # what the last holder had done
            if missing := self._missing(chunk):
                self._open[missing[0].id] = lease, {example.id for example in missing}
                yield from sorted(missing, key=lambda example: example.length, reverse=True)
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

    def discard(self) -> None:
        """Remove what this process has stored."""
        self._team.check(self._job)
        self._parts.discard()

    def merge(self, outcomes: Sequence[Outcome]) -> Digest:
        """Write all outcomes into one file; return the digest for the job's record."""
        self._team.check(self._job)
        return self._parts.merge(outcomes)

    def _missing(self, chunk: Sequence[Example]) -> list[Example]:
        return [example for example in chunk if example.id not in self.outcomes]

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
        return writer is not None and (writer == self._team.member.id or self._team.members.is_alive(writer))
