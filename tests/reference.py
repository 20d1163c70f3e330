"""The committed RUNs, each one file, and what tests read of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from rbench import api
from rbench.schema import Plan, Record
from rbench.store.pack import unpack
from rbench.store.runs import RunStore

REFERENCE = Path(__file__).resolve().parents[1] / "results" / "reference"
NAMES = sorted(path.stem for path in REFERENCE.glob("*.zip"))


def third(which: int) -> list[Any]:
    """All RUNs as parameters of a test, of which every third runs on every push, and the others nightly.

    Tests that read RUNs as a whole take different thirds, so that together they read each.
    """
    return [
        pytest.param(name, id=name, marks=() if i % 3 == which else pytest.mark.nightly) for i, name in enumerate(NAMES)
    ]


def run(name: str) -> Path:
    """The file of a RUN."""
    return REFERENCE / f"{name}.zip"


def unpacked(name: str, folder: Path) -> Path:
    """The RUN as a new folder, which a test may change."""
    return unpack(run(name), folder).path


@cache
def plan(name: str) -> Plan:
    """The stored plan."""
    found = RunStore(run(name)).plan()
    assert found is not None
    return found


@cache
def records(name: str) -> MappingProxyType[str, Record]:
    """The reliable records by the names of their jobs, in the plan's order."""
    return MappingProxyType({record.job.name: record for record in RunStore(run(name)).records(plan(name))})


def page(name: str) -> str:
    """The page of a RUN: what it shows, its tables, and the verdicts on its claims."""
    return (REFERENCE / f"{name}.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    """The part of a RUN's page that people wrote."""
    return page(name).partition("\n## Tables\n")[0]


def verdicts(name: str) -> str:
    """What `rbench claims` prints of a RUN."""
    return page(name).partition("\n## Claims\n")[2].partition("prints them.\n\n")[2]


def headings(name: str) -> list[str]:
    """The headings of the tables on a RUN's page: a metric, and a layout where it is not the paper's."""
    shown = page(name).partition("\n## Tables\n")[2].partition("\n## Claims\n")[0]
    return re.findall(r"^### (.*)", shown, re.MULTILINE)


def table(name: str, heading: str, fmt: str = "markdown") -> str:
    """A table of a RUN, by its heading, as rbench makes it now."""
    metric, _, layout = heading.partition("-")
    return api.table(run(name), metric=metric, layout=layout or "paper", fmt=fmt)


@cache
def cells(name: str, heading: str) -> Any:
    """The cells of a table of a RUN, as its JSON has them."""
    return json.loads(table(name, heading, "json"))["cells"]


Difference = tuple[float, float, float]


def read_differences(section: str, decimals: int = 1) -> list[Difference]:
    """The values with an interval in a section: `-1.0 [-2.0, 0.5]`, in tables and text, with so many decimals."""
    number = rf"(-?\d+\.\d{{{decimals}}})"
    found = re.findall(rf"{number}(?: points?)? \[{number}, {number}\]", " ".join(section.split()))
    return [(float(value), float(low), float(high)) for value, low, high in found]
