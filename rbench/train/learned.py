"""Says in sentences what a training did: its contrastive loss and top-1 beside chance, its uniformity, its flags."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from rbench.schema import Record

UNIFORM_EVERYWHERE = -4.0
"""The uniformity of vectors that point in all directions alike: their squared distances are 2 on average, so it is near
the logarithm of exp(-2 x 2). One vector for all texts has 0."""
UPPER_TAIL = 0.025
"""The upper tail of a 95% interval: above it a share of hits cannot be told from chance."""
LITTLE_LEARNED = 0.1
"""A training that lowers its loss by less than this share of the loss at chance is said to have done little (ours)."""


def describe_training(record: Record) -> Iterator[str]:
    """Yield what the record of a training shows, each with what it means (docs/health.md defines the values)."""
    series = record.health.series if record.health is not None else ()
    first = next((point.values for point in series if "contrastive loss" in point.values), None)
    last = next((point for point in reversed(series) if "contrastive loss" in point.values), None)
    if first is not None and last is not None:
        yield f"at step {last.step}, of {last.values['texts']:.0f} texts: {_describe_loss(first, last.values)}"
        yield _describe_top_1(last.values)
    scores = {score.name: score.value for score in record.scores}
    if (uniformity := scores.get("uniformity")) is not None:
        yield (
            f"uniformity {uniformity:.2f} on held-out texts: 0 is one vector for all texts, {UNIFORM_EVERYWHERE:g} is "
            "all directions alike; lower spreads texts more, and is worth something only where top-1 is above chance"
        )
    for raised in record.health.flags if record.health is not None else ():
        yield f"flag: {raised.flag} ({raised.because}); docs/health.md says what follows"


def _describe_loss(first: Mapping[str, float], last: Mapping[str, float]) -> str:
    loss, chance, before = last["contrastive loss"], last["loss at chance"], first["contrastive loss"]
    if loss >= chance:
        meaning = "no lower than chance, so a text's other view is no nearer than other texts"
    elif before - loss < LITTLE_LEARNED * chance:
        meaning = "hardly lower than at the first step, so the encoder had little to learn from these texts"
    else:
        meaning = "a text's other view is nearer than other texts, and the training has made it so"
    return f"contrastive loss {loss:.3g} (first {before:.3g}, chance {chance:.3g}): {meaning}"


def _describe_top_1(values: Mapping[str, float]) -> str:
    texts, share, chance = values["texts"], values["top-1"], values["top-1 at chance"]
    p = probability_of_hits(round(share * texts), round(texts), chance)
    if p > UPPER_TAIL:
        meaning = "cannot be told from chance, so nothing shows that it learned"
    else:
        meaning = "above chance: it tells texts apart"
    shown = "below 0.001" if p < 0.001 else f"{p:.2g}"
    return f"top-1 {100 * share:.0f}% (chance {100 * chance:.2g}%, p {shown}): {meaning}"


def probability_of_hits(hits: int, texts: int, chance: float) -> float:
    """Return the probability that so many of `texts` or more are hit, each with the probability `chance` (0..1)."""
    return 1 - sum(math.comb(texts, k) * chance**k * (1 - chance) ** (texts - k) for k in range(hits))
