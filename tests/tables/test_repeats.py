"""Tests how many victims share an example: an interval of pooled seeds that covers the choice of examples alone is that
of their different examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from statsmodels.stats.proportion import proportion_confint

from rbench.schema import Job, Outcome
from rbench.store.runs import RunStore
from rbench.tables import Results, build_attack_table
from rbench.tables.aggregate import attack_grid
from rbench.tables.any_attack import build_any_attack_cells
from tests.tables.conftest import make_outcomes, make_plan, make_record, make_suite


def drawn(first: int) -> Callable[[Job], list[Outcome]]:
    """Outcomes of 20 examples; seed 1 attacks the examples from number `first` on, seed 0 those from 0 on."""

    def make(job: Job) -> list[Outcome]:
        moved = first if job.seed else 0
        return [o.model_copy(update={"example_id": f"test:{moved + i}"}) for i, o in enumerate(make_outcomes(job))]

    return make


@pytest.fixture
def attacked(tmp_path: Path) -> Callable[..., RunStore]:
    def make(outcomes: Callable[[Job], list[Outcome]], done: Iterable[int] = (0, 1), kept: bool = True) -> RunStore:
        store = RunStore(tmp_path / "run")
        plan = make_plan(make_suite())
        store.write_plan(plan)
        for job in (job for job in plan.jobs if job.seed in done):
            found = outcomes(job)
            digest = store.write_outcomes(job, found) if kept else None
            store.write_record(make_record(job, found).model_copy(update={"outcomes": digest}))
        return store

    return make


def limits(cell: dict[str, Any], repeats: float) -> Any:
    n = cell["n"] / repeats
    return pytest.approx(proportion_confint(cell["value"] * n, n, method="wilson"))


def sampled(store: RunStore, metric: str) -> list[dict[str, Any]]:
    """The cells of a RUN, all attacks together, too, with intervals of the choice of examples."""
    results = Results.of(store)
    alone = attack_grid(results)
    cells = build_any_attack_cells(results, alone).beside(alone).cells.values()
    return [{**cell.sampled(metric).model_dump(), "task": cell.task} for cell in cells]


@pytest.mark.parametrize(("first", "repeats"), [(0, 2), (5, 40 / 25), (20, 1)])
def test_an_interval_counts_each_different_text_once(
    attacked: Callable[..., RunStore], first: int, repeats: float
) -> None:
    cells = sampled(attacked(drawn(first)), "aua")
    assert len(cells) == 12, "all attacks together, too"
    for cell in cells:
        assert (cell["low"], cell["high"]) == limits(cell, repeats)


def test_the_interval_of_one_seed_is_that_of_its_own_examples(attacked: Callable[..., RunStore]) -> None:
    store = attacked(drawn(5), done=(1,))
    for cell in build_attack_table(store, "asr").cells:
        assert (cell["low"], cell["high"]) == limits(cell, 1)


def test_without_outcomes_an_interval_is_as_wide_as_if_seeds_shared_all(attacked: Callable[..., RunStore]) -> None:
    store = attacked(drawn(20), kept=False)
    for cell in build_attack_table(store, "asr").cells:
        assert (cell["low"], cell["high"]) == limits(cell, 2)


def test_tasks_are_told_apart(attacked: Callable[..., RunStore]) -> None:
    """Seeds share all examples of one task and none of the other."""
    store = attacked(lambda job: drawn(0 if job.parts[1] == "mr" else 20)(job))
    for cell in sampled(store, "asr"):
        assert (cell["low"], cell["high"]) == limits(cell, 2 if cell["task"] == "mr" else 1)


def test_a_job_without_a_record_counts_as_if_it_shared_all(attacked: Callable[..., RunStore]) -> None:
    """A measure may be done whose attacks are to be run again."""
    results = Results.of(attacked(drawn(20), done=(1,)))
    jobs = [job for job in results.plan.jobs if job.parts == results.plan.jobs[0].parts]
    assert [job.seed for job in jobs] == [1, 0]
    assert results.repeats(jobs) == 2


def test_trainings_of_a_seed_share_all_of_its_examples(attacked: Callable[..., RunStore]) -> None:
    """Two victims a seed on 20 texts each, of which seeds share 15: 80 attacks on 25 texts."""
    results = Results.of(attacked(drawn(5)))
    first, *others = results.plan.jobs
    victims = [job for job in (first, *others) if job.parts[1:] == first.parts[1:]]
    assert sorted(job.seed for job in victims) == [0, 0, 1, 1]
    assert results.repeats(victims) == pytest.approx(80 / 25)
