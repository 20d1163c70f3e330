"""The table of adversarial STS, and what the tables of attacks show of STS tasks."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from rbench.errors import StoreError
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    Health,
    Job,
    Outcome,
    Plan,
    Provenance,
    RaisedFlag,
    Record,
    ResourceSet,
    Suite,
    TaskSpec,
)
from rbench.score import StsDeviations, Tally, attack_scores, count_outcomes, wilson
from rbench.store.runs import RunStore
from rbench.store.verify import verify
from rbench.tables import Results, build
from rbench.tables.any_attack import ANY
from rbench.tables.formats import render
from rbench.tables.frame import results_frame
from rbench.tables.table import Number, Table

TASKS = {
    "mr": TaskSpec(name="mr", kind="single", columns=("text",), labels=("neg", "pos")),
    "stsb": TaskSpec(name="stsb", kind="sts", columns=("a", "b"), scale=(0, 5)),
    "sickr": TaskSpec(name="sickr", kind="sts", columns=("a", "b"), scale=(1, 5)),
}
STRATEGIES = {"mr": ("clean",), "stsb": ("cosine",), "sickr": ("cosine",)}
N = 12


def make_job(encoder: str, task: str, strategy: str, attack: str, seed: int) -> Job:
    spec = AttackJob(
        encoder=encoder,
        strategy=Choice(name=strategy),
        task=TASKS[task],
        data_fingerprint="d",
        attack=AttackSpec(name=attack),
        resources=ResourceSet(name="none"),
        resource_fingerprints={},
        num_examples=N,
    )
    return Job.make(spec, (encoder, task, strategy, attack), {}, seed)


def outcomes(job: Job) -> list[Outcome]:
    rng = random.Random(job.key)
    pair = job.parts[1] != "mr"
    made = []
    for i in range(N):
        status = rng.choice(["succeeded", "failed", "failed", "skipped"]) if i else "errored"
        after = {"perturbed_score": rng.uniform(0, 5)} if status in ("succeeded", "failed") else {}
        scores = {"gold": rng.uniform(1, 5), "original_score": rng.uniform(0, 5), **after} if pair else {"label": 1}
        made.append(
            Outcome(
                example_id=f"test:{i}",
                status=status,  # type: ignore[arg-type]
                original=None,
                num_queries=rng.randint(2, 99),
                perturbed_share=0.5 if status == "succeeded" else None,
                error="ValueError" if status == "errored" else None,
                **({} if status == "errored" else scores),
            )
        )
    return made


def make_run(folder: Path, *, tasks: tuple[str, ...] = ("stsb", "sickr"), leave: str = "", **suite: object) -> RunStore:
    """A RUN of two encoders and two attacks. Jobs whose name contains `leave` are not done."""
    made = Suite(name="s", encoders=("one", "two"), tasks=tasks, attacks=("pwws", "bae"), seeds=(0, 1), **suite)
    jobs = [
        make_job(encoder, task, strategy, attack.name, seed)
        for seed in made.seeds
        for task in tasks
        for encoder in made.encoders
        for strategy in STRATEGIES[task]
        for attack in made.attacks
    ]
    store = RunStore(folder)
    store.write_plan(Plan(suite=made, jobs=tuple(jobs)))
    for job in jobs:
        if not leave or leave not in job.name:
            write(store, job)
    return store


def write(store: RunStore, job: Job) -> None:
    found = outcomes(job)
    pair = job.parts[1] != "mr"
    store.write_record(
        Record(
            job=job,
            status="complete",
            scores=(*attack_scores(found, False).values(), *(StsDeviations.of(found).scores() if pair else ())),
            counts=count_outcomes(found, False),
            provenance=Provenance(rbench="0"),
            outcomes=store.write_outcomes(job, found),
        )
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A RUN that is whole. Not to be written to."""
    return make_run(tmp_path_factory.mktemp("advsts"))


def column(table: Table, title: str) -> list[float | None]:
    at = table.header.index(title)
    return [entry.value if isinstance(entry, Number) else None for entry in (row[at] for row in table.rows)]


