"""Jobs that attack a victim."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from rbench import score
from rbench.cache import weights_hash
from rbench.spec import AttackJob, Job, Record
from rbench.stages.context import Context, Source
from rbench.stages.inputs import Inputs
from rbench.tasks import Example


def sample(examples: list[Example], n: int, seed: int, task: str) -> list[Example]:
    """The first `n` of a permutation of the test split seeded by (seed, task): a larger n keeps the smaller sample."""
    digest = hashlib.sha256(f"sample:{seed}:{task}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "big")))
    return [examples[i] for i in generator.permutation(len(examples))[:n]]


def attack(job: Job, spec: AttackJob, context: Context, source: Source) -> Record:
    """Attack those examples that have no outcome yet, and store each outcome as it comes."""
    data = context.data(spec.task, spec.data_fingerprint)
    if spec.split == "train":
        from rbench.finetune import sample_split

        chosen = sample_split(data, "train", spec.num_examples, job.seed)
    else:
        chosen = sample(data.split(spec.split), spec.num_examples, job.seed, spec.task.name)
    inputs = Inputs(job, context)
    cell = _cell(job, spec, context, inputs)
    opened = {
        "weights_hash": weights_hash(Path(cell.victim.where)),
        "resources": inputs.hashes(spec.resources, spec.resource_fingerprints),
    }
    inputs.check()  # the hashes are those of what is opened
    outcomes = {outcome.example_id: outcome for outcome in context.store.outcomes(job)}
    context.progress.update(len(outcomes), len(chosen), _tally(outcomes.values()))
    for outcome in context.workers.run(cell, [example for example in chosen if example.id not in outcomes]):
        context.store.append(job, outcome)
        outcomes[outcome.example_id] = outcome
        context.progress.update(len(outcomes), len(chosen), _tally(outcomes.values()))
    kept = [outcomes[example.id] for example in chosen]
    return Record(
        job=job,
        status="complete",
        scores=tuple(score.attack_scores(kept, oracle=spec.task.generator is not None).values()),
        counts=score.attack_counts(kept),
        provenance=source(
            dataset_fingerprint=data.fingerprint,
            backend=context.workers.backend(cell),
            **opened,
        ),
    )


def _cell(job: Job, spec: AttackJob, context: Context, inputs: Inputs) -> Any:
    """What the attack needs: its victim, and the resources, of which a masked LM of ours comes from the cache.

    Processes keep resources from cell to cell, so that they are given all of the suite's.
    """
    from rbench.attack import Cell

    places = inputs.places(context.resources)
    for kind in spec.attack.needs:
        if kind in places:  # else the attack says what is missing
            inputs.open(places[kind])
    victim = inputs.made(job.needs[0])
    inputs.open(victim)
    return Cell(
        spec=spec.attack,
        path=context.attack_files.get(spec.attack.name),
        task=spec.task,
        seed=job.seed,
        victim=victim,
        name=context.plan.job(job.needs[0]).name,
        resources=context.resources,
        places=tuple(sorted(places.items())),
    )


def _tally(outcomes: Any) -> str:
    statuses: list[str] = [outcome.status for outcome in outcomes]
    hit, missed = statuses.count("succeeded"), statuses.count("failed")
    return f"ASR {100 * hit / (hit + missed):.0f}% of {hit + missed}" if hit + missed else ""
