"""Tests of the bold that all entries share which are not significantly worse than the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from rbench.schema import Claim, Flag, Health, RaisedFlag
from rbench.schema.claims import CellOf, ClaimScope
from rbench.score.paired import mcnemar
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from rbench.tables.formats import render
from rbench.tables.table import Number, Table
from rbench.verdicts import claims
from rbench.verdicts.bold import mark_bold
from rbench.verdicts.cells import RunCells
from rbench.verdicts.claims import judge_claims
from rbench.verdicts.compare import build_table, compare_names
from tests.verdicts.builders import TWO_ATTACKS, N, make_results

ENCODERS = ("a", "b", "c")


def bold(table: Table) -> list[str]:
    return [str(row[1]) for row in table.rows if isinstance(row[2], Number) and row[2].best]


def first(n: int) -> list[bool]:
    return [i < n for i in range(N)]


def test_an_entry_loses_the_bold_where_it_is_significantly_worse(tmp_path: Path) -> None:
    # b falls on 4 more texts than a (p = 0.125 alone), c on 20 more.
    results = make_results(tmp_path, {"a": first(20), "b": first(24), "c": first(40)})
    assert mcnemar(0, 4) > 0.05 > 3 * mcnemar(0, 20)
    plain = build(results)
    assert bold(plain) == ["a"]
    table = mark_bold(plain, results)
    assert bold(table) == ["a", "b"]
    text = render(table, "markdown")
    assert (
        "bold: the lowest of each attack and column, and all that are not significantly worse (paired, Holm over the 3 "
        "comparisons of this table, alpha 0.05)"
    ) in text
    assert bold(mark_bold(plain, results, "best")) == ["a"]
    assert bold(mark_bold(plain, results, "none")) == []
    assert "bold" not in render(mark_bold(plain, results, "none"), "markdown")


def test_all_pairs_count_in_the_correction(tmp_path: Path) -> None:
    # p of a and b is 0.03125: below 0.05 for two encoders, and not when three make three pairs.
    assert mcnemar(0, 6) == 0.03125
    two = make_results(tmp_path / "two", {"a": first(20), "b": first(26)})
    three = make_results(tmp_path / "three", {"a": first(20), "b": first(26), "c": first(26)})
    assert bold(mark_bold(build(two), two)) == ["a"]
    assert bold(mark_bold(build(three), three)) == []
    # The best was found by looking at all three pairs, so the two tests that are made are not all that counts.
    assert 2 * mcnemar(1, 9) < 0.05 < 3 * mcnemar(1, 9)
    worse = [1 <= i < 29 for i in range(N)]
    looked = make_results(tmp_path / "looked", {"a": first(20), "b": worse, "c": worse})
    assert bold(mark_bold(build(looked), looked)) == []


def test_all_columns_of_a_table_are_one_family(tmp_path: Path) -> None:
    """p is 0.031: below 0.05 for one column, and not where two columns are looked at."""
    fell = {"a": first(20), "b": first(26)}
    one = make_results(tmp_path / "one", fell)
    assert bold(mark_bold(build(one), one)) == ["a"]
    two = make_results(tmp_path / "two", fell, attacks=TWO_ATTACKS)
    shown = mark_bold(build(two), two)
    assert bold(shown) == []
    assert (
        "3 of 3 columns of each attack have no bold: no entry there is significantly worse than the best (paired, "
        "Holm over the 3 comparisons of this table, alpha 0.05)."
    ) in shown.brief
    assert bold(mark_bold(build(two), two, "best")) == ["a"] * 3


def test_clean_accuracy_is_one_comparison_however_many_attacks_show_it(tmp_path: Path) -> None:
    fell = {"a": [None] * 12 + first(20)[12:], "b": [False] * N}
    results = make_results(tmp_path, fell, attacks=TWO_ATTACKS)
    shown = mark_bold(build(results, "clean"), results)
    assert [(row[0], row[1].best) for row in shown.rows if isinstance(row[1], Number)] == [("a", False), ("b", True)]
    assert "Holm over the only comparison of this table" in shown.bold


def test_an_entry_that_is_better_on_the_texts_of_both_is_not_shown_to_be_worse(tmp_path: Path) -> None:
    """a falls on 12 of the 20 texts that both had right, and b on none. The other texts make b look worse."""
    fell = {
        "a": [*first(12)[:20], *[False] * 20, *[None] * 20],
        "b": [*[False] * 20, *[None] * 20, *[True] * 20],
    }
    results = make_results(tmp_path, fell)
    assert mcnemar(12, 0) < 0.001 and bold(build(results)) == ["a"]
    assert bold(mark_bold(build(results), results)) == []


def test_pairing_tells_what_counts_cannot(tmp_path: Path) -> None:
    """The same counts: paired on the same texts the difference is significant, by counts alone it is not."""
    fell = {"a": first(20), "b": first(30)}
    kept, stripped = make_results(tmp_path / "kept", fell), make_results(tmp_path / "stripped", fell, outcomes=False)
    assert bold(mark_bold(build(kept), kept)) == ["a"]
    by_counts = mark_bold(build(stripped), stripped)
    assert bold(by_counts) == []
    assert "by counts" in render(by_counts, "latex")


def test_where_one_entry_has_no_outcomes_all_are_compared_by_counts(tmp_path: Path) -> None:
    fell = {"a": first(20), "b": first(50), "c": first(30)}
    results = make_results(tmp_path, fell, outcomes=("a", "c"))
    shown = mark_bold(build(results), results)
    assert bold(shown) == ["a", "c"] and "by counts" in shown.bold


def test_averages_without_outcomes_are_judged_by_seeds_where_there_are_several(tmp_path: Path) -> None:
    """Counts of both tasks tell 33 from 45% of 180, but all seeds attacked the same 60."""
    fell = {"a": first(20), "b": first(27)}
    results = make_results(tmp_path, fell, outcomes=False, seeds=(0, 1, 2), tasks=("mr", "mini_nli"))
    average = [row[-1] for row in mark_bold(build(results), results).rows]
    assert [isinstance(one, Number) and one.best for one in average] == [False, False]


def test_the_highest_is_the_best_where_high_is_good(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(20), "b": first(24), "c": first(50)})
    assert bold(mark_bold(build(results, "aua"), results)) == ["a", "b"]
    assert bold(mark_bold(build(results, "queries"), results)) == ["c"]


def test_words_are_compared_over_the_texts_that_fell_to_both(tmp_path: Path) -> None:
    """What failed attacks had changed, nine words in ten of b's and one of a's, says nothing."""
    results = make_results(tmp_path, {"a": first(20), "b": first(24)})
    assert bold(mark_bold(build(results, "perturbed"), results)) == ["a"]


def test_what_prints_like_the_best_is_not_worse(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(21), "b": first(21), "e": first(21)})
    assert compare_names((results, "a"), (results, "e"), "perturbed").cells[0].verdict == "higher"
    assert bold(mark_bold(build(results, "perturbed"), results)) == ["a", "e"]


def test_seconds_are_not_tested_and_the_caption_says_so(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(20), "b": first(50)})
    table = build(results, "seconds")
    row = list(table.rows[0])
    assert isinstance(row[2], Number)
    table = Table(**{**vars(table), "rows": ((*row[:2], Number(0.1, False, best=True)), table.rows[1])})
    shown = mark_bold(table, results)
    assert bold(shown) == ["a"]
    assert "of each attack and column, not tested)" in render(shown, "markdown")


def test_equal_encoders_rarely_lose_the_bold(tmp_path: Path) -> None:
    """The best is picked by looking, so the correction must cover that: five equal encoders, one text in two falls."""
    rng, lost = np.random.default_rng(0), 0
    for i in range(6):
        fell = {name: [bool(x) for x in rng.random(N) < 0.5] for name in "abcde"}
        results = make_results(tmp_path / str(i), fell)
        best = bold(build(results))
        lost += bool(best) and bool(bold(mark_bold(build(results), results)))
    assert lost <= 1, lost  # 0.3 are expected at 5%


def test_seeds_are_drawn_with_the_examples(tmp_path: Path) -> None:
    """Each seed has the same difference, so that even three seeds are enough; no p value is taken of 180 examples."""
    results = make_results(tmp_path, {"a": first(20), "b": first(40)}, seeds=(0, 1, 2))
    assert bold(mark_bold(build(results), results)) == ["a"]


def test_nothing_is_bold_where_nothing_differs_and_a_sentence_says_so(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(20), "b": first(21)})
    shown = mark_bold(build(results), results)
    assert bold(shown) == []
    note = "No column has bold: no entry there is significantly worse than the best (paired, Holm over the only "
    assert any(one.startswith(note) for one in shown.brief) and any(one.startswith(note) for one in shown.notes)
    assert "; bold" not in render(shown, "markdown")


def test_ties_are_counted_among_the_columns_without_bold(tmp_path: Path) -> None:
    results = make_results(tmp_path, {"a": first(N), "b": first(N), "c": first(N)})
    shown = mark_bold(build(results), results)
    assert bold(shown) == [] and any(one.startswith("No column has bold") for one in shown.brief)


def flagged(root: Path, fell: Mapping[str, Sequence[bool | None]], encoder: str, flag: Flag) -> Results:
    """A RUN in which the attacks on one encoder raised a flag."""
    results = make_results(root, fell)
    for job in results.plan.jobs:
        record = results.store.record(job)
        assert record is not None
        raised = Health(flags=(RaisedFlag(flag=flag, because="0.5"),)) if job.parts[0] == encoder else Health()
        RunStore(root).write_record(record.model_copy(update={"health": raised}))
    return Results.of(RunStore(root))


@pytest.mark.parametrize("flag", ["near chance", "saturated", "starved of candidates"])
def test_a_flagged_entry_is_never_bold_and_the_best_is_that_of_the_others(tmp_path: Path, flag: Flag) -> None:
    """A flagged victim that is fooled least is no finding, and does not keep the bold from the best of the others."""
    results = flagged(tmp_path, {"a": first(5), "b": first(20), "c": first(40)}, "a", flag)
    assert bold(build(results)) == ["b"]  # --bold best, too
    shown = mark_bold(build(results), results)
    assert bold(shown) == ["b"] and "Holm over the only comparison" in shown.bold
    assert "Flagged entries are never bold, and bold compares the others." in shown.brief


def test_where_one_entry_alone_has_no_flag_nothing_is_bold(tmp_path: Path) -> None:
    results = flagged(tmp_path, {"a": first(20), "b": first(50)}, "a", "near chance")
    assert bold(mark_bold(build(results), results)) == []


def test_bold_compare_and_a_claim_have_the_same_p_before_correction(tmp_path: Path) -> None:
    """One pair of cells has one p; the families differ, and each output names its own."""
    results = make_results(tmp_path, {"a": first(20), "b": first(27)})
    compared = compare_names((results, "b"), (results, "a"))
    (cell,) = compared.cells
    claim = Claim.model_validate({"id": "one", "lower": "a", "than": "b", "about": "weights"})
    cells = tuple(CellOf(name, "mr", "pwws", "clean") for name in "ab")
    (found,) = judge_claims([claim], ClaimScope({"asr": cells}, metrics={"asr": "attacks"}), RunCells(results))
    assert found.judged[0].p == cell.p == pytest.approx(mcnemar(0, 7))
    assert (found.verdict, cell.verdict, bold(mark_bold(build(results), results))) == ("supported", "lower", ["a"])
    assert any("Holm over the only comparison of this command" in note for note in build_table(compared).notes)
    assert any("1 claim with 1 comparison" in note for note in claims.build_table([found]).notes)
