"""Say which encoder of a RUN stands beside each encoder of a printed table.

It is the encoder of the same name and options. Where a RUN has none, an encoder of the same system on another base
stands in: `adcl-minilm` beside `adcl-bert-base`, `minilm` beside `bert-base`. A number of a stand-in reproduces
nothing, and tables mark it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rbench.load import load_encoder
from rbench.load.choices import of_label
from rbench.load.registry import Registry
from rbench.spec import Choice, EncoderSpec
from rbench.spec.printed import Coordinates, PrintedTable

_VARIANTS = ("random", "first-last", "mean")
"""Ends of the names of encoders that are not trained, where they are not the plain base."""


class System(NamedTuple):
    """What an encoder is, whatever its base."""

    method: str
    """Its objective, `word vectors`, or `plain` with what its name ends in (`plain random`)."""
    options: tuple[tuple[str, str], ...]


def label_of(where: Coordinates) -> str | None:
    """Return the label of a printed cell's encoder, as a suite has it; None where it has no name of rbench's."""
    return None if where.encoder is None else Choice(name=where.encoder, options=where.options).label


def partners(table: PrintedTable, ours: Mapping[str, EncoderSpec | None]) -> dict[str, str]:
    """Return the RUN's encoder for each encoder of a printed table that has one.

    An encoder stands in for one printed encoder at most: the first of its system in the table's order.

    Args:
        table: the printed table.
        ours: the encoders of the RUN by label, in the suite's order; None for a classifier that exists.
    """
    wanted = list(dict.fromkeys(_printed(table)))
    found = {label: label for label in wanted if label in ours}
    free = {label: _system(label, spec) for label, spec in ours.items() if label not in found and spec is not None}
    registry = Registry()
    for label in wanted:
        if label in found:
            continue
        system = _system(label, _spec(label, registry))
        partner = next((name for name, one in free.items() if _fits(one, system)), None)
        if partner is not None:
            found[label] = partner
            del free[partner]
    return {label: found[label] for label in wanted if label in found}


def _printed(table: PrintedTable) -> Sequence[str]:
    found = (one.where for one in table.found())
    labels = [label for where in found for label in (where.made_against, label_of(where))]
    return [label for label in labels if label is not None]


def _spec(label: str, registry: Registry) -> EncoderSpec | None:
    name = of_label(label).name
    return load_encoder(name, registry) if name in registry.names("encoders") else None


def _system(label: str, spec: EncoderSpec | None) -> System:
    choice = of_label(label)
    options = tuple(sorted((name, str(value)) for name, value in choice.options.items()))
    first = choice.name.partition("-")[0]
    if spec is not None and spec.train is not None:
        return System(spec.train.objective, options)
    if spec is not None and spec.word_vectors is not None:
        return System("word vectors", options)
    if first in Registry().names("objectives"):  # the authors' weights, such as simcse-bert-base
        return System(first, options)
    variant = next((end for end in _VARIANTS if choice.name.endswith(f"-{end}")), "")
    return System(f"plain {variant}".rstrip(), options)


def _fits(ours: System, printed: System) -> bool:
    """Whether an encoder may stand in: the same method, with all options that the paper's row states."""
    return ours.method == printed.method and set(printed.options) <= set(ours.options)
