"""BTCL ("Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models").

Momentum contrast (section 3.2, equation 1: `rbench.train.moco`) in which the positive of a sentence is its
back-translation: the paper's baseline for ADCL, which does not say through which language, by which model or with which
decoding (all ours). Each text is translated once, before the first step, and keeps its translation.

In the embedded world, whose language no translation model knows, its own paraphraser stands in: `paraphraser: mini`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import model_validator

from rbench.spec import EncoderSpec
from rbench.spec.words import Positive
from rbench.train.options import MOMENTUM_COUNTED, Momentum

if TYPE_CHECKING:
    from rbench.train.moco import MoCoObjective

VERSION = 1


COUNTED = MOMENTUM_COUNTED


class Options(Momentum):
    """Nothing about the translation is printed: all ours."""

    MODELS: ClassVar[tuple[str, ...]] = ("forward", "backward")

    paraphraser: Literal["marian", "mini"] = "marian"
    """`marian`: a pair of MarianMT models. `mini`: the embedded world's own, for its texts and no others."""
    forward: str | None = "Helsinki-NLP/opus-mt-en-de"
    """The model into another language: a folder on the model search path, a path, or a hub id."""
    backward: str | None = "Helsinki-NLP/opus-mt-de-en"
    """The model back from there."""
    beams: Positive = 1
    """1 decodes greedily."""

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
        if self.paraphraser == "mini" and given != [None, None]:
            raise ValueError("`forward` and `backward` are translation models; with `paraphraser: mini` there are none")
        if self.paraphraser == "marian" and None in given:
            raise ValueError("back-translation needs two MarianMT models, `forward` and `backward`")
        return self


def build(options: Options, spec: EncoderSpec, base: str | Path | None) -> MoCoObjective:
    """BTCL on top of `base` (a folder or hub id) or, where that is None, of `spec.architecture`."""
    from rbench.train.paraphrases import MiniParaphraser, Paraphrased, Rewriter
    from rbench.train.translation import BackTranslation

    assert spec.train is not None
    rewrite: Rewriter = MiniParaphraser(spec.name, spec.train.seed)
    if options.forward is not None and options.backward is not None:
        rewrite = BackTranslation(options.forward, options.backward, beams=options.beams)
    return Paraphrased(spec, base, options, rewrite)
