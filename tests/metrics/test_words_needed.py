"""Words needed and the share of words needed, against a loop over the outcomes of two attacks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from rbench.metrics import MetricCatalogue, Observations, by_unit, columns_of
from rbench.schema import Outcome

METRICS = MetricCatalogue()
STATUS = ("succeeded", "failed", "errored")


def outcomes(seed: int, n: int = 60) -> list[Outcome]:
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        if i % 7 == 3:
            rows.append(Outcome(example_id=f"{i}", status="skipped", original=None, label=1))
            continue
        status = rng.choices(STATUS, weights=(6, 3, 1))[0]
        words = rng.randint(0, 9) if status == "succeeded" else 4
        share = words / 12 if status == "succeeded" else None
        rows.append(
            Outcome(
                example_id=f"{i}",
                status=status,
                original=None,
                label=1,
                num_words=12,
                num_words_changed=words,
                perturbed_share=share,
            )
        )
    return rows


@pytest.mark.parametrize(("name", "limit"), [("words_needed", 6.0), ("share_needed", 0.4)])
def test_the_attack_that_needed_the_fewest_words_counts(name: str, limit: float) -> None:
    metric, attacks = METRICS[name], [outcomes(1), outcomes(2), outcomes(3)]
    expected: dict[str, float] = {}
    for rows in zip(*attacks, strict=True):
        if any(one.status in ("errored", "skipped") for one in rows):
            continue
        fell = [one for one in rows if one.status == "succeeded"]
        if name == "words_needed":
            found = [max(1, one.num_words_changed) for one in fell]
        else:
            found = [one.num_words_changed / 12 for one in fell]
        expected[rows[0].example_id] = min([*found, limit])
    seen = [Observations.of(rows, has_oracle=False) for rows in attacks]
    together = by_unit(metric, Observations.together(seen, metric.harm))
    assert together == pytest.approx(expected) and len(expected) > 20
    assert len({*together.values()}) > 3, "attacks differ"
    harm = by_unit(metric, Observations.together(seen))
    assert np.mean([*harm.values()]) > np.mean([*together.values()]), (
        "the first success is not the one with least words"
    )
    assert {"status", "num_words_changed"} <= columns_of(metric.value, metric.harm)


def test_a_weak_search_among_several_is_no_obstacle() -> None:
    metric = METRICS["words_needed"]
    assert metric.hindered(["weak search", "near chance", "not deterministic"]) == ["near chance", "not deterministic"]
