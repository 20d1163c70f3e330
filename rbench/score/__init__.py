"""Compute scores from outcomes and predictions. Pure arithmetic: no torch, no files."""

from __future__ import annotations

from rbench.score.attack import (
    DEVIATIONS,
    STORED,
    Deviations,
    Fallen,
    Tally,
    attack_counts,
    attack_scores,
    lacking,
)
from rbench.score.contrast import (
    SCORES,
    SET_SCORES,
    Judged,
    adversarial_scores,
    adversarial_values,
    contrast_scores,
    contrast_values,
    judged,
    mean_score,
)
from rbench.score.health import attack_health, exchanged_labels, near_chance, victim_health
from rbench.score.packed import packed_numbers, unpacked, unpacked_numbers
from rbench.score.statistics import Sample, Share, scored, spread, wilson
from rbench.score.sts import Pairs, cosines, mean_correlation, spearman_values, sts_scores
from rbench.score.subsets import average, of_subset, over_trainings, set_scores, standard_error
