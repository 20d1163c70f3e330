"""Reads the lists of a suite file entry by entry, with the place of each."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from rbench.config.positions import PositionedData, Problems, parse_yaml
from rbench.errors import SuiteError
from rbench.schema import ENCODERS, SHORT, Choice, Strategy

_LABEL = re.compile(r"([^\[\]]+)\[(.*)\]", re.DOTALL)


class PlacedChoice(NamedTuple):
    """A Choice as the file writes it, with its place."""

    name: str
    label: str
    place: str
    options: PositionedData
    encoders: tuple[tuple[str, str], ...] | None = None
    """Of a strategy: place and label of each encoder that it is for; None: all of the suite."""


def iter_items(located: PositionedData, key: str) -> Iterator[PositionedData]:
    """Yield the entries of a list. A single entry may stand without the list. A missing key yields nothing."""
    value = located.data.get(key)
    if isinstance(value, list):
        yield from (located.sub(key, i) for i in range(len(value)))
    elif value is not None:
        yield located.sub(key)


def iter_names(located: PositionedData, key: str) -> Iterator[tuple[str, str]]:
    """Yield place and text of each name in a list."""
    return ((item.at(), item.data) for item in iter_items(located, key) if isinstance(item.data, str))


def iter_tables(located: PositionedData) -> Iterator[tuple[str, PositionedData]]:
    """Yield metric and entry of each of a suite's tables that says its metric."""
    for table in iter_items(located, "tables"):
        metric = table.data.get("metric") if isinstance(table.data, dict) else table.data
        if isinstance(metric, str):
            yield metric, table


def list_profiles(located: PositionedData) -> list[PositionedData]:
    """Return the well-formed profiles of a suite."""
    profiles = located.data.get("profiles")
    parts = [located.sub("profiles", name) for name in profiles] if isinstance(profiles, dict) else []
    return [part for part in parts if isinstance(part.data, dict)]


def iter_choices(located: PositionedData, key: str) -> Iterator[PlacedChoice]:
    """Yield the well-formed choices of a list. The check against the pydantic model reports the others."""
    for item in iter_items(located, key):
        data, options = item.data, PositionedData({}, item.at())
        place = item.at()
        if isinstance(data, dict) and len(data) == 1 and "name" not in data:
            (name, inner), *_ = data.items()
            place = item.key_at((name,))
            options = item.sub(name) if inner is not None else options
            if name in SHORT and isinstance(inner, str):
                options = PositionedData({}, options.at()).put((SHORT[name],), options)
        elif isinstance(data, dict) and isinstance(data.get("name"), str):
            name, place = data["name"], item.at(("name",))
            options = item.sub("options") if "options" in data else options
        elif isinstance(data, str):
            name = data
        else:
            continue
        if isinstance(options.data, dict):
            encoders = None
            if key == "finetune" and ENCODERS in options.data:
                with_places = ((entry.at(), Strategy.named(entry.data)) for entry in iter_items(options, ENCODERS))
                encoders = (
                    *((entry_place, label) for entry_place, label in with_places if isinstance(label, str)),
                ) or None
                options = options.only({*options.data} - {ENCODERS})
            yield PlacedChoice(name, Choice(name=name, options=options.data).label, place, options, encoders)


def parse_label(label: str) -> Choice:
    """Return the choice that a label names, as tables and jobs have it: `simcse-mini[seed=1]`, or a name alone.

    Raises SuiteError where the brackets hold something other than options.
    """
    matched = _LABEL.fullmatch(label)
    if matched is None:
        return Choice(name=label)
    problems = Problems()
    options = None
    with contextlib.suppress(SuiteError):
        options = parse_yaml(_flow_mapping(matched[2]), label, problems).data
    if len(problems) or not isinstance(options, dict) or not 0 < len(options) <= matched[2].count("="):
        raise SuiteError(f"{label}: expected NAME[OPTION=VALUE,...], for instance simcse-mini[seed=1]")
    return Choice(name=matched[1], options=options)


def label_as_yaml(label: str) -> str:
    """Write a label as a suite has it: `{simcse-mini: {seed: 1}}`."""
    matched = _LABEL.fullmatch(label)
    return label if matched is None else f"{{{matched[1]}: {_flow_mapping(matched[2])}}}"


def _flow_mapping(options: str) -> str:
    """Write the options of a label as a mapping in YAML."""
    return "{" + re.sub("[=:]", ": ", options).replace(",", ", ") + "}"


def measured_names(located: PositionedData) -> tuple[str, ...]:
    """Return the names in a suite's `measured`, which loading writes. A file that wrongly sets it may hold anything."""
    stored = located.data.get("measured")
    return tuple(name for name in stored if isinstance(name, str)) if isinstance(stored, list | tuple) else ()
