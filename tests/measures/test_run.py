"""Tests the jobs of measures in a whole run, with the measures of the guide beside rbench's own."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.config import load
from rbench.config.registry import Registry
from rbench.errors import PlanError, ResourceError, StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Job, MeasureJob, Plan
from rbench.score.packed import unpack_hits, unpack_numbers
from rbench.store.runs import RunStore
from tests.refusals import nearest

GUIDE = (Path(__file__).parents[2] / "docs" / "guide-add-a-measure.md").read_text(encoding="utf-8")
SUITE = """\
encoders: [mini-bert-packaged, simcse-mini-packaged]
tasks: [mini-sentiment]
attacks: [random]
finetune: [probe]
num_examples: 8
resources: {set: mini, masked_lm: mini-bert-packaged}
training: {max_train: 100}
evaluate: [transfer, space: {resamples: 20, points: 3}, lengths: {task: mini-topic}, test_accuracy: {max_rows: 40},
  data, agreement]
tables: [metric: transfer, metric: space, metric: data, metric: agreement, metric: shortest, metric: asr_difference,
  metric: lengths]
"""


def rewrite(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the guide's measures, a suite, and its finished RUN."""
    place = tmp_path_factory.mktemp("measures")
    (place / "DIR" / "measures").mkdir(parents=True)
    for name, text in re.findall(r"```python\n# DIR/(\S+)\n(.*?)```", GUIDE, re.DOTALL):
        (place / "DIR" / name).write_text(text, encoding="utf-8")
    (place / "s.yaml").write_text(SUITE, encoding="utf-8")
    result = api.run(place / "s.yaml", options(place))
    assert not result.failed and not result.skipped, [record.error for record in result.failed]
    assert len(result.tables) == 7
    return place


def options(place: Path, **more: object) -> Options:
    values: dict[str, object] = {"include": (place / "DIR",), "device": "cpu", "backend": "torch", "out": place / "RUN"}
    return Options(**{**values, **more})  # type: ignore[arg-type]


def plan_of(place: Path) -> Plan:
    plan = RunStore(place / "RUN").plan()
    assert plan is not None
    return plan


def jobs(plan: Plan) -> dict[str, Job]:
    return {job.name: job for job in plan.jobs if isinstance(job.spec, MeasureJob)}


def test_a_measure_has_a_job_for_each_task_attack_and_seed_after_all_attacks(world: Path) -> None:
    plan = plan_of(world)
    names = [job.name for job in plan.jobs]
    assert names[-4:] == [
        "measure/transfer/mini-sentiment/random/seed0",
        "measure/space[points=3,resamples=20]/mini-sentiment/random/seed0",
        "measure/data/mini-sentiment/seed0",
        "measure/agreement/mini-sentiment/random/seed0",
    ]
    needs = jobs(plan)["measure/transfer/mini-sentiment/random/seed0"].needs
    roles = {f"{kind}:{e}/probe" for kind in ("victim", "attack") for e in plan.suite.encoders}
    assert set(needs) == roles
    assert {plan.job(key).stage for role, key in needs.items() if role.startswith("victim")} == {"finetune"}
    assert plan.suite.evaluations == (), "measures are no STS tasks"


def test_a_measure_of_encoders_has_a_job_for_each_encoder_before_all_fine_tunings(world: Path) -> None:
    plan = plan_of(world)
    first = plan.jobs[:2]
    assert [job.name for job in first] == [
        "measure/mini-bert-packaged/lengths[task=mini-topic]/mini-topic/seed0",
        "measure/simcse-mini-packaged/lengths[task=mini-topic]/mini-topic/seed0",
    ]
    assert all(job.untuned and job.entry is not None and not job.needs for job in first)
    (row,) = RunStore(world / "RUN").rows(first[0])
    record = RunStore(world / "RUN").record(first[0])
    assert row.numbers["length_n"] == row.numbers["short_n"] == 1000 and record is not None
    assert isinstance(first[0].spec, MeasureJob)
    assert record.provenance.weights_hash == first[0].spec.encoder_fingerprint


