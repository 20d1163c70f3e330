"""Checks of RUNs made by hand: which pass, warn and fail. The statistics have tests of their own (tests/score)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rbench.api import baseline_notes, check, write_baseline
from rbench.errors import StoreError
from rbench.gate import baseline as files
from rbench.gate.baseline import BaselineJob
from rbench.gate.check import CheckedRow, CheckResult
from rbench.schema import AttackSpec, Draw, Health, Job, RaisedFlag
from rbench.store.runs import RunStore
from tests.gate import gated
from tests.gate.gated import HALF, WORSE
from tests.tables.conftest import ATTACKS, make_record


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A baseline of one run."""
    folder = tmp_path_factory.mktemp("half")
    write_baseline([gated.run(folder / "before")], folder / "b.json")
    return folder / "b.json"


@pytest.fixture
def made(half: Path, tmp_path: Path) -> Path:
    """A folder with this baseline, of the test's own."""
    shutil.copy(half, tmp_path / "b.json")
    return tmp_path


def only(found: CheckResult, metric: str = "asr") -> CheckedRow:
    """The row of a metric in a check of one cell."""
    (row,) = (row for row in found.rows if row.metric.name == metric)
    return row


def checked(made: Path, letters: Any = WORSE, weights: str = "b", **more: Any) -> CheckResult:
    run = {key: more.pop(key) for key in ("of", "change", "flagged") if key in more}
    return check(gated.run(made / "now", letters, weights, **run), made / "b.json", **more)


def test_the_same_outcomes_pass(made: Path) -> None:
    found = checked(made, HALF, "a")
    assert only(found).verdict == "passed"
    headline = "accuracy under attack: 50.0% became 50.0% (minilm/mr/clean/pwws)"
    seen = only(found).judged
    assert seen is not None and seen.smallest is not None
    blind = f"a fall of less than {100 * seen.smallest:.0f} points would mostly go unseen"
    assert found.said == f"passed: 3 of 3 rows passed; {headline}; {blind}"
    assert [(row.metric.name, str(row.key)) for row in found.rows] == [
        ("aua", gated.CELL),
        ("clean", "minilm/mr/clean"),
        ("asr", gated.CELL),
    ]


def test_one_retraining_that_is_worse_fails_with_unknown_cause(made: Path) -> None:
    found = checked(made)
    cell = only(found)
    assert (cell.verdict, found.verdict) == ("unexplained", "failed") and not found.failed
    rows = f"2 of 3 rows, 2 of them worse, cause unknown (accuracy under attack, {gated.CELL}: "
    assert found.said.startswith(f"failed: {rows}")
    assert check(made / "now", made / "b.json", allow_undecided=True).verdict == "failed"
    allowed = check(made / "now", made / "b.json", allow_unexplained=True)
    assert allowed.verdict == "passed"
    assert allowed.said.startswith(
        "passed: 1 of 3 rows passed, 2 worse, cause unknown, which is allowed; accuracy under attack: "
    )
    assert cell.judged is not None
    assert (cell.before, cell.after, cell.judged.rise, cell.judged.n) == (0.5, 0.8, pytest.approx(0.3), 100)
    assert any("--about-these-weights" in note for note in found.notes)


def test_worse_weights_fail_when_the_question_is_about_them(made: Path) -> None:
    found = checked(made, about_these_weights=True)
    assert only(found).verdict == "failed" and found.said.startswith(
        f"failed: 2 of 3 rows (accuracy under attack, {gated.CELL}: "
    )


def test_the_same_weights_with_other_outcomes_fail(made: Path) -> None:
    assert only(checked(made, weights="a")).verdict == "failed"


def test_a_rise_within_the_tolerance_passes(made: Path) -> None:
    assert only(checked(made, tolerance=30, about_these_weights=True)).verdict == "passed"
    assert only(checked(made, tolerance=29, about_these_weights=True)).verdict == "failed"


def test_a_fall_and_a_rise_that_may_be_chance_pass(made: Path) -> None:
    assert only(checked(made, "s" * 20 + "f" * 80, about_these_weights=True)).verdict == "passed"
    assert only(checked(made, "s" * 53 + "f" * 47, about_these_weights=True)).verdict == "passed"


