"""The columns of outcomes against their model, and files whose digest is right and whose types are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import StoreError
from rbench.schema import Job, Outcome, Record
from rbench.store.runs import RunStore, read_columns
from rbench.store.runs.files import hash_outcome, write_line
from rbench.store.runs.outcomes import CHANGES, COLUMNS, REQUIRED, STEPS, OutcomeColumn, read_line
from tests.refusals import refusal
from tests.store.builders import JOB, make_outcome, outcome_strategy
from tests.stored import rewrite
from tests.tables.conftest import make_run as make_run
from tests.tables.conftest import make_suite

MakeRun = Callable[..., RunStore]
OF = {"string": str, "int64": int, "double": float, "bool": bool}
VALUES: list[Any] = ["x", 1.5, -1, True, None, [], [1], ["x", None], {}, {"x": 1}, [{"x": 1}], 2**70, float("inf")]


def fits(value: Any, column: OutcomeColumn) -> bool:
    """Whether a value has the type of a column, by another way than the reader's."""
    if value is None:
        return column.nullable
    if column.type == "list<string>":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if column.type == "list<struct>":
        return value == []
    number = column.type == "double" and isinstance(value, int) and not isinstance(value, bool)
    if not (number or (isinstance(value, OF[column.type]) and isinstance(value, bool) == (column.type == "bool"))):
        return False
    if column.type in ("int64", "double"):
        low, high = column.low if column.low is not None else -1e300, column.high if column.high is not None else 1e300
        return bool(low <= value <= high) and (column.type == "double" or value < 2**63)
    return not column.values or value in column.values


def line(outcome: dict[str, Any], key: str = JOB.key) -> bytes:
    """A line whose checksum is that of its content, whatever this is."""
    return json.dumps({"job": key, "check": hash_outcome(key, outcome), "outcome": outcome}).encode()


def plain(outcome: Outcome) -> dict[str, Any]:
    return json.loads(outcome.model_dump_json())


def test_the_columns_are_the_fields_of_the_model_with_their_defaults() -> None:
    fields = Outcome.model_fields
    assert COLUMNS.keys() == fields.keys()
    for name, field in fields.items():
        default = REQUIRED if field.is_required() else field.default
        assert COLUMNS[name].default == default, name
        assert COLUMNS[name].nullable == (type(None) in get_args(field.annotation)), name


@given(outcome_strategy)
@settings(max_examples=50)
def test_a_line_gives_back_the_outcome(outcome: Outcome) -> None:
    found = read_line(write_line(JOB, outcome))
    assert found.model == outcome and found.job == JOB.key
    assert found.outcome.keys() == COLUMNS.keys()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_takes_the_values_of_its_type_and_no_others(name: str) -> None:
    given_ = plain(make_outcome("test:1"))
    for value in VALUES:
        raw = line({**given_, name: value})
        if fits(value, COLUMNS[name]):
            assert read_line(raw).outcome[name] == value
        else:
            with pytest.raises(ValueError, match=name):
                read_line(raw)
    without = line({key: value for key, value in given_.items() if key != name})
    if COLUMNS[name].default is REQUIRED:
        with pytest.raises(ValueError, match=name):
            read_line(without)
    else:
        assert read_line(without).outcome[name] == COLUMNS[name].default


@pytest.mark.parametrize("of", ["step", "change"])
def test_so_do_the_fields_of_steps_and_of_their_changes(of: str) -> None:
    change = {"column": 0, "start": 0, "end": 1, "new": "x"}
    step = {"score": 0.5, "prediction": 1, "changes": [change]}
    columns, sound = (STEPS, step) if of == "step" else (CHANGES, change)
    for name, value in ((name, value) for name in columns for value in VALUES):
        wrong = {**sound, name: value}
        raw = line(
            {**plain(make_outcome("test:1")), "steps": [wrong if of == "step" else {**step, "changes": [wrong]}]}
        )
        if fits(value, columns[name]):
            assert read_line(raw).model.steps
        else:
            with refusal(ValueError, name):
                read_line(raw)


WRONG = {
    "string": 7,
    "int64": "x",
    "double": "x",
    "bool": "x",
    "list<string>": [1],
    "list<struct>": [{"score": "x"}],
}


