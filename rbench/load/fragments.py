"""What several files of a kind say alike stands once, in a fragment: `include: [_simcse, _on-bert-base]`.

A fragment is a YAML file in a folder of the kind whose name starts with `_`. Fragments are merged in the order in which
they are named, each over those before it, and the file itself over them all: mappings key by key, at any depth;
anything else, lists too, as a whole. A fragment may include fragments. Each value keeps the place where it stands.

This is the `include` of lm-evaluation-harness's task files, which take one path and merge the top level alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path

from rbench.errors import SuiteError
from rbench.load.choices import items
from rbench.load.places import Located, Problems, describe
from rbench.load.registry import FRAGMENT, Kind, Registry, nearest, unknown

INCLUDE = "include"

Read = Callable[[Path], Located]


def assemble(kind: Kind, path: Path, registry: Registry, read: Read) -> Located:
    """The content of a file of this kind under all that it includes, without `include`.

    Raises SuiteError, with the place of the name, for an unknown fragment, for what is no name, and where fragments
    include each other in a circle; and as `read` does.
    """
    return _assemble(kind, path, registry, read, ())


def _assemble(kind: Kind, path: Path, registry: Registry, read: Read, above: tuple[Path, ...]) -> Located:
    located = read(path)
    if INCLUDE not in located.data:
        return located
    below = []
    for fragment, place in _included(kind, path, located, registry):
        if fragment in (*above, path):
            names = [file.stem for file in (*above, path, fragment)]
            raise SuiteError(f"{place}: fragments include each other in a circle: {' -> '.join(names)}")
        below.append(_assemble(kind, fragment, registry, read, (*above, path)))
    own = located.only(located.data.keys() - {INCLUDE})
    return reduce(merge, [*below, own])


def _included(kind: Kind, path: Path, located: Located, registry: Registry) -> list[tuple[Path, str]]:
    """The fragments that a file names, each with the place of its name."""
    found, problems = [], Problems()
    for item in [located.sub(INCLUDE)] if located.data[INCLUDE] in (None, []) else items(located, INCLUDE):
        if not isinstance(item.data, str):
            problems.add(item.at(), f"`{INCLUDE}`: expected names of fragments, found {describe(item.data)}")
        elif (fragment := registry.fragment(kind, item.data, beside=path)) is None:
            problems.add(item.at(), _unknown(item.data, registry.fragments(kind)))
        else:
            found.append((fragment, item.at()))
    problems.raise_any()
    return found


def _unknown(name: str, valid: list[str]) -> str:
    if FRAGMENT.fullmatch(name):
        return unknown("fragment", name, valid)
    close = nearest(name, valid)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{describe(name)} is no fragment's name, which starts with `_` and has neither folder nor `.yaml`{hint}"


def merge(below: Located, above: Located) -> Located:
    """`above` over `below`, with the places of both: mappings key by key, anything else of `above` as a whole."""
    if not (isinstance(below.data, dict) and isinstance(above.data, dict)):
        return above
    merged = Located({}, {(): above.at()})
    for key in {**below.data, **above.data}:
        both = [part for part in (below, above) if key in part.data]
        merged = merged.put((key,), reduce(merge, [part.sub(key) for part in both]), both[-1].key_at((key,)))
    return merged
