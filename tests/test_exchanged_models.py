"""Tests what a run keeps where another model is put behind an endpoint while a job is under way."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import JobError
from rbench.store.runs import PartialOutcomes, RunStore
from rbench.system.digests import FingerprintedPlace, PlaceWatch
from tests.victims.server import Serve
from tests.victims.server import serve as serve

SUITE = """
name: exchanged
victims:
  - name: shipped
    version: "1"
    endpoint: {{url: "{url}", body: {{inputs: ["{{text}}"]}}, batch_size: {size}}}
tasks: [mini-sentiment]
attacks: [pwws]
training: {{max_validation: 8}}
num_examples: 2
resources: mini
"""


class Changing:
    """A classifier by the hash of its texts, and another one while `other` is set."""

    other = False

    def __call__(self, body: Any) -> Any:
        rows = []
        for text in body["inputs"]:
            p = int(hashlib.sha256(f"{self.other} {text}".encode()).hexdigest()[:6], 16) / 16**6
            rows.append([{"label": "positive", "score": p}, {"label": "negative", "score": 1 - p}])
        return rows


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.nightly), 16])
def test_outcomes_of_an_attack_during_which_the_model_was_exchanged_are_not_kept(
    serve: Serve, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other model answers from the first stored outcome on; a later run, with the first model, attacks all."""
    answer = Changing()
    (tmp_path / "suite.yaml").write_text(SUITE.format(url=serve(answer).url, size=size))
    append, stored = PartialOutcomes.append, []

    def exchanging(self: PartialOutcomes, outcome: Any) -> None:
        append(self, outcome)
        stored.append(outcome.example_id)
        answer.other = True

    options = api.Options(out=tmp_path / "run", device="cpu")
    with monkeypatch.context() as patched:
        patched.setattr(PartialOutcomes, "append", exchanging)
        api.run(tmp_path / "suite.yaml", options)
    store = RunStore(tmp_path / "run")
    (attack,) = [job for job in store.plan().jobs if job.attacking]
    failed = store.look(attack).record
    assert failed is not None and failed.status == "failed" and "twice and not alike" in str(failed.error)
    assert stored and not [*store.outcomes(attack)]
    answer.other = False
    api.run(tmp_path / "suite.yaml", options)
    record = store.look(attack).record
    assert record is not None and record.status == "complete" and len([*store.outcomes(attack)]) == 2


def test_what_has_no_files_is_asked_again_at_the_end_of_a_job() -> None:
    marks = iter(["first", "first", "another"])
    place, watch = FingerprintedPlace("the endpoint", "first", lambda where: next(marks)), PlaceWatch()
    watch.open(place)
    watch.check()  # while a job works it is not asked
    watch.check(ask=True)
    with pytest.raises(JobError):
        watch.check(ask=True)
    assert next(itertools.chain(marks, ["nothing"])) == "nothing"