def forged(make_run: MakeRun, change: Callable[[dict[str, Any]], Any]) -> tuple[RunStore, Job, Record]:
    """A RUN of two attacks. Somebody changed the third outcome of the first, and made all checksums again."""
    suite = make_suite(encoders=("minilm", "bert_b"), tasks=("mr",), attacks=("pwws",), seeds=(0,))
    store = make_run(suite, sealed=True)
    plan = store.plan()
    assert plan is not None
    job = plan.jobs[0]
    path = store.folder(job) / "outcomes.jsonl"
    lines = path.read_bytes().splitlines()
    outcome = json.loads(lines[2])["outcome"]
    change(outcome)
    lines[2] = line(outcome, job.key)
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    stated = sha256(path.read_bytes()).hexdigest()
    rewrite(path.with_name("record.json"), lambda record: record["outcomes"].update(sha256=stated))
    record = store.record(job)
    assert record is not None
    return store, job, record


VERBS = {
    "table": ["table", "RUN", "--metric", "budget"],
    "compare": ["compare", "RUN", "--between", "minilm", "bert_b"],
    "baseline": ["baseline", "RUN", "--out", "OUT.json"],
    "pack": ["pack", "RUN", "--out", "OUT.zip"],
    "pack without texts": ["pack", "RUN", "--no-texts", "--out", "OUT"],
    "verify": ["verify", "RUN"],
}


@pytest.mark.parametrize("name", {column.type: name for name, column in COLUMNS.items()}.values())
def test_a_wrong_type_under_a_new_digest_is_one_line_in_each_verb(name: str, make_run: MakeRun) -> None:
    store, job, record = forged(make_run, lambda outcome: outcome.update({name: WRONG[COLUMNS[name].type]}))
    for read in (lambda: read_columns(store, job, record, ["status"]), lambda: store.outcomes(job)):
        with pytest.raises(StoreError) as caught:
            read()
        assert name in str(caught.value)
    for verb, words in VERBS.items():
        at = {
            "RUN": str(store.root),
            "OUT": f"{store.root}.out",
            "OUT.json": f"{store.root}.json",
            "OUT.zip": f"{store.root}.zip",
        }
        result = CliRunner().invoke(app, [at.get(word, word) for word in words])
        assert isinstance(result.exception, SystemExit) and result.exit_code in (1, 2), (verb, result.output)
        told = [one for one in result.output.splitlines() if "outcomes.jsonl" in one]
        assert len(told) == 1 and name in told[0], (verb, result.output)


def test_a_line_of_another_job_is_refused(make_run: MakeRun) -> None:
    store, job, _ = forged(make_run, lambda outcome: None)
    path = store.folder(job) / "outcomes.jsonl"
    other = path.read_bytes().replace(job.key.encode(), b"0" * 64)
    path.write_bytes(other)
    stated = sha256(other).hexdigest()
    rewrite(path.with_name("record.json"), lambda record: record["outcomes"].update(sha256=stated))
    found = store.record(job)
    assert found is not None
    with pytest.raises(StoreError):
        read_columns(store, job, found, ["status"])


@pytest.mark.parametrize("file", ["plan.json", "record.json", "outcomes.jsonl"])
def test_verify_finds_a_key_that_is_there_twice(file: str, make_run: MakeRun) -> None:
    from rbench.store.runs.files import seal, unseal

    store, job, _ = forged(make_run, lambda outcome: None)
    path = store.root / file if file == "plan.json" else store.folder(job) / file
    if file == "outcomes.jsonl":
        path.write_bytes(path.read_bytes().replace(b'"status":', b'"status":"failed","status":', 1))
        stated = sha256(path.read_bytes()).hexdigest()
        rewrite(path.with_name("record.json"), lambda record: record["outcomes"].update(sha256=stated))
    else:
        path.write_bytes(seal(unseal(path.read_bytes()).decode().replace("{", '{\n "jobs": 1,\n "jobs": 2,', 1)))
    try:
        said = "\n".join(finding.text for finding in api.verify(store.root).findings if finding.damage)
    except StoreError as error:
        said = str(error)
    assert f"{path}" in said and "is there twice" in said
