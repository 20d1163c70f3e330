"""Accuracy on the test split: which rows are scored, who is asked, what is stored, and where tables have it."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench import api, mini
from rbench.encoders.classify import ClassifiedRows
from rbench.errors import JobError, StoreError
from rbench.measures._context import VictimContext
from rbench.measures.test_accuracy import NAME, Options, SplitAccuracy, draw_places
from rbench.plan.planner import make_plan
from rbench.schema import MeasureNeeds, Record, TaskSpec
from rbench.score import wilson
from rbench.score.packed import unpack_hits
from rbench.store.runs import RunStore
from rbench.store.verify import verify
from rbench.tasks import Example
from tests.plan.builders import TASKS, make_inputs, make_suite

run = SplitAccuracy().run

TASK = TaskSpec(name="t", kind="single", columns=("text",), labels=("a", "b"))
ROWS = [Example(f"test:{i}", (random.Random(i).choice("ab"),), i % 2) for i in range(50)]


class Says:
    """A victim that says the first letter of a text."""

    asked: Sequence[tuple[str, ...]] = ()

    def classified(self, rows: Sequence[tuple[str, ...]], progress: Any = None) -> ClassifiedRows:
        self.asked = rows
        return ClassifiedRows(np.array(["ab".index(row[0]) for row in rows]), np.zeros(len(rows), bool), [])


def context(victim: Says, seed: int = 0, rows: Sequence[Example] = ROWS) -> VictimContext:
    return VictimContext(
        task=TASK,
        rows=lambda split: list(rows) if split == "test" else [],
        splits=("train", "test"),
        progress=lambda done, of, said: None,
        seed=seed,
        victim=victim,  # type: ignore[arg-type]
        set=None,
        file=lambda kind, name: None,
    )


def test_every_row_is_scored_where_there_are_few() -> None:
    found = run(Options(), context(Says()))
    right = [row.texts[0] == "ab"[row.label or 0] for row in ROWS]
    (score,), (row,) = found.scores, found.lines
    assert (score.name, score.value, score.n) == (NAME, sum(right) / 50, 50)
    assert (score.low, score.high) == wilson(sum(right), 50)
    assert unpack_hits(row.names["hits"], 50).tolist() == right  # type: ignore[union-attr]
    assert found.counts == {"n": 50, "rows": 50}


def test_the_same_rows_are_drawn_for_all_victims_and_seeds() -> None:
    first, second = Says(), Says()
    found = run(Options(max_rows=20), context(first, seed=0))
    run(Options(max_rows=20), context(second, seed=7))
    assert first.asked == second.asked == [ROWS[i].texts for i in draw_places(50, 20)]
    assert found.counts == {"n": 20, "rows": 50} and found.scores[0].n == 20
    drawn = draw_places(7600, 2000)
    assert len(set(drawn.tolist())) == 2000 and (np.diff(drawn) > 0).all() and drawn.max() > 7000
    assert draw_places(7600, None).tolist() == list(range(7600))


def test_rows_without_labels_are_refused() -> None:
    bare = [Example("test:0", ("a",), None)]
    with pytest.raises(JobError):
        run(Options(), context(Says(), rows=bare))


IMPLIED = MeasureNeeds.model_validate({"what": {"name": NAME, "options": {"max_rows": 2000}}, "of": "victims"})


@pytest.mark.parametrize("implied", [True, False])
def test_a_suite_that_does_not_name_it_asks_no_endpoint(implied: bool) -> None:
    from rbench.schema import EncoderSpec

    remote = EncoderSpec.model_validate({"name": "remote", "endpoint": {"url": "http://localhost:1/v1", "model": "m"}})
    known = make_inputs(
        encoders={**make_inputs().encoders, "remote": remote},
        weights={**make_inputs().weights, "remote": "r"},
        measures={NAME: IMPLIED.model_copy(update={"implied": implied})},
    )
    plan = make_plan(make_suite(encoders=["lm", "remote"], tasks=["a"], attacks=["swap"], seeds=[0]), known)
    asked = [job.parts[0] for job in plan.jobs if job.what == NAME]
    assert asked == (["lm"] if implied else ["lm", "remote"])
    order = [job.stage for job in plan.jobs if job.parts[0] == "lm"]
    assert order == ["finetune", "measure", "attack"]


def test_a_task_without_classes_or_test_rows_has_none() -> None:
    known = make_inputs(
        tasks={**TASKS, "a": TASKS["a"].model_copy(update={"labels": ()})},
        sizes={"a": {"train": 5, "test": 20}, "b": {"train": 5, "test": 0}},
        measures={NAME: IMPLIED.model_copy(update={"implied": True})},
    )
    plan = make_plan(make_suite(attacks=[], seeds=[0], build=[]), known)
    assert not [job for job in plan.jobs if job.what == NAME]


SUITE = """
name: s
encoders: [mini-bert-packaged]
tasks: [mini-sentiment]
finetune: probe
seeds: [0, 1]
attacks: [pwws]
num_examples: 4
training: {max_train: 200}
resources: {profile: mini, masked_lm: mini-bert-packaged}
evaluate: [test_accuracy: {max_rows: 40}]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RUN of two seeds of a victim, of which 40 test rows are scored and 4 attacked."""
    root = tmp_path_factory.mktemp("accuracy")
    (root / "suite.yaml").write_text(SUITE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RBENCH_CACHE", str(root / "cache"))
        options = api.Options(out=root / "RUN", backend="torch")
        planned = api.plan(root / "suite.yaml", options)
        assert [planned.estimates[job.key].examples for job in planned.jobs if job.what == NAME] == [40, 40]
        assert not api.run(root / "suite.yaml", options).failed
    return root


def records(root: Path) -> list[Record]:
    return [record for record in RunStore(root / "RUN").records() if record.job.what == NAME]


def test_the_number_is_that_of_the_victim_asked_row_by_row(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from rbench.encoders import load_victim
    from rbench.store.weights import WeightCache

    rows = list(mini.rows("mini-sentiment", "test"))
    store = RunStore(made / "RUN")
    for record in records(made):
        plan = store.plan()
        assert plan is not None
        folder = WeightCache(made / "cache").folder(record.job.needs["victim"])
        victim = load_victim(folder, "cpu")[0].eval()
        right = []
        for i in draw_places(len(rows), 40):
            with torch.inference_mode():
                encoded = victim.tokenizer(str(rows[i]["text"]), return_tensors="pt", truncation=True, max_length=128)
                right.append(int(victim(**encoded).logits.argmax()) == int(rows[i]["label"]))
        (score,) = record.scores
        assert (score.value, score.n) == (sum(right) / 40, 40)


def test_tables_of_asr_have_it_beside_with_its_n(made: Path) -> None:
    values = [record.scores[0].value for record in records(made)]
    mean = sum(value for value in values if value is not None) / 2
    for layout in ("paper", "by-task"):
        cells = json.loads(api.table(made / "RUN", layout=layout, fmt="json"))["cells"]
        assert cells and all(cell["scores"][NAME]["value"] == pytest.approx(mean) for cell in cells)
        assert {cell["scores"][NAME]["n"] for cell in cells} == {40} and {cell["n"] for cell in cells} != {40}
        text = api.table(made / "RUN", layout=layout)
        assert f"{100 * mean:.1f}" in text and "mini-sentiment 40 of 1000" in text
    (row,) = csv.DictReader(io.StringIO(api.table(made / "RUN", fmt="csv")))
    assert float(row["test_accuracy"]) == pytest.approx(mean) and row["test_accuracy_n"] == "40"
    header = next(line for line in api.table(made / "RUN").splitlines() if line.startswith("| Attack"))
    assert [cell.strip() for cell in header.split("|")[-3:-1]] == ["oracle-valid", "accuracy"]


def test_it_is_a_metric_for_tables_claims_and_conditions(made: Path, tmp_path: Path) -> None:
    (cell,) = json.loads(api.table(made / "RUN", metric=NAME, fmt="json"))["cells"]
    assert (cell["n"], cell["seeds"]) == (40, 2) and cell["low"] < cell["value"] < cell["high"]
    found = api.compare(made / "RUN", made / "RUN", between=("mini-bert-packaged",) * 2, metric=NAME)
    (compared,) = found.cells
    assert compared.paired and compared.difference.value == 0


def test_a_record_that_is_not_its_rows_is_damage(made: Path, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(made / "RUN", tmp_path / "RUN")
    assert not verify(copy).damaged
    store, (first, _) = RunStore(copy), records(made)
    (score,) = first.scores
    store.write_record(first.model_copy(update={"scores": (score.model_copy(update={"value": 0.123}),)}))
    assert [NAME in one.text for one in verify(copy).findings if one.damage] == [True]


def test_a_run_without_it_says_how_to_have_it(tmp_path: Path) -> None:
    from tests.gate import gated

    with pytest.raises(StoreError):
        api.table(gated.run(tmp_path / "old"), metric=NAME)
    assert "accuracy" not in api.table(gated.run(tmp_path / "older")).splitlines()[2]