def test_aua_fails_where_it_falls_and_counts_texts_that_are_misread(made: Path) -> None:
    misread = "s" * 50 + "w" * 30 + "f" * 20
    found = checked(made, misread, metric="aua", about_these_weights=True)
    cell = only(found, "aua")
    assert cell.verdict == "failed" and (cell.before, cell.after) == (0.5, 0.2)
    assert only(checked(made, misread, about_these_weights=True)).judged.n == 70  # type: ignore[union-attr]
    assert only(checked(made, "s" * 20 + "f" * 80, metric="aua", about_these_weights=True), "aua").verdict == "passed"


def test_examples_that_errored_or_have_no_words_are_in_no_denominator(made: Path) -> None:
    found = checked(made, "!" * 10 + "-" * 10 + HALF[20:])
    for row in found.rows:
        assert row.judged is not None and row.judged.n == 80


def test_three_runs_show_how_trainings_vary(tmp_path: Path) -> None:
    def runs(name: str, *shares: int) -> Path:
        made = [
            gated.run(tmp_path / f"{name}{i}", "s" * n + "f" * (100 - n), f"{name}{i}") for i, n in enumerate(shares)
        ]
        write_baseline(made, tmp_path / f"{name}.json")
        return tmp_path / f"{name}.json"

    now = gated.run(tmp_path / "now", "s" * 70 + "f" * 30, "b")
    calm, wild = check(now, runs("calm", 49, 50, 51)), check(now, runs("wild", 30, 50, 70))
    assert only(calm).verdict == "failed" and only(calm).runs == 3
    assert only(wild).verdict == "passed" and not wild.failed
    assert only(check(now, runs("two", 49, 51))).verdict == "unexplained"


