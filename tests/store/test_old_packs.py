"""Tests that RUNs which an earlier version packed are converted with all their outcomes, and are no bombs."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from rbench import api
from rbench.errors import StoreError
from rbench.store.old_packs import CHECKSUMS, lines_from_columns, unpack
from rbench.store.runs import RunStore
from rbench.store.runs.files import hash_outcome, seal, unseal
from rbench.store.runs.packed import ALWAYS_FITS
from tests.refusals import refusal

OLD = Path(__file__).with_name("old-pack.zip")
"""The reference RUN noise-attacked, as it was packed in November 2026: 8 jobs, 4 of them attacks on 50 texts each."""


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return api.pack(OLD, tmp_path_factory.mktemp("converted") / "new.zip").path


def test_an_old_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    for use in (api.load_results, api.verify, lambda run: RunStore(run).plan()):
        with refusal(StoreError, "old-pack.zip", "--out NEW.zip"):
            use(OLD)
    with pytest.raises(StoreError):
        api.pack(OLD)


def test_a_converted_run_has_all_outcomes_and_numbers(converted: Path, tmp_path: Path) -> None:
    unpack(OLD, tmp_path / "old")
    old, new = RunStore(tmp_path / "old"), RunStore(converted)
    plan = old.plan()
    assert plan is not None and new.plan() == plan
    assert [new.outcomes(job) for job in plan.jobs] == [old.outcomes(job) for job in plan.jobs]
    assert sum(len(new.outcomes(job)) for job in plan.jobs) == 200
    assert [new.record(job) for job in plan.jobs] == [old.record(job) for job in plan.jobs]
    assert not api.verify(converted).damaged


def test_lines_of_an_earlier_version_become_those_of_this_one(converted: Path, tmp_path: Path) -> None:
    """Their record gets the digest of the new lines, and nothing else of it changes."""
    api.unpack(converted, tmp_path / "run")
    store = RunStore(tmp_path / "run")
    plan = store.plan()
    assert plan is not None
    file = store.folder(plan.attacks[0]) / "outcomes.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        del line["outcome"]["texts_left"]
        line["check"] = hash_outcome(line["job"], line["outcome"])
    content = b"".join(to_json(line) + b"\n" for line in lines)
    file.write_bytes(content)
    record = file.with_name("record.json")
    found = json.loads(unseal(record.read_bytes()))
    found["outcomes"]["sha256"] = sha256(content).hexdigest()
    record.write_bytes(seal(to_json(found, indent=1).decode()))
    assert not api.verify(store.root).damaged
    again = api.pack(store.root, tmp_path / "again.zip").path
    assert again.read_bytes() == converted.read_bytes()


def test_an_old_file_that_says_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(OLD) as file:
        members = {name: file.read(name) for name in file.namelist()}
    stated = json.loads(members[CHECKSUMS])
    (tmp_path / "place").mkdir()
    name = next(name for name in stated["files"] if name.endswith("outcomes.jsonl"))
    for change in ("huge", "out", "other"):
        files = {one: dict(said) for one, said in stated["files"].items()}
        if change == "huge":
            files[name]["size"] = 2 * ALWAYS_FITS + 300 * OLD.stat().st_size
        elif change == "out":
            files["../evil"] = files.pop("plan.json")
        else:
            files[name]["sha256"] = "0" * 64
        path = tmp_path / f"{change}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for member, content in members.items():
                content = json.dumps({**stated, "files": files}).encode() if member == CHECKSUMS else content
                file.writestr(member, content)
        with pytest.raises(StoreError):
            api.pack(path, tmp_path / "place" / "new.zip")
        assert not any((tmp_path / "place").iterdir()) and not (tmp_path / "evil").exists()


FEW = {"values": [1]}
BOMBS: dict[str, dict[str, Any]] = {
    "more lines than bytes": {"n": 10**9, "style": "compact", "lines": {"same": {}}},
    "a list of more objects than bytes": {
        "n": 1,
        "style": "compact",
        "lines": {"fields": {"a": {"lengths": {"same": 10**9}, "items": {"same": {}}}}},
    },
    "fewer lines than it says": {"n": 2, "style": "compact", "lines": FEW},
    "lists that go back": {
        "n": 1,
        "style": "compact",
        "lines": {"fields": {"a": {"lengths": {"values": [-1]}, "items": {"same": {}}}}},
    },
    "a value of a kilobyte that all lines repeat": {
        "n": 60_000,
        "style": "compact",
        "lines": {"same": {"a": "x" * 10**5}},
    },
    "a name that all lines repeat": {
        "n": 60_000,
        "style": "compact",
        "lines": {"fields": {"x" * 10**5: {"same": 1}}},
    },
    "another style": {"n": 1, "style": "pickle", "lines": FEW},
    "no number": {"n": "1", "style": "compact", "lines": FEW},
    "no columns": {"n": 1, "style": "compact", "lines": {"fields": 3}},
    "shared values that are not there": {"n": 1, "style": "compact", "lines": {"fields": {"a": {"shared": 0}}}},
    "no place of shared values": {"n": 1, "style": "compact", "lines": {"fields": {"a": {"shared": "0"}}}},
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_was_not_written_so_is_refused_before_it_takes_memory(name: str) -> None:
    with pytest.raises(ValueError):
        list(lines_from_columns(json.dumps(BOMBS[name]).encode()))
