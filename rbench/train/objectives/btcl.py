"""BTCL ("Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models").

It is momentum contrast (section 3.2, equation 1: `rbench.train.moco`) in which the positive of a sentence is its
back-translation. The paper has it as a baseline for ADCL and does not say which language, model and decoding it uses
(all ours). Each text is translated once, before the first step, and keeps its translation.

No translation model knows the language of the embedded world. Its own paraphraser replaces one: `paraphraser: mini`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from rbench.schema import EncoderSpec
from rbench.schema.common import Positive
from rbench.train.objectives import TrainingObjective
from rbench.train.options import MOMENTUM_SAMPLES, MomentumOptions

if TYPE_CHECKING:
    from rbench.train.moco import MoCoObjective
    from rbench.words.resources import Resources

VERSION = 1


class Options(MomentumOptions):
    """The paper says nothing about the translation, so the options below are ours."""

    paraphraser: Literal["marian", "mini"] = "marian"
    """`marian`: a pair of MarianMT models. `mini`: the paraphraser of the embedded world, for its texts only."""
    forward: str | None = "Helsinki-NLP/opus-mt-en-de"
    """The model into the other language: a folder on the model search path, a path, or a hub id."""
    backward: str | None = "Helsinki-NLP/opus-mt-de-en"
    """The model back from the other language."""
    beams: Positive = 1
    """Number of beams; 1 decodes greedily."""

    @model_validator(mode="before")
    @classmethod
    def _translated_or_paraphrased(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("paraphraser") == "mini":
            return {"forward": None, "backward": None, **data}
        return data

    @model_validator(mode="after")
    def _both_or_none(self) -> Options:
        given = [self.forward, self.backward]
        if self.paraphraser == "marian" and None in given:
            raise ValueError("back-translation needs two MarianMT models, `forward` and `backward`")
        return self


class BtclTraining(TrainingObjective[Options]):
    model_options = ("forward", "backward")
    full_batches = True
    counted = MOMENTUM_SAMPLES

    def build(
        self, options: Options, spec: EncoderSpec, base: str | Path | None, resources: Resources | None
    ) -> MoCoObjective:
        """Build BTCL on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.translation import BackTranslation, MiniParaphraser, RewritingObjective

        assert spec.train is not None
        if options.forward is None or options.backward is None:
            return RewritingObjective(spec, base, options, MiniParaphraser(spec.name, spec.train.seed))
        return RewritingObjective(
            spec, base, options, BackTranslation(options.forward, options.backward, beams=options.beams)
        )
