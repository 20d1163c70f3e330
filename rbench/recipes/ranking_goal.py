"""The goal of attacks on rankings: change a query until no relevant document is among the first k.

What the search raises is how far the best relevant document lies below the k-th of all others: the difference of their
scores, above 0 once k others are better. A query whose relevant documents all lie below rank k before any change is
skipped: the retriever is wrong already. A query that was found by several relevant documents falls when the last of
them does. Whether the changed query still asks for the same is not asked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from textattack import Attack
from textattack.goal_function_results import GoalFunctionResult
from textattack.goal_functions import GoalFunction
from torch import Tensor

from rbench.encoders import index
from rbench.errors import JobError
from rbench.schema import RankingGoalSpec

VERSION = 1


class Ranked(NamedTuple):
    """What became of a query's relevant documents."""

    rank: int
    """The rank, from 1, of the best of them."""
    ndcg: float
    found: bool
    """Whether the best of them is among the first k."""


class RankingResult(GoalFunctionResult):  # type: ignore[misc]
    """The goal function's result for a query; `output` is a `Ranked`."""

    def get_text_color_input(self) -> str:
        return "red"

    def get_text_color_perturbed(self) -> str:
        return "blue"

    def get_colored_output(self, color_method: Any = None) -> str:
        return f"rank {self.output.rank}"


class RankingGoal(GoalFunction):  # type: ignore[misc]
    """Succeeds when no relevant document of the query is among the first k.

    The truth about an example is the query's id, by which the victim knows what is relevant.

    Args:
        victim: a `rbench.recipes.victim.RetrieverVictim`, or whatever gives vectors of length 1 and has a `retriever`.
        options: k.
    """

    def __init__(self, victim: Any, options: RankingGoalSpec, **more: Any) -> None:
        super().__init__(victim, **more)
        self.k = options.k
        documents = len(victim.retriever.ids)
        if self.k >= documents:
            raise JobError(f"an attack pushes documents below rank {self.k}, and the corpus has {documents} documents")

    def init_attack_example(self, attacked_text: Any, ground_truth_output: str) -> Any:
        """Query the original. `ground_truth_output` is the query's id."""
        retriever = self.model.retriever
        self.places, self.grades = retriever.relevant(ground_truth_output)
        self.own = retriever.own(ground_truth_output)
        return super().init_attack_example(attacked_text, ground_truth_output)

    def _process_model_outputs(self, inputs: Sequence[Any], outputs: Tensor) -> Tensor:
        """Return for each query (n, 3): the rank of the best relevant document, nDCG@k, and what the search raises."""
        vectors, corpus = np.asarray(outputs.numpy(), dtype=np.float32), self.model.retriever.corpus
        step, parts = max(1, index.SCORES // len(corpus)), []
        for start in range(0, len(vectors), step):
            part = vectors[start : start + step]
            found = index.scores(part, corpus, [self.own] * len(part))
            ranked, best = index.ranks(found, self.places), found[:, self.places].max(axis=1)
            found[:, self.places] = -np.inf
            last = np.partition(found, found.shape[1] - self.k, axis=1)[:, found.shape[1] - self.k]
            margin = np.maximum(last, -2.0).astype(np.float64) - best  # fewer than k others: no rank below k
            parts.append(np.stack([ranked.min(axis=1), index.ndcg(ranked, self.grades, self.k), margin], axis=1))
        return torch.from_numpy(np.concatenate(parts))

    def _is_goal_complete(self, model_output: Tensor, attacked_text: Any) -> bool:
        return int(model_output[0]) > self.k

    def _get_score(self, model_output: Tensor, attacked_text: Any) -> float:
        return float(model_output[2])

    def _get_displayed_output(self, raw_output: Tensor) -> Ranked:
        rank, ndcg, _ = raw_output.tolist()
        return Ranked(int(rank), ndcg, rank <= self.k)

    def _goal_function_result_type(self) -> type[RankingResult]:
        return RankingResult

    def extra_repr_keys(self) -> list[str]:
        return [*super().extra_repr_keys(), "k"]


def aim_at_ranking(attack: Attack, victim: Any, options: RankingGoalSpec) -> Attack:
    """Return the attack with a `RankingGoal` in place of its own goal function. All else stays."""
    goal = RankingGoal(victim, options)
    attack.goal_function = attack.search_method.goal_function = goal
    attack.search_method.get_goal_results = goal.get_results
    return attack