def test_a_victim_of_one_of_several_runs_is_compared_with_itself(tmp_path: Path) -> None:
    before = [gated.run(tmp_path / name, letters, name) for name, letters in (("a", HALF), ("c", WORSE), ("d", HALF))]
    write_baseline(before, tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", WORSE, "c"), tmp_path / "b.json")
    assert only(found).verdict == "passed" and only(found).before == 0.8


def test_a_cell_that_is_missing_failed_or_not_done_fails(tmp_path: Path) -> None:
    attacks = ("pwws", {"bertattack": {"max_words": 10}})
    write_baseline([gated.run(tmp_path / "before", of=gated.suite(attacks=attacks))], tmp_path / "b.json")
    fewer = check(gated.run(tmp_path / "fewer", weights="a"), tmp_path / "b.json")
    bert = "bertattack[max_words=10]"
    assert [(row.metric.name, row.key.attack, row.verdict) for row in fewer.rows] == [
        ("aua", "pwws", "passed"),
        ("aua", bert, "failed"),
        ("clean", "", "passed"),
        ("asr", "pwws", "passed"),
        ("asr", bert, "failed"),
    ]
    assert "does not have this cell" in fewer.rows[1].because and fewer.said.startswith("failed: 2 of 5 rows")
    undone = gated.run(tmp_path / "undone", {"pwws": HALF}, "a", of=gated.suite(attacks=attacks))
    assert "is not done" in check(undone, tmp_path / "b.json").rows[1].because
    gated.fail(undone)
    found = check(undone, tmp_path / "b.json")
    first = found.rows[0]
    assert first.verdict == "failed" and first.because.endswith("failed: Oops: x")
    clean = found.rows[2]
    assert clean.verdict == "failed" and "pwws: " in clean.because and "is not done" in clean.because


def test_a_seed_that_the_run_lacks_is_missing(tmp_path: Path) -> None:
    write_baseline([gated.run(tmp_path / "before", of=gated.suite(seeds=(0, 1)))], tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", weights="a"), tmp_path / "b.json")
    assert only(found).because == "the RUN does not have the fine-tuning seeds 1"


def test_several_seeds_are_compared_seed_by_seed(tmp_path: Path) -> None:
    of = gated.suite(seeds=(0, 1))
    write_baseline([gated.run(tmp_path / "before", of=of)], tmp_path / "b.json")
    cell = only(check(gated.run(tmp_path / "now", WORSE, "b", of=of), tmp_path / "b.json"))
    assert cell.judged is not None and cell.judged.n == 200


def test_a_victim_of_each_seed_is_known_by_its_weights(tmp_path: Path) -> None:
    of = gated.suite(seeds=(0, 1))
    write_baseline([gated.run(tmp_path / "before", of=of)], tmp_path / "b.json")
    cell = only(check(gated.run(tmp_path / "now", WORSE, "a", of=of), tmp_path / "b.json"))
    assert cell.verdict == "failed" and "with the same weights" in cell.because


def edited(path: Path, **changes: Callable[[BaselineJob], Any]) -> None:
    """Change fields of the jobs of a baseline file with one cell."""
    found = files.read_baseline(path)
    (cell,) = found.cells
    jobs = tuple(job.model_copy(update={name: of(job) for name, of in changes.items()}) for job in cell.jobs)
    files.write(found.model_copy(update={"cells": (cell.model_copy(update={"jobs": jobs}),)}), path)


def test_baseline_runs_that_share_a_victim_are_one_draw_of_it(tmp_path: Path) -> None:
    """As where one encoder of a suite was trained again and the cache had the others."""
    write_baseline([gated.run(tmp_path / name, weights=name) for name in "acd"], tmp_path / "b.json")
    edited(tmp_path / "b.json", weights=lambda job: "the same")
    cell = only(check(gated.run(tmp_path / "now", WORSE, "b"), tmp_path / "b.json"))
    assert (cell.runs, cell.verdict) == (1, "unexplained") and "one baseline run cannot tell" in cell.because


def test_the_values_beside_a_verdict_are_of_all_texts_and_not_of_seeds(tmp_path: Path) -> None:
    of = gated.suite(seeds=(0, 1))
    write_baseline([gated.run(tmp_path / "before", of=of)], tmp_path / "b.json")
    edited(tmp_path / "b.json", bits=lambda job: "w" * 50 + "s" * 50 if job.seed else job.bits)
    cell = only(check(gated.run(tmp_path / "now", HALF, "b", of=of), tmp_path / "b.json"))
    assert (cell.before, cell.after) == (pytest.approx(100 / 150), 0.5)


def test_a_row_that_compares_nothing_is_undecided(made: Path) -> None:
    found = checked(made, "w" * 100, about_these_weights=True)
    assert [row.verdict for row in found.rows] == ["failed", "failed", "undecided"]


@pytest.mark.parametrize(("errored", "verdict"), [(4, "passed"), (20, "undecided"), (51, "failed")])
def test_a_check_of_which_most_texts_errored_fails(made: Path, errored: int, verdict: str) -> None:
    """Time-outs are no failures of a job: a victim that became slow would pass otherwise."""
    letters = "f" * (100 - errored) + "!" * errored  # where the attack failed, so that they could have got worse
    write_baseline([gated.run(made / "held", "f" * 100)], made / "b.json")
    found = checked(made, letters, weights="a")
    lost = f"{errored} of 100 texts errored"
    for metric in ("asr", "aua", "clean"):
        cell = only(found, metric)
        assert cell.verdict == verdict and lost in cell.beside
        assert (cell.because == f"more than half of the baseline's texts errored ({lost})") is (verdict == "failed")
    assert {row.verdict for row in check(made / "now", made / "b.json", about_these_weights=True).rows} == {verdict}
    assert {row.verdict for row in checked(made, letters, weights="c").rows} == {verdict}, "with other weights"


def test_seeds_are_compared_with_themselves_in_whatever_order_a_suite_has_them(tmp_path: Path) -> None:
    letters = {"seed0": "w" * 50 + "f" * 50, "seed1": "f" * 50 + "w" * 50}
    write_baseline([gated.run(tmp_path / "before", letters, of=gated.suite(seeds=(0, 1)))], tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", letters, "b", of=gated.suite(seeds=(1, 0))), tmp_path / "b.json")
    judged = only(found).judged
    assert judged is not None and (judged.n, judged.rise) == (100, 0.0)


def test_only_texts_of_the_baseline_count_as_lost(tmp_path: Path) -> None:
    write_baseline([gated.run(tmp_path / "before", "w" * 90 + "f" * 10)], tmp_path / "b.json")
    cell = only(checked(tmp_path, "!" * 95 + "f" * 5))
    assert cell.verdict == "undecided" and "5 of 10 texts errored" in cell.beside
    halves = {"c": "w" * 50 + "f" * 50, "d": "f" * 50 + "w" * 50}  # each victim was attacked on other texts
    write_baseline([gated.run(tmp_path / one, letters, one) for one, letters in halves.items()], tmp_path / "b.json")
    cell = only(checked(tmp_path, "!" * 60 + "f" * 40))
    assert cell.verdict == "failed" and "60 of 100 texts errored" in cell.beside


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"data_fingerprint": "x"}, "rows"),
        ({"num_examples": 7}, "number"),
        ({"attack": AttackSpec(name="pwws", needs=("synonyms",), parameters={"n": 1})}, "options"),
        ({"resource_fingerprints": {"synonyms": "x"}}, "resources"),
        ({"versions": {"attack.run": 2}}, "version"),
    ],
)
def test_a_run_that_differs_in_more_than_the_victim_is_refused(made: Path, fields: dict[str, Any], named: str) -> None:
    with pytest.raises(StoreError) as caught:
        checked(made, change=gated.changed(**fields))
    assert gated.CELL in str(caught.value) and named in str(caught.value)


