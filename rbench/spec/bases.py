"""The walk along bases: an encoder, the encoder of the registry that is its base, the base's base, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rbench.spec.entries import EncoderSpec


def base_of(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> EncoderSpec | None:
    """The base of an encoder where it is another encoder of the registry; None where it is a folder or hub id.

    An encoder may be named like the folder or hub id that it loads: then its base is that, not itself.
    """
    return encoders.get(spec.base) if spec.base is not None and spec.base != spec.name else None


def bases(spec: EncoderSpec, encoders: Mapping[str, EncoderSpec]) -> Iterator[EncoderSpec]:
    """The encoder itself, then its base, the base's base, ...: all that are in the registry, each once.

    Where bases go round in a circle it ends with the last one before the circle closes.
    """
    seen: set[str] = set()
    here: EncoderSpec | None = spec
    while here is not None and here.name not in seen:
        seen.add(here.name)
        yield here
        here = base_of(here, encoders)
