"""Which jobs the patterns of `--only` name; `test_planner` has what they need."""

from __future__ import annotations

import pytest

from rbench.errors import PlanError
from rbench.plan.order import select_jobs
from rbench.plan.planner import make_plan
from rbench.schema import AttackJob
from tests.plan.builders import ATTACKS, make_inputs, make_suite

LABEL = "swap[max_words=3]"
PLAN = make_plan(
    make_suite(attacks=["swap", {"swap": {"max_words": 3}}]), make_inputs(attacks={**ATTACKS, LABEL: ATTACKS["lm"]})
)


@pytest.mark.parametrize("pattern", [LABEL, f"attack/*/{LABEL}/seed?", "[max_words=3]"])
def test_brackets_of_a_label_are_letters_as_others(pattern: str) -> None:
    found = [job for job in select_jobs(PLAN, [pattern]) if isinstance(job.spec, AttackJob)]
    assert found and {job.parts[3] for job in found} == {LABEL}
    assert len(found) == sum(job.parts[3:] == (LABEL,) for job in PLAN.jobs)


def test_a_pattern_that_names_nothing_is_refused_with_names_that_there_are() -> None:
    with pytest.raises(PlanError) as caught:
        select_jobs(PLAN, ["swap", "swap[max_words=4]"])
    assert "swap[max_words=4]" in str(caught.value)
