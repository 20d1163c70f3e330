"""Tests which flags tables show, and what a suite that requires healthy ones withholds: RUNs made by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rbench.schema import (
    AttackJob,
    EncoderSpec,
    Health,
    MeasuredStep,
)
from rbench.schema.jobs import keyed
from rbench.tables import Results, build
from rbench.tables.flags import Flags
from rbench.tables.for_people import add_short_notes
from rbench.tables.formats import render
from rbench.tables.frame import results_frame
from rbench.tables.table import Number, Table
from tests.tables.conftest import HEALTHY, make_outcomes
from tests.tables.flagged_runs import (
    ATTACKS,
    ENCODERS,
    SHOWN_TABLES,
    MakeRun,
    make_flagged_health,
)


def entries(table: Table) -> dict[tuple[str, ...], list[Any]]:
    """The numbers of each row by its names: the withheld ones as their flags, the others as None or `best`."""
    found = {}
    for row in table.rows:
        names = tuple(entry for entry in row if isinstance(entry, str))
        numbers = [entry for entry in row if isinstance(entry, Number)]
        found[names] = [n.withheld if n.withheld else ("best" if n.best else None) for n in numbers]
    return found


def flagged(table: Table) -> list[str]:
    return [note for note in table.notes if note.startswith(("Flagged", "No health", "Perturbations"))]


@pytest.mark.parametrize(("metric", "layout"), [("asr", "paper"), ("sts", "full"), ("contrast", "paper")])
def test_a_flag_of_a_training_is_told_under_every_table_of_what_stands_on_it(
    metric: Any, layout: str, make_flagged_run: MakeRun
) -> None:
    table = build(
        make_flagged_run({"below": make_flagged_health("saturated", "loss 0.00001 where chance is 4.16")}),
        metric,
        layout,
    )
    said = "Flagged saturated (the training's loss was too small to teach anything): "
    assert flagged(table) == [f"{said}below (loss 0.00001 where chance is 4.16; behind above)."]
    for cell in table.cells:
        assert cell["flags"] == (["saturated"] if cell["encoder"] == "above" else []), cell
    assert [one["job"] for one in table.flags] == ["pretrain/below/seed0"]
    for fmt in ("markdown", "latex"):
        assert "Flagged saturated" in render(table, fmt)
    assert json.loads(render(table, "json"))["flags"] == [
        {"job": "pretrain/below/seed0", "flag": "saturated", "because": "loss 0.00001 where chance is 4.16"}
    ]
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert {(row["encoder"], row["flags"]) for row in rows} == {
        ("plain", "none"),
        ("above", "saturated"),
        ("noise", "none"),
    }


@pytest.mark.parametrize(("metric", "layout"), [("asr", "by-task"), ("contrast", "full")])
def test_a_flag_that_the_file_of_given_weights_states_is_told_as_one_of_a_training(
    metric: Any, layout: str, make_flagged_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job here trained them, so that no record has it: it is below the table in short, in CSV and in JSON."""
    stated = {"no adversary": "it moved nothing"}
    monkeypatch.setitem(ENCODERS, "plain", ENCODERS["plain"].model_copy(update={"flags": stated}))
    results = Results.of(make_flagged_run())
    table = build(results, metric, layout)  # type: ignore[arg-type]
    assert [note.partition(": ")[2] for note in flagged(table)] == ["plain (it moved nothing)."]
    assert "Flagged no adversary: plain." in add_short_notes(table, results).brief
    assert table.flags == ({"job": "plain", "flag": "no adversary", "because": "it moved nothing"},)
    for cell in table.cells:
        assert cell["flags"] == (["no adversary"] if cell["encoder"] == "plain" else []), cell
    assert {row["flags"] for row in csv.DictReader(io.StringIO(render(table, "csv")))} == {"none", "no adversary"}
    (said,) = Flags(results.plan, results.standing.records).raised_notes(results.plan.jobs)
    assert said.startswith("Flagged no adversary"), "the report shows these"


def test_flags_that_a_file_states_are_in_no_key() -> None:
    plain, stated = (EncoderSpec(name="plain", base="org/x", flags=flags) for flags in ({}, {"saturated": "so"}))
    assert keyed(plain) == keyed(stated)


def test_a_healthy_run_has_no_such_note(make_flagged_run: MakeRun) -> None:
    results = Results.of(make_flagged_run())
    for metric, layout in SHOWN_TABLES:
        table = build(results, metric, layout)  # type: ignore[arg-type]
        assert flagged(table) == [] and table.flags == ()


