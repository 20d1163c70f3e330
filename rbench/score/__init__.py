"""Compute scores from outcomes and predictions. Pure arithmetic: no torch, no files."""

from __future__ import annotations

from rbench.score.attack import (
    DEVIATIONS,
    STORED,
    AttackOverlap,
    StsDeviations,
    Tally,
    attack_scores,
    count_outcomes,
    record_problem,
)
from rbench.score.health import attack_health, flag_exchanged_labels, near_chance, victim_health
from rbench.score.statistics import Proportion, Sample, make_score, standard_deviation, wilson
from rbench.score.sts import StsPairs, mean_correlation, similarities, spearman_values, sts_scores
