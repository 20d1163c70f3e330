"""Every verb over a RUN in which one file or folder is a link, a FIFO, a device or a giant, as an archive may carry it.

No verb changes, shows or copies what a link leads to. None waits, fills the memory or ends in a traceback: what it
cannot do without the file is refused in one line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import RbenchError, StoreError
from rbench.execution.cluster.membership import ProcessIdentity
from rbench.store.runs import RunStore
from rbench.tables import Results
from tests.tables.conftest import finish, make_plan, make_suite
from tests.time_limit import limit_time

SECRET = "a secret of the user's home"
SUITE = make_suite(encoders=("minilm",), tasks=("mr",), attacks=("pwws",), seeds=(0,), figures=("queries",), claims=())
JOB = make_plan(SUITE).jobs[0]

Break = Callable[[Path, Path], object]


def link(path: Path, home: Path) -> None:
    path.symlink_to(home if path.suffix == "" else home / "secret")


def fifo(path: Path, home: Path) -> None:
    os.mkfifo(path)


def device(path: Path, home: Path) -> None:
    path.symlink_to("/dev/zero")


def giant(path: Path, home: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RUN with all that a RUN may have."""
    run = tmp_path_factory.mktemp("whole") / "run"
    store = RunStore(run)
    store.write_plan(make_plan(SUITE))
    finish(store, JOB, texts=True, sealed=True)
    store.write_table("asr.md", "| a |")
    for name in ("figures/queries.svg", "logs/events", "report.html", "report.parquet", ".processes/logs/one.log"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("<svg></svg>")
    for name in (".processes/members/0123456789ab.json", ".processes/leases/joining/job.1"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        gone = {**dataclasses.asdict(ProcessIdentity.own()), "started": "1"}  # of a process that has ended
        (run / name).write_text(json.dumps({"holder": "0123456789ab", "id": "0123456789ab", **gone}))
    return run


def things(run: Path) -> list[str]:
    return sorted(path.relative_to(run).as_posix() for path in run.rglob("*"))


CASES = pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.nightly)], ids=["some", "all"])
"""On every push a verb meets a ninth of the cases, another than the verbs beside it, and a writer a fifth of its own.
Nightly each meets all."""


def broken(
    whole: Path, place: Path, every: int = 1, first: int = 0, only: set[str] | None = None
) -> Iterator[tuple[str, Path]]:
    """Yield a copy of the RUN for each thing in it (or these) and each way in which it may be broken, or for some."""
    number = 0
    for name in (name for name in things(whole) if only is None or name in only):
        ways: list[Break] = [link, fifo] if (whole / name).is_dir() else [link, fifo, device, giant]
        for way in ways:
            number += 1
            if (number - first) % every:
                continue
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "home").mkdir()
            (place / "home" / "secret").write_text(SECRET)
            for other in ("secret.md", "asr.md", "record.json", "queries.svg", "job.1"):
                (place / "home" / other).write_text(SECRET)
            run = place / "run"
            shutil.copytree(whole, run)
            shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
            way(run / name, place / "home")
            yield f"{name} as {way.__name__}", run


def untouched(home: Path) -> bool:
    return len([*home.iterdir()]) == 6 and all(path.read_text() == SECRET for path in home.iterdir())


def copies(place: Path, run: Path) -> Iterator[str]:
    """Yield files outside of the RUN and the home that have the secret."""
    for path in place.rglob("*"):
        inside = path.is_relative_to(run) or path.is_relative_to(place / "home")
        small = path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 20
        if not inside and small and SECRET.encode() in path.read_bytes():
            yield str(path)


VERBS = {
    "verify": ["verify", "RUN"],
    "table": ["table", "RUN"],
    "claims": ["claims", "RUN"],
    "compare": ["compare", "RUN"],
    "status": ["status", "RUN"],
    "baseline": ["baseline", "RUN", "--out", "BASE/base.json"],
    "pack without texts": ["pack", "RUN", "--no-texts", "--out", "OUT"],
    "pack several": ["pack", "RUN", "WHOLE", "--out", "OUT"],
    "attack of a run": ["attack", "--run", "RUN", "--out", "OUT"],
    "prune": ["cache", "--prune", "--run", "RUN", "--yes"],
}


@CASES
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_over_a_broken_run(
    verb: str, every: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    for case, run in broken(whole, place, every, first=[*VERBS].index(verb)):
        at = {"RUN": str(run), "WHOLE": str(whole), "OUT": str(place / "out"), "BASE": str(place)}
        words = [at.get(word, word.replace("BASE/", f"{place}/")) for word in VERBS[verb]]
        with limit_time():
            result = CliRunner().invoke(app, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), (case, result.exception)
        assert untouched(place / "home"), case
        assert SECRET not in result.output and not [*copies(place, run)], case


def test_verify_finds_each(whole: Path, tmp_path: Path) -> None:
    for case, run in broken(whole, tmp_path / "place"):
        name = case.rpartition(" as ")[0]
        with limit_time():
            try:
                found = "\n".join(finding.text for finding in api.verify(run).findings if finding.damage)
            except StoreError as error:
                found = str(error)
        giant_of_others = case.endswith("giant") and not name.startswith(("plan", JOB.stage))
        assert giant_of_others or str(run / name) in found, (case, found)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "figure": lambda run: api.write_figure(run, "queries", formats=["svg"]),
    "report": lambda run: api.report(run),
    "table": lambda run: RunStore(run).write_table("asr.md", "| new |"),
    "load_results": lambda run: api.load_results(run),
    "site": lambda run: api.site(run, run.parent / "site"),
    "set aside": lambda run: RunStore(run).set_aside(),
}
READ_BY: dict[str, tuple[str, ...]] = {
    "figure": ("figures", "figures/queries.svg"),
    "report": ("report.html", "report.parquet", "figures", "figures/queries.svg"),
    "site": ("figures", "figures/queries.svg"),
    "load_results": (),
    "table": ("tables", "tables/asr.md"),
}


@CASES
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_into_a_broken_run(writer: str, every: int, whole: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    job = RunStore(whole).folder(JOB).relative_to(whole).as_posix()
    wanted = {"plan.json", f"{job}/record.json", f"{job}/outcomes.jsonl", *READ_BY.get(writer, ())}
    for case, run in broken(whole, place, min(every, 5), only=wanted if writer in READ_BY else None):
        with limit_time():
            try:
                WRITERS[writer](run)
            except RbenchError as error:
                assert len(str(error).splitlines()) <= 2, (case, error)
        assert untouched(place / "home") and not [*copies(place, run)], case


def test_a_run_is_refused_before_anything_is_written(whole: Path, tmp_path: Path) -> None:
    """What `rbench run` asks before it joins."""
    for case, run in broken(whole, tmp_path / "place"):
        store = RunStore(run)
        told = [*store.foreign([store.folder(JOB)])]
        name = case.rpartition(" as ")[0]
        assert case.endswith("giant") or any(str(run / name) in one for one in told), (case, told)
    assert [*RunStore(whole).foreign([RunStore(whole).folder(JOB)])] == []
    assert Results.of(RunStore(whole)).standing.done == {JOB.key}
