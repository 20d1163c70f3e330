"""Keep the best step, not the last: the encoder is scored on an STS validation split while it is trained.

As SimCSE does (Gao et al. 2021, appendix A: STS-B dev). What decides is Spearman's correlation of cosines with gold
scores, the mean of those of several tasks where several are named; a step must be better than the best before it, so of
equal steps the first is kept. Scoring draws nothing by chance: training goes the way it would go without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import safetensors.torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from rbench.errors import JobError
from rbench.score import Pairs
from rbench.train.objectives import Objective

VERSION = 1

STATE, BEST = "selection.json", "selected.safetensors"


@dataclass(frozen=True)
class Selection:
    """What steps are selected by: a split of one or more STS tasks, with their names."""

    pairs: Mapping[str, Pairs]
    split: Literal["validation", "test"] = "validation"

    def __len__(self) -> int:
        return sum(len(pairs) for pairs in self.pairs.values())

    @property
    def called(self) -> str:
        """`stsb`, or `mean of sts12, sts13`."""
        return ("mean of " if len(self.pairs) > 1 else "") + ", ".join(self.pairs)

    @property
    def score_name(self) -> str:
        """`stsb_validation_spearman`: the name of the selected step's score in a record; of several `mean_...`."""
        name = "mean" if len(self.pairs) > 1 else next(iter(self.pairs))
        return f"{name}_{self.split}_spearman"

    def score(self, encode: Callable[[list[str]], NDArray[Any]]) -> float | None:
        """Spearman's correlation, or the mean of those of all tasks; None where one of them is not defined."""
        values = [pairs.scores(encode)[0].value for pairs in self.pairs.values()]
        defined = [value for value in values if value is not None]
        return fmean(defined) if len(defined) == len(values) else None

    @property
    def score_names(self) -> tuple[str, str]:
        """The score's name, and that of the step's number."""
        return self.score_name, "selected_step"


class Selector(transformers.TrainerCallback):  # type: ignore[misc]
    """Scores every so many steps and at the end, remembers the best weights, and stops training that gains no more.

    Its state is part of every checkpoint (`write`, `read`), so that a resumed run selects as one left alone.

    Args:
        objective: what is trained.
        every: steps between two scores.
        patience: stop after so many scores without a better one; None: never.
        name: of the encoder, for errors.
    """

    def __init__(
        self, selection: Selection, objective: Objective, *, every: int, patience: int | None, name: str
    ) -> None:
        self._selection, self._objective = selection, objective
        self._every, self._patience, self._name = every, patience, name
        self._scored: list[tuple[int, float | None]] = []
        self._best: dict[str, Tensor] = {}

    @property
    def best(self) -> tuple[int, float] | None:
        """The selected step and its score; None where no score was defined yet."""
        defined = [(step, score) for step, score in self._scored if score is not None]
        return max(defined, key=lambda entry: (entry[1], -entry[0]), default=None)

    @property
    def over(self) -> bool:
        """Whether patience is at its end."""
        steps: Sequence[int] = [step for step, _ in self._scored]
        last_gain = steps.index(self.best[0]) + 1 if self.best is not None else 0
        return self._patience is not None and len(steps) - last_gain >= self._patience

    @property
    def text(self) -> str:
        """The last score and the best, in a few words; empty before the first."""
        if not self._scored:
            return ""
        last = self._scored[-1][1]
        best = f" (best {self.best[1]:.3f} at step {self.best[0]})" if self.best is not None else ""
        return f"{self._selection.called} {'not defined' if last is None else f'{last:.3f}'}{best}"

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Score where it is due. Runs before the Trainer saves a checkpoint of the same step."""
        if state.global_step % self._every == 0 or state.global_step >= state.max_steps:
            self._scored.append((state.global_step, self._selection.score(self._objective.encode)))
            if self.best is not None and self.best[0] == state.global_step:
                weights = self._objective.kept.state_dict()
                # Each for itself: embeddings and a masked-LM head may be one tensor, which safetensors would refuse.
                self._best = {key: value.detach().cpu().clone().contiguous() for key, value in weights.items()}
            if self.over:
                control.should_training_stop = control.should_log = True
        return control

    def restore(self) -> dict[str, float]:
        """Put the selected step's weights back into the encoder; the step and its score by name.

        JobError where no step had a defined score.
        """
        if self.best is None:
            raise JobError(
                f"Encoder {self._name}: at no step had its sentences different cosines, so none can be selected by "
                f"{self._selection.called}: it has collapsed. A lower train.learning_rate usually helps."
            )
        self._objective.kept.load_state_dict(self._best)
        step, score = self.best
        return dict(zip(self._selection.score_names, (score, float(step)), strict=True))

    def write(self, folder: Path) -> None:
        """Keep scores and best weights in the folder of a checkpoint."""
        if self._best:
            safetensors.torch.save_file(self._best, folder / BEST)
        (folder / STATE).write_text(json.dumps({"scored": self._scored}) + "\n", encoding="utf-8")

    def read(self, folder: Path) -> None:
        """Go on from what `write` left in the folder."""
        scored = json.loads((folder / STATE).read_text(encoding="utf-8"))["scored"]
        self._scored = [(step, score) for step, score in scored]
        self._best = safetensors.torch.load_file(folder / BEST) if self.best is not None else {}
