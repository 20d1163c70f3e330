"""Compute scores from outcomes and predictions. Pure arithmetic: no torch, no files."""

from __future__ import annotations

from rbench.score.adversarial import SET_SCORES, adversarial_scores
from rbench.score.attack import METRICS, SHARES, Tally, attack_counts, attack_scores
from rbench.score.complete import lacking
from rbench.score.contrast import SCORES, Judged, contrast_scores, judged, mean_score
from rbench.score.health import attack_health, victim_health
from rbench.score.statistics import Sample, spread, wilson
from rbench.score.sts import Pairs, cosines, mean_correlation, sts_scores

__all__ = [
    "METRICS",
    "SCORES",
    "SET_SCORES",
    "SHARES",
    "Judged",
    "Pairs",
    "Sample",
    "Tally",
    "adversarial_scores",
    "attack_counts",
    "attack_health",
    "attack_scores",
    "contrast_scores",
    "cosines",
    "judged",
    "lacking",
    "mean_correlation",
    "mean_score",
    "spread",
    "sts_scores",
    "victim_health",
    "wilson",
]
