"""Words needed over all attacks of a RUN, counted again from outcomes made by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rbench import api
from rbench.measures.words import Words, fooled_victims
from rbench.schema.extension import NoOptions
from rbench.score import wilson
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.tables.formats import render
from tests.measures.words_runs import WORDS_NEEDED


def test_shares_median_and_bounds_are_those_of_a_loop(words_run: RunStore) -> None:
    table = Words().table(NoOptions(), Results.of(words_run))
    for row in table.cells:
        needed = [one for one in WORDS_NEEDED[row["encoder"]] if one is not None]
        wrong = int(row["encoder"] == "minilm")
        assert row["words_needed"] == pytest.approx(np.mean([min(one, 6) for one in needed]))
        for words in (1, 2, 3, 5):
            falls = sum(one <= words for one in needed)
            assert row[f"falls_within_{words}"] == falls / len(needed) and row[f"falls_within_{words}_n"] == len(needed)
            ends = row[f"falls_within_{words}_low"], row[f"falls_within_{words}_high"]
            assert ends == pytest.approx(wilson(falls, len(needed)))
            assert row[f"errs_within_{words}"] == (falls + wrong) / (len(needed) + wrong)
        assert row["exact_to"] == 1, "all texts with one word were asked, and two words were not"
        assert row["proved"] == np.mean([min(one, 1 if one == 1 else 2) for one in needed])
        assert row["median"] == sorted(needed)[(len(needed) - 1) // 2]
    assert [len(row) for row in table.rows] == [len(table.header)] * 2
    for fmt in ("markdown", "latex", "csv", "json"):
        assert render(table, fmt)


def test_the_metric_is_the_mean_of_the_fewest_words(words_run: RunStore) -> None:
    by_encoder = {row["encoder"]: row for row in build_attack_table(words_run, "words_needed").cells}
    for encoder, needed in WORDS_NEEDED.items():
        values = [min(one, 6) for one in needed if one is not None]
        assert (by_encoder[encoder]["value"], by_encoder[encoder]["n"]) == (pytest.approx(np.mean(values)), len(values))


def test_comparisons_conditions_and_claims_take_them(words_run: RunStore, tmp_path: Path) -> None:
    (cell,) = api.compare(words_run.root, between=("minilm", "bert_b"), metric="words_needed").cells
    pairs = [
        (min(one, 6), min(other, 6))
        for one, other in zip(WORDS_NEEDED["minilm"], WORDS_NEEDED["bert_b"], strict=True)
        if one is not None and other is not None
    ]
    difference = cell.difference
    assert difference.n == len(pairs)
    assert difference.value == pytest.approx(np.mean([other - one for one, other in pairs]))
    assert difference.low is not None and difference.high is not None and difference.p is not None
    assert (difference.p < 0.05) == (not difference.low <= 0 <= difference.high)
    (file := tmp_path / "claims.yaml").write_text(
        "claims:\n"
        "  - {id: a, metric: words_needed, lower: bert_b, than: minilm, about: weights}\n"
        "  - {id: b, metric: falls_within_1, higher: bert_b, than: minilm, about: weights}\n"
    )
    a, b = (judged.judged for judged in api.claims(words_run.root, file))
    assert a[0].difference is not None and a[0].difference.value == pytest.approx(difference.value)
    ones = [int(other <= 1) - int(one <= 1) for one, other in pairs]
    assert b[0].difference is not None and b[0].difference.value == pytest.approx(np.mean(ones))
    met = api.met(words_run.root, api.conditions(["words_needed < 5.5"])).met
    assert sorted(one.cell.partition("/")[0] for one in met) == ["bert_b", "minilm"]
    assert fooled_victims(Results.of(words_run)).cells
