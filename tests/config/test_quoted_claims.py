"""Suites quote what a paper claims of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import load
from rbench.config.positions import Positioned, Problems
from rbench.config.printed import with_quoted
from rbench.config.registry import Registry
from rbench.verdicts.papers import tables as printed
from tests.config.conftest import SUITE, World

TABLES = list(printed.tables("all"))
SUITES = {table: suite for suite, table in printed.SUITES.items()}
NAMES = Registry().names("suites")


@pytest.mark.parametrize("table", [table for table in TABLES if SUITES.get(table, table) in NAMES])
def test_the_suite_of_a_printed_table_states_what_the_paper_claims(table: str) -> None:
    loaded = load(SUITES.get(table, table), registry=Registry())
    stated = {claim.id for claim in loaded.suite.claims}
    left = {one for note in loaded.notes if "left out" in note for one in note.rpartition(": ")[2].split(", ")}
    assert stated | left == {placed.claim.id for placed in printed.load_claims(table)}
    # Table 5's are on options, where all encoders have `[norm=...]`; Table 3's on parts of a task.
    assert stated or table in ("robustsentembed-table5", "vadvcse-table3")


def test_quoted_claims_stand_beside_a_suites_own_and_those_that_do_not_fit_are_named(world: World) -> None:
    world.suite(
        SUITE.replace(
            "resources: world\n",
            "resources: world\nclaims:\n  - {paper: adcl-table3}\n  - {id: own, lower: trained, than: plain}\n",
        )
    )
    loaded = world.load()
    assert [claim.id for claim in loaded.suite.claims] == ["own"]
    (note,) = loaded.notes
    assert note.startswith(
        "a claim is left out, because the suite has other encoders, tasks, attacks or metrics here: "
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{paper: adcl-table33}", 'my.yaml:16:13: unknown printed table "adcl-table33"; did you mean adcl-table3'),
        ("{paper: 3}", "my.yaml:16:5: expected {paper: TABLE} alone, for instance {paper: adcl-table1}"),
        ("{paper: adcl-table3, id: a}", "my.yaml:16:5: expected {paper: TABLE} alone"),
    ],
)
def test_a_wrong_quotation_is_an_error_with_its_place(world: World, entry: str, message: str) -> None:
    world.suite(SUITE.replace("resources: world\n", f"resources: world\nclaims:\n  - {entry}\n"))
    assert world.error().startswith(message)


def test_a_quotation_has_the_places_of_the_papers_file() -> None:
    located = Positioned({"claims": [{"paper": "adcl-table3"}]}, "my.yaml:1:1")
    found = with_quoted(located, Problems())
    place = found.sub("claims", 0).at()
    assert Path(place.partition(":")[0]).name == "adcl-table3.yaml" and ":" in place


def test_a_suite_without_quotations_stays_as_it_is() -> None:
    located = Positioned({"claims": [{"id": "a"}]}, "my.yaml:1:1")
    assert with_quoted(located, Problems()) is located
