"""The table of quality beside robustness has the numbers of the tables of their own metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rbench.measures.quality import Options, QualityAndRobustness
from rbench.measures.sts import collect_similarity
from rbench.store.runs import RunStore
from rbench.tables import Results, build
from tests import reference
from tests.tables.conftest import make_run as make_run

table = QualityAndRobustness().table


@pytest.fixture(scope="module")
def dose() -> Results:
    return Results.of(RunStore(reference.run("dose-response-part1")))


def test_every_number_is_that_of_its_own_table(dose: Results) -> None:
    found = table(Options(), dose)
    assert found.header == (
        *("Task", "Encoder", "STS, mean of 7", "Clean"),
        *("ASR textfooler", "ASR pwws", "AUA textfooler", "AUA pwws"),
    )
    assert len(found.rows) == 13
    of = {metric: build(dose, metric).cells for metric in ("asr", "aua", "clean", "sts")}  # type: ignore[arg-type]
    for cell in found.cells:
        names = ("encoder", "evaluation") if cell["quantity"] == "sts" else ("encoder", "task", "finetune")
        names += ("attack",) if cell["attack"] else ()
        wanted = {name: cell[name] for name in names}
        same = [c for c in of[cell["quantity"]] if wanted.items() <= {**c, "evaluation": c.get("evaluation")}.items()]
        assert same and all(cell[k] == pytest.approx(same[0][k]) for k in ("value", "n", "low", "high")), cell
    assert len(found.cells) == 13 * 6


def test_options_choose_columns(dose: Results) -> None:
    assert [name for name in table(Options(attacked="aua"), dose).header if name.startswith("A")] == [
        "AUA textfooler",
        "AUA pwws",
    ]


def test_a_run_without_sts_says_so(make_run: Callable[..., RunStore]) -> None:
    found = table(Options(), Results.of(make_run()))
    assert found.header[:3] == ("Task", "Encoder", "Clean")
    assert found.brief == ("STS is not shown, because the suite has no STS task under `evaluate`.",)


def test_the_average_needs_all_sets(dose: Results) -> None:
    """The mean has no value where a set is missing; each of the others can still be shown."""
    found = collect_similarity(dose)
    first, *others = found.row("minilm-mlm")
    whole = found.mean("minilm-mlm")
    joined = found.average("minilm-mlm")
    assert first is not None and whole is not None and joined is not None
    assert (whole.value, whole.low, whole.high) == (pytest.approx(joined.value), joined.low, joined.high)
    cell = found.cells["minilm-mlm", found.labels[0]]
    waiting = replace(cell, runs=tuple(replace(run, record=None) for run in cell.runs))
    less = replace(found, cells={**found.cells, ("minilm-mlm", found.labels[0]): waiting})
    assert less.row("minilm-mlm") == [None, *others] and less.mean("minilm-mlm") is None
