"""Metrics: one module a metric, found by its name.

A metric is a number that has a value for each unit: text, pair, triplet or query. A suite shows it with `tables:
[NAME]`, and the command line takes it wherever it takes `--metric`. Tables, intervals, bold, comparisons, claims,
checks, conditions, reports and figures ask its module for all that they need to know, and hold no list of metrics.
docs/guide-add-a-metric.md says what a module exports.
"""

from __future__ import annotations

from rbench.config.metrics import AnyMetric, MeasureNumber, Metric, MetricCatalogue, MetricOf
from rbench.metrics._observations import (
    Observations,
    Truths,
    Values,
    accepted,
    added,
    by_unit,
    columns_of,
    pooled,
    pooled_values,
    values,
)
from rbench.schema import Meaning
from rbench.score import Proportion, Sample, Tally

__all__ = [
    "AnyMetric",
    "Meaning",
    "MeasureNumber",
    "Metric",
    "MetricCatalogue",
    "MetricOf",
    "Observations",
    "Proportion",
    "Sample",
    "Tally",
    "Truths",
    "Values",
    "accepted",
    "added",
    "by_unit",
    "columns_of",
    "pooled",
    "pooled_values",
    "values",
]
