"""Follow an encoder to its base, the base of that base, and so on, through the encoder files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rbench.spec.entries import EncoderSpec


def base_of(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec | None:
    """Return the encoder that is the base of `spec`; None if the base is a folder or hub id, or if there is none.

    An encoder may have the name of the folder or hub id that it loads. Then its base is the folder or hub id.
    """
    return encoders.get(spec.base) if spec.base is not None and spec.base != spec.name else None


def bases(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> Iterator[EncoderSpec]:
    """Yield the encoder itself, then its base, then the base of that, as long as they are in `encoders`; each once.

    If bases form a circle, the walk ends with the last encoder before the circle closes.
    """
    seen: set[str] = set()
    here: EncoderSpec | None = spec
    while here is not None and here.name not in seen:
        seen.add(here.name)
        yield here
        here = base_of(here, encoders)