def test_flags_of_victims_and_attacks_are_grouped_over_seeds(make_flagged_run: MakeRun) -> None:
    health = {f"victim plain {seed}": make_flagged_health("near chance", f"accuracy {seed}") for seed in (0, 1)}
    health |= {
        "pwws above 1": make_flagged_health("starved of candidates"),
        "random plain 0": make_flagged_health("starved of candidates"),
    }
    store = make_flagged_run(health)
    assert flagged(build(store, "asr")) == [
        "Flagged starved of candidates (most words that the attack wanted to replace had no candidate): "
        "plain/mr/clean/random seed 0 (so it is); above/mr/clean/pwws seed 1 (so it is).",
        "Flagged near chance (the accuracy cannot be told from that of always giving the most frequent label): "
        "plain/mr/clean seeds 0, 1 (seed 0: accuracy 0).",
    ]
    assert [note[:19] for note in flagged(build(store, "contrast"))] == ["Flagged near chance"]
    assert flagged(build(store, "sts")) == []  # neither victims nor attacks stand behind it


def test_many_flagged_jobs_are_counted(make_flagged_run: MakeRun) -> None:
    encoders = ("plain", "above", "noise")
    health = {
        f"{attack} {name} 0": make_flagged_health("starved of candidates") for name in encoders for attack in ATTACKS
    }
    health |= {f"victim {name} 0": make_flagged_health("near chance") for name in encoders}
    starved, _ = flagged(build(make_flagged_run(health), "asr"))
    assert starved.count("(so it is)") == 6
    many = {f"many{i}": EncoderSpec(name=f"many{i}", base="org/x") for i in range(5)}
    ENCODERS.update(many)
    try:
        health = {
            f"{attack} {name} 0": make_flagged_health("starved of candidates") for name in many for attack in ATTACKS
        }
        (note,) = flagged(build(make_flagged_run(health, encoders=tuple(many)), "asr"))
    finally:
        for name in many:
            del ENCODERS[name]
    assert note.count("(so it is)") == 8 and note.endswith("; and 2 more.")


def test_records_without_health_are_named_and_their_flags_unknown(make_flagged_run: MakeRun) -> None:
    table = build(make_flagged_run(rest=None), "asr")
    assert flagged(table) == [
        "No health recorded of 6 fine-tunings, whose strategies give no validation accuracy.",
    ]
    assert {cell["flags"] for cell in table.cells} == {None}
    assert {row["flags"] for row in csv.DictReader(io.StringIO(render(table, "csv")))} == {""}
    one = build(make_flagged_run({"below": None}), "sts")
    assert flagged(one) == []
    assert [cell["flags"] for cell in one.cells] == [[], None, []]


@pytest.mark.parametrize("rest", [None, HEALTHY])
def test_requiring_healthy_ones_withholds_nothing_that_has_no_flag(
    rest: Health | None, make_flagged_run: MakeRun
) -> None:
    requiring, other = (Results.of(make_flagged_run(rest=rest, require=one)) for one in ("healthy", None))
    for metric, layout in SHOWN_TABLES:
        asked, free = (build(results, metric, layout) for results in (requiring, other))  # type: ignore[arg-type]
        assert render(asked, "markdown") == render(free, "markdown")


def test_a_flagged_cell_is_a_dash_with_its_flag_and_neither_bold_nor_in_averages(make_flagged_run: MakeRun) -> None:
    health = {"below": make_flagged_health("saturated")}
    free = build(make_flagged_run(health), "asr")
    table = build(make_flagged_run(health, require="healthy"), "asr")
    rows, open_rows = entries(table), entries(free)
    for attack in ATTACKS:
        assert rows[attack, "above"] == [("saturated",)]
        assert open_rows[attack, "above"] != [("saturated",)]
        assert sorted(str(rows[attack, name][0]) for name in ("plain", "noise")) == ["None", "best"]
    markdown, latex = render(table, "markdown", intervals=True), render(table, "latex")
    assert markdown.count("| — saturated |".replace("| ", "", 1)) == 2 and latex.count("--- saturated") == 2
    assert "withheld for a flag, because the suite requires healthy encoders" in markdown
    assert "n/a" not in markdown
    for cell in table.cells:
        hidden = cell["encoder"] == "above"
        assert all((cell[name] is None) == hidden for name in ("value", "low", "high", "seed_sd")), cell
    assert flagged(table) == flagged(free)


