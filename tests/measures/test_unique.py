"""Which attack alone found what no other did, against sets of examples."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.measures.unique import UniqueSuccesses
from rbench.schema.extension import NoOptions as Options
from rbench.score import wilson
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.tables.any_attack import ANY
from rbench.tables.formats import render
from tests.tables.builders import find_attack_jobs
from tests.tables.conftest import ATTACKS, make_outcomes

MakeRun = Callable[..., RunStore]

table = UniqueSuccesses().table


def test_counts_are_those_of_sets(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    found = table(Options(), Results.of(store))
    assert found.header == ("Task", "Encoder", "n", "Any", "All", *(f"Only {attack}" for attack in ATTACKS))
    assert [row[:2] for row in found.rows] == [(t, e) for t in ("mr", "mini_nli") for e in ("minilm", "bert_b")]
    for task, encoder, *numbers in found.rows:
        fell, usable = [], []
        for attack in ATTACKS:
            outcomes = [(j.seed, o) for j in find_attack_jobs(store, attack, encoder, task) for o in make_outcomes(j)]
            fell.append({(seed, o.example_id) for seed, o in outcomes if o.status == "succeeded"})
            usable.append({(seed, o.example_id) for seed, o in outcomes if o.status in ("succeeded", "failed")})
        there = usable[0] & usable[1]
        first, second = fell[0] & there, fell[1] & there
        expected = [there, first | second, first & second, first - second, second - first]
        assert [number.value for number in numbers] == [len(one) for one in expected]
        (cell,) = [c for c in found.cells if (c["task"], c["encoder"], c["attack"]) == (task, encoder, "pwws")]
        assert (cell["fell_to"], cell["only"], cell["any"]) == (len(first), len(first - second), len(first | second))
        limits = wilson(len(first - second) / 2, len(there) / 2)
        assert (cell["low"], cell["high"]) == pytest.approx(limits), "both seeds attack the same texts"
        assert cell["only_share"] == len(first - second) / len(there)
    text = render(found, "markdown")
    assert str(len(expected[0])) in text and ".0" not in text.partition("\n\n- ")[0]
    for fmt in ("latex", "csv", "json"):
        assert render(found, fmt)


def test_any_is_the_row_of_all_attacks_in_the_table_of_rates(make_run: MakeRun) -> None:
    results = Results.of(make_run(sealed=True))
    rates = {(c["encoder"], c["task"]): c for c in build_attack_table(results).cells if c["attack"] == ANY}
    for cell in table(Options(), results).cells:
        rate = rates[cell["encoder"], cell["task"]]  # type: ignore[index]
        assert (cell["any"], cell["n"]) == (round(rate["value"] * rate["n"]), rate["n"])


def test_what_is_not_done(make_run: MakeRun) -> None:
    gap = ("bert_b", "mr", "clean", "pwws")
    store = make_run(done=lambda job: job.parts != gap, sealed=True)
    rows = {row[:2]: row for row in table(Options(), Results.of(store)).rows}
    assert set(rows["mr", "bert_b"][2:]) == {None}
    assert None not in rows["mr", "minilm"]
    partial = make_run(done=lambda job: job.parts != gap or job.seed == 1, sealed=True, name="partial")
    assert "§" in api.table(partial.root, metric="unique")


def test_what_cannot_be_compared_is_refused(make_run: MakeRun) -> None:
    with pytest.raises(StoreError):
        table(Options(), Results.of(make_run(name="bare")))