def test_each_scorer_has_a_row_with_numbers_pooled_over_seeds(store: RunStore) -> None:
    table = build(store, "advsts")
    assert table.header == (
        *("Attack", "Task", "Encoder", "n", "ASR"),
        *("Error before", "Error after", "Spearman before", "Spearman after"),
    )
    assert [row[:4] for row in table.rows] == [
        (attack, task, encoder, 2 * (N - 1)) for attack in ("pwws", "bae") for task in TASKS if task != "mr"
        for encoder in ("one", "two")
    ]  # fmt: skip
    assert table.groups == {4}
    pairs = [
        outcome
        for seed in (0, 1)
        for outcome in outcomes(make_job("one", "stsb", "cosine", "pwws", seed))
        if outcome.original_score is not None and outcome.gold is not None
    ]
    after = [o.perturbed_score if o.perturbed_score is not None else o.original_score for o in pairs]
    errors = [abs((score or 0) - (o.gold or 0)) for score, o in zip(after, pairs, strict=True)]
    assert column(table, "Error after")[0] == pytest.approx(sum(errors) / len(errors))
    hit = sum(o.status == "succeeded" for o in pairs)
    attacked = hit + sum(o.status == "failed" for o in pairs)
    assert column(table, "ASR")[0] == pytest.approx(hit / attacked)
    rate, error = table.rows[0][4], table.rows[0][6]
    assert isinstance(rate, Number) and isinstance(error, Number)
    assert (rate.low, rate.high) == wilson(hit / 2, attacked / 2), "both seeds attack the same pairs"
    reach = student.ppf(0.975, N - 2) * np.std(errors, ddof=1) / np.sqrt(N - 1)
    assert error.high == pytest.approx(np.mean(errors) + reach)


def test_the_most_robust_entry_of_an_attack_and_task_is_bold(store: RunStore) -> None:
    table = build(store, "advsts")
    for title, best in (("ASR", min), ("Error after", min), ("Spearman after", max), ("Error before", None)):
        at = table.header.index(title)
        for start in range(0, 8, 2):
            pair = [row[at] for row in table.rows[start : start + 2]]
            assert all(isinstance(entry, Number) for entry in pair)
            bold = [entry.value for entry in pair if isinstance(entry, Number) and entry.best]
            values = [entry.value or 0 for entry in pair if isinstance(entry, Number)]
            assert bold == ([best(values)] if best is not None else [])


def test_notes_say_the_rule_the_scales_and_the_scorer(store: RunStore) -> None:
    notes = "\n".join(build(store, "advsts").notes)
    assert "0.2 (1 points of stsb); 0.2 (0.8 points of sickr). The rule is ours: the paper prints none." in notes
    assert "Scales: stsb 0 to 5; sickr 1 to 5." in notes and "Scorers: cosine: the cosine of" in notes
    assert "a skipped pair keeps its score" in notes
    assert "errored 2" in notes and "Seeds 0, 1." in notes


