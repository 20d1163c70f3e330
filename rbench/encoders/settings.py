"""What an encoder does to texts before its network and to vectors after its pooling, and how its network is loaded."""

from __future__ import annotations

from typing import Any, Self

from rbench.spec import Attention, Dtype, EncoderSpec, Positive, Strict, TaskKind

VERSION = 1


class Settings(Strict):
    """The fields of an EncoderSpec that a saved victim keeps beside its pooling and lengths, explained there.

    `prompt` is the one prompt of the task that the encoder is loaded for.
    """

    normalize: bool = False
    truncate_dim: Positive | None = None
    prompt: str = ""
    include_prompt: bool = True
    lowercase: bool = False
    dtype: Dtype = "float32"
    attention: Attention | None = None

    @classmethod
    def of(cls, spec: EncoderSpec, kind: TaskKind | None = None) -> Self:
        """Return the settings of `spec` for texts of a kind of task; None: of no task."""
        same = {name: getattr(spec, name) for name in cls.model_fields if name != "prompt"}
        return cls(prompt=spec.prompt_for(kind), **same)

    def before_transform(self) -> Self:
        """Return the settings of the vectors on which a transform is fitted: without what follows a transform."""
        return self.model_copy(update={"normalize": False, "truncate_dim": None})

    def stated(self) -> dict[str, Any]:
        """Return the settings that are not the defaults, as JSON values. `Settings(**these)` is the same again."""
        return self.model_dump(mode="json", exclude_defaults=True)
