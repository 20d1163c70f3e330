"""Tests that every change of the bytes of record.json and plan.json is noticed, by all that reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbench import api
from rbench.errors import StoreError
from rbench.store.runs import RunStore
from rbench.store.runs.files import seal, unseal
from rbench.store.verify import verify
from tests.tables.conftest import finish, make_plan, make_suite


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A RUN of one attack job, to be left as it is found."""
    store, plan = RunStore(tmp_path_factory.mktemp("sealed") / "run"), make_plan(make_suite(seeds=(0,)))
    store.write_plan(plan.model_copy(update={"jobs": plan.jobs[:1]}))
    finish(store, plan.jobs[0], sealed=True)
    assert not verify(store.root).findings
    return store


def flipped(content: bytes, bit: int) -> bytes:
    return content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :]


def files(store: RunStore) -> list[Path]:
    return [store.root / "plan.json", *store.root.rglob("record.json")]


def test_a_sealed_file_is_json_with_its_checksum_as_the_last_member(store: RunStore) -> None:
    for path in files(store):
        content = path.read_bytes()
        found = json.loads(content)
        assert [*found][-1] == "check" and len(found.pop("check")) == 16
        assert json.loads(unseal(content)) == found
        assert seal(unseal(content).decode()) == content


def test_a_flip_of_a_bit_is_noticed(store: RunStore) -> None:
    for path in files(store):
        content = path.read_bytes()
        for bit in range(0, 8 * len(content), 7):  # each bit of some bytes, and some bit of each byte
            with pytest.raises(ValueError):
                unseal(flipped(content, bit))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content + b"\n",
        lambda content: unseal(content) + b"\n",
        lambda content: json.dumps(json.loads(content), indent=1).encode(),
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content * 2,
    ],
    ids=["empty", "torn", "longer", "without", "written anew", "line ends", "twice"],
)
def test_what_is_not_as_it_was_written_is_noticed(store: RunStore, change: object) -> None:
    for path in files(store):
        with pytest.raises(ValueError):
            unseal(change(path.read_bytes()))  # type: ignore[operator]


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 1, exclude_max=True))
def test_readers_and_verify_see_it(store: RunStore, share: float) -> None:
    plan, record = files(store)
    whole = record.read_bytes()
    try:
        record.write_bytes(flipped(whole, int(share * 8 * len(whole))))
        (finding,) = verify(store.root).findings
        assert f"{record} is damaged (its checksum is not that of its content)" in finding.text
        assert "1 of 1 attack jobs damaged" in api.table(store.root, notes="full")
    finally:
        record.write_bytes(whole)
    whole = plan.read_bytes()
    try:
        plan.write_bytes(flipped(whole, int(share * 8 * len(whole))))
        for read in (verify, api.table, store_plan):
            with pytest.raises(StoreError):
                read(store.root)
    finally:
        plan.write_bytes(whole)


def store_plan(root: Path) -> object:
    return RunStore(root).plan()
