"""Numbers from outcomes: pure arithmetic, no torch, nothing read or written."""

from __future__ import annotations

from rbench.score.attack import METRICS, SHARES, Tally, attack_counts, attack_scores
from rbench.score.statistics import Sample, spread, wilson

__all__ = ["METRICS", "SHARES", "Sample", "Tally", "attack_counts", "attack_scores", "spread", "wilson"]
