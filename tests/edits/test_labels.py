"""What kinds of edits state of themselves is what two labellers found, who worked apart and did not know the kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.proportion import proportion_confint

from benchmarks import edit_labels
from rbench.edits import Labelled
from tests.edits.kinds import KINDS

ROWS = edit_labels.read_lines(edit_labels.LABELS)
REPORT = json.loads((Path(edit_labels.__file__).parent / "results" / "edit_labels.json").read_text(encoding="utf-8"))


def test_the_report_is_counted_from_the_labels() -> None:
    assert json.loads(json.dumps(edit_labels.count(ROWS))) == REPORT
    first, second = ([row[labeller] for row in ROWS] for labeller in "AB")
    assert REPORT["kappa"] == pytest.approx(cohen_kappa_score(first, second))


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_states_how_many_edits_both_labellers_found_to_change_the_meaning(name: str) -> None:
    of_kind = [row for row in ROWS if row["kind"] == name]
    both = sum((row["A"], row["B"]) == ("changed", "changed") for row in of_kind)
    low, high = proportion_confint(both, len(of_kind), method="wilson")
    assert REPORT["kinds"][name]["interval"] == pytest.approx([low, high])
    assert len(of_kind) == 200 and KINDS[name].labelled in (Labelled(both, 200), Labelled())
    assert KINDS[name].sure is (KINDS[name].labelled.n > 0 and low >= 0.8)


def test_at_least_half_of_the_sheet_keeps_the_meaning_and_no_original_is_there_twice() -> None:
    assert sum(row["kind"] in KINDS for row in ROWS) * 2 <= len(ROWS)
    assert len({row["original"] for row in ROWS}) == len(ROWS) == len({row["id"] for row in ROWS})


def test_labels_are_kept_without_the_texts() -> None:
    assert all(row.keys() == {"id", "kind", "place", "changes", "original", "edited", "A", "B"} for row in ROWS)
