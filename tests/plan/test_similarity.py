"""Plans of suites that attack STS tasks: which strategies make victims, and what of their rows is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbench.api.suites import prepare_suite
from rbench.errors import PlanError, ResourceError
from rbench.plan.prepare import Options, PreparedSuite
from rbench.schema import AttackJob, FinetuneJob

TASK = "kind: sts\ncolumns: [a, b]\nscale: [0, 5]\nlocal: {{splits: {splits}}}\n"
STRATEGY = """\
from rbench.schema.extension import NoOptions
from rbench.train.finetune import FinetuneStrategy
class Own(FinetuneStrategy[NoOptions]):
    serves = ("similarity",)
    def run(self, options, context):
        raise NotImplementedError
"""
SUITE = "encoders: [mini-bert-packaged]\nattacks: [pwws]\nresources: mini\nnum_examples: 5\n"


def rows(n: int, **changes: Any) -> str:
    return "".join(json.dumps({"a": f"one {i}", "b": f"two {i}", "score": i % 6, **changes}) + "\n" for i in range(n))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with the task `own`, its rows, a strategy that trains, and a suite."""
    for folder in ("tasks", "finetune", "own"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tasks/own.yaml").write_text(TASK.format(splits="{validation: [own/validation], test: [own/test]}"))
    (tmp_path / "finetune/head.py").write_text(STRATEGY)
    (tmp_path / "own/validation.jsonl").write_text(rows(6))
    (tmp_path / "own/test.jsonl").write_text(rows(8))
    (tmp_path / "s.yaml").write_text(SUITE + "tasks: [own]\n")
    return tmp_path


def planned(own: Path, *overrides: str) -> PreparedSuite:
    return prepare_suite(own / "s.yaml", Options(include=(own,), data=(own,), overrides=overrides))


def test_a_suite_of_both_sorts_of_tasks_makes_each_victim_with_its_own_strategy(own: Path) -> None:
    jobs = planned(own, "tasks=[mini-sentiment, own]").plan.jobs
    made = [(job.stage, *job.parts[1:]) for job in jobs]
    assert made == [
        ("finetune", "mini-sentiment", "clean"),
        ("measure", "mini-sentiment", "clean", "test_accuracy"),
        ("attack", "mini-sentiment", "clean", "pwws"),
        ("finetune", "own", "cosine"),
        ("attack", "own", "cosine", "pwws"),
    ]
    plain = planned(own, "tasks=[mini-sentiment]").plan.jobs
    assert [job.key for job in plain] == [job.key for job in jobs[:3]]


def test_the_keys_of_an_sts_task_hold_its_scale(own: Path) -> None:
    before = {job.key for job in planned(own).plan.jobs}
    file = own / "tasks/own.yaml"
    file.write_text(file.read_text().replace("[0, 5]", "[0, 6]"))
    after = planned(own).plan.jobs
    assert before.isdisjoint(job.key for job in after)
    assert {type(job.spec) for job in after} == {FinetuneJob, AttackJob}


def test_more_pairs_than_the_test_split_has_are_refused(own: Path) -> None:
    with pytest.raises(PlanError):
        planned(own, "num_examples=9")


def test_a_split_that_a_strategy_needs_and_that_is_not_there_is_named_with_its_remedy(own: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        planned(own, "finetune=[cosine, head]")
    assert "head" in str(caught.value)
    (own / "tasks/own.yaml").write_text(TASK.format(splits="{test: [own/test]}"))
    with pytest.raises(ResourceError) as caught:
        planned(own)
    assert "own/validation.jsonl" in str(caught.value)


def test_pairs_with_an_empty_sentence_or_a_score_outside_the_scale_are_left_out_and_said(own: Path) -> None:
    bad = [rows(1, a=" "), rows(2, score=5.5), rows(1, score=-0.1), rows(1, score=None)]
    (own / "own/test.jsonl").write_text(rows(8) + "".join(bad))
    made = planned(own)
    assert made.data["own"].sizes["test"] == 8
    said = [note for note in made.notes if "left out" in note]
    assert [(note.partition(" rows ")[0], note.rpartition(": ")[2]) for note in said] == [
        ("own: 1", "text is empty"),
        ("own: 3", "score outside the scale"),
        ("own: 1", "label outside the map"),
    ]


def test_a_score_at_the_end_of_the_scale_is_inside(own: Path) -> None:
    (own / "own/test.jsonl").write_text(rows(4, score=0) + rows(4, score=5))
    assert planned(own).data["own"].sizes["test"] == 8
