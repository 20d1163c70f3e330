"""How an objective that is a loss over the views of a batch is built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbench.spec import EncoderSpec

if TYPE_CHECKING:
    from rbench.train.contrastive import ContrastiveObjective


def built_with(losses: Callable[..., Any]) -> Callable[..., ContrastiveObjective]:
    """Return `build` of an objective with these `losses(options, model, batch)`. An option `head` names the head."""

    def build(options: Any, spec: EncoderSpec, base: str | Path | None) -> ContrastiveObjective:
        """Build the objective on `base` (a folder or hub id), or on `spec.architecture` if `base` is None."""
        from rbench.train.contrastive import ContrastiveObjective

        return ContrastiveObjective(spec, base, options, partial(losses, options), head=getattr(options, "head", "mlp"))

    return build