def test_a_flagged_number_has_its_sign_and_a_note_says_it_once(make_flagged_run: MakeRun) -> None:
    table = build(make_flagged_run({"below": make_flagged_health("saturated")}), "asr")
    healthy = build(make_flagged_run(), "asr")
    for fmt, sign in (("markdown", "†"), ("latex", r"$^{\dagger}$")):
        text = render(table, fmt)
        # A phantom is the room of a sign in lines that have none.
        shown = text.replace(rf"\phantom{{{sign}}}", "")
        signed = [line for line in shown.splitlines() if sign in line and ("|" in line or line.endswith(r"\\"))]
        assert "".join(signed).count(sign) == len(ATTACKS) and all("above" in line for line in signed)
        assert text.count("flagged, or an average with a flagged part") == 1
        assert sign not in render(healthy, fmt)


def test_programs_are_told_of_each_number_whether_it_is_flagged(make_flagged_run: MakeRun) -> None:
    store = make_flagged_run(
        {"below": make_flagged_health("saturated"), "pwws plain 0": make_flagged_health("starved of candidates")}
    )
    for metric, by_attack in (("asr", True), ("clean", False)):
        table = build(store, metric)
        for fmt in ("json", "csv"):
            text = render(table, fmt)
            cells = json.loads(text)["cells"] if fmt == "json" else csv.DictReader(io.StringIO(text))
            found = {(cell["attack"], cell["encoder"]) for cell in cells if cell["flagged"] in (True, "True")}
            # Numbers of the victim before the attack have no flags of the attack.
            of_attacks = {("pwws", "plain"), *((attack, "above") for attack in ATTACKS)}
            assert found == (of_attacks if by_attack else {("", "above")})


def test_an_average_is_flagged_where_one_of_its_parts_is() -> None:
    from rbench.metrics import MetricCatalogue
    from rbench.tables.table import average_entries

    about, one, other = MetricCatalogue()["asr"].about, Number(0.2, True), Number(0.4, True, flagged=True)
    mean, healthy = average_entries([one, other], about), average_entries([one, one], about)
    assert mean is not None and healthy is not None
    assert (mean.flagged, mean.signs, healthy.signs) == (True, "†", "")
    assert mean.value == pytest.approx(0.3)


def test_only_one_function_says_what_flags_do_to_a_number() -> None:
    package = Path(__file__).resolve().parents[2] / "rbench"
    calls = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if ".hidden(" in path.read_text()}
    assert calls == {"tables/flags.py"}


def test_an_average_with_a_withheld_entry_is_withheld() -> None:
    from rbench.metrics import MetricCatalogue
    from rbench.tables.table import average_entries, mark_best

    numbers = [Number(0.2, True), Number(0.4, True).hidden(("near chance",)), Number(0.6, True).hidden(("saturated",))]
    mean = average_entries(numbers, MetricCatalogue()["asr"].about)
    assert mean is not None and mean.value is None and mean.withheld == ("near chance", "saturated")
    column = [[Number(0.9, True)], [Number(0.1, True).hidden(("saturated",))], [Number(0.5, True)]]
    assert [row[0].best for row in mark_best(column, [MetricCatalogue()["asr"].about]) if row[0]] == [
        False,
        False,
        True,
    ]


def test_a_flag_of_one_seed_withholds_the_cell_that_pools_it_and_only_its_own_row(make_flagged_run: MakeRun) -> None:
    store = make_flagged_run({"victim plain 1": make_flagged_health("near chance")}, require="healthy")
    assert entries(build(store, "asr"))["pwws", "plain"] == [("near chance",)]
    rows = [row for row in build(store, "asr", "full").rows if row[:2] == ("pwws", "plain")]
    hidden = {row[3]: {entry.withheld for entry in row if isinstance(entry, Number)} for row in rows}
    assert hidden == {0: {()}, 1: {("near chance",)}}
    full = build(store, "asr", "full").cells
    for cell in full:
        gone = (cell["encoder"], cell["seed"]) == ("plain", 1)
        assert (cell["scores"]["asr"]["value"] is None) == gone and (cell["value"] is None) == gone


def test_controls_are_shown_with_their_flags(make_flagged_run: MakeRun) -> None:
    health = {
        "noise": make_flagged_health("saturated"),
        "victim noise 0": make_flagged_health("near chance"),
        "random plain 0": make_flagged_health("starved of candidates"),
    }
    store = make_flagged_run(health, require="healthy")
    table = build(store, "asr")
    assert not any(isinstance(flags[0], tuple) for flags in entries(table).values())
    assert len(flagged(table)) == 3
    for metric in ("sts", "contrast"):
        assert not any(isinstance(one, tuple) for row in entries(build(store, metric)).values() for one in row)


