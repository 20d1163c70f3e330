"""The pages of the committed RUNs, and the golden tables of other formats, are what rbench makes of the RUNs now.

`python -m tests.pages` makes them again.
"""

from __future__ import annotations

import functools
import re

import matplotlib
import pytest

from rbench.api import runs
from tests import pages, reference

READ = functools.lru_cache(maxsize=1)(runs.results_of)
"""Reads a RUN once for all its tables, which come one after the other."""
WANTED = pages.kinds()
SHOWN = [(name, heading) for name in reference.NAMES for heading in reference.headings(name)]


def everyday() -> set[tuple[str, str]]:
    """The tables of pages that are rendered on every push: of each RUN one, and one of each metric and layout.

    It is the one whose metric fewest RUNs before have. The nightly run renders all.
    """
    times = dict.fromkeys(sorted({heading for _, heading in SHOWN}), 0)
    found = set[tuple[str, str]]()
    for name in reference.NAMES:
        heading = min(reference.headings(name), key=lambda one: (times[one], one))
        times[heading] += 1
        found.add((name, heading))
    for one in SHOWN:
        if one[1] not in {heading for _, heading in found}:
            found.add(one)
    return found


EVERYDAY = everyday()


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "results_of", READ)


def test_each_run_shows_a_table_and_each_kind_of_table_is_rendered_on_every_push() -> None:
    assert len(SHOWN) > 130 and {name for name, _ in EVERYDAY} == {*reference.NAMES}
    assert {heading for _, heading in EVERYDAY} == {heading for _, heading in SHOWN} == WANTED.keys()


@pytest.mark.parametrize(
    ("name", "heading"),
    [pytest.param(*one, marks=() if one in EVERYDAY else pytest.mark.nightly) for one in SHOWN],
    ids=lambda one: one,
)
def test_a_table_on_a_page_is_what_rbench_makes_of_its_run(name: str, heading: str) -> None:
    assert f"\n### {heading}\n\n{reference.table(name, heading).strip()}\n" in reference.page(name)


@pytest.mark.parametrize(("name", "heading", "ending"), list(pages.golden(WANTED)), ids=lambda one: one)
def test_a_golden_table_is_what_rbench_makes_of_its_run(name: str, heading: str, ending: str) -> None:
    assert pages.place(name, heading, ending).read_bytes() == pages.rendered(name, heading, ending)


def test_there_is_no_other_golden_table() -> None:
    assert {*pages.GOLDEN.glob("*/*.*")} == {pages.place(*one) for one in pages.golden(WANTED)}


@pytest.mark.parametrize("name", [name for name in reference.NAMES if pages.shown_figures(name)])
def test_the_figures_on_a_page_are_what_rbench_draws_of_its_run(name: str) -> None:
    for file, content in pages.figures(name).items():
        committed = (reference.REFERENCE / file).read_bytes()
        # Another matplotlib may place things otherwise; the labels stay.
        labels = [sorted(re.findall(rb"<text[^>]*>(.*?)</text>", one)) for one in (committed, content)]
        assert labels[0] == labels[1] and labels[0], file
        assert committed == content or matplotlib.__version__.split(".")[:2] != pages.MATPLOTLIB.split("."), file


def test_each_figure_is_of_one_run() -> None:
    shown = [path for name in reference.NAMES for path in pages.shown_figures(name)]
    assert sorted(shown) == sorted(reference.REFERENCE.glob("*.svg")) and len(shown) > 10


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.nightly) for one in reference.NAMES])
def test_a_page_is_what_its_command_makes(name: str) -> None:
    assert pages.page(name) == reference.page(name)
