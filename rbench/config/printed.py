"""Puts what papers claim of their printed tables into suites that quote it: `claims: [{paper: adcl-table1}]`.

Such claims name encoders, tasks and attacks as the suite of that table does. A quoted claim that a suite cannot judge
is left out with a note, also where a claim of the suite's own would be an error: a printed table may have columns that
rbench does not produce. Where a claim says that an encoder is the best of several, some of which the paper only cites
and rbench does not have, it is judged without these, with a note.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from rbench.config.overrides import items
from rbench.config.positions import Positioned, Problems, listed, read, shown
from rbench.config.registry import unknown
from rbench.schema.claims import Claim

_PACKAGE = Path(__file__).resolve().parent.parent


def folder() -> Path:
    """Return the folder of the files: in a wheel beside the bundled suites, in a checkout `results/paper`."""
    wheel = _PACKAGE / "bundled" / "paper"
    return wheel if wheel.is_dir() else _PACKAGE.parent / "results" / "paper"


def claims_folder() -> Path:
    """Return the folder of the claims, which has a file for each table."""
    return folder() / "claims"


KEY = "paper"


def with_quoted(located: Positioned, problems: Problems) -> Positioned:
    """Return a suite's content with the claims of printed tables in place of the entries that quote them.

    Adds a problem where a quoted table is unknown.
    """
    entries: list[Positioned] = []
    for one in items(located, "claims"):
        if not isinstance(one.data, dict) or KEY not in one.data:
            entries.append(one)
        elif set(one.data) != {KEY} or not isinstance(one.data[KEY], str):
            problems.add(one.at(), f"expected {{{KEY}: TABLE}} alone, for instance {{{KEY}: adcl-table1}}")
        else:
            entries += _of_table(one.data[KEY], one.at((KEY,)), problems)
    if not any(is_quoted(one) for one in entries) and len(entries) == len([*items(located, "claims")]):
        return located
    return located.put(("claims",), listed(entries, located.at(("claims",))))


def is_quoted(claim: Positioned) -> bool:
    """Return whether a claim stands in a file of a printed table."""
    return claim.at().startswith(f"{shown(claims_folder())}/")


def without_cited(claim: Claim, encoders: Collection[str]) -> tuple[Claim, tuple[str, ...]]:
    """Return a quoted claim without the systems of `than` that rbench does not have, and their names.

    Such a system is named as the paper names it (`Skip-thought`). A claim that compares with nothing else stays whole.

    Args:
        claim: a claim that is quoted from a printed table.
        encoders: the names of all encoders that rbench has.
    """

    def cited(name: str | None) -> bool:
        return name is not None and name.partition("[")[0] not in encoders

    there = tuple(one for one in claim.than if not cited(one.encoder))
    if not there or len(there) == len(claim.than):
        return claim, ()
    names = tuple(one.encoder for one in claim.than if one.encoder is not None and cited(one.encoder))
    return claim.model_copy(update={"than": there}), names


def _of_table(name: str, place: str, problems: Problems) -> list[Positioned]:
    path = claims_folder() / f"{name}.yaml"
    known = sorted(file.stem for file in claims_folder().glob("*.yaml"))
    if name not in known:
        problems.add(place, unknown("printed table", name, known))
        return []
    return list(items(read(path, problems), "claims"))