def test_notes_of_an_attack_change_nothing(made: Path) -> None:
    noted = ATTACKS["pwws"].model_copy(update={"notes": ("a note",), "title": "PWWS"})
    assert not checked(made, HALF, change=gated.changed(attack=noted)).failed


def test_other_seeds_or_examples_are_refused(made: Path) -> None:
    with pytest.raises(StoreError) as caught:
        checked(made, of=gated.suite(seeds=(0, 1)))
    assert "0, 1" in str(caught.value)
    with pytest.raises(StoreError):
        check(gated.run(made / "less", HALF[:-1]), made / "b.json")


def test_one_encoder_alone(tmp_path: Path) -> None:
    of = gated.suite(encoders=("minilm", "bert_b"))
    write_baseline([gated.run(tmp_path / "before", of=of)], tmp_path / "b.json")
    now = gated.run(tmp_path / "now", weights="a", of=of)
    assert {row.key.encoder for row in check(now, tmp_path / "b.json", encoders=["bert_b"]).rows} == {"bert_b"}
    with pytest.raises(StoreError) as caught:
        check(now, tmp_path / "b.json", encoders=["minilmm"])
    assert "minilmm" in str(caught.value)
    alone = gated.run(tmp_path / "alone")
    write_baseline([alone], tmp_path / "c.json")
    assert any("does not have 1 cells of the RUN" in note for note in check(now, tmp_path / "c.json").notes)


def test_a_baseline_of_a_starved_attack_is_said_to_decide_nothing_of_the_attack_alone(tmp_path: Path) -> None:
    made = write_baseline([gated.run(tmp_path / "run", flagged=True)], tmp_path / "b.json")
    said = [note.partition(",")[0] for note in baseline_notes(made) if "flagged starved" in note]
    assert said and "clean accuracy" not in said
    found = check(gated.run(tmp_path / "now", flagged=True), tmp_path / "b.json", allow_undecided=True)
    assert only(found, "clean").verdict == "passed" and {only(found, name).verdict for name in ("asr",)} == {
        "undecided"
    }


def test_flags_and_controls_are_said_beside(made: Path) -> None:
    control = ATTACKS["pwws"].model_copy(update={"control": True})
    write_baseline([gated.run(made / "c", change=gated.changed(attack=control))], made / "b.json")
    cell = only(checked(made, HALF, change=gated.changed(attack=control), flagged=True))
    assert cell.beside == ("the attack is a control", "starved of candidates")


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"metric": "queries"}, "queries"),
        ({"tolerance": float("nan")}, "nan"),
        ({"tolerance": "aua=2,queries=3"}, "'queries'"),
        ({"tolerance": "aua=much"}, "'aua=much'"),
        ({"tolerance": "2,3"}, "'2,3'"),
        ({"alpha": 0.5}, "alpha"),
    ],
)
def test_what_cannot_be_asked_is_refused(made: Path, more: dict[str, Any], named: str) -> None:
    with pytest.raises(StoreError) as caught:
        checked(made, **more)
    assert named in str(caught.value)


TWO = gated.suite(attacks=("pwws", {"bertattack": {"max_words": 10}}))
BERT = "bertattack[max_words=10]"


def of_two(tmp_path: Path, before: dict[str, str], now: dict[str, str], **more: Any) -> CheckResult:
    """Check a RUN of two attacks by whether any of them succeeded."""
    write_baseline([gated.run(tmp_path / "before", before, of=TWO)], tmp_path / "b.json")
    made = gated.run(tmp_path / "now", now, "b", of=TWO)
    return check(made, tmp_path / "b.json", metric="any_attack", about_these_weights=True, **more)


