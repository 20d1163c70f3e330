"""Variants of a method: named sets of options, where a paper's text and its authors' code differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from rbench.schema.common import Strict

VariantName = Literal["printed", "released"]


class Variant(Strict):
    """A named set of options. A suite or an encoder file may still set each of these options by itself."""

    source: str
    """Where the values come from: sections and equations of the paper, or the authors' public code."""
    options: dict[str, Any] = {}
    """Values that replace the defaults of the method's Options."""


class Variants(Strict):
    """Base class of the Options of a method that has variants.

    The defaults of the fields are those of the variant `printed`. `VARIANTS` has an entry for each name; options that
    are set beside `variant` replace the variant's own.
    """

    VARIANTS: ClassVar[Mapping[str, Variant]] = {}

    variant: VariantName = "printed"
    """`printed`: as the paper's text has it. `released`: as its authors' public code has it."""

    @property
    def variant_source(self) -> str | None:
        """Where the values of the variant come from; None where `VARIANTS` does not have it."""
        return self.VARIANTS[self.variant].source if self.variant in self.VARIANTS else None

    @model_validator(mode="before")
    @classmethod
    def _of_variant(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        name = value.get("variant", cls.model_fields["variant"].default)
        chosen = cls.VARIANTS.get(name) if isinstance(name, str) else None  # pydantic reports a name that is unknown
        return {**(chosen.options if chosen is not None else {}), **value}