def test_every_format_has_the_numbers(store: RunStore) -> None:
    table = build(store, "advsts")
    text = render(table, "markdown")
    assert text.startswith("Adversarial STS: ") or "Adversarial STS: success rate" in text
    first = table.rows[0]
    shown = [entry.shown(entry.value) for entry in first[4:] if isinstance(entry, Number) and entry.value is not None]
    line = next(line for line in text.splitlines() if "| one" in line)
    assert all(number in line for number in shown)
    cells = json.loads(render(table, "json"))["cells"]
    assert cells[0]["scores"]["error_after"]["value"] == column(table, "Error after")[0]
    assert cells[0]["scores"]["asr"]["value"] == cells[0]["value"] == column(table, "ASR")[0]
    row = next(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert float(row["spearman_after"]) == column(table, "Spearman after")[0] and row["metric"] == "advsts"
    latex = render(table, "latex")
    assert r"\begin{table*}" in latex and "the table spans the page" in latex


def test_the_full_layout_has_a_row_for_each_job(tmp_path: Path) -> None:
    store = make_run(tmp_path, leave="two/sickr/cosine/bae/seed1")
    table = build(store, "advsts", "full")
    assert table.header[:8] == ("Attack", "Encoder", "Task", "Seed", "n", "Attacked", "Skipped", "Errored")
    assert len(table.rows) == len(table.cells) == 16
    record = store.record(make_job("one", "stsb", "cosine", "pwws", 1))
    assert record is not None
    row = next(row for row in table.rows if row[:4] == ("pwws", "one", "stsb", 1))
    tally = Tally.of_record(record)
    assert row[4:8] == (tally.total, tally.attacked, tally.skipped, 1)
    stored = {score.name: score.value for score in record.scores}
    at = table.header.index("Attacked: error after")
    assert isinstance(row[at], Number) and row[at].value == pytest.approx(stored["attacked_error_after"])  # type: ignore[union-attr]
    assert render(table, "csv") and render(table, "markdown")
    lacking = next(row for row in table.rows if row[:4] == ("bae", "two", "sickr", 1))
    assert lacking[4:] == (None,) * (len(table.header) - 4)


def test_cells_that_are_not_done_are_dashes_and_have_no_best(tmp_path: Path) -> None:
    table = build(make_run(tmp_path, leave="two/stsb"), "advsts")
    assert table.rows[1] == ("pwws", "stsb", "two", None, None, None, None, None, None)
    assert not any(isinstance(entry, Number) and entry.best for entry in table.rows[0])
    assert any("4 of 16 attack jobs not done" in note for note in table.notes)


def test_a_suite_of_classes_has_no_such_table(tmp_path: Path) -> None:
    store = make_run(tmp_path, tasks=("mr",))
    for layout in ("paper", "full"):
        with pytest.raises(StoreError):
            build(store, "advsts", layout)


def test_tables_of_attacks_have_columns_of_sts_tasks_beside_those_of_classes(tmp_path: Path) -> None:
    store = make_run(tmp_path, tasks=("mr", "stsb"))
    for metric in ("asr", "aua"):
        table = build(store, metric)  # type: ignore[arg-type]
        assert table.header == ("Attack", "Encoder", "mr", "stsb", "Avg.")
        rows = table.rows[:4]  # the rows of all attacks together follow
        assert {row[0] for row in table.rows[4:]} <= {ANY}
        assert len(rows) == 4 and all(isinstance(entry, Number) for row in rows for entry in row[2:])
        assert any(note.startswith("For STS pairs AUA is the share") for note in table.notes)
    assert build(store, "advsts").header[:3] == ("Attack", "Task", "Encoder")
    assert {row[1] for row in build(store, "advsts").rows} == {"stsb"}
    assert "points of" not in "".join(build(make_run(tmp_path / "mr", tasks=("mr",)), "asr").notes)


def test_where_a_task_has_several_strategies_rows_name_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STRATEGIES, "mr", ("clean", "probe"))
    table = build(make_run(tmp_path, tasks=("mr", "stsb"), finetune=("clean", "probe", "cosine")), "asr")
    assert table.header == ("Attack", "Encoder", "Fine-tuning", "mr", "stsb", "Avg.")
    assert [row[2] for row in table.rows[:3]] == ["clean", "probe", "cosine"]
    assert (
        "Strategies serve their own tasks: clean mr; probe mr; cosine stsb. There are no other entries." in table.notes
    )


def test_the_frame_has_scores_and_verify_recomputes_them(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    frame = results_frame(store)
    assert frame["gold"].notna().sum() == 16 * (N - 1) and frame["perturbed_score"].notna().any()
    assert [finding for finding in verify(tmp_path).findings if finding.damage] == []
    job = make_job("one", "stsb", "cosine", "pwws", 0)
    record = store.record(job)
    assert record is not None
    wrong = tuple(s.model_copy(update={"value": 0.0}) if s.name == "error_after" else s for s in record.scores)
    store.write_record(record.model_copy(update={"scores": wrong}))
    (finding,) = [finding for finding in verify(tmp_path).findings if finding.damage]
    assert "error_after has the value 0.0, but" in str(finding)


def test_pairs_that_cannot_be_scored_are_in_no_denominator_and_are_said(tmp_path: Path) -> None:
    store = make_run(tmp_path, tasks=("stsb",))
    job = make_job("one", "stsb", "cosine", "pwws", 0)
    record = store.record(job)
    assert record is not None
    counts = {**record.counts, "unusable": 2, "skipped": record.counts["skipped"] - 2}
    store.write_record(record.model_copy(update={"counts": counts}))
    table = build(Results.of(store), "asr")
    assert any(
        "pairs with an empty sentence or a score outside the scale, are in no denominator" in n for n in table.notes
    )
    assert table.cells[0]["unusable"] == 2


def test_a_flag_of_an_attack_withholds_what_comes_after_it_alone(tmp_path: Path) -> None:
    store = make_run(tmp_path, tasks=("stsb",), require="healthy")
    for seed in (0, 1):
        record = store.record(make_job("one", "stsb", "cosine", "pwws", seed))
        assert record is not None
        health = Health(flags=(RaisedFlag(flag="starved of candidates", because="few"),))
        store.write_record(record.model_copy(update={"health": health}))
    flagged, other, *_ = build(store, "advsts").rows
    withheld = [bool(entry.withheld) for entry in flagged if isinstance(entry, Number)]
    assert withheld == [True, False, True, False, True], "ASR, errors and correlations before and after"
    assert not any(entry.withheld for entry in other if isinstance(entry, Number))
