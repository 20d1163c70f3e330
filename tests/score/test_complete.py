"""Which records have the numbers that tables show."""

from __future__ import annotations

import pytest

from rbench.schema import Digest, Record
from rbench.score.attack import record_problem
from tests.score.builders import make_outcome, make_record

SAMPLE = [
    make_outcome("succeeded", num_queries=9, perturbed_share=0.5),
    make_outcome("failed"),
    make_outcome("skipped"),
    make_outcome("errored"),
    make_outcome("skipped", skip_reason="no words"),
    make_outcome("skipped", skip_reason="empty sentence"),
]


def kept(n: int) -> Record:
    return make_record(SAMPLE).model_copy(update={"outcomes": Digest(n=n, sha256="0" * 64, texts=False)})


def test_a_record_counts_every_outcome_of_its_file() -> None:
    assert record_problem(make_record(SAMPLE)) is None and record_problem(kept(6)) is None
    for n in (5, 7):
        assert f"counts 6 examples, but its file has {n} outcomes" in (record_problem(kept(n)) or "")


@pytest.mark.parametrize("name", ["failed", "truncated"])
def test_a_record_with_a_number_below_zero_is_impossible(name: str) -> None:
    made = make_record(SAMPLE)
    wrong = made.model_copy(update={"counts": made.counts | {name: -1}})
    assert (record_problem(wrong) or "").endswith("are impossible.")


def test_a_record_that_lacks_a_number_names_it_and_one_that_failed_needs_none() -> None:
    made = make_record(SAMPLE)
    without = made.model_copy(update={"scores": tuple(one for one in made.scores if one.name != "queries")})
    assert "has no 'queries'" in (record_problem(without) or "")
    assert record_problem(without.model_copy(update={"status": "failed"})) is None
