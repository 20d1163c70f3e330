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
GOLDEN = [(name, heading) for heading, name in WANTED.items()]
EVERYDAY = {one for one in GOLDEN if one[1] != "asr-means"}
"""The tables that are rendered on every push: of each metric and layout the one with golden files, but for the layout
`means`, whose only RUN is large. The nightly run renders all."""
LATEX_EVERYDAY = ("asr_difference", "aua", "hits", "strength", "sts-full", "triples")
"""Those whose LaTeX is made on every push: the search for a width that fits takes long."""
FIGURES_EVERYDAY = ("adcl-table4-local", "robustness-search-weights", "robustsentembed-figure3-local")
"""RUNs whose figures are drawn on every push: small ones of the kinds space, front and alignment."""


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "results_of", READ)


def test_each_run_shows_a_table_and_each_kind_of_table_has_golden_files() -> None:
    assert len(SHOWN) > 130 and {name for name, _ in SHOWN} == {*reference.NAMES}
    assert {heading for _, heading in SHOWN} == WANTED.keys() and {*SHOWN} >= {*GOLDEN}


@pytest.mark.parametrize(
    ("name", "heading"),
    [pytest.param(*one, marks=() if one in EVERYDAY else pytest.mark.nightly) for one in SHOWN],
    ids=lambda one: one,
)
def test_a_table_is_what_rbench_makes_of_its_run(name: str, heading: str) -> None:
    assert f"\n### {heading}\n\n{reference.table(name, heading).strip()}\n" in reference.page(name)
    for ending in ("csv", "json") if (name, heading) in GOLDEN else ():
        assert pages.place(name, heading, ending).read_bytes() == pages.rendered(name, heading, ending), ending


@pytest.mark.parametrize(
    ("name", "heading"),
    [pytest.param(*one, marks=() if one[1] in LATEX_EVERYDAY else pytest.mark.nightly) for one in GOLDEN],
    ids=lambda one: one,
)
def test_a_latex_table_is_what_rbench_makes_of_its_run(name: str, heading: str) -> None:
    assert pages.place(name, heading, "tex").read_bytes() == pages.rendered(name, heading, "tex")


def test_there_is_no_other_golden_table() -> None:
    assert {*pages.GOLDEN.glob("*/*.*")} == {pages.place(*one) for one in pages.golden(WANTED)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FIGURES_EVERYDAY else pytest.mark.nightly)
        for name in reference.NAMES
        if pages.shown_figures(name)
    ],
)
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