def test_any_attack_sees_what_falls_to_one_attack_or_the_other(tmp_path: Path) -> None:
    """Each attack alone succeeds as often as before, but on other texts."""
    half = {"pwws": HALF, BERT: HALF}
    found = of_two(tmp_path, half, {"pwws": HALF, BERT: HALF[::-1]})
    cell = only(found)
    assert [row.metric.name for row in found.rows] == ["aua", "clean", "asr"]
    assert (str(cell.key), cell.verdict) == ("minilm/mr/clean/any attack", "failed")
    assert (cell.before, cell.after, cell.judged and cell.judged.rise) == (0.5, 1.0, pytest.approx(0.5))
    assert not check(tmp_path / "now", tmp_path / "b.json", about_these_weights=True).failed, "attack by attack"
    assert any("at least one of pwws and bertattack[max_words=10] succeeded" in note for note in found.notes)


def test_any_attack_leaves_out_what_one_attack_cannot_judge(tmp_path: Path) -> None:
    """A text that errored, has no words or was misread is in no denominator, also where another attack succeeded."""
    now = {"pwws": "s" * 100, BERT: "!" * 10 + "-" * 10 + "w" * 10 + "f" * 70}
    cell = only(of_two(tmp_path, {"pwws": HALF, BERT: HALF}, now))
    assert cell.judged is not None and (cell.judged.n, cell.after) == (70, 1.0)


def test_any_attack_needs_all_attacks(tmp_path: Path) -> None:
    found = of_two(tmp_path, {"pwws": HALF, BERT: HALF}, {"pwws": HALF})
    assert only(found).verdict == "failed" and f"{BERT}: " in only(found).because and "not done" in only(found).because
    with pytest.raises(StoreError):
        of_two(tmp_path / "other", {"pwws": HALF, BERT: HALF[:-1]}, {"pwws": HALF, BERT: HALF[:-1]})
    alone = gated.run(tmp_path / "alone")
    write_baseline([alone], tmp_path / "c.json")
    with pytest.raises(StoreError):
        check(alone, tmp_path / "c.json", metric="any_attack")


def test_any_attack_says_what_has_one_attack_and_carries_each_flag(tmp_path: Path) -> None:
    """A second victim, of bert_b, has one attack alone."""

    def one_attack(name: str) -> Path:
        made = gated.run(tmp_path / name, of=gated.suite(encoders=("minilm", "bert_b"), attacks=TWO.attacks))
        store = RunStore(made)
        plan = store.plan()
        assert plan is not None
        store.write_plan(plan.model_copy(update={"jobs": plan.jobs[:-1]}))
        second = plan.jobs[1]
        record = store.record(second)
        assert record is not None
        health = Health(flags=(RaisedFlag(flag="starved of candidates", because="few"),))
        store.write_record(record.model_copy(update={"health": health}))
        return made

    write_baseline([one_attack("before")], tmp_path / "b.json")
    found = check(one_attack("now"), tmp_path / "b.json", metric="any_attack")
    assert only(found).key.encoder == "minilm" and only(found).beside == ()  # each flag is named once
    assert "it is flagged starved of candidates" in only(found).because
    assert only(found).verdict == "undecided" and only(found, "clean").verdict == "passed"
    assert "Not checked, because it has one attack: bert_b/mr/clean/pwws." in found.notes


def test_any_attack_needs_the_same_trainings_of_each_attack(tmp_path: Path) -> None:
    of = gated.suite(attacks=TWO.attacks, seeds=(0, 1))
    write_baseline([gated.run(tmp_path / "before", of=of)], tmp_path / "b.json")
    now = gated.run(tmp_path / "now", of=of)
    store = RunStore(now)
    plan = store.plan()
    assert plan is not None
    jobs = list(plan.jobs)
    jobs[-1] = Job.make(jobs[-1].spec, ("minilm@1", *jobs[-1].parts[1:]), {}, 1)
    draws = {"minilm@1": Draw(encoder="minilm", train_seed=1)}
    store.write_plan(plan.model_copy(update={"jobs": tuple(jobs), "draws": draws}))
    outcomes = [gated.outcome(i, letter) for i, letter in enumerate(HALF)]
    digest = store.write_outcomes(jobs[-1], outcomes)
    store.write_record(make_record(jobs[-1], outcomes).model_copy(update={"outcomes": digest}))
    with pytest.raises(StoreError):
        check(now, tmp_path / "b.json", metric="any_attack")


