"""Tests that the committed RUNs give their committed tables, byte for byte."""

from __future__ import annotations

import functools
import re

import pytest

from rbench import api
from rbench.api import runs
from tests import reference

FORMATS = {"md": "markdown", "tex": "latex", "csv": "csv", "json": "json"}
LAYOUTS = ("by-task", "full")
COMMITTED = [(run, name) for run in reference.NAMES for name in reference.files(run, "tables")]


def kind(name: str) -> tuple[str, str, str]:
    """The metric, layout and ending of a table's name."""
    stem, _, ending = name.partition(".")
    metric, _, layout = stem.partition("-")
    return metric, layout, ending


def everyday() -> set[tuple[str, str]]:
    """The tables that are rendered on every push: of each RUN one metric's, in all formats and layouts.

    It is the metric that fewest RUNs before have. A table of a metric, layout and ending that would be left out
    everywhere is added from the first RUN that has it. The nightly run renders all tables.
    """
    times = dict.fromkeys(sorted({kind(name)[0] for _, name in COMMITTED}), 0)
    found = set[tuple[str, str]]()
    for run in reference.NAMES:
        names = [name for of, name in COMMITTED if of == run]
        if names:
            metric = min({kind(name)[0] for name in names}, key=lambda one: (times[one], one))
            times[metric] += 1
            found |= {(run, name) for name in names if kind(name)[0] == metric}
    for one in COMMITTED:
        if kind(one[1]) not in {kind(name) for _, name in found}:
            found.add(one)
    return found


EVERYDAY = everyday()


def test_the_committed_tables_are_found() -> None:
    assert len(COMMITTED) > 400


def test_every_kind_of_table_of_every_run_is_rendered_on_every_push() -> None:
    assert {kind(name) for _, name in EVERYDAY} == {kind(name) for _, name in COMMITTED}
    assert {run for run, _ in EVERYDAY} == {run for run, _ in COMMITTED}


READ = functools.lru_cache(maxsize=1)(runs.results_of)
"""Reads a RUN once for all its tables, which come one after the other."""


@pytest.mark.parametrize(
    ("run", "name"),
    [pytest.param(*one, marks=() if one in EVERYDAY else pytest.mark.nightly) for one in COMMITTED],
    ids=lambda one: one,
)
def test_a_committed_table_is_what_rbench_makes_of_its_run(
    run: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "results_of", READ)
    metric, layout, ending = kind(name)
    assert layout in ("", *LAYOUTS)
    text = api.table(
        reference.run(run),
        metric=metric,  # type: ignore[arg-type]
        layout=layout or "paper",
        fmt=FORMATS[ending],
    )
    assert (text.rstrip("\n") + "\n").encode() == reference.files(run, "tables")[name]


@pytest.mark.parametrize("run", reference.NAMES)
def test_the_tables_stand_beside_the_run_for_people(run: str) -> None:
    tables = {name: content for name, content in reference.files(run, "tables").items() if name.endswith(".md")}
    shown = reference.page(run).partition("\n## Tables\n")[2].partition("\n## Claims\n")[0]
    assert re.findall(r"^### (.*)", shown, re.MULTILINE) == [name.removesuffix(".md") for name in sorted(tables)]
    assert all(content.decode().strip() in shown for content in tables.values())


def test_the_figures_on_the_pages_are_those_of_the_runs() -> None:
    shown = sorted(reference.REFERENCE.glob("*.svg"))
    for file in shown:
        run = next(name for name in reversed(reference.NAMES) if file.stem.startswith(f"{name}-"))
        drawn = reference.files(run, "figures")
        assert file.read_bytes() == drawn[f"{file.stem.removeprefix(run)[1:]}.svg"]
    assert len(shown) > 10
