"""Notes on the variants of methods: which of the encoders and attacks behind a table follow a paper, which its code."""

from __future__ import annotations

from collections.abc import Iterable

from rbench.spec import AttackSpec, EncoderSpec, Job, Plan


def notes(plan: Plan, behind: Iterable[Job]) -> list[str]:
    """Return a note for each variant and its source, with the encoders and attacks that have it.

    Args:
        plan: the plan, which says what encoder a draw is of.
        behind: the jobs of a table and all that they stand on.
    """
    found: dict[tuple[str, str], dict[str, None]] = {}
    for job in behind:
        of: EncoderSpec | AttackSpec
        if job.pretraining is not None and (train := job.pretraining.encoder.train) is not None:
            of, options = job.pretraining.encoder, train.options
            name = plan.draw(of.name).encoder
        elif job.attacking is not None:
            name, of, options = job.parts[3], job.attacking.attack, job.attacking.attack.parameters
        else:
            continue
        if of.variant_source is not None and "variant" in options:
            found.setdefault((options["variant"], of.variant_source), {})[name] = None
    return [f"Variant {variant}, from {source}: {', '.join(names)}." for (variant, source), names in found.items()]