def test_any_attack_needs_the_same_runs_of_each_attack_in_the_baseline(tmp_path: Path) -> None:
    before = [gated.run(tmp_path / name, HALF, name, of=TWO) for name in "ac"]
    write_baseline(before, tmp_path / "b.json")
    found = files.read_baseline(tmp_path / "b.json")
    first, second = found.cells
    shorter = second.model_copy(update={"jobs": second.jobs[:1]})
    files.write(found.model_copy(update={"cells": (first, shorter)}), tmp_path / "b.json")
    now = gated.run(tmp_path / "now", HALF, "b", of=TWO)
    assert not check(now, tmp_path / "b.json").failed, "each attack alone has what it needs"
    with pytest.raises(StoreError):
        check(now, tmp_path / "b.json", metric="any_attack")


# Broken models: what the gate let pass when it asked for ASR alone


def of_accuracy(right: int, fallen: int, n: int = 90) -> str:
    """A victim that classifies so many texts right, of which so many fall."""
    return "s" * fallen + "f" * (right - fallen) + "w" * (n - right)


GOOD = of_accuracy(80, 65)
"""Accuracy 0.89 and ASR 81 on 90 texts, as in the issue."""


def broken(tmp_path: Path, letters: str, before: str = GOOD, **more: Any) -> CheckResult:
    write_baseline([gated.run(tmp_path / "before", before)], tmp_path / "b.json")
    return check(gated.run(tmp_path / "now", letters, "b"), tmp_path / "b.json", **more)


@pytest.mark.parametrize(
    "letters",
    [
        "w" * 79 + of_accuracy(11, 0, 11),  # near chance: its few right texts are no longer fooled
        of_accuracy(54, 44),  # two classes exchanged: accuracy 0.6 at the same ASR
        of_accuracy(80, 80),  # every attack succeeds
    ],
)
def test_a_broken_model_does_not_pass(tmp_path: Path, letters: str) -> None:
    found = broken(tmp_path, letters)
    asked = check(tmp_path / "now", tmp_path / "b.json", about_these_weights=True)
    for one, kind in ((found, "unexplained"), (asked, "failed")):
        assert one.verdict == "failed" and kind in {row.verdict for row in one.rows}


def test_a_fall_to_chance_does_not_pass_as_undecided(tmp_path: Path) -> None:
    """Accuracy fell from 73 to 0 points, and the flag that this raises made `--allow-undecided` pass it."""
    write_baseline([gated.run(tmp_path / "before", of_accuracy(73, 40, 100))], tmp_path / "b.json")
    now = near_chance(tmp_path, "now", "w" * 100, "b")
    found = check(now, tmp_path / "b.json", allow_undecided=True)
    verdicts = {row.metric.name: row.verdict for row in found.rows}
    assert found.verdict == "failed" and verdicts == {"aua": "unexplained", "clean": "unexplained", "asr": "undecided"}
    assert check(now, tmp_path / "b.json", allow_unexplained=True).verdict == "undecided"
    assert check(now, tmp_path / "b.json", allow_undecided=True, allow_unexplained=True).verdict == "passed"


def test_a_rise_in_accuracy_hides_no_fall_under_attack(tmp_path: Path) -> None:
    before = "w" * 20 + "f" * 40 + "s" * 30
    found = broken(tmp_path, "s" * 50 + "f" * 10 + "s" * 30, before, about_these_weights=True)
    verdicts = {row.metric.name: row.verdict for row in found.rows}
    assert verdicts == {"aua": "failed", "clean": "passed", "asr": "failed"}


def near_chance(tmp_path: Path, name: str, letters: str = HALF, weights: str = "a", flag: Any = "near chance") -> Path:
    run = gated.run(tmp_path / name, letters, weights)
    store = RunStore(run)
    for record in store.records():
        health = Health(flags=(RaisedFlag(flag=flag, because="0.5 of 0.5"),))
        store.write_record(record.model_copy(update={"health": health}))
    return run


