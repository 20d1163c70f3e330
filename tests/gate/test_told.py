"""A check of valid ASR: the baseline keeps what each rater accepts, and gives the number of tables and of compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import RbenchError, StoreError
from rbench.gate.told import read_kept_values
from rbench.metrics import MetricCatalogue
from rbench.report.sheet import draw_sheet
from rbench.schema.judged import HumanJudgements
from rbench.store import judged
from rbench.store.answers import read_answers
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from tests.raters import MINI, TASK, Rater, file_of, mini_run

METRICS = ["valid_asr", "valid_asr_kept"]
RATERS = (Rater(1), Rater(2, 0.95), Rater(3, 0.9))


def made(root: Path, name: str, *, seed: int = 0, valid: float = 0.6, per_cell: int = 60, n: int = 300) -> Path:
    """Write a RUN, and let raters judge it."""
    run = mini_run(root / name, n=n, seed=seed, valid=valid)
    drawn = draw_sheet(Results.of(RunStore(run)), per_cell, len(RATERS), 0)
    shown = {one.item.id: one.texts for one in drawn.asked}
    paths = []
    for rater in RATERS:
        paths.append(root / f"{name}-{rater.number}.csv")
        paths[-1].write_text(file_of(rater.answers(drawn.sheet, shown)))
    answers = read_answers(paths, drawn.sheet, {TASK: MINI})
    judged.write_judgements(RunStore(run), HumanJudgements(sheet=drawn.sheet, answers=answers))
    return run


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("judged"), "before")


def test_the_rows_have_the_numbers_of_tables_and_of_compare(before: Path, tmp_path: Path) -> None:
    after = made(tmp_path, "after", seed=1, valid=0.9)
    api.write_baseline([before], tmp_path / "base.json", metric=METRICS)
    found = api.check(after, tmp_path / "base.json", metric=METRICS, tolerance=0)
    assert [row.metric.name for row in found.rows] == METRICS
    for row in found.rows:
        values = [
            next(iter(attack_grid(Results.of(RunStore(run))).cells.values())).score(row.metric.name)
            for run in (before, after)
        ]
        assert (row.before, row.after) == pytest.approx([one.value for one in values], abs=1e-9)
        (cell,) = api.compare(before, after, between=("minilm", "minilm"), metric=row.metric.name).cells
        assert row.judged is not None and cell.difference.p is not None
        assert row.judged.rise == pytest.approx(cell.difference.value) and row.judged.n == cell.difference.n
        assert row.judged.p == pytest.approx(cell.difference.p / 2, rel=1e-6), "one-sided"


def test_more_valid_successes_fail_and_fewer_or_the_same_pass(before: Path, tmp_path: Path) -> None:
    api.write_baseline([before], tmp_path / "base.json.gz", metric=METRICS)
    for name, valid, verdict in (("worse", 0.98, "failed"), ("better", 0.2, "passed")):
        run = made(tmp_path, name, seed=2, valid=valid)
        command = ["check", str(run), "--baseline", str(tmp_path / "base.json.gz"), "--metric", "valid_asr"]
        said = CliRunner().invoke(app, command)
        assert said.exit_code == {"failed": 3, "passed": 0}[verdict], said.output
        assert f"{verdict}: 1 of 1 rows" in said.stdout and "Valid ASR" in said.stdout
    itself = api.check(before, tmp_path / "base.json.gz", metric=METRICS)
    assert itself.verdict == "passed" and {row.judged.rise for row in itself.rows if row.judged} == {0.0}


def test_a_text_has_the_share_of_those_who_judged_it() -> None:
    columns = {"example_id": [*"abcd"], "status": ["succeeded"] * 3 + ["failed"], "skip_reason": [None] * 4}
    bits = {"valid_asr@sheet/1": "11--", "valid_asr@sheet/2": "0---", "valid_asr_kept@sheet/1": "00--"}
    kept = read_kept_values(MetricCatalogue()["valid_asr"], columns, bits)
    assert kept is not None and kept.judged == 2
    of_rater = {rater: sum(values.values()) / 4 for rater, values in kept.by_rater.items()}
    assert of_rater == {"sheet/1": pytest.approx(3 / 4), "sheet/2": pytest.approx(0)}
    assert sum(kept.values.values()) / 4 == pytest.approx(3 / 4 * (0.5 + 1) / 2), "ASR times the mean share"
    assert read_kept_values(MetricCatalogue()["valid_asr"], columns, {}) is None


def test_few_judged_texts_are_no_evidence(tmp_path: Path) -> None:
    before, after = (made(tmp_path, name, seed=seed, per_cell=6) for seed, name in enumerate(("before", "after")))
    api.write_baseline([before], tmp_path / "base.json", metric=METRICS)
    found = api.check(after, tmp_path / "base.json", metric=METRICS)
    assert found.verdict == "undecided"
    assert all("judged" in row.because or "texts count" in row.because for row in found.rows)


def test_three_baseline_runs_tell_how_much_trainings_vary(before: Path, tmp_path: Path) -> None:
    runs = [before, *(made(tmp_path, str(seed), seed=seed) for seed in range(1, 4))]
    paths = [_with_weights(run, tmp_path / f"w{i}", f"{i:064x}") for i, run in enumerate(runs)]
    api.write_baseline(paths[:3], tmp_path / "base.json", metric=METRICS)
    found = api.check(paths[3], tmp_path / "base.json", metric=METRICS)
    for row in found.rows:
        assert row.runs == 3 and row.judged is not None and row.judged.spread is not None and row.judged.spread > 0
        assert row.verdict == "passed", row.because


def _with_weights(run: Path, to: Path, weights: str) -> Path:
    """Copy a RUN whose victim has other weights."""
    import shutil

    shutil.copytree(run, to)
    store = RunStore(to)
    for record in store.records():
        provenance = record.provenance.model_copy(update={"weights_hash": weights})
        store.write_record(record.model_copy(update={"provenance": provenance}))
    return to


def test_the_file_has_a_letter_for_each_rater_and_text_and_no_text(tmp_path: Path) -> None:
    run = made(tmp_path, "run", n=60)
    api.write_baseline([run], tmp_path / "base.json", metric=["valid_asr"])
    content = json.loads((tmp_path / "base.json").read_text())["content"]
    (job,) = content["cells"][0]["jobs"]
    assert len(job["values"]) == len(RATERS) and all(len(bits) == 60 for bits in job["values"].values())
    assert all(name.startswith("valid_asr@") for name in job["values"])


def test_what_is_not_judged_is_refused_with_the_remedy(before: Path, tmp_path: Path) -> None:
    run, bare = before, mini_run(tmp_path / "bare", n=300)
    with pytest.raises(StoreError) as caught:
        api.write_baseline([bare], tmp_path / "base.json", metric=METRICS)
    assert "valid_asr" in str(caught.value)
    api.write_baseline([run], tmp_path / "plain.json")
    with pytest.raises(StoreError) as caught:
        api.check(run, tmp_path / "plain.json", metric="valid_asr")
    assert "valid_asr" in str(caught.value)
    api.write_baseline([run], tmp_path / "base.json", metric=METRICS)
    with pytest.raises(StoreError):
        api.check(bare, tmp_path / "base.json", metric="valid_asr")
    with pytest.raises(RbenchError):
        api.check(run, tmp_path / "base.json", metric=["valid_asr", "any_attack"])
