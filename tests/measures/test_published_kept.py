"""Published shares are a prior with sources, counted as `valid_asr` counts, and enter no number of a RUN."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.measures import published_kept
from rbench.measures.published_kept import RATES_FILE
from tests.raters import mini_run

# By attack: successes, share of all their ratings that see the label, in %. Computed from the public ratings by others
# than wrote the file: texts whose `succ` is 1, ratings above or below 3.
KNOWN = {
    "textfooler": (169, 73.8),
    "GeneticAlgorithmAlzantot2018": (65, 59.8),
    "bae": (73, 59.0),
    "PSOZang2020": (170, 64.9),
}


def test_the_table_has_its_sources_and_the_attacks_of_the_run_alone(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", attacks=("textfooler", "pwws"))
    (cell,) = json.loads(api.table(run, metric="published_kept", fmt="json"))["cells"]
    assert (cell["attack"], cell["published"], cell["texts"], cell["ratings"]) == ("textfooler", True, 169, 607)
    assert "arXiv:2109.04385" in cell["source"] and "bf17d19" in cell["source"] and "side of 3" in cell["counted"]
    page = api.table(run, metric="published_kept", notes="full")
    assert "A prior" in page and "Source 1: Ratings of Mozes" in page and "74.1" in page and "73.8" in page
    assert "87.0" not in page, "the share of texts whose mean rating is on the label's side"
    short = api.table(run, metric="published_kept")
    assert "Source 1: Ratings of Mozes" in short and "Counted: " in short, "also where notes are brief"
    with pytest.raises(StoreError):
        api.table(run, metric="valid_asr")


def test_where_nothing_is_published_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.table(mini_run(tmp_path / "run", attacks=("pwws",)), metric="published_kept")


@pytest.mark.parametrize("attack", KNOWN)
def test_shares_of_published_ratings_are_of_raters_and_of_the_texts_that_fell(attack: str) -> None:
    """Each rating is written out, and the share of a text's raters averaged over texts, as `valid_asr` does."""
    (rate,) = [one for one in json.loads(RATES_FILE.read_text(encoding="utf-8"))["rates"] if one["attack"] == attack][
        :1
    ]
    texts = [np.array([1.0] * see + [0.0] * (raters - see)) for raters, see, n in rate["changed"] for _ in range(n)]
    n, of_ratings = KNOWN[attack]
    assert len(texts) == n == sum(one[2] for one in rate["originals"])
    assert {len(one) for one in texts} <= {*range(2, 9)}
    assert np.concatenate(texts).mean() * 100 == pytest.approx(of_ratings, abs=0.05)
    found = published_kept.compute_shares(rate)
    assert found["kept"] == pytest.approx(np.mean([one.mean() for one in texts]))
    assert found["of_ratings"] == pytest.approx(np.concatenate(texts).mean())
    assert found["kept"] < found["unperturbed"] < 0.9


def test_each_rate_has_a_source_and_says_how_it_is_counted() -> None:
    found = json.loads(RATES_FILE.read_text(encoding="utf-8"))
    for rate in found["rates"]:
        source, numbers = found["sources"][rate["source"]], published_kept.compute_shares(rate)
        assert 0 < numbers["kept"] < 1 and numbers["raters"] and "arXiv:" in source["from"] and source["counted"]
    assert {rate["source"] for rate in found["rates"]} == found["sources"].keys()
