"""The goal of attacks on rankings: change a query until no relevant document is among the first k, or, with a target,
until this document is among them.

The search maximises a margin: the score of the k-th best of all other documents less that of the best relevant one. It
is above 0 once k others are better. A query whose relevant documents all lie below rank k before any change is skipped,
because the retriever is wrong already. A query with several relevant documents among the first k falls when the last of
them leaves. Whether the changed query still asks for the same is not checked here.

With a target the search maximises the score of this document less that of the k-th best of all others. A query that
finds the target among the first k before any change is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from textattack import Attack
from textattack.goal_function_results import GoalFunctionResult
from textattack.goal_functions import GoalFunction
from torch import Tensor

from rbench.encoders import index
from rbench.errors import JobError
from rbench.schema import RankingGoalSpec

VERSION = 1


class RankingOutcome(NamedTuple):
    """What the retriever gives for a query."""

    rank: int
    """The rank, from 1, of the best relevant document, or of the target."""
    ndcg: float
    intact: bool
    """Whether the attack has not succeeded: a relevant document is among the first k; with a target: it is not."""


class RankingResult(GoalFunctionResult):  # type: ignore[misc]
    """The goal function's result for a query; `output` is a `RankingOutcome`."""

    def get_text_color_input(self) -> str:
        return "red"

    def get_text_color_perturbed(self) -> str:
        return "blue"

    def get_colored_output(self, color_method: Any = None) -> str:
        return f"rank {self.output.rank}"


BELOW_ALL_COSINES, BELOW_ALL_SCORES = -2.0, -1e6
"""A score below that of any document: for cosines, and for vectors of any length."""


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
        num_documents = len(victim.retriever.ids)
        if self.k >= num_documents:
            raise JobError(
                f"an attack pushes documents below rank {self.k}, and the corpus has {num_documents} documents"
            )
        self.target: int | None = None
        if options.target is not None:
            self.target = victim.retriever.ids.index(options.target)

    def init_attack_example(self, attacked_text: Any, ground_truth_output: str) -> Any:
        """Query the original. `ground_truth_output` is the query's id."""
        retriever = self.model.retriever
        self.places, self.grades = retriever.relevant(ground_truth_output)
        self.left_out = retriever.find_left_out(ground_truth_output)
        return super().init_attack_example(attacked_text, ground_truth_output)

    def _process_model_outputs(self, inputs: Sequence[Any], outputs: Tensor) -> Tensor:
        """Return for each query (n, 3): the rank of the best tracked document, nDCG@k, and what the search maximises.

        Tracked are the relevant documents, or the target.
        """
        vectors = np.asarray(outputs.numpy(), dtype=np.float32)
        # In blocks: the scores of all candidates with all documents would not fit into memory.
        block_size = max(1, index.MAX_SCORES // len(self.model.retriever.corpus))
        blocks = [
            self._judge_rankings(vectors[start : start + block_size]) for start in range(0, len(vectors), block_size)
        ]
        return torch.from_numpy(np.concatenate(blocks))

    def _judge_rankings(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what `_process_model_outputs` does, for some queries."""
        retriever = self.model.retriever
        tracked = self.places if self.target is None else np.array([self.target])
        scores = index.score_documents(vectors, retriever.corpus, [self.left_out] * len(vectors), retriever.similarity)
        ndcg = index.compute_ndcg(index.compute_ranks(scores, self.places), self.grades, self.k)
        best_rank = index.compute_ranks(scores, tracked).min(axis=1)
        best_score = scores[:, tracked].max(axis=1)
        # The tracked documents are taken out, so that the k-th largest score is that of the other documents.
        scores[:, tracked] = -np.inf
        kth_place = scores.shape[1] - self.k
        kth_best = np.partition(scores, kth_place, axis=1)[:, kth_place]
        # Where there are fewer than k others, the k-th of them has -inf, and the margin must be finite.
        lowest = BELOW_ALL_COSINES if retriever.similarity == "cosine" else BELOW_ALL_SCORES
        margin = np.maximum(kth_best, lowest).astype(np.float64) - best_score
        return np.stack([best_rank, ndcg, margin if self.target is None else -margin], axis=1)

    def _is_intact(self, rank: float) -> bool:
        """Return whether the attack has not succeeded, where the best tracked document has this rank."""
        tracked_is_found = rank <= self.k
        return tracked_is_found if self.target is None else not tracked_is_found

    def _is_goal_complete(self, model_output: Tensor, attacked_text: Any) -> bool:
        return not self._is_intact(float(model_output[0]))

    def _get_score(self, model_output: Tensor, attacked_text: Any) -> float:
        return float(model_output[2])

    def _get_displayed_output(self, raw_output: Tensor) -> RankingOutcome:
        rank, ndcg, _ = raw_output.tolist()
        return RankingOutcome(int(rank), ndcg, self._is_intact(rank))

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
