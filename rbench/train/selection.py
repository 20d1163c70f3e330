"""Keep the weights of the best step: score the encoder on STS pairs during training.

SimCSE selects on STS-B dev (Gao et al. 2021, appendix A). The score is Spearman's correlation of cosines with gold
scores, averaged over the tasks if there are several. Among steps with equal scores the first is kept. Scoring draws no
random numbers, so it does not change the training.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import safetensors.torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from rbench.errors import JobError
from rbench.score import StsPairs
from rbench.train.objectives._trained import Objective

VERSION = 2

SELECTION_FILE, BEST_WEIGHTS_FILE = "selection.json", "selected.safetensors"


@dataclass(frozen=True)
class SelectionPairs:
    """The pairs that steps are scored on: of a split of one or more STS tasks, by task name."""

    pairs: Mapping[str, StsPairs]
    split: str = "validation"
    """Named as `TrainSpec.scored_splits` does."""

    def __len__(self) -> int:
        return sum(len(pairs) for pairs in self.pairs.values())

    @property
    def called(self) -> str:
        """Name the tasks for people: `stsb`, or `mean of sts12, sts13`."""
        return ("mean of " if len(self.pairs) > 1 else "") + ", ".join(self.pairs)

    def score(self, encode: Callable[[list[str]], NDArray[Any]]) -> float | None:
        """Return Spearman's correlation, averaged over the tasks; None if it is undefined for one of them."""
        values = [pairs.scores(encode)[0].value for pairs in self.pairs.values()]
        defined = [value for value in values if value is not None]
        return fmean(defined) if len(defined) == len(values) else None

    @property
    def score_names(self) -> tuple[str, str]:
        """Return the names of the selected step's score and of its number in a record.

        The score is `stsb_validation_spearman`, for instance, or `mean_...` for several tasks.
        """
        name = "mean" if len(self.pairs) > 1 else next(iter(self.pairs))
        return f"{name}_{self.split.replace(' ', '_')}_spearman", "selected_step"


class StepSelector(transformers.TrainerCallback):  # type: ignore[misc]
    """Score every `every` steps and at the end, keep the best weights, and stop when the score no longer improves.

    Every checkpoint contains the state (`write`, `read`), so that a resumed run selects the same step as an
    uninterrupted one.

    Args:
        selection: the pairs to score on.
        objective: the objective being trained.
        every: number of steps between two scores.
        patience: stop after this number of scores without a new best. None never stops.
        name: the encoder's name, for error messages.
    """

    def __init__(
        self, selection: SelectionPairs, objective: Objective, *, every: int, patience: int | None, name: str
    ) -> None:
        self._selection, self._objective = selection, objective
        self._every, self._patience, self._name = every, patience, name
        self._scored: list[tuple[int, float | None]] = []
        self._best: dict[str, Tensor] = {}

    @property
    def best(self) -> tuple[int, float] | None:
        """Return the selected step and its score; None while no score is defined."""
        defined = [(step, score) for step, score in self._scored if score is not None]
        # `-step`: of equal scores the first, so that a longer training does not change what a shorter one selected.
        return max(defined, key=lambda entry: (entry[1], -entry[0]), default=None)

    @property
    def over(self) -> bool:
        """Return whether `patience` scores have passed without a new best."""
        steps: Sequence[int] = [step for step, _ in self._scored]
        # Patience counts scores and not steps, and scores before the first defined one count too.
        last_gain = steps.index(self.best[0]) + 1 if self.best is not None else 0
        without_gain = len(steps) - last_gain
        return self._patience is not None and without_gain >= self._patience

    @property
    def text(self) -> str:
        """Show the last and the best score, for progress; empty before the first score."""
        if not self._scored:
            return ""
        last = self._scored[-1][1]
        best = f" (best {self.best[1]:.3f} at step {self.best[0]})" if self.best is not None else ""
        return f"{self._selection.called} {'not defined' if last is None else f'{last:.3f}'}{best}"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Score if this step is due. The Trainer calls this before it saves a checkpoint of the same step."""
        if state.global_step % self._every == 0 or state.global_step >= state.max_steps:
            self._scored.append((state.global_step, self._selection.score(self._objective.encode)))
            if self.best is not None and self.best[0] == state.global_step:
                weights = self._objective.kept.state_dict()
                # Clone each: embeddings and a masked-LM head may share a tensor, which safetensors refuses.
                self._best = {key: value.detach().cpu().clone().contiguous() for key, value in weights.items()}
            if self.over:
                control.should_training_stop = control.should_log = True
        return control

    def restore(self) -> dict[str, float]:
        """Load the selected step's weights into the encoder; return its score and its number, by `score_names`.

        JobError if no step has a defined score.
        """
        if self.best is None:
            raise JobError(
                f"Encoder {self._name}: no step can be selected by {self._selection.called}, because all pairs had the "
                "same cosine at every step: the encoder has collapsed. A lower train.learning_rate usually helps."
            )
        self._objective.kept.load_state_dict(self._best)
        step, score = self.best
        return dict(zip(self._selection.score_names, (score, float(step)), strict=True))

    def write(self, folder: Path) -> None:
        """Write scores and best weights into the folder of a checkpoint."""
        if self._best:
            safetensors.torch.save_file(self._best, folder / BEST_WEIGHTS_FILE)
        (folder / SELECTION_FILE).write_text(json.dumps({"scored": self._scored}) + "\n", encoding="utf-8")

    def read(self, folder: Path) -> None:
        """Restore scores and best weights that `write` put into the folder."""
        scored = json.loads((folder / SELECTION_FILE).read_text(encoding="utf-8"))["scored"]
        self._scored = [(step, score) for step, score in scored]
        self._best = safetensors.torch.load_file(folder / BEST_WEIGHTS_FILE) if self.best is not None else {}
