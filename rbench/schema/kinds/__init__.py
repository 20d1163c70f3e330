"""The kinds of tasks, an object for each, which answers all that code elsewhere wants to know of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rbench.schema.kinds.base import ACCURACIES, CLASSES, Family, TaskKind
from rbench.schema.kinds.classification import NLI, PAIR, PARAPHRASE, SINGLE
from rbench.schema.kinds.ranking import RANKING, RankingData, RankingGoalSpec, RankingHub, RankingPairs
from rbench.schema.kinds.similarity import SIMILARITY, SimilarityGoalSpec
from rbench.schema.kinds.unlabelled import UNLABELLED

__all__ = [
    "ACCURACIES",
    "CLASSES",
    "KINDS",
    "Family",
    "KindName",
    "RankingData",
    "RankingGoalSpec",
    "RankingHub",
    "RankingPairs",
    "SimilarityGoalSpec",
    "TaskKind",
]

KindName = Literal["single", "nli", "pair", "paraphrase", "sts", "ranking", "unlabelled"]
"""The names of the kinds, written out because they are the type of fields; a test compares them to `KINDS`."""
KINDS: Mapping[str, TaskKind] = {
    kind.name: kind for kind in (SINGLE, NLI, PAIR, PARAPHRASE, SIMILARITY, RANKING, UNLABELLED)
}
"""By name, in the order in which errors list them."""
