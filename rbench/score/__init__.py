"""Compute scores from outcomes and predictions. Pure arithmetic: no torch, no files."""

from __future__ import annotations

from rbench.score.attack import DEVIATIONS, STORED, Deviations, Fallen, Tally, attack_counts, attack_scores, lacking
from rbench.score.health import attack_health, exchanged_labels, near_chance, victim_health
from rbench.score.statistics import Sample, Share, scored, spread, wilson
from rbench.score.sts import Pairs, mean_correlation, similarities, spearman_values, sts_scores
