"""Tests that jobs compute the health of victims, and say at once which flags they raised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench.execution import attacks, weights
from rbench.execution.job import run_job
from rbench.schema import (
    Choice,
    EncoderSpec,
    FinetuneJob,
    Health,
    Job,
    Provenance,
    RaisedFlag,
    Record,
    Score,
    Training,
)
from rbench.store.runs import RunStore
from rbench.system.one_slot_cache import OneSlotCache
from rbench.train.finetune import sample_split
from tests import tiny
from tests.store.builders import make_job

DATA = tiny.data(validation=61)


def job(**training: Any) -> Job:
    spec = FinetuneJob(
        encoder=EncoderSpec(name="toy", base="toy"),
        strategy=Choice(name="own"),
        task=DATA.spec,
        data_fingerprint=DATA.fingerprint,
        training=Training(**training),
    )
    return Job.make(spec, ("toy", "tiny", "own"), {}, 3)


def scores(accuracy: float, n: int) -> tuple[Score, ...]:
    return (Score(name="c", value=1.0, n=n), Score(name="validation_accuracy", value=accuracy, n=n))


class Context(SimpleNamespace):
    """What the stage asks of a context."""

    def data(self, task: Any, fingerprint: str) -> Any:
        assert (task, fingerprint) == (DATA.spec, DATA.fingerprint)
        return DATA


@pytest.mark.parametrize("limit", [None, 7])
def test_the_majority_share_is_that_of_the_rows_on_which_the_accuracy_was_computed(limit: int | None) -> None:
    rows = sample_split(DATA, "validation", limit, 3)
    share = Counter(row.label for row in rows).most_common(1)[0][1] / len(rows)
    assert share == pytest.approx(31 / 61) or limit is not None
    health = weights.victim_health(job(max_validation=limit), scores(0.99, len(rows)), Context())  # type: ignore[arg-type]
    assert health is not None and health.values["majority share"] == share
    worse = weights.victim_health(job(max_validation=limit), scores(share, len(rows)), Context())  # type: ignore[arg-type]
    assert worse is not None and [one.flag for one in worse.flags] == ["near chance"]


def test_a_job_says_its_flags_when_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    health = Health(flags=(RaisedFlag(flag="starved of candidates", because="80% of 10 words"),))
    ended = Record(job=make_job(), status="complete", provenance=Provenance(rbench="0"), health=health)
    monkeypatch.setattr(attacks, "attack", lambda *arguments: ended)
    progress = SimpleNamespace(note=notes.append)
    context: Any = SimpleNamespace(
        store=RunStore(tmp_path),
        team=SimpleNamespace(check=lambda job: None, check_deaths=lambda job: None),
        device="cpu",
        network=OneSlotCache(),
        progress=progress,
    )
    run_job(make_job(), context)
    assert notes == [f"{make_job().name} is flagged `starved of candidates`: 80% of 10 words"]
