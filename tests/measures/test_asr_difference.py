"""Tests differences of success rates against a loop, and on the RUN made by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.measures import asr_difference
from rbench.measures.asr_difference import Marks, Options, difference, table
from rbench.spec import Health, Outcome, Raised
from rbench.storage.runs import Store
from rbench.tables import Results
from tests.tables.conftest import make_suite


def marks(seed: int, n: int = 30, share: float = 0.5) -> Marks:
    rng = np.random.default_rng(seed)
    return {
        of: {str(i): np.array([a := float(rng.random() < 0.8), a * (rng.random() < share)]) for i in range(n)}
        for of in (0, 1)
    }


def rate(own: Marks, seeds: tuple[int, ...] = (0, 1)) -> float:
    return sum(m[1] for s in seeds for m in own[s].values()) / sum(m[0] for s in seeds for m in own[s].values())


def test_a_difference_is_that_of_the_pooled_rates() -> None:
    one, other = marks(1), marks(2, share=0.3)
    found = difference([[one], [other]], 200)
    assert found is not None
    assert found.value == pytest.approx(rate(one) - rate(other)) and found.rates == pytest.approx(
        (rate(one), rate(other))
    )
    assert found.low < found.value < found.high
    seeds = [rate(one, (s,)) - rate(other, (s,)) for s in (0, 1)]
    assert found.sd == pytest.approx(np.std(seeds, ddof=1))


def test_the_mean_over_attacks_weighs_each_attack_the_same() -> None:
    ones, others = [marks(1), marks(3, share=0.9)], [marks(2), marks(4)]
    found = difference([ones, others], 50)
    assert found is not None
    assert found.value == pytest.approx(np.mean([rate(a) - rate(b) for a, b in zip(ones, others, strict=True)]))


def test_texts_are_paired() -> None:
    one = marks(1, n=200)
    same = difference([[one], [one]], 200)
    assert same is not None and (same.value, same.low, same.high) == (0, None, None), (
        "no resample says how far it may be"
    )
    shared = {seed: {k: v for k, v in own.items() if int(k) < 150} for seed, own in marks(2, n=200).items()}
    found = difference([[one], [shared]], 50)
    cut = {seed: {k: v for k, v in own.items() if int(k) < 150} for seed, own in one.items()}
    assert found is not None and found.value == pytest.approx(rate(cut) - rate(shared))


def test_texts_that_all_seeds_attacked_are_no_new_texts() -> None:
    one, other = ({0: marks(seed)[0]} for seed in (1, 2))
    thrice = [dict.fromkeys(range(3), own[0]) for own in (one, other)]
    once, found = difference([[one], [other]], 500), difference([[thrice[0]], [thrice[1]]], 500)
    assert once is not None and found is not None
    assert (found.value, found.low, found.high) == pytest.approx((once.value, once.low, once.high))
    assert found.n == (3 * once.n[0], 3 * once.n[1])


def test_where_a_suite_requires_health_flagged_attacks_have_no_difference(make_run: Callable[..., Store]) -> None:
    store = make_run(make_suite(require="healthy"), texts=True)
    plan = store.plan()
    assert plan is not None
    flagged = next(job for job in plan.jobs if job.parts == ("bert_b", "mr", "clean", "pwws"))
    record = store.record(flagged)
    assert record is not None
    raised = Health(flags=(Raised(flag="starved of candidates", because="few"),))
    store.write_record(record.model_copy(update={"health": raised}))
    made = table(Options(resamples=50), Results.of(store))
    hidden = {(c["task"], c["attack"]) for c in made.cells if c["value"] is None}
    assert hidden == {("mr", "pwws"), ("mr", "mean")}
    (cell,) = (c for c in made.cells if (c["task"], c["attack"]) == ("mr", "pwws"))
    assert cell["n"] > 0 and {cell[name] for name in ("asr", "other_asr", "low", "high", "seed_sd")} == {None}
    shown = [row for row in made.rows if (row[0], row[3]) in hidden]
    assert all(one.value is None and one.withheld for row in shown for one in row[4:])


def test_too_few_texts_or_none_attacked_give_nothing() -> None:
    assert difference([[marks(1, n=1)], [marks(2, n=1)]], 50) is None
    unattacked = {0: {str(i): np.zeros(2) for i in range(5)}}
    assert difference([[unattacked], [unattacked]], 50) is None


def test_the_table_compares_with_the_first_encoder_and_the_first_fine_tuning(make_run: Callable[..., Store]) -> None:
    store = make_run(make_suite(finetune=("clean", "adversarial")), texts=True)
    made = table(Options(resamples=50), Results.of(store))
    pairs = {(c["encoder"], c["finetune"], c["other_encoder"], c["other_finetune"]) for c in made.cells}
    assert pairs == {
        ("bert_b", "clean", "minilm", "clean"),
        ("bert_b", "adversarial", "minilm", "adversarial"),
        ("minilm", "adversarial", "minilm", "clean"),
        ("bert_b", "adversarial", "bert_b", "clean"),
    }
    assert {cell["attack"] for cell in made.cells} == {"pwws", "bertattack[max_words=10]", "mean"}
    assert "Differences of attack success rates" in api.table(store.root, metric="asr_difference", resamples=50)


def test_one_victim_has_nothing_to_be_compared_with(make_run: Callable[..., Store]) -> None:
    store = make_run(make_suite(encoders=("minilm",)), texts=True)
    with pytest.raises(StoreError, match="nothing to compare"):
        table(Options(), Results.of(store))


def test_trainings_of_a_seed_are_added_up_and_what_was_not_attacked_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(*statuses: str, reason: str | None = None) -> SimpleNamespace:
        made = [
            Outcome(example_id=f"test:{i}", status=status, original=None, skip_reason=reason if i == 4 else None)  # type: ignore[arg-type]
            for i, status in enumerate(statuses)
        ]
        cell = SimpleNamespace(task="mr", encoder="a", finetune="clean", attack="pwws")
        return SimpleNamespace(cell=cell, run=SimpleNamespace(job=SimpleNamespace(seed=0)), outcomes=made)

    trained = [
        sample("succeeded", "failed", "skipped", "errored", "skipped", reason="no words"),
        sample("succeeded", "succeeded", "failed", "errored", "skipped", reason="no words"),
    ]
    monkeypatch.setattr(asr_difference, "attacked", lambda results: trained)
    (found,) = asr_difference._samples(None).values()  # type: ignore[arg-type]
    marks = {name: mark.tolist() for name, mark in found[0].items()}
    assert marks == {"test:0": [2, 2], "test:1": [2, 1], "test:2": [1, 0]}, "attacked, and fooled"