def test_a_control_answers_for_itself_alone(make_flagged_run: MakeRun) -> None:
    """A control encoder does not excuse a starved attack, nor a control attack a victim near chance."""
    health = {
        "pwws noise 0": make_flagged_health("starved of candidates"),
        "victim plain 0": make_flagged_health("near chance"),
    }
    rows = entries(build(make_flagged_run(health, require="healthy"), "asr"))
    assert rows["pwws", "noise"] == [("starved of candidates",)]
    assert rows["random", "plain"] == [("near chance",)]
    assert rows["random", "noise"] in ([None], ["best"])


def test_what_is_lost_are_the_records_whose_flags_would_count(make_flagged_run: MakeRun) -> None:
    results = Results.of(store := make_flagged_run())
    jobs = {(job.parts[0], job.stage, job.seed): job for job in results.plan.jobs if job.has_health}
    for gone in [jobs["above", "pretrain", 0], jobs["above", "finetune", 0], jobs["noise", "finetune", 0]]:
        (store.root / gone.folder / "record.json").unlink()
    flags, attack = Results.of(store).flags, jobs["above", "attack", 0]
    assert flags.lost([attack]) == ["pretrain/above/seed0", "finetune/above/mr/clean/seed0"]
    assert flags.lost([attack], trainings=False) == ["finetune/above/mr/clean/seed0"]
    assert flags.lost([jobs["above", "attack", 1]]) == ["pretrain/above/seed0"]
    assert flags.lost([jobs["noise", "attack", 0], jobs["plain", "attack", 0]]) == [], "a control decides all the same"


def test_a_starved_attack_says_nothing_against_the_accuracy_before_it(make_flagged_run: MakeRun) -> None:
    store = make_flagged_run({"pwws plain 0": make_flagged_health("starved of candidates")}, require="healthy")
    clean, asr_pwws, asr_random, words_pwws, words_random = entries(build(store, "asr", "by-task"))["mr", "plain"]
    assert asr_pwws == words_pwws == ("starved of candidates",)
    assert all(not isinstance(one, tuple) for one in (clean, asr_random, words_random))
    assert entries(build(store, "clean"))["plain",] in ([None], ["best"])
    row = next(row for row in build(store, "asr", "full").rows if row[:2] == ("pwws", "plain") and row[3] == 0)
    assert [bool(entry.withheld) for entry in row if isinstance(entry, Number)] == [False, True, True, True, True, True]


@pytest.mark.parametrize(("metric", "n"), [("sts", 1), ("contrast", 3)])
def test_evaluations_are_withheld_too(metric: Any, n: int, make_flagged_run: MakeRun) -> None:
    store = make_flagged_run({"above": make_flagged_health("no adversary")}, require="healthy")
    table = build(store, metric)
    rows = entries(table)
    assert rows[("above",)] == [("no adversary",)] * n
    assert not any(isinstance(one, tuple) for name in ("plain", "noise") for one in rows[(name,)])
    assert [cell["value"] for cell in table.cells if cell["encoder"] == "above"] == [None]
    for cell in build(store, metric, "full").cells:
        assert all((one["value"] is None) == (cell["encoder"] == "above") for one in cell["scores"].values())


def test_the_last_deltas_of_a_training_are_told(make_flagged_run: MakeRun) -> None:
    series = (
        MeasuredStep(step=0, values={"delta ratio": 0.5, "dropout cosine": 0.953}),
        MeasuredStep(step=9, values={"delta ratio": 0.0512, "adversarial cosine": 0.99312, "rise": 3.0}),
    )
    (note,) = flagged(build(make_flagged_run({"above": Health(series=series)}), "asr"))
    assert note.endswith(": above delta ratio 0.0512, adversarial cosine 0.993, dropout cosine 0.953.")


def test_the_data_frame_has_flags(make_flagged_run: MakeRun) -> None:
    store = make_flagged_run(
        {
            "below": make_flagged_health("saturated"),
            "pwws above 0": make_flagged_health("starved of candidates"),
            "noise": None,
        }
    )
    plan = store.plan()
    assert plan is not None
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob) and job.seed == 0:
            asked = {"words_asked": 7, "words_without_candidate": 3}
            store.write_outcomes(job, [outcome.model_copy(update=asked) for outcome in make_outcomes(job, 2)])
    frame = results_frame(store)
    flags = {key: set(one["flags"].fillna("unknown")) for key, one in frame.groupby(["encoder", "attack"])}
    assert flags == {
        ("above", "pwws"): {"saturated; starved of candidates"},
        ("above", "random"): {"saturated"},
        ("plain", "pwws"): {"none"},
        ("plain", "random"): {"none"},
        ("noise", "pwws"): {"unknown"},
        ("noise", "random"): {"unknown"},
    }
    assert set(frame["words_asked"]) == {7} and set(frame["words_without_candidate"]) == {3}