def test_rows_are_kept_and_hold_no_texts(world: Path) -> None:
    store = RunStore(world / "RUN")
    rows = store.rows(jobs(plan_of(world))["measure/transfer/mini-sentiment/random/seed0"])
    assert len(rows) == 4 and all(
        row.numbers["n"] == row.numbers["fooled"] for row in rows if row.names["judge"] == row.names["encoder"]
    )
    texts = {text for job in plan_of(world).jobs for one in store.outcomes(job) for text in one.original or ()}
    written = "".join(path.read_text() for path in (world / "RUN").rglob("rows.jsonl"))
    assert texts and not any(text in written for text in texts)


def test_the_guides_commands_show_its_measures(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world)
    lines = [line for block in re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]
    shown = [CliRunner().invoke(app, shlex.split(line)[1:]) for line in lines]
    assert [one.exit_code for one in shown] == [0, 0]
    assert "Shortest attacks" in shown[0].output and "agreement" in shown[1].output
    assert "Agreement" in api.table(world / "RUN", metric="agreement", include=[world / "DIR"])


def lengths(world: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The length of each vector by encoder, as the jobs stored them."""
    store, plan = RunStore(world / "RUN"), plan_of(world)
    found = {}
    for job in (job for job in plan.jobs if job.what == "lengths"):
        assert isinstance(job.spec, MeasureJob) and job.spec.encoder is not None
        (row,) = store.rows(job)
        found[job.parts[0]] = unpack_numbers(row.names["length"], int(row.numbers["length_n"] or 0)).astype(float)
        short = unpack_hits(row.names["short"], int(row.numbers["short_n"] or 0))
        np.testing.assert_array_equal(short, found[job.parts[0]] < 1)
        assert row.numbers["longest"] == pytest.approx(found[job.parts[0]].max())
    return found


def test_declared_columns_have_intervals_in_every_format(world: Path) -> None:
    """The file of the measure has no layout, interval or format code."""
    by_encoder, include = lengths(world), [world / "DIR"]

    def shown(fmt: str, **how: Any) -> str:
        return str(api.table(world / "RUN", metric="lengths", fmt=fmt, include=include, **how))

    cells = {one["encoder"]: one for one in json.loads(shown("json"))["cells"]}
    assert [*cells] == [*by_encoder]
    for encoder, values in by_encoder.items():
        cell, of = cells[encoder], DescrStatsW(values)
        assert (cell["task"], cell["length_n"], cell["short_n"], cell["seeds"]) == ("mini-topic", 1000, 1000, 1)
        assert cell["length"] == pytest.approx(of.mean, rel=1e-6)
        assert (cell["length_low"], cell["length_high"]) == pytest.approx(of.tconfint_mean(), rel=1e-6)
        short = int((values < 1).sum())
        assert cell["short"] == short / 1000
        wilson = proportion_confint(short, 1000, method="wilson")
        assert (cell["short_low"], cell["short_high"]) == pytest.approx(wilson, abs=1e-9)
        assert cell["longest"] == pytest.approx(values.max()) and "longest_low" not in cell
    rows = list(csv.DictReader(io.StringIO(shown("csv"))))
    assert [float(row["length"]) for row in rows] == [cell["length"] for cell in cells.values()]
    for fmt in ("markdown", "latex"):
        text = shown(fmt, intervals=True)
        for values in by_encoder.values():
            assert f"{values.mean():.2f}" in text and f"{100 * (values < 1).mean():.1f}" in text
        assert "Wilson's for shares and Student's t for means" in " ".join(text.split())


def test_declared_columns_are_taken_by_every_verb_that_takes_a_metric(world: Path, tmp_path: Path) -> None:
    by_encoder, run, include = lengths(world), world / "RUN", [world / "DIR"]
    one, other = by_encoder
    (cell,) = api.compare(run, between=(one, other), metric="length", include=include).cells
    d = DescrStatsW(by_encoder[other] - by_encoder[one])
    assert cell.paired and cell.difference.n == 1000 and cell.difference.value == pytest.approx(d.mean, rel=1e-5)
    longer = max(by_encoder, key=lambda name: by_encoder[name].mean())
    (tmp_path / "claims.yaml").write_text(
        f"claims: [{{id: a, metric: length, higher: {longer}, than: {one if longer == other else other}}}]\n"
    )
    (verdict,) = api.claims(run, tmp_path / "claims.yaml", include)
    assert verdict.judged[0].difference is not None
    assert verdict.judged[0].difference.value == pytest.approx(abs(d.mean), rel=1e-5)
    least = min(values.mean() for values in by_encoder.values())
    assert len(api.met(run, api.conditions([f"length > {least / 2}"], include), include).met) == 2
    api.write_baseline([run], tmp_path / "baseline.json", metric=["short"], include=include)
    checked = api.check(run, tmp_path / "baseline.json", metric=["short"], include=include)
    assert checked.verdict == "passed" and len(checked.rows) == 2
    assert not api.verify(run).damaged


def test_nothing_is_left_to_do_and_a_damaged_row_is_measured_again(world: Path) -> None:
    planned = api.plan(world / "s.yaml", options(world))
    assert planned.done == {job.key for job in plan_of(world).jobs}
    store = RunStore(world / "RUN")
    job = jobs(plan_of(world))["measure/data/mini-sentiment/seed0"]
    path = store.folder(job) / "rows.jsonl"
    sound = path.read_text()
    rewrite(path, '"classes": 2', '"classes": 3')
    assert "its 4 lines were changed" in str(store.look(job).problem)
    assert api.verify(world / "RUN").counts["damaged"] == 1
    before = {file: file.stat().st_mtime_ns for file in (world / "RUN").rglob("record.json")}
    api.run(world / "s.yaml", options(world))
    assert path.read_text() == sound
    changed = [file.parent.name for file, time in before.items() if file.stat().st_mtime_ns != time]
    assert changed == [store.folder(job).name]
    assert api.verify(world / "RUN").counts["damaged"] == 0


def test_a_line_that_is_no_row_is_named(world: Path) -> None:
    store = RunStore(world / "RUN")
    job = jobs(plan_of(world))["measure/agreement/mini-sentiment/random/seed0"]
    path = store.folder(job) / "rows.jsonl"
    sound = path.read_text()
    path.write_text(json.dumps({"job": job.key, "names": {"text": 3}, "numbers": {}}) + "\n")
    with pytest.raises(StoreError) as caught:
        store.rows(job)
    assert "rows.jsonl:1" in str(caught.value)
    path.write_text(sound)


def test_a_stripped_run_keeps_rows_and_tables(world: Path) -> None:
    copy = api.strip(world / "RUN")
    for metric in ("transfer", "space", "agreement"):
        tables = [api.table(run, metric=metric, include=[world / "DIR"]) for run in (world / "RUN", copy)]
        assert tables[0] == tables[1]
    assert not api.verify(copy).damaged


def test_a_run_without_texts_cannot_measure(world: Path) -> None:
    with pytest.raises(PlanError):
        api.run(world / "s.yaml", options(world, texts=False, out=world / "NONE"))


def test_editing_a_measure_makes_its_job_anew_and_no_other(world: Path) -> None:
    before = {job.key for job in plan_of(world).jobs}
    path = world / "DIR" / "measures" / "agreement.py"
    sound = path.read_text()
    path.write_text(sound + "\n# edited\n")
    now = api.plan(world / "s.yaml", options(world)).plan.jobs
    path.write_text(sound)
    assert [job.name for job in now if job.key not in before] == ["measure/agreement/mini-sentiment/random/seed0"]


# ---------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("old", "new", "place", "named"),
    [
        ("data, agreement]", "data, agrement]", "s.yaml:9:", nearest("agreement")),
        ("lengths: {task: mini-topic}", "senteval: {tasks: [mini-sts]}", "s.yaml:8:", "mini-sts"),
        ("points: 3", "fooled: minilm", "s.yaml:8:", "fooled"),
        ("data, agreement]", "data, shortest]", "s.yaml:9:", "shortest"),
        ("evaluate: [transfer, ", "evaluate: [", "s.yaml:10:", "transfer"),
        ("attacks: [random]\n", "", "s.yaml:7:", "attacks"),
        ("encoders:", "measured: [transfer]\nencoders:", "s.yaml:1:1", "measured"),
    ],
)
def test_what_is_wrong_in_a_suite_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, place: str, named: str
) -> None:
    (tmp_path / "DIR" / "measures").mkdir(parents=True)
    for name, text in re.findall(r"```python\n# DIR/(\S+)\n(.*?)```", GUIDE, re.DOTALL):
        (tmp_path / "DIR" / name).write_text(text, encoding="utf-8")
    (tmp_path / "s.yaml").write_text(SUITE, encoding="utf-8")
    rewrite(tmp_path / "s.yaml", old, new)
    with pytest.raises(SuiteError) as caught:
        load(tmp_path / "s.yaml", registry=Registry([tmp_path / "DIR"]))
    assert place in str(caught.value) and named in str(caught.value)


def test_a_suite_that_only_describes_data_trains_nothing(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("encoders: [mini-bert-packaged]\ntasks: [mini-sentiment]\nevaluate: [data]\n")
    planned = api.plan(tmp_path / "s.yaml", Options(out=tmp_path / "RUN"))
    assert [job.name for job in planned.jobs] == ["measure/data/mini-sentiment/seed0"]
    assert [table.metric for table in planned.plan.suite.tables] == ["data"]


def test_a_suite_that_measures_encoders_alone_needs_no_tasks_and_tells_of_a_missing_split(tmp_path: Path) -> None:
    suite = "encoders: [mini-bert-packaged]\nevaluate: [{alignment: {task: mini-sts, splits: [test]}}]\n"
    (tmp_path / "s.yaml").write_text(suite)
    planned = api.plan(tmp_path / "s.yaml", Options(out=tmp_path / "RUN"))
    assert [job.name for job in planned.jobs] == ["measure/mini-bert-packaged/alignment[splits=[test]]/mini-sts/seed0"]
    assert [table.metric for table in planned.plan.suite.tables] == ["alignment"]
    (tmp_path / "s.yaml").write_text(suite.replace("alignment: {task: mini-sts, splits: [test]}", "lacks: {}"))
    (tmp_path / "measures").mkdir()
    lacking = GUIDE.split("# DIR/measures/lengths.py\n")[1].split("```")[0]
    lacking = lacking.replace('"stsb"', '"mini-topic"')
    lacking += "\n    def splits(self, options, task):\n        return ('test_r1',)\n"
    (tmp_path / "measures" / "lacks.py").write_text(lacking)
    with pytest.raises(ResourceError) as caught:
        api.plan(tmp_path / "s.yaml", Options(out=tmp_path / "RUN", include=(tmp_path,)))
    assert "test_r1" in str(caught.value)


def test_classifiers_that_exist_have_no_frozen_vectors(tmp_path: Path) -> None:
    text = "tasks: [mini-sentiment]\nevaluate: [senteval]\n"
    text += "victims: [{endpoint: {url: 'http://localhost:1'}, version: a}]\n"
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SuiteError) as caught:
        load(tmp_path / "s.yaml", registry=Registry())
    assert "s.yaml:2:" in str(caught.value) and "senteval" in str(caught.value)


def test_each_training_seed_is_measured_with_the_encoders_that_have_one_training(tmp_path: Path) -> None:
    text = (
        SUITE.replace("simcse-mini-packaged", "simcse-mini")
        .replace(", agreement", "")
        .replace("metric: shortest, ", "")
    )
    text = text.replace("metric: agreement, ", "") + "train_seeds: [0, 1]\n"
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "DIR" / "measures").mkdir(parents=True)
    for name, code in re.findall(r"```python\n# DIR/(\S+)\n(.*?)```", GUIDE, re.DOTALL):
        (tmp_path / "DIR" / name).write_text(code, encoding="utf-8")
    plan = api.plan(tmp_path / "s.yaml", Options(out=tmp_path / "RUN", include=(tmp_path / "DIR",))).plan
    measured = [job for job in plan.jobs if job.name.startswith("measure/transfer")]
    assert [job.parts[-1] for job in measured] == ["train_seed=0", "train_seed=1"]
    lengths = [job for job in plan.jobs if "lengths" in job.name]
    drawn = [plan.draw(job.parts[0]) for job in lengths]
    assert [(draw.encoder, draw.train_seed) for draw in drawn] == [
        ("mini-bert-packaged", None), ("simcse-mini", 0), ("simcse-mini", 1),
    ]  # fmt: skip
    assert [sorted(job.needs) for job in lengths] == [[], ["encoder"], ["encoder"]]
    specs = [job.spec for job in measured]
    assert [spec.encoders[0] for spec in specs if isinstance(spec, MeasureJob)] == ["mini-bert-packaged"] * 2
    drawn = [plan.draw(spec.encoders[1]) for spec in specs if isinstance(spec, MeasureJob)]
    assert [(draw.encoder, draw.train_seed) for draw in drawn] == [("simcse-mini", 0), ("simcse-mini", 1)]


def test_a_claim_may_speak_of_a_measure_of_encoders_that_the_suite_has(tmp_path: Path) -> None:
    claim = "claims: [{id: a, metric: alignment, lower: mini-static, than: mini-bert-packaged}]\n"
    suite = "encoders: [mini-static, mini-bert-packaged]\nevaluate: [{alignment: {task: mini-sts, splits: [test]}}]\n"
    (tmp_path / "s.yaml").write_text(suite + claim)
    load(tmp_path / "s.yaml", registry=Registry())
    (tmp_path / "s.yaml").write_text(suite + claim.replace("alignment", "senteval"))
    with pytest.raises(SuiteError) as caught:
        load(tmp_path / "s.yaml", registry=Registry())
    assert "senteval" in str(caught.value)


def test_a_number_that_is_not_finite_fails_its_job(tmp_path: Path) -> None:
    names = {"nan": "undefined", "inf": "endless", "None": "missing"}
    (tmp_path / "DIR" / "measures").mkdir(parents=True)
    code = dict(re.findall(r"```python\n# DIR/(\S+)\n(.*?)```", GUIDE, re.DOTALL))["measures/lengths.py"]
    for value, name in names.items():
        changed = code.replace("lengths.max()", value)
        assert value in changed
        file = tmp_path / "DIR" / "measures" / f"{name}.py"
        file.write_text(changed.replace("class Lengths", "from math import inf, nan\n\n\nclass Lengths"), "utf-8")
    evaluate = ", ".join(f"{name}: {{task: mini-topic}}" for name in names.values())
    suite = f"encoders: [mini-static]\nevaluate: [{evaluate}]\ntables: [metric: missing]\n"
    (tmp_path / "s.yaml").write_text(suite, encoding="utf-8")
    result = api.run(tmp_path / "s.yaml", options(tmp_path))
    assert len(result.failed) == 2 and len(result.tables) == 1 and "n/a" in str(result.tables[0])
    for record, value in zip(result.failed, ("nan", "inf"), strict=True):
        assert f"{names[value]}.py: run returned longest {value} in row 1" in record.reason
