"""Claims of a RUN on a printed table whose encoders, strategies and attacks have other names and options."""

from __future__ import annotations

from typing import Any

import pytest

from rbench.errors import SuiteError
from rbench.papers.claims import PrintedClaimVerdict, judge_on_paper
from rbench.papers.tables import PrintedTable
from rbench.schema.claims import CellOf, Claim


def row(encoder: str, attack: str, *cells: str, strategy: str = "clean", **options: int) -> dict[str, Any]:
    where = {"encoder": encoder, "attack": attack, "strategy": strategy, "strategy_options": options}
    return {"label": {"encoder": f"{encoder} {attack} {strategy}"}, "where": where, "cells": list(cells)}


TABLE = PrintedTable.model_validate(
    {
        "title": "Small",
        "source": {"paper": "small", "table": 1, "place": "section 1", "version": "1"},
        "metrics": {"asr": {"title": "Success rate", "unit": "%", "better": "lower"}},
        "columns": [
            {"name": "mr", "label": "MR", "metric": "asr", "where": {"task": "mr"}},
            {"name": "sst2", "label": "SST-2", "metric": "asr", "where": {"task": "sst2"}},
        ],
        "rows": [
            row("simcse-bert-base", "pwws", "40.0", "90.0"),
            row("simcse-bert-base", "bae", "50.0", "90.0"),
            row("bert-base", "pwws", "45.0", "10.0"),
            row("bert-base", "bae", "49.0", "10.0"),
            row("bert-base", "bae", "20.0", "10.0", strategy="adversarial"),
            row("bert-base", "bae", "19.0", "9.0", strategy="freelb", k=9),
            row("uscal-bert-base", "pwws", "1.0", "1.0"),
        ],
    }
)
PARTNERS = {"simcse-bert-base": "simcse-minilm[steps=20]", "bert-base": "minilm"}


def cells(*attacks: str, tasks: tuple[str, ...] = ("mr",), finetune: str = "clean") -> tuple[CellOf, ...]:
    ours = PARTNERS.values()
    return tuple(CellOf(encoder, task, attack, finetune) for encoder in ours for task in tasks for attack in attacks)


def judged(said: dict[str, Any], ours: tuple[CellOf, ...]) -> PrintedClaimVerdict:
    return judge_on_paper(Claim.model_validate({"id": "c", **said}), "small-table1", TABLE, PARTNERS, ours)


def values(found: PrintedClaimVerdict) -> list[tuple[str, float, float]]:
    return [(one.verdict, float(one.decisive.value), float(one.decisive.reference)) for one in found.combinations]


def test_names_become_the_papers_and_options_are_left_out() -> None:
    said = {"lower": "simcse-minilm", "than": "minilm", "for_each": "attack"}
    found = judged(said, cells("pwws[max_words=20]", "bae[max_words=20]"))
    assert values(found) == [("holds", 40.0, 45.0), ("fails", 50.0, 49.0)]
    assert [one.decisive.other for one in found.combinations] == ["bert-base", "bert-base"]


def test_only_what_both_have_is_compared() -> None:
    said = {"lower": "simcse-minilm", "than": "minilm"}
    assert values(judged(said, cells("pwws", "geometry"))) == [("holds", 40.0, 45.0)]
    both = cells("pwws", tasks=("mr", "sst2", "mine"))
    assert values(judged(said, both)) == [("fails", 65.0, 27.5)]
    assert values(judged(said | {"where": {"task": ["mr"]}}, both)) == [("holds", 40.0, 45.0)]


def test_a_strategy_is_the_one_of_the_same_name() -> None:
    said = {
        "lower": {"encoder": "minilm", "finetune": "adversarial[k=5]"},
        "than": {"encoder": "minilm", "finetune": "clean"},
    }
    ours = (*cells("bae"), *cells("bae", finetune="adversarial[k=5]"))
    assert values(judged(said, ours)) == [("holds", 20.0, 49.0)]


def test_an_encoder_without_a_partner_is_not_averaged_in() -> None:
    found = values(judged({"of": {"attack": "pwws"}, "at_most": 42.5}, cells("pwws")))
    assert found == [("holds", 42.5, 42.5)]  # with the third encoder it were 28.7


@pytest.mark.parametrize(
    ("said", "attacks", "named"),
    [
        ({"metric": "sts", "of": "minilm", "at_least": 5}, ("pwws",), "sts"),
        ({"lower": "nobody", "than": "minilm"}, ("pwws",), "nobody"),
        ({"lower": {"finetune": "freelb[k=5]"}, "than": "minilm"}, ("bae",), "freelb"),
        ({"lower": {"attack": "geometry"}, "than": {"attack": "pwws"}}, ("pwws", "geometry"), "geometry"),
        ({"lower": "simcse-minilm", "than": "minilm"}, ("geometry",), "attack"),
    ],
)
def test_what_the_paper_does_not_print_is_refused(said: dict[str, Any], attacks: tuple[str, ...], named: str) -> None:
    with pytest.raises(SuiteError) as caught:
        judged(said, cells(*attacks))
    assert named in str(caught.value)
