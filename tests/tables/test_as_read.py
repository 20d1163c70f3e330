"""Tests the note on encoders that a RUN reads otherwise than their models' own files say, as older RUNs do."""

from __future__ import annotations

from typing import Any

import pytest

from rbench.schema import Plan
from rbench.tables.notes import differing_model_notes
from tests import reference

OLD = "minilm: texts are cut at 512 tokens and vectors are not normalised; the model's own files say 256 tokens"


@pytest.mark.parametrize("name", ["board-local", "ranking-poison-local"])
def test_an_older_run_tells_that_it_holds_the_form_before(name: str) -> None:
    said = [note for note in differing_model_notes(reference.plan(name)) if note.startswith("minilm: ")]
    assert len(said) == 1 and said[0].startswith(OLD)


@pytest.mark.parametrize(
    ("own", "told"), [({"max_length": 256, "normalize": True}, 0), ({"max_length": 256, "normalize": False}, 1)]
)
def test_a_run_that_reads_an_encoder_as_its_own_files_say_needs_no_note(own: dict[str, Any], told: int) -> None:
    plan = reference.plan("noise-local")

    def changed(job: Any) -> Any:
        spec = getattr(job.spec, "encoder", None)
        if spec is None or spec.name != "minilm":
            return job
        return job.model_copy(update={"spec": job.spec.model_copy(update={"encoder": spec.model_copy(update=own)})})

    other = Plan.model_construct(suite=plan.suite, jobs=tuple(map(changed, plan.jobs)), draws={})
    assert len(differing_model_notes(other)) == told
