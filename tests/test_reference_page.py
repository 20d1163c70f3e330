"""Tests that the pages in results/reference say what the committed RUNs and the verdicts on them say."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests import reference
from tests.reference import Difference, read_differences

REFERENCE = reference.REFERENCE
PAGE = (REFERENCE / "README.md").read_text(encoding="utf-8")
RUNS = reference.NAMES
POINTS = "What this RUN shows is said with ["
SECTIONS = {
    text.removeprefix("# ").partition("\n")[0]: text for text in map(reference.section, RUNS) if POINTS not in text
}
FLAGGED = "dose-response-part1-robustsentembed"
UNJUDGED = (
    # Its encoder is flagged, so that no claim on it has a number. Its tables have.
    FLAGGED,
    # Numbers of tables, which tests/tables/test_reference.py makes again.
    "adcl-table4-local and adcl-figure3-local",
    "adcl-table3-local",
    # Differences to minilm, which is in another RUN; tests/test_findings_page.py has those of the finding.
    "two-sided-snli-mpnet",
)
"""Sections with intervals that are not those of a claim."""
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@cache
def claimed() -> frozenset[Difference]:
    """All differences of all claims with their limits, both ways round."""
    row = re.compile(r"\|\s*(-?\d+\.\d)\s*\|\s*(-?\d+\.\d) to (-?\d+\.\d)\s*\|")
    found = {
        (float(value), float(low), float(high))
        for run in RUNS
        for value, low, high in row.findall(reference.verdicts(run))
    }
    return frozenset(found | {(-value, -high, -low) for value, low, high in found})


@pytest.mark.parametrize("heading", [one for one in SECTIONS if one not in UNJUDGED])
def test_each_interval_is_one_of_a_claim(heading: str) -> None:
    assert [one for one in read_differences(SECTIONS[heading]) if one not in claimed()] == []


def test_the_intervals_of_a_flagged_encoder_are_those_of_its_tables() -> None:
    cells = [cell for name in ("asr_difference", "sts") for cell in reference.cells(FLAGGED, name)]
    ends = (tuple(round(100 * cell[name], 1) for name in ("value", "low", "high")) for cell in cells)
    found = {sign for value, low, high in ends for sign in ((value, low, high), (-value, -high, -low))}
    assert len(read_differences(SECTIONS[FLAGGED])) == 6
    assert [one for one in read_differences(SECTIONS[FLAGGED]) if one not in found] == []


def test_there_are_intervals_to_check() -> None:
    assert sum(len(read_differences(text)) for heading, text in SECTIONS.items() if heading not in UNJUDGED) > 150


def test_each_run_has_a_section() -> None:
    assert len(RUNS) > 20
    assert [name for name in RUNS if name not in " ".join(SECTIONS).split()] == []


def test_the_table_of_questions_leads_to_each_section() -> None:
    table = PAGE.partition("| question | RUNs |")[2].partition("\n\n")[0]
    named = re.findall(r"\]\(([a-z0-9-]+)\.md\)", table)
    assert sorted(named) == sorted(heading.split()[0] for heading in SECTIONS)


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_section_opens_with_what_its_run_shows_and_what_it_cannot(heading: str) -> None:
    opening = " ".join(_FENCED.sub("", SECTIONS[heading].partition("\n")[2]).split())
    assert re.match(r"(This RUN|These RUNs) (shows?|draws?|tests?)\b", opening)
    assert re.search(r"cannot|no encoders|says? nothing|hardly|void", opening[:900])


def test_a_clone_stays_below_20_megabytes() -> None:
    """The rest of a clone of one commit takes 3 MB. Who adds a RUN makes room for it."""
    root = REFERENCE.parent.parent
    folders = (root / name for name in ("results", "docs", "rbench"))
    packed = [
        path for one in folders for path in one.rglob("*") if path.suffix in (".zip", ".gz", ".png", ".safetensors")
    ]
    assert sum(path.stat().st_size for path in packed) < 17_000_000
