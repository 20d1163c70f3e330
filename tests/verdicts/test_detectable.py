"""Tests of the sentence that says which differences a RUN could have shown, against `rbench compare`'s column."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.verdicts import claims
from rbench.verdicts.claims import summarise_claims
from tests.gate import gated

TWO = gated.suite(encoders=("minilm", "bert_b"))


def said(run: Path) -> str:
    """The last line of what a run says of its claims."""
    return summarise_claims(Results.of(RunStore(run)))[-1]


def test_it_names_the_smallest_difference_of_a_cell_and_its_texts(tmp_path: Path) -> None:
    run = gated.run(tmp_path / "run", "s" * 50 + "f" * 50, of=TWO)
    (cell,) = api.compare(run, between=("minilm", "bert_b")).cells
    assert cell.difference.smallest is not None
    assert f"a difference in ASR between two encoders of {100 * cell.difference.smallest:.0f} points or more" in said(
        run
    )
    assert "1 pair of cells, n 100)" in said(run)


@pytest.mark.parametrize("letters", ["sf", "s" * 3 + "f" * 2])
def test_so_few_texts_that_nothing_shows_are_said_to_be_too_few(tmp_path: Path, letters: str) -> None:
    run = gated.run(tmp_path / "run", letters, of=TWO)
    assert said(run).endswith("could have shown: no difference in ASR between two encoders, for it has too few texts.")


def test_cells_that_could_show_nothing_are_counted(tmp_path: Path) -> None:
    """One of two attacks left five texts that count; the others raised exceptions."""
    of = gated.suite(encoders=("minilm", "bert_b"), attacks=("pwws", {"bertattack": {"max_words": 10}}))
    letters = {"pwws": "s" * 50 + "f" * 50, "bertattack[max_words=10]": "sssff" + "!" * 95}
    assert "2 pairs of cells, n 5 to 100; 1 of these could show none)" in said(
        gated.run(tmp_path / "run", letters, of=of)
    )


def test_of_many_pairs_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number grows with the square of that of encoders."""
    of = gated.suite(encoders=("minilm", "bert_b", "roberta"))
    run = gated.run(tmp_path / "run", "s" * 50 + "f" * 50, of=of)
    whole = said(run)
    assert "; 3 pairs of cells, n 100)" in whole
    monkeypatch.setattr(claims, "MAX_PAIRS", 2)
    assert said(run) == whole.replace("3 pairs of cells", "2 pairs of cells, drawn of 3") == said(run)
