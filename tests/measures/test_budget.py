"""The table of budget curves, against counts over outcomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from rbench import api
from rbench.errors import StoreError
from rbench.measures.budget import BudgetCurves, Options
from rbench.schema import Outcome
from rbench.score import wilson
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.tables.formats import render
from tests.tables.builders import find_attack_jobs
from tests.tables.conftest import finish, make_outcomes, make_suite

MakeRun = Callable[..., RunStore]

table = BudgetCurves().table


def attacked(store: RunStore, attack: str, encoder: str, task: str) -> list[Outcome]:
    outcomes = [o for job in find_attack_jobs(store, attack, encoder, task) for o in make_outcomes(job)]
    return [o for o in outcomes if o.status in ("succeeded", "failed")]


def test_rates_within_budgets_and_without(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    found = table(Options(budgets=(30, 100, 250)), Results.of(store))
    assert found.header == ("Attack", "Task", "Encoder", "Area", "≤ 30", "≤ 100", "≤ 250", "ASR")
    asr = {(c["attack"], c["encoder"], c["task"]): c["value"] for c in build_attack_table(store).cells}
    assert len(found.rows) == len(found.cells) == 8
    for row, cell in zip(found.rows, found.cells, strict=True):
        attack, task, encoder, area, *rates, final = row
        there = attacked(store, attack, encoder, task)
        for budget, rate in zip((30, 100, 250), rates, strict=True):
            fell = sum(o.status == "succeeded" and o.num_queries <= budget for o in there)
            assert rate.value == cell[f"queries_{budget}"] == fell / len(there)
            assert (rate.low, rate.high) == pytest.approx(wilson(fell / 2, len(there) / 2)), "two seeds share all"
        assert final.value == asr[attack, encoder, task], "a curve ends at the table's rate"
        assert cell["top"] == max(
            o.num_queries for name in ("minilm", "bert_b") for o in attacked(store, attack, name, task)
        ), "the range is the same for all encoders"
        assert 0 < area.value < final.value
        assert area.low < area.value < area.high
    assert [i for i in range(8) if i in found.groups] == [2, 4, 6]
    text = render(found, "markdown", intervals=True)
    assert "Attack success rate by queries, % ↓" in text and "query\\_budget: b" in text.replace("query_", "query\\_")
    for fmt in ("latex", "csv", "json"):
        assert render(found, fmt)


def test_budgets_that_no_attack_reaches_have_no_column(make_run: MakeRun) -> None:
    found = table(Options(), Results.of(make_run(sealed=True)))
    most = max(cell["top"] for cell in found.cells)  # type: ignore[type-var]
    shown = [budget for budget in (25, 50, 100, 200, 500, 1000) if budget < most]  # type: ignore[operator]
    assert len(shown) < 6 and found.header[4:-1] == tuple(f"≤ {budget}" for budget in shown)


def test_words_and_shares(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    shares = table(Options(by="share"), Results.of(store))
    assert shares.header[4:] == ("≤ 5%", "≤ 10%", "≤ 20%", "≤ 40%", "ASR")
    for cell in shares.cells:
        there = attacked(store, str(cell["attack"]), str(cell["encoder"]), str(cell["task"]))
        fell = sum(o.status == "succeeded" and (o.perturbed_share or 0) <= 0.2 for o in there)
        assert cell["share_0.2"] == fell / len(there)
        assert cell["area"] == pytest.approx(
            sum(1 - (o.perturbed_share or 0) for o in there if o.status == "succeeded") / len(there)
        )
    words = table(Options(by="words"), Results.of(store))
    for cell in words.cells:  # outcomes made by hand change no word
        assert (cell["top"], cell["area"]) == (1, cell["asr"])


def test_options_choose_what_is_shown(make_run: MakeRun) -> None:
    store = make_run(make_suite(finetune=("probe", "clean")), sealed=True)
    found = api.table(store.root, metric="budget", attack="pwws", task="mr", most=500, notes="full", names=True)
    assert "| pwws" in found and "bertattack[max" not in found.partition("\n\n- ")[0]
    assert "Ends: pwws on mr 500." in found and "Fine-tuning" in found
    with pytest.raises(StoreError):
        api.table(store.root, metric="budget", attack="pws")
    with pytest.raises(ValidationError):
        Options(most=1)


def test_what_is_not_done(make_run: MakeRun) -> None:
    gap = ("bert_b", "mr", "clean", "pwws")
    store = make_run(
        done=lambda job: job.parts == ("minilm", *gap[1:]) or (job.parts == gap and job.seed == 1), sealed=True
    )
    found = table(Options(), Results.of(store))
    assert [row[:3] for row in found.rows] == [("pwws", "mr", "minilm"), ("pwws", "mr", "bert_b")]
    assert found.rows[1][3].partial and not found.rows[0][3].partial
    with pytest.raises(StoreError):
        table(Options(), Results.of(make_run(name="bare")))
    finish(store, find_attack_jobs(store, *gap[3:], *gap[:2])[1], sealed=True)
    assert not table(Options(), Results.of(store)).rows[1][3].partial
