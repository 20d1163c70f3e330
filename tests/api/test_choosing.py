"""Tests what `rbench eval` leaves out where the time does not fit, by times that stand in records."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import api
from rbench.api import choosing, evaluating
from rbench.api.composing import EvaluationPlan
from rbench.api.contestants import ContestantModel
from rbench.api.suites import prepare_run
from rbench.execution.cluster.membership import Member
from rbench.store.runs import RunStore
from rbench.store.runs.reader import PROCESSES

SECONDS = {"a": (30.0, 300), "b": (10.0, 200)}
"""How long the fine-tuning of each encoder took, and how many texts it encoded."""


def composed(**more: Any) -> EvaluationPlan:
    models = [ContestantModel("mini-bert-packaged", "encoders", "mini-bert-packaged", english=False)]
    return EvaluationPlan(
        models, ["mini-sentiment"], ("textfooler",), 10, None, None, 0, api.Options(), minutes=2, **more
    )


def test_similarity_and_rankings_are_left_out_where_there_is_no_time() -> None:
    hurried, calm = composed(hurried=True), composed()
    assert "mini-sts" in calm.suites["main"]["evaluate"] and "ranking" in calm.suites and not calm.missing
    assert [*hurried.suites] == ["main"]
    # Two-sided robustness asks for label-changing edits only, which take no time beside the attacks.
    assert [next(iter(measure)) for measure in hurried.suites["main"]["evaluate"]] == ["noise", "two_sided"]
    assert hurried.missing.keys() == {"sts", "ndcg", "ndcg-attacked"}


@pytest.mark.parametrize("hurried", [False, True])
def test_what_was_left_out_stays_out_in_the_same_run(hurried: bool, tmp_path: Path) -> None:
    """Even where the first texts of the ranking were attacked before."""
    options = api.Options(out=tmp_path / "run")
    asked = dataclasses.replace(composed(hurried=hurried), options=options)
    first = dataclasses.replace(composed(), options=options)
    for plan, part in ((first, "ranking"), (asked, "main")):
        prepared = prepare_run(plan.suites[part], plan.where(part))
        RunStore(prepared.run).write_plan(prepared.plan)
    chosen = evaluating._before(first, 2)
    assert chosen is not None and (chosen.n, chosen.attacks, chosen.hurried) == (10, ("textfooler",), hurried)


def test_a_choice_is_for_the_same_models_and_tasks(tmp_path: Path) -> None:
    plan = dataclasses.replace(composed(), options=api.Options(out=tmp_path / "run"))
    prepared = prepare_run(plan.suites["main"], plan.where("main"))
    RunStore(prepared.run).write_plan(prepared.plan)
    other = ContestantModel("simcse-mini-packaged", "encoders", "simcse-mini-packaged", english=False)
    assert evaluating._before(plan, 2) is not None
    assert evaluating._before(plan, 3) is None
    assert evaluating._before(dataclasses.replace(plan, models=[*plan.models, other]), 2) is None
    assert evaluating._before(dataclasses.replace(plan, tasks=["mini-topic"]), 2) is None


def test_outcomes_are_not_moved_while_another_process_works_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[Path] = []
    monkeypatch.setattr(choosing, "carry_over", lambda store, before, now: moved.append(store.root))
    plan = dataclasses.replace(composed(), options=api.Options(out=tmp_path / "run"))
    prepared = prepare_run(plan.suites["main"], plan.where("main"))
    RunStore(prepared.run).write_plan(prepared.plan)
    with Member(prepared.run / PROCESSES, {}).present():
        evaluating._KnownJobs().pass_on(prepared)
    assert moved == []
    evaluating._KnownJobs().pass_on(prepared)
    assert moved == [prepared.run]


def test_the_time_of_a_text_is_that_of_all_encoders() -> None:
    def look(name: str) -> Any:
        seconds, texts = SECONDS[name]
        counts = {"train_rows": texts - 50, "n": 50}
        return SimpleNamespace(record=SimpleNamespace(counts=counts, provenance=SimpleNamespace(seconds=seconds)))

    store: Any = SimpleNamespace(look=look)
    jobs: Any = [*SECONDS]
    assert choosing.estimate_seconds_per_text(store, jobs) == pytest.approx(30 / 300 + 10 / 200)


@pytest.mark.parametrize(("seconds", "hurried"), [(1.0, False), (3600.0, True)])
def test_the_time_of_similarity_decides_whether_it_is_there(
    seconds: float, hurried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool]] = []

    def attacked(plan: EvaluationPlan, part: str, *_: Any) -> dict[str, choosing.AttackSeconds]:
        asked.append((part, plan.hurried))
        return dict.fromkeys(
            plan.available_attacks if part == "main" else ("textfooler",), choosing.AttackSeconds(0.1, 0.1)
        )

    monkeypatch.setattr(evaluating, "_before", lambda *_: None)
    monkeypatch.setattr(evaluating, "_attack_first", attacked)
    monkeypatch.setattr(evaluating, "_similarity_seconds", lambda _: seconds)
    receiver: Any = SimpleNamespace(note=lambda text: None)
    known: Any = None
    chosen = evaluating._choose_by_time(composed(), 2.0, receiver, evaluating.time.monotonic(), known)
    assert chosen.hurried == hurried
    assert ("ranking" in dict(asked)) == (not hurried)


def test_a_command_said_again_names_each_model_once() -> None:
    plan: Any = SimpleNamespace(tasks=["mr"], models=[], resources="local", finetune="probe", seed=0)
    chosen: Any = SimpleNamespace(n=40, attacks=("pwws",), minutes=None)
    two = evaluating._RepeatCommand(["one", "two"], ["mr"], None, plan, None).again(chosen)
    assert two.startswith("rbench eval one two --task mr")
    compared = evaluating._RepeatCommand(["one", "two"], ["mr"], "two", plan, None).again(chosen)
    assert compared.startswith("rbench eval one --task mr --compare-to two")


def test_more_texts_are_no_more_than_there_are_and_keep_what_was_asked_for() -> None:
    plan = dataclasses.replace(composed(), minutes=None, n=300)
    command = evaluating._RepeatCommand(["mini-bert-packaged"], ["mini-sentiment"], None, plan, None)
    (rows,) = dataclasses.replace(plan, n=100_000).sizes.values()
    assert rows > 300

    def more(n: int) -> str:
        return command.more(choosing.Chosen(n, ("textfooler",)))

    assert "-n 40 " in more(10) and f"-n {min(rows, 1000)} " in more(900) and more(rows) == ""
    assert "--resources mini" in more(10) and "--finetune clean" in more(10)


@pytest.mark.parametrize(("labels", "order"), [(None, "bad, good"), (["good", "bad"], "good, bad")])
def test_a_function_is_told_which_labels_its_numbers_are_for(
    labels: list[str] | None, order: str, tmp_path: Path
) -> None:
    rows = "".join(f"a fine film {i},good\na dull film {i},bad\n" for i in range(20))
    (tmp_path / "films.csv").write_text(f"text,label\n{rows}")
    function = ContestantModel("rules:predict", "victims", {"function": "rules:predict", "version": "1"}, None)
    columns = {"text": "text", "label": "label", **({} if labels is None else {"labels": labels})}
    task = {str(tmp_path / "films.csv"): columns}
    plan = dataclasses.replace(composed(), models=[function], tasks=[task])
    assert order in plan._order_of_outputs(function) and "--labels" in plan._order_of_outputs(function)
    named = dataclasses.replace(composed(), models=[function])
    assert "--labels" not in named._order_of_outputs(function), "only those of a table can be chosen"
    assert composed()._order_of_outputs(composed().models[0]) == ""
