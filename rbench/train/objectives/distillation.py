"""Distil a sentence encoder into itself under word substitutions (after Reimers and Gurevych 2020, equation 1).

There a student learns to give a sentence and its translation the vector that the teacher gives to the sentence. Here
the teacher is the encoder as it was, and in place of the translation stands the sentence with words replaced: the
student keeps the teacher's vector of what is written, and gives it to the edited sentence too. That is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rbench.schema import EncoderSpec, Positive, ResourceChoice, ResourceKind
from rbench.schema.common import Share
from rbench.train.objectives import TrainingObjective
from rbench.train.options import BelowOne, NotNegative
from rbench.words.substitution.options import CANDIDATE_NEEDS, CandidateOptions

if TYPE_CHECKING:
    from rbench.train.substituted import DistillationObjective
    from rbench.words.resources import Resources

VERSION = 1


class Options(CandidateOptions):
    """Where words come from is said as in ADCL; all values are ours."""

    resources: ResourceChoice = ResourceChoice(set="standard")
    """The resource set of the word vectors, the stop words and, if `source` says so, the masked LM."""
    substitutions: Literal["random", "hard", "none"] = "random"
    """`random`: random words by random candidates. `hard`: those that move the student's vector away from the
    teacher's (the Geometry attack). `none`: a control, the sentence as it is under another dropout mask."""
    max_words: Positive = 10
    share: Share = 0.4
    """At most min(max_words, share * L) words are replaced in a sentence of L words."""
    weight: NotNegative = 1.0
    """The weight of the edited sentence, where the sentence as it is has 1."""
    dropout: BelowOne | None = None
    """Dropout of the student in training. None keeps the base's own, and so does the saved encoder in any case."""


class DistillationTraining(TrainingObjective[Options]):
    resources = CANDIDATE_NEEDS
    counted: Mapping[str, str] = dict.fromkeys(("edited", "edited_unchanged", "words_replaced"), "edited")

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the kinds of resources that the source of words opens with these options."""
        return options.needed

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> DistillationObjective:
        """Build the objective on `base` (a folder or hub id), or on `spec.architecture` if `base` is None.

        ResourceError if a resource that its options need is missing or damaged.
        """
        from rbench.train.substituted import DistillationObjective
        from rbench.words.substitution.batched import BatchedGeometry

        assert resources is not None  # it states `resources`
        return DistillationObjective(spec, base, BatchedGeometry.of(resources, **options.of_source), options)
