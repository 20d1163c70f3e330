"""Single fields of outcomes, against whole outcomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rbench.errors import StoreError
from rbench.schema import Job, Outcome, Record
from rbench.store.runs import RunStore, read_columns
from tests.tables.conftest import make_run as make_run

MakeRun = Callable[..., RunStore]
NAMES = ("example_id", "status", "num_queries", "perturbed_share", "skip_reason")


def first(store: RunStore) -> tuple[Job, Record]:
    plan = store.plan()
    assert plan is not None
    record = store.record(plan.jobs[0])
    assert record is not None
    return plan.jobs[0], record


def test_fields_are_those_of_the_outcomes(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    job, record = first(store)
    expected = [tuple(getattr(outcome, name) for name in NAMES) for outcome in store.outcomes(job)]
    assert len(expected) == 20
    assert read_columns(store, job, record, NAMES) == expected


def test_a_field_that_is_younger_than_the_file_has_its_default(make_run: MakeRun) -> None:
    store = make_run(sealed=True)
    job, record = first(store)
    path = store.folder(job) / "outcomes.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"skip_reason":null,', b""))
    from rbench.store.runs.files import make_digest

    stated = make_digest(path.read_bytes(), 20, texts=True)
    found = read_columns(store, job, record.model_copy(update={"outcomes": stated}), ("skip_reason",))
    assert found == [(Outcome.model_fields["skip_reason"].default,)] * 20


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: None,
        lambda content: content.replace(b"succeeded", b"failed", 1),
        lambda content: content.partition(b"\n")[2],
    ],
    ids=["missing", "changed", "a line less"],
)
def test_outcomes_that_cannot_be_trusted_are_refused(make_run: MakeRun, spoil: Callable[[bytes], bytes | None]) -> None:
    store = make_run(sealed=True)
    job, record = first(store)
    path = store.folder(job) / "outcomes.jsonl"
    content = spoil(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError):
        read_columns(store, job, record, NAMES)
