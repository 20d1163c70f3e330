"""The goal of attacks on rankings: change a query until no relevant document is among the first k, or until one is that
somebody wants there.

What the search raises is how far the best relevant document lies below the k-th of all others: the difference of their
scores, above 0 once k others are better. A query whose relevant documents all lie below rank k before any change is
skipped: the retriever is wrong already. A query that was found by several relevant documents falls when the last of
them does. Whether the changed query still asks for the same is not asked here.

With a target the search raises how far this document lies above the k-th of all others. A query that finds it among the
first k before any change is skipped.
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


class RankingOutcome(NamedTuple):
    """What became of a query."""

    rank: int
    """The rank, from 1, of the best relevant document, or of the target."""
    ndcg: float
    found: bool
    """Whether the search is as it should be: the best relevant document is among the first k, or the target is not."""


class RankingResult(GoalFunctionResult):  # type: ignore[misc]
    """The goal function's result for a query; `output` is a `RankedContestant`."""

    def get_text_color_input(self) -> str:
        return "red"

    def get_text_color_perturbed(self) -> str:
        return "blue"

    def get_colored_output(self, color_method: Any = None) -> str:
        return f"rank {self.output.rank}"


BELOW_ALL_SCORES = -1e6, -2.0
"""A score below any other: of vectors of any length, and of cosines."""


class RankingGoal(GoalFunction):  # type: ignore[misc]
    """Succeeds when no relevant document of the query is among the first k, or when the target is.

    The truth about an example is the query's id, by which the victim knows what is relevant.

    Args:
        victim: a `rbench.recipes.attacked.ranking.RetrieverVictim`, or whatever gives vectors and has a `retriever`.
        options: k, and the target.
    """

    def __init__(self, victim: Any, options: RankingGoalSpec, **more: Any) -> None:
        super().__init__(victim, **more)
        self.k = options.k
        documents = len(victim.retriever.ids)
        if self.k >= documents:
            raise JobError(f"an attack pushes documents below rank {self.k}, and the corpus has {documents} documents")
        self.target: int | None = None
        if options.target is not None:
            self.target = victim.retriever.ids.index(options.target)

    def init_attack_example(self, attacked_text: Any, ground_truth_output: str) -> Any:
        """Query the original. `ground_truth_output` is the query's id."""
        retriever = self.model.retriever
        self.places, self.grades = retriever.relevant(ground_truth_output)
        self.own = retriever.own(ground_truth_output)
        return super().init_attack_example(attacked_text, ground_truth_output)

    def _process_model_outputs(self, inputs: Sequence[Any], outputs: Tensor) -> Tensor:
        """Return for each query (n, 3): the rank of the best wanted document, nDCG@k, and what the search raises."""
        vectors, corpus = np.asarray(outputs.numpy(), dtype=np.float32), self.model.retriever.corpus
        step, parts = max(1, index.MAX_SCORES // len(corpus)), []
        wanted = self.places if self.target is None else np.array([self.target])
        # In blocks: the scores of all candidates with all documents would not fit into memory.
        for start in range(0, len(vectors), step):
            chunk = vectors[start : start + step]
            scores = index.score_documents(chunk, corpus, [self.own] * len(chunk), self.model.retriever.similarity)
            ndcg = index.compute_ndcg(index.compute_ranks(scores, self.places), self.grades, self.k)
            ranked, best_wanted = index.compute_ranks(scores, wanted).min(axis=1), scores[:, wanted].max(axis=1)
            # The wanted documents are taken out, so that the k-th largest score is that of the other documents.
            scores[:, wanted] = -np.inf
            kth_best = np.partition(scores, scores.shape[1] - self.k, axis=1)[:, scores.shape[1] - self.k]
            lowest = BELOW_ALL_SCORES[self.model.retriever.similarity == "cosine"]
            margin = (
                np.maximum(kth_best, lowest).astype(np.float64) - best_wanted
            )  # fewer than k others: no rank below k
            parts.append(np.stack([ranked, ndcg, margin if self.target is None else -margin], axis=1))
        return torch.from_numpy(np.concatenate(parts))

    def _held(self, rank: float) -> bool:
        """Return whether the search is still as it should be, where the best wanted document has this rank."""
        return (rank <= self.k) == (self.target is None)

    def _is_goal_complete(self, model_output: Tensor, attacked_text: Any) -> bool:
        return not self._held(float(model_output[0]))

    def _get_score(self, model_output: Tensor, attacked_text: Any) -> float:
        return float(model_output[2])

    def _get_displayed_output(self, raw_output: Tensor) -> RankingOutcome:
        rank, ndcg, _ = raw_output.tolist()
        return RankingOutcome(int(rank), ndcg, self._held(rank))

    def _goal_function_result_type(self) -> type[RankingResult]:
        return RankingResult

    def extra_repr_keys(self) -> list[str]:
        return [*super().extra_repr_keys(), "k", "target"]


def aim_at_ranking(attack: Attack, victim: Any, options: RankingGoalSpec) -> Attack:
    """Return the attack with a `RankingGoal` in place of its own goal function. All else stays."""
    goal = RankingGoal(victim, options)
    attack.goal_function = attack.search_method.goal_function = goal
    attack.search_method.get_goal_results = goal.get_results
    return attack
