"""Claims speak of the numbers of a user's measure, unit by unit, through the cells that its file makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import SuiteError
from rbench.store.runs import Store
from tests.tables.conftest import make_suite

MEASURE = '''\
"""Queries of successes: how often an attack asked before it succeeded."""

from rbench.score import Sample, scored
from rbench.schema import Strict
from rbench.tables import Table
from rbench.tables.aggregate import grid
from rbench.tables.cells import Grid, Measured, Reading, mean_of
from rbench.tables.table import Meaning

ABOUT = Meaning("Queries of successes", "mean over the successes", "highest", percent=False)
METRICS = {"taken": ABOUT}


class Options(Strict):
    """It has none."""


def cells(results):
    def values(run, name):
        done = results.store.outcomes(run.job)
        return {one.example_id: float(one.num_queries) for one in done if one.status == "succeeded"}

    def score(run, name):
        return scored(name, Sample.of(values(run, name).values()))

    read, found = Reading(ABOUT, score, mean_of, values), {}
    for key, cell in grid(results).cells.items():
        names = {"finetune": cell.finetune, "attack": cell.attack}
        found[key] = Measured(cell.encoder, cell.task, cell.runs, results, read=read, **names)
    return Grid(results, found)


def table(options, results):
    rows = tuple((cell.attack, cell.encoder, cell.task, cell.number("taken")) for cell in cells(results).cells.values())
    header = ("Attack", "Encoder", "Task", "Queries")
    return Table("effort", "paper", header, rows, frozenset(), (), (), "", about=ABOUT)
'''
ENCODERS = ("minilm", "bert_b")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "measures").mkdir(parents=True)
    (folder / "measures" / "effort.py").write_text(MEASURE)
    return folder


def test_a_claim_compares_two_encoders_text_by_text(make_run: Callable[..., Store], mine: Path, tmp_path: Path) -> None:
    run = make_run(make_suite(seeds=(0, 1, 2), tables=({"metric": "effort"},)), sealed=True)
    where = "where: {task: mr, attack: pwws}, about: weights"
    (tmp_path / "claims.yaml").write_text(
        f"claims:\n  - {{id: one, metric: taken, lower: minilm, than: bert_b, {where}}}\n"
    )
    (judged,) = api.claims(run.root, tmp_path / "claims.yaml", [mine])
    (found,) = judged.judged
    plan = run.plan()
    assert plan is not None
    sides = []
    for encoder in ENCODERS:
        jobs = [job for job in plan.attacks if job.parts[:2] == (encoder, "mr") and job.parts[3] == "pwws"]
        sides.append(
            [{o.example_id: o.num_queries for o in run.outcomes(job) if o.status == "succeeded"} for job in jobs]
        )
    shared = [(a[i], b[i]) for a, b in zip(*sides, strict=True) for i in a.keys() & b.keys()]
    assert found.difference is not None and not found.found.unpaired and found.difference.n == len(shared) > 5
    assert found.difference.value == pytest.approx(sum(a - b for a, b in shared) / len(shared))
    assert "Queries of successes" in api.table(run.root, metric="effort", include=[mine])
    with pytest.raises(SuiteError, match='unknown metric of a claim "taken"'):
        api.claims(run.root, tmp_path / "claims.yaml")
