"""The paragraph below a table: sizes, seeds, resources, flags and what is missing, each only where there is any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rbench import tables
from rbench.schema import Job
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.for_people import add_short_notes
from rbench.tables.formats import render
from tests.tables.conftest import make_suite

Runs = Callable[..., RunStore]


def said(store: RunStore, **changes: object) -> tuple[str, ...]:
    results = Results.of(store)
    table = add_short_notes(replace(tables.build(results, "asr"), **changes), results)  # type: ignore[arg-type]
    return (*table.basis, *table.brief)


def test_it_has_sizes_errors_seeds_and_resources(make_run: Runs) -> None:
    first, second, third, *rest = said(make_run(make_suite()))
    assert first.startswith("n of a cell: ") and first.endswith(".")
    assert second.startswith("Errored examples, in no denominator: up to ")
    assert third == "Seeds 1, 0." and rest[0] == "Resources: local."
    results = Results.of(make_run(make_suite(), name="again"))
    table = add_short_notes(tables.build(results, "asr"), results)
    assert render(table, "markdown", notes="short").endswith("All notes: --notes full.")
    assert "--notes" not in render(table, "latex", notes="short")


def test_it_says_how_many_jobs_are_missing(make_run: Runs) -> None:
    def done(job: Job) -> bool:
        return job.parts[0] == "minilm"

    assert "Of 16 jobs 8 are not done." in said(make_run(make_suite(), done=done))
    assert not any(one.startswith("Of ") for one in said(make_run(make_suite(), name="whole")))


def test_it_names_the_jobs_of_a_flag(make_run: Runs) -> None:
    store = make_run(make_suite())
    name = Results.of(store).plan.jobs[0].name
    flags = ({"job": name, "flag": "starved"}, {"job": "another", "flag": "starved"}, {"job": name, "flag": "dead"})
    found = [one for one in said(store, flags=flags) if one.startswith("Flagged")]
    assert found == [
        "Flagged starved: minilm/mr/clean/pwws, another.",
        "Flagged dead: minilm/mr/clean/pwws.",
    ]
