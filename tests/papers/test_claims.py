"""Claims on a small printed table, whose verdicts are plain to see."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rbench.errors import SuiteError
from rbench.papers import tables as printed
from rbench.papers.claims import (
    PrintedClaimVerdict,
    build_claims_table,
    claim_kind,
    count_by_sentence,
    format_gap,
    judge_printed_claim,
    numbers_by_cell,
)
from rbench.papers.tables import PrintedTable
from rbench.schema.claims import CellOf, Claim
from rbench.tables.formats import render


def row(encoder: str, *cells: str, **more: Any) -> dict[str, Any]:
    where = {"encoder": encoder, "attack": "pwws", **more}
    return {"label": {"encoder": f"{encoder} {more}"}, "where": where, "cells": list(cells)}


TABLE = PrintedTable.model_validate(
    {
        "title": "Small",
        "source": {"paper": "small", "table": 1, "place": "section 1", "version": "1"},
        "metrics": {
            "asr": {"title": "Success rate", "unit": "%", "better": "lower"},
            "delta": {"title": "Difference", "unit": "%", "better": "lower"},
        },
        "columns": [
            {"name": "mr", "label": "MR", "metric": "asr", "where": {"task": "mr"}},
            {"name": "sst2", "label": "SST-2", "metric": "asr", "where": {"task": "sst2"}},
            {"name": "mean", "label": "Avg.", "metric": "asr", "computed": {"kind": "mean", "of": ["mr", "sst2"]}},
            {"name": "less", "label": "d", "metric": "delta", "computed": {"kind": "difference", "of": ["mr", "sst2"]}},
        ],
        "rows": [
            row("simcse-minilm", "40.1", "60.3", "10.0", "-20.2"),
            row("minilm", "20.0", "60.3", "90.0", "-40.3"),
            row("uscal-minilm", "30.0", "10.0", "20.0", "20.0"),
            row("adcl-minilm", "50.0", "40.0", "45.0", "10.0", options={"queue": 8}),
            row("adcl-minilm", "45.0", "30.0", "37.5", "15.0", options={"queue": 16}),
            row("adcl-minilm", "44.0", "31.0", "37.5", "13.0", options={"queue": 32}),
        ],
    }
)


def on(**claim: Any) -> PrintedClaimVerdict:
    return judge_printed_claim(Claim.model_validate({"id": "one", **claim}), "small-table1", TABLE, "file:1:1")


def verdicts(**claim: Any) -> list[str]:
    return [one.verdict for one in on(**claim).combinations]


def test_each_combination_has_a_verdict_and_a_tie_does_not_hold() -> None:
    found = on(lower="minilm", than="simcse-minilm", for_each="task")
    assert [(one.at, one.verdict) for one in found.combinations] == [
        ({"task": "mr"}, "holds"),
        ({"task": "sst2"}, "tie"),
    ]
    assert (found.holding, found.ties) == (1, 1)
    assert found.closest.at == {"task": "sst2"}


def test_averages_are_of_the_cells_and_not_the_printed_ones() -> None:
    found = on(higher="simcse-minilm", than="minilm")  # by the printed averages it would fail
    (one,) = found.combinations
    assert (one.verdict, one.decisive.value, one.decisive.reference) == ("holds", Fraction("50.2"), Fraction("40.15"))
    assert one.decisive.n == 2


def test_printed_differences_are_numbers() -> None:
    assert verdicts(metric="delta", lower="minilm", than="simcse-minilm") == ["holds"]


@pytest.mark.parametrize(("by", "verdict"), [(20, "holds"), (20.1, "tie"), (20.2, "fails")])
def test_by_is_more_than_so_many_points(by: float, verdict: str) -> None:
    claim = {"by": by, "where": {"task": "mr"}}
    assert verdicts(lower="minilm", than="simcse-minilm", **claim) == [verdict]
    assert verdicts(higher="simcse-minilm", than="minilm", **claim) == [verdict]


@pytest.mark.parametrize(("times", "verdict"), [(0.5, "holds"), (0.498, "fails")])
def test_times_is_a_ratio(times: float, verdict: str) -> None:
    assert verdicts(lower="minilm", than="simcse-minilm", times=times, where={"task": "mr"}) == [verdict]


def test_of_several_the_nearest_decides() -> None:
    found = on(lower="uscal-minilm", than=["simcse-minilm", "minilm"], for_each="task")
    assert [(one.verdict, one.decisive.other) for one in found.combinations] == [
        ("fails", "minilm"),
        ("holds", "simcse-minilm"),
    ]


def test_limits_are_included() -> None:
    for limit, verdict in ((30, "holds"), (29.9, "fails")):
        assert verdicts(of={"encoder": "uscal-minilm", "task": "mr"}, at_most=limit) == [verdict]
    assert verdicts(of="uscal-minilm", at_least=20) == ["holds"]
    assert verdicts(
        of={"task": "mr"}, at_least=40.1, for_each="encoder", where={"encoder": ["minilm", "simcse-minilm"]}
    ) == [
        "holds",
        "fails",
    ]


def test_orderings_go_from_the_lowest() -> None:
    assert verdicts(ordering=["uscal-minilm", "minilm", "simcse-minilm"]) == ["holds"]
    found = on(ordering=["minilm", "uscal-minilm", "simcse-minilm"], for_each="task")
    assert [one.verdict for one in found.combinations] == ["holds", "fails"]


def test_options_are_followed_in_their_order() -> None:
    assert verdicts(falling="adcl-minilm", for_each="task", **{"in": "queue"}) == ["holds", "fails"]
    assert verdicts(falling="adcl-minilm", **{"in": "queue", "to": 16}) == ["holds"]
    assert verdicts(rising="adcl-minilm", where={"task": "sst2"}, **{"in": "queue", "from": 16}) == ["holds"]
    assert verdicts(lower="adcl-minilm[queue=16]", than="adcl-minilm[queue=8]") == ["holds"]


def test_an_objective_stands_for_its_encoders() -> None:
    assert verdicts(lower={"objective": "uscal"}, than="minilm", where={"task": "sst2"}) == ["holds"]


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        ({"metric": "aua", "lower": "minilm", "than": "uscal-minilm"}, "aua"),
        ({"lower": "minilm", "than": "uscal-minlm"}, "uscal-minilm"),
        ({"lower": "minilm", "than": "uscal-minilm", "where": {"task": "mrr"}}, "mrr"),
        ({"rising": "adcl-minilm", "in": "temperature"}, "small-table1"),
        ({"lower": {"objective": "cline"}, "than": "minilm"}, "small-table1"),
    ],
)
def test_what_the_table_does_not_have_is_an_error_with_its_place(claim: dict[str, Any], named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        on(**claim)
    assert str(caught.value).startswith("file:1:1: ") and named in str(caught.value)


def test_no_two_numbers_of_a_printed_table_have_one_place() -> None:
    for name in printed.list_printed_tables():
        numbers_by_cell(printed.load_printed_table(name))
    twice = TABLE.model_copy(update={"rows": (*TABLE.rows, TABLE.rows[0])})
    with pytest.raises(ValueError) as caught:
        numbers_by_cell(twice)
    assert "simcse-minilm/mr/pwws" in str(caught.value)


def test_rounds_stand_for_tasks_and_labels_for_names() -> None:
    anli = numbers_by_cell(printed.load_printed_table("vadvcse-table3"))["accuracy"]
    assert anli[CellOf("vadvcse-bert-base", "dev R1")] == Fraction("55.1") and len(anli) == 12
    assert (
        CellOf("Skip-thought", "mr")
        in numbers_by_cell(printed.load_printed_table("robustsentembed-table4"))["senteval"]
    )


def test_parts_of_a_sentence_are_counted_together() -> None:
    parts = [
        judge_printed_claim(
            Claim.model_validate({"id": name, "lower": "minilm", "than": than, "for_each": "task"}), "t", TABLE, ""
        )
        for name, than in (("a.x", "simcse-minilm"), ("a.y", "uscal-minilm"), ("b", "simcse-minilm"))
    ]
    found = count_by_sentence(parts)
    assert {name: (one.holding, one.of, one.verdict) for name, one in found.items()} == {
        "a": (2, 4, "in part"),
        "b": (1, 2, "in part"),
    }


def test_the_table_counts_and_its_cells_have_every_combination() -> None:
    found = on(lower="minilm", than="simcse-minilm", times=0.5, for_each="task", note="A note.")
    made = build_claims_table([found])
    assert made.rows[0][1:5] == ("one", "ratio", "asr", "1 of 2") and made.rows[0][-1] == format_gap(found) == "×1.000"
    assert [(cell["task"], cell["verdict"], cell["difference"]) for cell in made.cells] == [
        ("mr", "holds", pytest.approx(-20.1)),
        ("sst2", "fails", 0.0),
    ]
    assert claim_kind(found.claim) == "ratio"
    text = render(made, "markdown")
    assert "Sentences: 1. They hold in full: 0, in part: 1, not at all: 0." in text and "one: A note." in text
    for fmt in ("latex", "csv", "json"):
        assert "small-table1" in render(made, fmt)


def test_the_caption_says_what_the_table_shows() -> None:
    from rbench import api

    text = api.paper_claims_table(api.paper_claims("adcl-table6"), "markdown")
    assert text.startswith("**Claims on the papers' own printed tables")
