"""The goal of attacks on STS tasks: move the score of a pair away from its gold score.

Ours: the RobustSentEmbed paper (section 4.2, Table 2) prints no rule of success, and TextAttack's own goals do not
serve, since it refuses float labels and applies a softmax to a single number.

With e = |score - gold|, an attack has succeeded if e is larger than that of the original pair by at least
`threshold` times the width of the scale. A pair whose original error is that large already is skipped: the victim is
wrong before any change. As long as `threshold` is at most a quarter, every other pair can succeed, since its gold score
is at least half the width away from one end of the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textattack import Attack
from textattack.goal_function_results import GoalFunctionResult
from textattack.goal_functions import GoalFunction
from torch import Tensor

from rbench.schema import SimilarityGoalSpec, TaskSpec

VERSION = 1

TOLERANCE = 1e-9
"""An error that misses the threshold by this share of the width counts as reaching it, so that decimals as they are
printed decide: in floating point 3.6 - 2.6 is less than 1."""


class SimilarityResult(GoalFunctionResult):  # type: ignore[misc]
    """The goal function's result for a pair; `output` is the victim's score."""

    def get_text_color_input(self) -> str:
        return "red"

    def get_text_color_perturbed(self) -> str:
        return "blue"

    def get_colored_output(self, color_method: Any = None) -> str:
        return f"{self.output:.3f}"


class SimilarityGoal(GoalFunction):  # type: ignore[misc]
    """Succeeds when a pair's absolute error has grown by the threshold.

    What the search raises is the error as a share of the scale's width, in 0..1 like the probabilities that it raises
    for classes. The gold score comes as text (`repr` of a float), because `Attack.attack` refuses floats.

    Args:
        victim: gives one score for each pair, on the scale.
        scale: the lowest and the highest gold score.
        options: the threshold; and whether the search goes on after a success (`maximise`).
    """

    def __init__(self, victim: Any, scale: tuple[float, float], options: SimilarityGoalSpec, **more: Any) -> None:
        super().__init__(victim, maximizable=options.maximise, **more)
        self.width = scale[1] - scale[0]
        self.threshold = options.threshold
        self.gold = self.original_error = 0.0
        self.allowed: set[str] = set()
        """Where the goal is maximised: the pairs that the attack made and that pass its constraints. Searches also ask
        for others, for example without a word, to rank the words."""
        self.best: Any = None
        """Where the goal is maximised: the result with the largest error among the allowed pairs."""

    def init_attack_example(self, attacked_text: Any, ground_truth_output: str) -> Any:
        """Query the original pair. The gold score is `ground_truth_output`."""
        self.gold = float(ground_truth_output)
        self.allowed.clear()
        self.best = None
        return super().init_attack_example(attacked_text, ground_truth_output)

    def succeeded(self, score: float) -> bool:
        """Return whether the error of `score` exceeds the original pair's by the threshold."""
        return self._error(score) - self.original_error >= self.threshold - TOLERANCE

    def get_results(self, attacked_text_list: Sequence[Any], check_skip: bool = False) -> Any:
        """As TextAttack's. Where the goal is maximised it remembers the best result."""
        results, over = super().get_results(attacked_text_list, check_skip=check_skip)
        for result in results:
            # Searches also query texts that only serve to rank words (one word left out); these cannot be the outcome.
            if result.attacked_text.text in self.allowed and (self.best is None or result.score > self.best.score):
                self.best = result
        return results, over

    def largest(self, last: Any) -> Any:
        """Return the result with the largest error: `last`, which the search returned, or one that it passed by.

        Some searches keep a replacement that makes the error smaller, because they hope for the next one.
        """
        return last if self.best is None or last.score >= self.best.score else self.best

    def _error(self, score: Any) -> float:
        return abs(float(score) - self.gold) / self.width

    def _should_skip(self, model_output: Any, attacked_text: Any) -> bool:
        # TextAttack asks this of the original pair only, and before anything else.
        self.original_error = self._error(model_output)
        return self.original_error >= self.threshold - TOLERANCE

    def _is_goal_complete(self, model_output: Any, attacked_text: Any) -> bool:
        return self.succeeded(model_output)

    def _get_score(self, model_output: Any, attacked_text: Any) -> float:
        return self._error(model_output)

    def _get_displayed_output(self, raw_output: Any) -> float:
        return float(raw_output)

    def _goal_function_result_type(self) -> type[SimilarityResult]:
        return SimilarityResult

    def _process_model_outputs(self, inputs: Sequence[Any], outputs: Tensor) -> Tensor:
        return outputs.reshape(len(inputs))

    def extra_repr_keys(self) -> list[str]:
        return [*super().extra_repr_keys(), "threshold"]


def remember_allowed(attack: Attack) -> Attack:
    """Return the attack, whose goal from now on knows the texts that the attack's constraints allow."""
    goal, get_transformations = attack.goal_function, attack.search_method.get_transformations

    def remembered(*args: Any, **kwargs: Any) -> Any:
        texts = get_transformations(*args, **kwargs)
        goal.allowed.update(text.text for text in texts)
        return texts

    attack.search_method.get_transformations = remembered
    return attack


def aim_at_similarity(attack: Attack, victim: Any, task: TaskSpec, options: SimilarityGoalSpec) -> Attack:
    """Return the attack with a `SimilarityGoal` in place of its own goal function. All else stays."""
    assert task.scale is not None  # `SimilarityKind.why_no_victims`
    goal = SimilarityGoal(victim, task.scale, options)
    attack.goal_function = attack.search_method.goal_function = goal
    attack.search_method.get_goal_results = goal.get_results
    return attack
