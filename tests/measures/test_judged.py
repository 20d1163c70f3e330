"""Valid ASR from end to end: raters of known skill, the oracle as a rater, tables, claims, conditions and figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.errors import RbenchError, StoreError
from rbench.report.sheet import draw_sheet
from rbench.schema.judged import HumanJudgements
from rbench.store import judged
from rbench.store.answers import read_answers
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.aggregate import AttackCell, attack_grid
from tests.raters import MINI, TASK, Rater, file_of, mini_run
from tests.refusals import refusal


def judge(run: Path, *raters: Rater, per_cell: int = 30, seed: int = 0) -> Results:
    """Let raters judge a RUN, from the sheet to their files, and return its results."""
    drawn = draw_sheet(Results.of(RunStore(run)), per_cell, len(raters), seed)
    shown = {one.item.id: one.texts for one in drawn.asked}
    paths = []
    for rater in raters:
        paths.append(run.parent / f"{run.name}-{rater.number}.csv")
        paths[-1].write_text(file_of(rater.answers(drawn.sheet, shown, seed)))
    judged.write_judgements(
        RunStore(run), HumanJudgements(sheet=drawn.sheet, answers=read_answers(paths, drawn.sheet, {TASK: MINI}))
    )
    return Results.of(RunStore(run))


def only_cell(results: Results) -> AttackCell:
    (cell,) = attack_grid(results).cells.values()
    return cell


def covers(cell: AttackCell, name: str, truth: float) -> bool:
    score = cell.score(name)
    assert score.low is not None and score.high is not None and score.value is not None
    assert 0 <= score.low <= score.value <= score.high <= 1
    return score.low <= truth <= score.high


def test_the_oracle_as_the_rater_gives_oracle_valid_asr(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", n=150)
    held = 0
    for seed in range(8):
        cell = only_cell(judge(run, Rater(1), per_cell=25, seed=seed))
        truth = cell.score("oracle_asr").value
        assert truth is not None and cell.score("seen_in_original").value == 1.0
        held += covers(cell, "valid_asr", truth)
    assert held >= 7
    cell = only_cell(judge(run, Rater(1), Rater(2), per_cell=1000))
    assert cell.score("valid_asr").value == pytest.approx(truth), "all successes are judged"


def test_raters_of_known_skill_are_covered_beside_what_they_say_of_originals(tmp_path: Path) -> None:
    """Three raters who know 8, 9 and 9 of 10 labels, and guess else: half of their guesses are right."""
    run = mini_run(tmp_path / "run", n=200, valid=0.7)
    skills = (0.8, 0.9, 0.9)
    cell = only_cell(judge(run, *(Rater(i + 1, skill) for i, skill in enumerate(skills)), per_cell=60))
    asr, oracle = cell.score("asr").value, cell.score("oracle_asr").value
    assert asr is not None and oracle is not None
    skill = sum(skills) / 3
    assert covers(cell, "valid_asr", asr * (skill * oracle / asr + (1 - skill) / 2))
    assert covers(cell, "seen_in_original", skill + (1 - skill) / 2)
    lower, upper = cell.score("valid_asr_kept").value, cell.score("valid_asr").value
    assert lower is not None and upper is not None and lower <= upper, "a bracket"


def test_what_nobody_answered_is_not_judged(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", n=40)
    for metric in ("valid_asr", "judged", "powered"):
        with refusal(StoreError, "rbench judge export"):
            api.table(run, metric=metric)
    assert "Valid ASR" not in api.table(run, layout="full")
    judge(run, Rater(1), per_cell=10)
    assert "Valid ASR" in api.table(run, layout="full")
    drawn = draw_sheet(Results.of(RunStore(run)), 10, 1, 0)
    pairs = [one.item.id for one in drawn.asked if one.item.kind in ("pair", "other")]
    said = judged.read_judgements(RunStore(run))
    assert said is not None
    without = said.model_copy(update={"answers": tuple(one for one in said.answers if one.item not in pairs)})
    judged.write_judgements(RunStore(run), without)
    table = api.table(run, metric="judged", notes="full")
    assert "n/a" in table and "nobody answered" in table
    assert only_cell(Results.of(RunStore(run))).score("valid_asr_kept").value is None


def test_tables_claims_conditions_comparisons_and_the_report_take_it_like_any_metric(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", n=60, encoders=("minilm", "bert_b"), attacks=("pwws",))
    judge(run, Rater(1), Rater(2, 0.9), Rater(3, 0.95), per_cell=30)
    table = api.table(run, metric="judged", notes="full", intervals=True)
    for said in ("Label still seen", "Meaning also kept", "Seen in originals", "Krippendorff's alpha", "came twice"):
        assert said in table
    assert "Rater 3:" in table and "unlike pairs told apart" in table
    levels = "Intervals have texts and raters as levels, and seeds where there are several."
    for metric in ("judged", "valid_asr", "valid_asr_kept", "seen_in_original"):
        assert levels in (shown := api.table(run, metric=metric, notes="full", intervals=True))
        assert "not differences between seeds" not in shown
    compared = api.comparison_table(api.compare(run, between=("minilm", "bert_b"), metric="valid_asr"))
    assert "Valid attack success rate: bert_b against minilm" in compared
    file = tmp_path / "claims.yaml"
    claim = "{id: few, about: weights, metric: valid_asr, of: {attack: pwws, encoder: minilm}, at_most: 90}"
    file.write_text(f"claims:\n  - {claim}\n")
    (found,) = api.claims(run, file)
    assert found.verdict == "supported"
    (met, *_) = api.met(run, api.conditions(["valid_asr > 5"])).met
    score = next(iter(attack_grid(Results.of(RunStore(run))).cells.values())).score("valid_asr")
    assert (met.low, met.high) == (score.low, score.high), "raters are a level of the interval of a condition, too"
    with refusal(RbenchError, "seen_in_original"):
        api.write_baseline([run], tmp_path / "baseline.json", metric=["seen_in_original"])
    page = api.report(run)[0].read_text()
    assert "Valid attack success rate, meaning kept" in page
    stripped = api.strip(run)
    assert api.table(stripped, metric="valid_asr") == api.table(run, metric="valid_asr")


def test_what_raters_have_in_common_cancels_out_of_a_comparison(tmp_path: Path) -> None:
    """Raters of unlike skill widen the number of a cell, and less a difference that the same people judged.

    Three raters tell little of what raters vary by, so five draws of the sheet are averaged.
    """
    run = mini_run(tmp_path / "run", n=200, valid=0.95, encoders=("minilm", "bert_b"))
    own, apart = [], []
    for seed in range(5):
        widths = []
        for skills in ((0.8, 0.8, 0.8), (1.0, 0.8, 0.3)):
            raters = [Rater(i + 1, skill) for i, skill in enumerate(skills)]
            results = judge(run, *raters, per_cell=60, seed=seed)
            score = next(iter(attack_grid(results).cells.values())).score("valid_asr")
            (cell,) = api.compare(run, between=("minilm", "bert_b"), metric="valid_asr").cells
            assert score.low is not None and score.high is not None
            assert cell.difference.low is not None and cell.difference.high is not None
            widths.append((score.high - score.low, cell.difference.high - cell.difference.low))
        (own_alike, apart_alike), (own_unlike, apart_unlike) = widths
        own.append(own_unlike / own_alike)
        apart.append(apart_unlike / apart_alike)
    assert min(own) > 1.5 and sum(apart) < 0.75 * sum(own)


def test_a_part_of_the_successes_has_no_interval_beyond_that_of_all(tmp_path: Path) -> None:
    """Two raters who differ widen the interval of valid ASR to all of 0 to 1, and ASR is known to fewer points."""
    run = mini_run(tmp_path / "run", n=60, fell=0.8, valid=1.0)
    cell = only_cell(judge(run, Rater(1), Rater(2, 0.2, bias=0.0), per_cell=40))
    whole = cell.score("asr").high
    assert whole is not None and whole < 0.95
    for name in ("valid_asr", "valid_asr_kept"):
        part = cell.score(name)
        assert part.value is not None and part.high is not None
        assert part.value < part.high <= whole
    assert cell.score("valid_asr").high == whole, "raters alone would reach further"
    assert cell.score("seen_in_original").high == 1.0, "no part of ASR"
