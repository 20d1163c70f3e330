"""Suites quote what a paper claims of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config.claims import expand_quoted_claims
from rbench.config.positions import PositionedData, Problems
from rbench.papers import tables as printed
from tests.config.bundled import load_bundled
from tests.config.conftest import SUITE, World
from tests.refusals import unknown

TABLES = list(printed.find_tables("all"))
SUITES = {table: suite for suite, table in printed.SUITE_TABLES.items()}


FIGURES = {
    "rse-queries-above-uscal": "robustsentembed-figure2",
    "rse-drop-below-uscal": "robustsentembed-figure2",
    "rse-step-sizes": "robustsentembed-figure4",
    "rse-steps-monotone": "robustsentembed-figure5",
    "rse-lambdas": "robustsentembed-figure6",
}
"""Sentences on figures, whose numbers no paper prints: their claims stand in the figures' suites."""


def test_each_printed_claim_is_judged_by_its_suite_at_full_size() -> None:
    """`docs/claims.md` says that a full run ends with the verdicts on them: none may be left out."""
    unjudged = {
        (table, placed.claim.id)
        for table in TABLES
        for placed in printed.load_claims(table)
        if placed.claim.id not in {claim.id for claim in load_bundled(SUITES.get(table, table)).suite.claims}
    }
    assert not unjudged
    assert not [note for table in TABLES for note in load_bundled(SUITES.get(table, table)).notes if "left out" in note]


def test_each_sentence_on_a_figure_is_stated_by_the_suite_of_the_figure() -> None:
    for sentence, suite in FIGURES.items():
        assert sentence in {claim.id.partition(".")[0] for claim in load_bundled(suite).suite.claims}, sentence


@pytest.mark.parametrize(
    ("table", "claim", "cited", "others"),
    [
        ("robustsentembed-table4", "rse-transfer-best-mean.bert", ["Skip-thought"], 6),
        ("vadvcse-table1", "vadv-sts-best", ["IS-BERTbase"], 7),
    ],
)
def test_a_claim_is_judged_without_systems_that_the_paper_cites_and_rbench_lacks(
    table: str, claim: str, cited: list[str], others: int
) -> None:
    (found,) = (one for one in load_bundled(table).suite.claims if one.id == claim)
    assert len(found.than) == others
    (note,) = (note for note in load_bundled(table).notes if note.startswith("judged without "))
    assert note.startswith(f"judged without {', '.join(cited)}, which the paper cites and rbench does not have: ")
    assert claim in note.partition(": ")[2]


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
    assert ": claims " in note


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{paper: adcl-table33}", "my.yaml:16:13: " + unknown("printed table", "adcl-table33", "adcl-table3")),
        ("{paper: 3}", "my.yaml:16:5: expected {paper: TABLE} alone, for instance {paper: adcl-table1}"),
        ("{paper: adcl-table3, id: a}", "my.yaml:16:5: expected {paper: TABLE} alone"),
    ],
)
def test_a_wrong_quotation_is_an_error_with_its_place(world: World, entry: str, message: str) -> None:
    world.suite(SUITE.replace("resources: world\n", f"resources: world\nclaims:\n  - {entry}\n"))
    assert world.error().startswith(message)


def test_a_quotation_has_the_places_of_the_papers_file() -> None:
    located = PositionedData({"claims": [{"paper": "adcl-table3"}]}, "my.yaml:1:1")
    found = expand_quoted_claims(located, Problems())
    place = found.sub("claims", 0).at()
    assert Path(place.partition(":")[0]).name == "adcl-table3.yaml" and ":" in place


def test_a_suite_without_quotations_stays_as_it_is() -> None:
    located = PositionedData({"claims": [{"id": "a"}]}, "my.yaml:1:1")
    assert expand_quoted_claims(located, Problems()) is located
