"""Tests the figure of queries: its points are the tables' numbers, its bars their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from rbench.errors import StoreError
from rbench.report.figures import queries, style
from rbench.schema import AttackJob, Job
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from tests.report.figures import training_runs
from tests.tables.conftest import make_outcomes

MakeRun = Callable[..., RunStore]


def draw(store: RunStore, **options: Any) -> list[Axes]:
    with style.applied():
        return queries.QueriesFigure().draw(queries.Options(**options), Results.of(store)).axes


def series(axes: Axes) -> dict[str, ErrorbarContainer]:
    return {str(one.get_label()): one for one in axes.containers if isinstance(one, ErrorbarContainer)}


def points(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    return {label: list(zip(*one[0].get_data(), strict=True)) for label, one in series(axes).items()}


def ends(axes: Axes, label: str) -> list[np.ndarray]:
    """Ends of the bars along x, then along y, of one encoder: a row a point."""
    across, along = (np.array([np.asarray(s) for s in bars.get_segments()]) for bars in series(axes)[label][2])
    return [across[:, :, 0], along[:, :, 1]]


def table(store: RunStore, metric: Any) -> dict[tuple[str, str, str], float]:
    return {(c["encoder"], c["attack"], c["task"]): c["value"] for c in build_attack_table(store, metric).cells}


ATTACKS = ("pwws", "bertattack[max_words=10]")
TASKS = ("mr", "mini_nli")


def where(axes: Axes) -> tuple[str, str]:
    """Task and attack of a panel of a task."""
    task, _, attack = axes.get_title().replace("\n", " ").partition(", ")
    return task, attack


def lost(asr: float, aua: float) -> float:
    """Clean accuracy less accuracy under attack, of AUA = clean accuracy x (1 - ASR)."""
    return aua * asr / (1 - asr)


def test_points_of_each_task_are_the_tables_numbers_and_bars_wilsons_and_students_intervals(make_run: MakeRun) -> None:
    store = make_run()
    fell, after, asked = (table(store, metric) for metric in ("asr", "aua", "queries"))
    panels = draw(store, panels="task")
    assert [where(axes) for axes in panels] == [(task, attack) for task in TASKS for attack in ATTACKS]
    for axes in panels:
        task, attack = where(axes)
        found = points(axes)
        assert list(found) == ["minilm", "bert_b"]
        for encoder, drawn in found.items():
            key = (encoder, attack, task)
            assert drawn == [(pytest.approx(100 * lost(fell[key], after[key])), asked[key])]
            across, along = ends(axes, encoder)
            _, _, x, y = slow(store, encoder, attack, task)
            assert across == pytest.approx(x[None]) and along == pytest.approx(y[None])


def test_the_mean_counts_each_task_the_same_and_an_attack_has_a_panel(make_run: MakeRun) -> None:
    store = make_run()
    fell, after, asked = (table(store, metric) for metric in ("asr", "aua", "queries"))
    panels = draw(store)
    for axes, attack in zip(panels, ATTACKS, strict=True):
        for encoder, [(x, y)] in points(axes).items():
            keys = [(encoder, attack, task) for task in TASKS]
            assert x == pytest.approx(100 * np.mean([lost(fell[key], after[key]) for key in keys]))
            assert y == pytest.approx(np.mean([asked[key] for key in keys]))
    first, second = panels
    assert [axes.get_title() for axes in (first, second)] == [*ATTACKS]
    assert first.get_xlim() == second.get_xlim() and first.get_ylim() == second.get_ylim()
    (legend,) = first.figure.legends  # type: ignore[union-attr]
    assert [text.get_text() for text in legend.get_texts()] == ["minilm", "bert_b"]


def slow(store: RunStore, encoder: str, attack: str, task: str) -> tuple[Any, Any, Any, Any]:
    """Point and intervals of a cell, from its outcomes by other libraries. Both seeds attack the same examples."""
    plan = store.plan()
    assert plan is not None
    jobs = [job for job in plan.jobs if job.parts == (encoder, task, "clean", attack)]
    seen = [o for job in jobs for o in make_outcomes(job) if o.status != "errored"]
    lost = sum(o.status == "succeeded" for o in seen)
    spent = [o.num_queries for o in seen if o.status != "skipped"]
    mean, error = float(np.mean(spent)), float(stats.sem(spent)) * math.sqrt(2)
    x = np.array(proportion_confint(lost / 2, len(seen) / 2, method="wilson"))
    return 100 * lost / len(seen), mean, 100 * x, np.array(stats.t.interval(0.95, len(spent) / 2 - 1, mean, error))


def test_bars_of_a_mean_add_the_distances_of_the_tasks_as_squares(make_run: MakeRun) -> None:
    store = make_run()
    axes, _ = draw(store)
    across, along = ends(axes, "minilm")
    found = [slow(store, "minilm", "pwws", task) for task in TASKS]
    for drawn, value, interval in ((across[0], 0, 2), (along[0], 1, 3)):
        mean = sum(one[value] for one in found) / 2
        down = math.sqrt(sum((one[value] - one[interval][0]) ** 2 for one in found)) / 2
        up = math.sqrt(sum((one[interval][1] - one[value]) ** 2 for one in found)) / 2
        assert drawn == pytest.approx([mean - down, mean + up])


def test_a_point_that_lacks_a_task_is_left_out_and_counted(make_run: MakeRun) -> None:
    def done(job: Job) -> bool:
        return job.parts != ("bert_b", "mr", "clean", "pwws")

    panels = draw(make_run(done=done))
    assert [len(points(axes)) for axes in panels] == [1, 2]
    assert "1 of 4 points" in note(panels[0]).replace("\n", " ")
    panels = draw(make_run(done=done, name="other"), panels="task")
    assert [where(axes) for axes in panels if "bert_b" not in points(axes)] == [("mr", "pwws")]


def note(axes: Axes) -> str:
    return str(axes.figure.get_supxlabel())  # type: ignore[union-attr]


def test_the_note_says_tasks_n_and_seeds_that_are_missing(make_run: MakeRun) -> None:
    said = note(draw(make_run(done=lambda job: job.seed == 1 or job.parts[0] == "minilm"))[0]).replace("\n", " ")
    assert said.startswith("Means over mr, mini_nli. n of a task ") and "bars are 95% intervals" in said
    assert "In 4 cells some seeds are not done." in said


def test_flagged_points_have_a_sign_and_those_that_a_suite_requires_healthy_are_left_out(tmp_path: Any) -> None:
    panels = draw(training_runs.write_run(tmp_path / "shown", flagged="above"))
    for axes in panels:
        (sign,) = axes.texts
        assert sign.get_text() == "†" and [sign.xy] == points(axes)["above"]
    assert "†: flagged" in note(panels[0]).replace("\n", " ")
    assert "†" not in note(draw(training_runs.write_run(tmp_path / "healthy"))[0])
    hidden = training_runs.write_run(tmp_path / "hidden", flagged="above", require="healthy")
    assert set(points(draw(hidden)[0])) == {"plain", "noise"}


def test_an_attack_that_is_not_done_on_all_tasks_has_no_mean(make_run: MakeRun) -> None:
    store = make_run(name="half", done=lambda job: job.parts[1] == "mr")
    with pytest.raises(StoreError):
        draw(store)
    assert {where(axes)[0] for axes in draw(store, panels="task")} == {"mr"}


def test_attacks_on_similarity_are_no_part_of_it(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.tables import conftest

    pairs = conftest.TASKS["mr"].model_copy(update={"kind": "sts"})
    monkeypatch.setitem(conftest.TASKS, "mr", pairs)
    store = make_run()
    assert any(isinstance(job.spec, AttackJob) and job.spec.task.kind == "sts" for job in store.plan().jobs)  # type: ignore[union-attr]
    assert {where(axes)[0] for axes in draw(store, panels="task")} == {"mini_nli"}
