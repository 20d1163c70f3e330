"""The options of strategies that have a Trainer of their own. Strategy and Trainer both import them from here.

No torch: a suite's options are checked while the suite loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rbench.schema import Count, KindName, Positive, Rate, Strict, TaskSpec, Variant, Variants
from rbench.words.substitution.options import (
    CODE,
    RELEASED_BUDGET,
    RELEASED_SEARCH,
    RELEASED_SOURCE,
    CandidateOptions,
    SearchOptions,
)


class FreeLBOptions(Strict):
    """Options of FreeLB, under the names of the authors' code.

    The authors tune them for each task. The defaults are those of their launch script for MNLI, but with three steps,
    which most of their other scripts have.
    """

    adv_steps: Positive = 3
    """K: how often a batch is read."""
    adv_lr: Annotated[float, Field(ge=0)] = 0.1
    """alpha: the length of a step uphill, in the norm."""
    adv_init_mag: Annotated[float, Field(ge=0)] = 0.1
    """The size of the first perturbation, which is uniform noise; 0: there is none. With `linf` it bounds each number.
    With `l2` each number is bounded by this size over the root of how many numbers there are, so that the norm is at
    most this size."""
    adv_max_norm: Rate | None = 0.3
    """epsilon: the radius of the ball around an example that no perturbation leaves. None: no bound (0 in the authors'
    code)."""
    norm_type: Literal["l2", "linf"] = "l2"


COUNTED = {
    **dict.fromkeys(("words_replaced", "fooled", "adversarial_texts"), "adversarial_texts"),
    **dict.fromkeys(("changed_share", "searched_texts"), "searched_texts"),
}
"""By score of a strategy that replaces words: the score that says of how many texts it is."""


class SubstitutionTuningOptions(CandidateOptions, Variants):
    """What strategies have in common that replace words while they train.

    Values without a remark are the paper's (ADCL, appendix F).
    """

    clean_epochs: Count = 1
    """Epochs on clean examples alone, before the adversarial ones."""
    epochs: Positive | None = None
    """Adversarial epochs (3 in the paper, on every task). None: as many as `training.epochs` says."""
    num_texts: Positive | None = None
    """How many training texts an adversarial epoch changes, drawn anew for each by seed and epoch; the others are
    trained on as they are. None: all, as in the paper. A search takes most of the time, so this is what it costs
    (TextAttack calls it `num_train_adv_examples`)."""
    max_words: Positive = 10
    """K: at most this many words of a text are replaced (15 for IMDB in the paper)."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """At most this share of the words is replaced, rounded down; only columns that may change count. The lower of the
    two bounds holds. A text of fewer than 1 / share words stays as it is."""
    until: Literal["fooled", "budget"] = "fooled"
    """When the search in a text ends (not printed). `fooled`: once the model errs, as the attack does. `budget`: only
    when the budget of words is used up."""
    erring: Literal["change", "leave"] = "change"
    """What `until: fooled` does with a text on which the model errs already (ours). `change`: Algorithm 1 looks only
    after a replacement, so one word is replaced. `leave`: the text stays as it is, and no adversarial example of it is
    added. Then a model that favours one label is shown this label more often, and may favour it more."""
    protect: dict[KindName, tuple[str, ...]] = Field(default={"nli": ("premise",)})
    """Columns in which nothing is replaced, by kind of task (ours: the paper has single texts only)."""
    keep: Literal["best", "last"] = "best"
    """Which epoch is kept (not printed). `best`: the adversarial epoch with the best accuracy on the clean validation
    split. `last`: the last one. A clean epoch is never kept."""

    def protected(self, task: TaskSpec) -> tuple[int, ...]:
        """Return the indices of the task's columns in which nothing is replaced."""
        return tuple(task.columns.index(column) for column in self.protect.get(task.kind, ()))


class AdversarialTuningOptions(SearchOptions, SubstitutionTuningOptions):
    """Options of adversarial fine-tuning: what it shares with its control, and how the search goes on."""

    VARIANTS: ClassVar[Mapping[str, Variant]] = {
        "printed": Variant(source="the ADCL paper, Algorithm 1, section 4.4, appendix F"),
        "released": Variant(
            source=f"{CODE}, adversarial training",
            options={**RELEASED_SOURCE, **RELEASED_BUDGET, **RELEASED_SEARCH, "keep_step": "positive"},
        ),
    }

    keep_step: Literal["always", "positive"] = "always"
    """`keep` of the attack `geometry`: here this name is that of the epoch to keep."""


class RandomTuningOptions(SubstitutionTuningOptions):
    """Options of fine-tuning on random substitutions: candidates, budget and epochs of adversarial fine-tuning."""

    VARIANTS: ClassVar[Mapping[str, Variant]] = {
        "printed": AdversarialTuningOptions.VARIANTS["printed"],
        "released": Variant(
            source=AdversarialTuningOptions.VARIANTS["released"].source, options={**RELEASED_SOURCE, **RELEASED_BUDGET}
        ),
    }