def test_a_victim_near_chance_does_not_pass(tmp_path: Path) -> None:
    write_baseline([gated.run(tmp_path / "before")], tmp_path / "b.json")
    now = near_chance(tmp_path, "now")
    found = check(now, tmp_path / "b.json")
    assert {row.verdict for row in found.rows} == {"passed", "undecided"}  # here the attack's record has the flag
    assert "it is flagged near chance" in only(found).because and found.verdict == "undecided"
    assert check(now, tmp_path / "b.json", allow_undecided=True).verdict == "passed"
    assert check(near_chance(tmp_path, "other", flag="saturated"), tmp_path / "b.json").verdict == "passed"


def test_a_baseline_of_which_one_run_is_near_chance_decides_nothing(tmp_path: Path) -> None:
    runs = [gated.run(tmp_path / "a", weights="a"), near_chance(tmp_path, "c", weights="c")]
    runs.append(gated.run(tmp_path / "d", weights="d"))
    made = write_baseline(runs, tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", weights="b"), tmp_path / "b.json")
    assert {row.verdict for row in found.rows} == {"undecided"}
    assert "the baseline run 2 of 3 is flagged near chance" in only(found).because
    assert baseline_notes(made)[0] == (
        f"accuracy under attack, {gated.CELL}: flagged near chance, so that no check can judge it"
    )


def test_a_victim_whose_record_is_gone_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_baseline([gated.run(tmp_path / "before")], tmp_path / "b.json")
    monkeypatch.setattr("rbench.tables.flags.Flags.unrecorded", lambda self, jobs: True)
    found = check(tmp_path / "before", tmp_path / "b.json")
    assert found.verdict == "undecided" and "its health is not known" in only(found).because


def test_too_few_texts_are_said_when_a_baseline_is_made_and_do_not_pass(tmp_path: Path) -> None:
    made = write_baseline([gated.run(tmp_path / "few", "s" * 8 + "f" * 9 + "w" * 3)], tmp_path / "b.json")
    assert baseline_notes(made) == [
        f"ASR, {gated.CELL}: 17 texts count, and a check of all 3 rows needs 20 to see 30% of them get worse: attack "
        "more (num_examples)"
    ]
    found = check(tmp_path / "few", tmp_path / "b.json")
    assert {row.metric.name: row.verdict for row in found.rows} == {
        "aua": "passed",
        "clean": "passed",
        "asr": "undecided",
    }
    assert check(tmp_path / "few", tmp_path / "b.json", metric=["aua", "clean"]).verdict == "passed"
    assert baseline_notes(write_baseline([gated.run(tmp_path / "many")], tmp_path / "c.json")) == []


def test_clean_accuracy_is_one_row_a_victim_and_known_from_any_attack(tmp_path: Path) -> None:
    both = {"pwws": "!" * 60 + HALF[60:], BERT: HALF[:60] + "!" * 40}
    write_baseline([gated.run(tmp_path / "before", {"pwws": HALF, BERT: HALF}, of=TWO)], tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", both, "a", of=TWO), tmp_path / "b.json")
    (clean,) = (row for row in found.rows if row.metric.name == "clean")
    assert len(found.rows) == 5 and clean.judged is not None and (clean.judged.n, clean.verdict) == (100, "passed")


def test_metrics_restrict_the_rows_and_each_has_its_tolerance(made: Path) -> None:
    worse = "s" * 50 + "f" * 42 + "w" * 8
    found = checked(made, worse, about_these_weights=True)
    assert {row.metric.name: row.verdict for row in found.rows} == {"aua": "failed", "clean": "failed", "asr": "passed"}
    again = partial(check, made / "now", made / "b.json", about_these_weights=True)
    assert again(tolerance="clean=9,aua=9").verdict == "passed"
    assert again(tolerance={"clean": 9}).verdict == "failed"
    alone = again(metric="asr")
    assert alone.verdict == "passed"
    assert any("Not checked, because of --metric: accuracy under attack, clean accuracy" in one for one in alone.notes)


def test_any_attack_keeps_clean_accuracy(tmp_path: Path) -> None:
    found = of_two(tmp_path, {"pwws": HALF, BERT: HALF}, {"pwws": "w" * 100, BERT: "w" * 100})
    assert [(row.metric.name, row.verdict) for row in found.rows[:2]] == [("aua", "failed"), ("clean", "failed")]
    alone = check(tmp_path / "now", tmp_path / "b.json", metric=["any_attack", "asr"], about_these_weights=True)
    assert [row.metric.name for row in alone.rows] == ["asr"] and alone.verdict == "undecided"
