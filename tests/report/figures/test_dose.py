"""Tests the figure of doses: which encoders a line joins, which are controls, and that it has the tables' numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.patches import Rectangle
from statsmodels.stats.proportion import proportion_confint

from rbench.errors import StoreError
from rbench.report.figures import dose, style
from rbench.schema import (
    Health,
    Job,
    MeasuredStep,
    Plan,
    Suite,
)
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from tests import reference
from tests.report.figures.dose_runs import ORDER, make_encoder_jobs, write_run
from tests.tables.conftest import make_outcomes
from tests.tables.flagged_runs import make_record


def draw(store: RunStore, **options: Any) -> list[Axes]:
    with style.applied():
        return dose.DoseFigure().draw(dose.Options(**options), Results.of(store)).axes


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """The points of each line, by its label."""
    drawn = (one for one in axes.containers if isinstance(one, ErrorbarContainer))
    return {str(one.get_label()): list(zip(*one[0].get_data(), strict=True)) for one in drawn}


def controls(axes: Axes) -> dict[str, float]:
    """The height of each line across the panel, by its label."""
    named = (line for line in axes.lines if not str(line.get_label()).startswith("_"))
    return {str(line.get_label()): float(np.asarray(line.get_ydata())[0]) for line in named}


def asr(store: RunStore) -> dict[tuple[str, str, str], float]:
    return {(c["encoder"], c["attack"], c["task"]): 100 * c["value"] for c in build_attack_table(store, "asr").cells}


def test_a_line_joins_trainings_that_differ_in_the_dose_and_the_rest_are_controls(tmp_path: Path) -> None:
    store = write_run(tmp_path)
    (axes,) = draw(store, x="beta")
    of = asr(store)
    wanted = [(x, of[f"rob[beta={x}]", "pwws", "mr"]) for x in (0.001, 0.02)]
    assert lines(axes) == {"rob[beta=0.001 to 0.02]": [pytest.approx(point) for point in wanted]}
    alone = ("base", "rob[beta=0]", "rob[K=0,T=0,sigma=1.0]", "simcse")
    assert controls(axes) == {name: pytest.approx(of[name, "pwws", "mr"]) for name in alone}
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "beta"


def test_measured_doses_are_means_of_series_and_noise_has_a_line_of_its_own(tmp_path: Path) -> None:
    store = write_run(tmp_path)
    (axes,) = draw(store)
    found = lines(axes)
    assert {label: [x for x, _ in points] for label, points in found.items()} == {
        "rob[beta=0 to 0.02]": [pytest.approx(x) for x in (0.01, 0.03, 0.4)],
        "rob[K=0,T=0,sigma=1.0]": [pytest.approx(0.38)],
    }
    assert [*controls(axes)] == ["base", "simcse"]


def test_each_of_several_trainings_is_a_circle_at_its_dose_or_at_the_edge() -> None:
    """On the committed RUN of three trainings, against its records."""
    run = "dose-response-part3-doses"
    (axes,) = draw(RunStore(reference.run(run)), x="beta", attack="pwws")
    circles = [
        (round(float(x), 3), round(float(y), 6))
        for drawn in axes.collections
        if isinstance(drawn, PathCollection)
        for x, y in np.asarray(drawn.get_offsets())
    ]
    wanted = []
    for name, found in reference.records(run).items():
        if "/mr/probe/pwws/" not in name:
            continue
        (rate,) = (score.value for score in found.scores if score.name == "asr")
        dose_of = re.search(r"beta=([\d.]+)", name)
        wanted.append((float(dose_of[1]) if dose_of else dose._CONTROL_EDGE, round(100 * rate, 6)))
    assert len(wanted) == 12 and sorted(circles) == sorted((round(x, 3), y) for x, y in wanted)
    assert "Small circles are single trainings." in " ".join(axes.figure.texts[-1].get_text().split())


def test_one_training_has_no_circle(tmp_path: Path) -> None:
    (axes,) = draw(write_run(tmp_path), x="beta")
    assert not [drawn for drawn in axes.collections if isinstance(drawn, PathCollection)]


def test_a_linear_axis_has_a_place_for_0(tmp_path: Path) -> None:
    (axes,) = draw(write_run(tmp_path), x="beta", scale="linear")
    assert [x for x, _ in lines(axes)["rob[beta=0 to 0.02]"]] == [0, 0.001, 0.02]
    assert axes.get_xscale() == "linear"


def test_bars_and_bands_are_wilsons_intervals(tmp_path: Path) -> None:
    store = write_run(tmp_path)
    (axes,) = draw(store, x="beta")

    def interval(name: str) -> Any:
        plan = store.plan()
        assert plan is not None
        job = next(job for job in plan.jobs if job.parts == (name, "mr", "probe", "pwws"))
        status = [outcome.status for outcome in make_outcomes(job)]
        fell, stood = status.count("succeeded"), status.count("failed")
        return pytest.approx([100 * end for end in proportion_confint(fell, fell + stood, method="wilson")])

    (bars,) = (one for one in axes.containers if isinstance(one, ErrorbarContainer))
    ends = [np.asarray(segment)[:, 1].tolist() for segment in bars[2][0].get_segments()]
    assert ends == [interval("rob[beta=0.001]"), interval("rob[beta=0.02]")]
    bands = [
        sorted([box.get_y(), box.get_y() + box.get_height()]) for box in axes.patches if isinstance(box, Rectangle)
    ]
    assert bands == [interval(name) for name in ("base", "rob[beta=0]", "rob[K=0,T=0,sigma=1.0]", "simcse")]


def test_each_attack_on_each_task_has_a_panel_unless_one_is_asked(tmp_path: Path) -> None:
    store = write_run(tmp_path, tasks=["mr", "mini_nli"], attacks=["pwws", {"bertattack": {"max_words": 10}}])
    titles = [axes.get_title() for axes in draw(store)]
    assert [title.replace("\n", " ") for title in titles] == [
        *("pwws, mr", "bertattack[max_words=10], mr"),
        *("pwws, mini_nli", "bertattack[max_words=10], mini_nli"),
    ]
    (axes,) = draw(store, attack="pwws", task="mini_nli")
    of = asr(store)
    assert controls(axes)["simcse"] == pytest.approx(of["simcse", "pwws", "mini_nli"])


def test_each_task_has_the_dose_of_its_own_training(tmp_path: Path) -> None:
    """An encoder that is trained on the texts of each task has a training for each."""
    suite = Suite.model_validate(
        {
            "name": "s",
            "encoders": ["rob[beta=0.02]"],
            "tasks": ["mr", "mini_nli"],
            "finetune": ["probe"],
            "attacks": ["pwws"],
        }
    )
    training, *_, victim, attack = jobs = make_encoder_jobs("rob[beta=0.02]", suite)
    other = Job.make(training.spec.model_copy(update={"data_fingerprint": "e"}), training.parts, {}, 0)
    tuned = Job.make(victim.spec, victim.parts, {"encoder": other.key}, 0)
    attacked = Job.make(attack.spec, attack.parts, {"victim": tuned.key}, 0)
    store = RunStore(tmp_path)
    store.write_plan(Plan(suite=suite, jobs=(*jobs[:3], other, tuned, attacked)))
    for job in (*jobs[:3], other, tuned, attacked):
        dose = {training.key: 0.1, other.key: 0.7}.get(job.key)
        series = () if dose is None else (MeasuredStep(step=1, values={"delta ratio": dose}),)
        store.write_record(make_record(job, Health(series=series)))
    of = asr(store)
    drawn = [lines(axes)["rob[beta=0.02]"] for axes in draw(store)]
    wanted = [(0.1, of["rob[beta=0.02]", "pwws", "mr"]), (0.7, of["rob[beta=0.02]", "pwws", "mini_nli"])]
    assert drawn == [[pytest.approx(point)] for point in wanted]


def test_what_is_not_done_is_counted_and_not_drawn(tmp_path: Path) -> None:
    store = write_run(tmp_path, missing=("rob[beta=0.001]", "simcse"))
    with style.applied():
        figure = dose.DoseFigure().draw(dose.Options(x="beta"), Results.of(store))
    (axes,) = figure.axes
    assert [*lines(axes)] == ["rob[beta=0.02]"] and "simcse" not in controls(axes)
    assert "not done or withheld: 2 cells" in figure._supxlabel.get_text().replace("\n", " ")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "changes", "named"),
    [({"x": "bet"}, {}, "beta"), ({}, {"encoders": ["base"]}, ""), ({}, {"missing": ORDER}, "")],
)
def test_what_has_no_dose_is_refused(options: Any, changes: Any, named: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        draw(write_run(tmp_path, **changes), **options)
    assert named in str(caught.value)
