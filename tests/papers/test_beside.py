"""Our numbers beside a paper's: what stands beside what, differences, and what is left out and why."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import api
from rbench.api.runs import find_table_of_suite
from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.config.suite import load as load_suite
from rbench.errors import StoreError, SuiteError
from rbench.papers import tables as printed
from rbench.papers.beside import (
    NumberPair,
    TableComparison,
    _agrees,
    build_comparison_table,
    compare_with_printed,
    match_encoders,
)
from rbench.papers.tables import PrintedTable
from rbench.schema import EncoderSpec
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from rbench.tables.formats import render
from rbench.tables.table import Number, Table
from tests import reference
from tests.refusals import refusal
from tests.tables.conftest import make_run as make_run
from tests.tables.conftest import make_suite

MakeRun = Callable[..., RunStore]


def paper(**changes: Any) -> PrintedTable:
    """A table of a made-up paper. Its second row is of a system that is cited; the fourth of one that is not run."""
    columns = [
        {"name": "clean", "label": "Acc.", "metric": "clean"},
        {"name": "pwws", "label": "PWWS", "metric": "asr", "where": {"attack": "pwws"}},
        {"name": "bert", "label": "BERT-Attack", "metric": "asr", "where": {"attack": "bertattack"}},
        {"name": "mean", "label": "Avg.", "metric": "asr", "computed": {"kind": "mean", "of": ["pwws", "bert"]}},
        {"name": "bae", "label": "BAE", "metric": "asr", "where": {"attack": "bae"}},
    ]
    cells = ["90.0", "50.0", "60.25", "55.1", "10.0"]
    rows = [
        {"label": {"encoder": "MiniLM"}, "where": {"encoder": "minilm", "task": "mr"}, "cells": cells},
        {"label": {"encoder": "Skip-thought"}, "where": {"task": "mr"}, "cells": cells},
        {"label": {"encoder": "MiniLM on SST"}, "where": {"encoder": "minilm", "task": "sst2"}, "cells": cells},
        {"label": {"encoder": "USCAL"}, "where": {"encoder": "uscal-bert-base", "task": "mr"}, "cells": cells},
    ]
    unit = {"unit": "%", "better": "higher"}
    made = {
        "title": "Made up",
        "source": {"paper": "made", "table": 1, "place": "nowhere", "version": "1"},
        "metrics": {"clean": {"title": "Clean", **unit}, "asr": {"title": "ASR", **unit}},
        "columns": columns,
        "rows": rows,
    }
    return PrintedTable.model_validate(made | changes)


def compared(store: RunStore, what: PrintedTable | None = None) -> TableComparison:
    results = Results.of(store)

    def of(metric: str) -> Table:
        return build(results, metric)  # type: ignore[arg-type]

    return compare_with_printed("made-table1", what or paper(), results, of)


@pytest.fixture
def both(make_run: MakeRun) -> tuple[TableComparison, list[dict[str, Any]], RunStore]:
    """A comparison, the cells of the table of ASR, and the RUN."""
    store = make_run()
    return compared(store), list(build(store, "asr").cells), store


def test_a_printed_number_has_ours_of_its_system_task_and_attack_beside_it(
    both: tuple[TableComparison, list[dict[str, Any]], RunStore],
) -> None:
    found, cells, store = both
    pwws, bert = (
        next(c for c in cells if (c["attack"], c["encoder"], c["task"]) == (attack, "minilm", "mr"))
        for attack in ("pwws", "bertattack[max_words=10]")
    )
    _, of_pwws, of_bert, mean, bae = found.pairs[0]
    for pair, own in ((of_pwws, pwws), (of_bert, bert)):
        assert pair.ours is not None and pair.encoder == "minilm"
        ours = (pair.ours.value, pair.ours.low, pair.ours.high, pair.ours.n)
        assert ours == pytest.approx((100 * own["value"], 100 * own["low"], 100 * own["high"], own["n"]))
        assert pair.difference == pytest.approx(100 * own["value"] - float(pair.found.cell.printed or ""))
        assert pair.inside == (100 * own["low"] <= float(pair.found.cell.printed or "") <= 100 * own["high"])
    assert mean.ours is not None and (mean.ours.low, mean.inside) == (None, None)
    assert mean.ours.value == pytest.approx(50 * (pwws["value"] + bert["value"]))
    assert bae.why == ("of attacks that this RUN lacks", "bae")
    clean = next(c for c in build(store, "clean").cells if c["encoder"] == "minilm" and c["task"] == "mr")
    assert found.pairs[0][0].ours is not None and found.pairs[0][0].ours.value == pytest.approx(100 * clean["value"])


def test_what_is_left_out_is_counted_with_its_reason(
    both: tuple[TableComparison, list[dict[str, Any]], RunStore],
) -> None:
    found, _, store = both
    shown = build_comparison_table(found, Results.of(store).plan, "paper")
    assert [row[0] for row in shown.rows] == ["MiniLM", "Skip-thought"]
    assert shown.header == ("Encoder", "Acc.", "PWWS", "BERT-Attack", "Avg."), "a column without ours is not shown"
    assert any(
        "4 of the 15 numbers of made-table1 have one of ours beside them. Left out: 1 of attacks that this RUN lacks "
        "(bae); 5 of tasks that this RUN lacks (sst2); 5 of systems that this RUN lacks (uscal-bert-base)." in note
        for note in shown.notes
    )
    assert any(note.endswith("rbench does not have Skip-thought.") for note in shown.notes)
    text = render(shown, "markdown", notes="full")
    assert "60.25‡" in text and "‡: as printed" in text and "‡" not in text.splitlines()[4]


def test_the_star_marks_printed_numbers_inside_our_interval(make_run: MakeRun) -> None:
    store = make_run()
    own = next(
        c for c in build(store, "asr").cells if (c["attack"], c["encoder"], c["task"]) == ("pwws", "minilm", "mr")
    )
    for at, inside in (
        (own["high"], True),
        (own["low"], True),
        (own["high"] + 0.01, False),
        (own["low"] - 0.01, False),
    ):
        edge = 100 * at + (-1e-4 if at == own["high"] else 1e-4 if at == own["low"] else 0)
        cells = ["90.0", f"{edge:.4f}", "60.25", "55.1", "10.0"]
        what = paper(rows=[{"label": {"e": "M"}, "where": {"encoder": "minilm", "task": "mr"}, "cells": cells}])
        found = compared(store, what)
        assert found.pairs[0][1].inside is inside
        shown = render(build_comparison_table(found, Results.of(store).plan, "full"), "markdown")
        assert (f"{edge:.4f}\\*" in shown) is inside


def test_a_small_run_says_that_a_difference_is_no_failed_reproduction(make_run: MakeRun) -> None:
    store = make_run()
    found, plan = compared(store), Results.of(store).plan
    for profile, said in (("local", True), ("standard", False), ("standard-use", False)):
        suite = plan.suite.model_copy(update={"resources": make_suite(resources=profile).resources})
        shown = build_comparison_table(found, plan.model_copy(update={"suite": suite}), "paper")
        assert any("no failed reproduction" in note for note in shown.notes) is said
        assert any("no failed reproduction" in note for note in shown.brief) is said


def test_a_number_for_which_several_would_do_is_left_out(make_run: MakeRun) -> None:
    rows = [{"label": {"task": "MR"}, "where": {"task": "mr"}, "cells": ["90.0", "50.0", "60.0", "55.0", "10.0"]}]
    found = compared(make_run(), paper(rows=rows)).pairs[0][1]
    assert found.ours is None and found.why[0] == "for which several numbers of this RUN would do"


def test_a_number_that_is_not_done_is_left_out(make_run: MakeRun) -> None:
    store = make_run(done=lambda job: job.parts[0] != "minilm")
    with pytest.raises(StoreError):
        build_comparison_table(compared(store), Results.of(store).plan, "paper")


def specs(*names: str) -> dict[str, EncoderSpec | None]:
    return {name: load_encoder(name.partition("[")[0], Registry()) for name in names}


@pytest.mark.parametrize(
    ("name", "ours", "expected"),
    [
        ("adcl-table1", ("minilm", "adcl-minilm"), {"bert-base": "minilm", "adcl-bert-base": "adcl-minilm"}),
        ("adcl-table1", ("adcl-bert-base", "adcl-minilm"), {"adcl-bert-base": "adcl-bert-base"}),
        ("adcl-table1", ("minilm-random",), {}),
        ("cline-table4", ("minilm-mlm",), {"bert-base": "minilm-mlm"}),  # and not beside roberta-base, too
        ("robustsentembed-table1", ("simcse-minilm", "simcse-minilm-mlm"), {"simcse-bert-base": "simcse-minilm"}),
        ("robustsentembed-table3", ("mini-static",), {"glove": "mini-static"}),
        ("adcl-table6", ("adcl-mini[queue=8192]",), {"adcl-bert-base[queue=8192]": "adcl-mini[queue=8192]"}),
        ("robustsentembed-table5", ("robustsentembed-minilm",), {}),
    ],
)  # fmt: skip
def test_stand_ins_are_of_the_same_system(name: str, ours: tuple[str, ...], expected: dict[str, str]) -> None:
    assert match_encoders(printed.load_printed_table(name), specs(*ours)) == expected


def test_the_committed_run_of_a_suite_needs_no_name() -> None:
    run = reference.run("robustsentembed-table2-local")
    rows = list(csv.DictReader(io.StringIO(api.table(run, with_paper="suite", fmt="csv"))))
    assert len(rows) == 45
    own = json.loads(api.table(run, fmt="json"))["cells"]
    means: dict[str, list[float]] = {}
    flagged: dict[str, set[bool]] = {}
    for row in rows:
        if row["task"]:
            (cell,) = (
                c for c in own if (c["attack"], c["task"], c["encoder"]) == (row["attack"], row["task"], row["encoder"])
            )
            assert float(row["value"]) == pytest.approx(100 * cell["value"])
            flagged.setdefault(row["row"], set()).add(bool(cell["flags"]))
            assert row["flagged"] == str(bool(cell["flags"]))
            means.setdefault(row["row"], []).append(float(row["value"]))
        else:
            assert float(row["value"]) == pytest.approx(statistics.fmean(means[row["row"]]))
            assert row["flagged"] == str(True in flagged[row["row"]])
        assert row["stand_in"] == "True"
    shown = api.table(run, with_paper="suite")
    titles = {line.split("|")[3].strip() for line in shown.splitlines() if line.startswith("| ")} - {"Our encoder"}
    assert "all-MiniLM-L6-v2" in " ".join(titles) and len(titles) == len({row["encoder"] for row in rows})
    full = api.table(run, with_paper="suite", layout="full")
    heads = [part.strip() for part in full.splitlines()[2].split("|")[1:4]]
    assert heads == ["Attack", "Encoder", "Our encoder"]
    signed = sum(len(re.findall(r"\d†", line)) for line in shown.splitlines() if line.startswith("|"))
    assert signed == sum(row["flagged"] == "True" for row in rows) > 0


def test_wrong_names_are_refused_before_the_run_is_read() -> None:
    with pytest.raises(SuiteError):
        api.table("nowhere", with_paper="adcl-tabel1")
    with pytest.raises(SuiteError):
        api.table("nowhere", with_paper="adcl-table1", layout="by-task")
    with pytest.raises(SuiteError) as caught:
        api.table(reference.run("table1-local"), with_paper="adcl-table7", metric="asr")
    assert "seconds" in str(caught.value)
    with refusal(SuiteError, "--with-paper"):
        find_table_of_suite("quickstart")
    assert find_table_of_suite("table1") == "robustsentembed-table1"


def test_the_average_of_the_run_gives_its_interval_where_it_is_over_the_same_sets(make_run: MakeRun) -> None:
    sets = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    results = Results.of(make_run(make_suite(encoders=("simcse-bert-base",)), done=lambda job: False))
    shown = build(make_run(name="other"), "asr")

    def told(mean: float, of: tuple[str, ...] = sets) -> TableComparison:
        common = {"encoder": "simcse-bert-base", "n": 9}
        cells = [{**common, "evaluation": name, "value": 0.7 + i / 100} for i, name in enumerate(of)]
        cells += [{**common, "evaluation": "stsb[split=validation]", "value": 0.1}]
        cells += [{**common, "evaluation": None, "sets": " ".join(of), "value": mean, "low": 0.5, "high": 0.9}]
        return compare_with_printed(
            "t",
            printed.load_printed_table("robustsentembed-table3"),
            results,
            lambda _: replace(shown, cells=tuple(cells)),
        )

    (row,) = (row for row in told(0.73).pairs if row[0].ours is not None)
    assert [pair.ours and pair.ours.value for pair in row] == pytest.approx([70, 71, 72, 73, 74, 75, 76, 73])
    assert row[-1].ours is not None and row[-1].inside is True
    assert (row[-1].ours.low, row[-1].ours.high) == pytest.approx((50, 90))
    (row,) = (row for row in told(0.6).pairs if row[0].ours is not None)
    assert row[-1].ours is not None and row[-1].ours.low is None, "an average of other sets"
    assert row[-1].ours.value == pytest.approx(73)
    (row,) = (row for row in told(0.7, sets[:3]).pairs if row[0].ours is not None)
    assert row[-1].ours is None and row[-1].why[0] == "computed from numbers of which some are left out"


@pytest.mark.parametrize(("printed", "inside"), [(84.1, False), (84.2, True), (90.0, True), (90.1, False)])
def test_the_ends_of_our_interval_are_inside_it(printed: float, inside: bool) -> None:
    found: Any = SimpleNamespace(cell=SimpleNamespace(value=printed))
    assert NumberPair(found, Number(85.0, False, 10, 84.2, 90.0)).inside is inside


def test_a_strategy_stands_for_one_that_states_no_other_options() -> None:
    where: Any = SimpleNamespace()
    row = {"finetune": "clean[epochs=3,learning_rate=2e-05]"}
    for wanted, agrees in (("clean", True), ("clean[epochs=3]", True), ("clean[epochs=4]", False), ("probe", False)):
        assert _agrees(row, "strategies", wanted, where) is agrees


def test_clean_accuracy_is_left_out_where_victims_differ_in_more_than_the_attack(make_run: MakeRun) -> None:
    rates = ({"clean": {"learning_rate": 1e-5}}, {"clean": {"learning_rate": 2e-5}})
    found = compared(make_run(make_suite(finetune=rates))).pairs[0][0]
    assert found.ours is None and found.why[0] == "for which several numbers of this RUN would do"


def test_clean_accuracy_is_that_of_any_attack_that_is_done(make_run: MakeRun) -> None:
    whole = compared(make_run()).pairs[0][0].ours
    store = make_run(done=lambda job: job.parts[-1] != "pwws")
    found = compared(store).pairs[0][0].ours
    assert whole is not None and found is not None and found.value == whole.value


def test_the_readmes_profile_of_table_1_has_an_encoder_beside_each_of_the_papers() -> None:
    """The committed RUN of it has minilm alone, of which the paper has no row; it says so."""
    loaded = load_suite("table1", registry=Registry(), profile="local")
    ours = {name: loaded.encoders.get(name) for name in loaded.suite.encoders}
    found = match_encoders(printed.load_printed_table("robustsentembed-table1"), ours)
    assert list(found) == [f"{name}-bert-base" for name in ("simcse", "uscal", "robustembed", "robustsentembed")]
    with pytest.raises(StoreError):
        api.table(reference.run("table1-local"), with_paper="suite")
