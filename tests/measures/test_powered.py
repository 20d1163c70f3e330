"""Valid ASR with a proxy is of all successes, as ASR is: a text that falls in several seeds counts for each."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench.measures.powered import _collect_texts
from rbench.schema.judged import Proxy, ProxyAnswer
from rbench.score.powered import estimate_limits, estimate_with_proxy

TEXTS = np.array([f"test:{number}" for number in range(60)], dtype=object)
ALWAYS, ONCE = range(20), range(20, 60)
"""Texts that fall in both seeds, whose successes are all valid, and those that fall in one, whose are not."""


def of_seed(seed: int) -> tuple[Any, tuple[ProxyAnswer, ...]]:
    fell = np.array([number in ALWAYS or number % 2 == seed for number in range(60)])
    valid = np.array([float(number in ALWAYS) for number in range(60)])
    seen = np.where(fell & (np.arange(60) % 3 == 0), valid, np.nan)
    answers = tuple(ProxyAnswer(example=TEXTS[i], label=float(valid[i])) for i in np.flatnonzero(fell))
    return SimpleNamespace(unit=TEXTS, fell=fell, seen=seen), answers


def test_a_right_proxy_gives_the_share_of_valid_successes_of_all_seeds() -> None:
    seeds = [of_seed(0), of_seed(1)]
    results: Any = SimpleNamespace(observations=lambda job: seeds[int(job.key)][0])
    cell: Any = SimpleNamespace(done=[SimpleNamespace(job=SimpleNamespace(key=str(seed))) for seed in range(2)])
    proxy = Proxy(name="p", mark="m", said={str(seed): seeds[seed][1] for seed in range(2)})
    texts = _collect_texts(results, cell, proxy, "valid_asr")
    assert texts is not None
    assert len(texts.shares) + len(texts.unjudged_proxies) == sum(int(observed.fell.sum()) for observed, _ in seeds)
    estimate = estimate_with_proxy(*texts)
    every = np.concatenate([texts.proxies, texts.unjudged_proxies])
    assert every.mean() == pytest.approx(40 / 80)
    assert estimate.weight > 0.5
    assert abs(estimate.mean - 0.5) < abs(texts.shares.mean() - 0.5) + 1e-9
    low, high = estimate_limits(estimate, texts.shares, 1)
    wider_low, wider_high = estimate_limits(estimate, texts.shares, 1, repeats=2)
    assert wider_low < low < high < wider_high
