"""Tests RUNs in one file: they read as their folders do, come back byte for byte, and cannot harm who opens them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import StoreError
from rbench.store.pack import pack, unpack
from rbench.store.runs import RunStore, parquet, read_columns
from rbench.store.runs import packed as packing
from rbench.store.runs.packed import ALWAYS_FITS, PackedFolder
from tests.refusals import refusal
from tests.store.conftest import World
from tests.time_limit import limit_time


@pytest.fixture(scope="module")
def packed(whole: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The RUN in one file. Not to be written to."""
    return pack(whole.root, tmp_path_factory.mktemp("packed") / "whole.zip").path


NO_PART = (".processes", "logs", "tables", "figures", "report.html", "report.parquet")
"""What lies in the folder of a RUN and is no part of it."""


def contents(folder: Path, *left_out: str) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: content for name, content in named.items() if name.partition("/")[0] not in left_out}


def said(*words: object) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_run_comes_back_byte_for_byte(whole: World, packed: Path, tmp_path: Path) -> None:
    found = unpack(packed, tmp_path / "again")
    before = contents(whole.root, *NO_PART)
    assert contents(tmp_path / "again") == before
    assert (found.files, found.size) == (len(before), sum(map(len, before.values())))
    assert packed.stat().st_size < found.size / 3


def test_the_same_run_gives_the_same_file(whole: World, packed: Path, tmp_path: Path) -> None:
    assert pack(whole.root, tmp_path / "other.zip").path.read_bytes() == packed.read_bytes()


def test_pandas_reads_the_outcomes_by_their_address_in_the_file(packed: Path, whole: World) -> None:
    frame = pandas.read_parquet(f"zip://outcomes.parquet::{packed}")
    jobs = [whole.job(end) for end in ("/pwws", "/random")]
    expected = [(job.key, outcome) for job in jobs for outcome in whole.store.outcomes(job)]
    assert [*zip(frame["job"], frame["example_id"], strict=True)] == [
        (key, outcome.example_id) for key, outcome in expected
    ]
    for name in ("status", "num_queries", "seconds", "label"):
        assert frame[name].tolist() == [getattr(outcome, name) for _, outcome in expected]
    assert [json.loads(texts) for texts in frame["original"]] == [[*o.original] for _, o in expected if o.original]


def test_the_members_are_plain_files(members: dict[str, bytes], whole: World) -> None:
    assert [*members] == ["plan.json", "outcomes.parquet", "records.jsonl", "predictions.jsonl", "rows.jsonl"]
    assert members["plan.json"] == (whole.root / "plan.json").read_bytes()
    predictions = [path.read_bytes() for path in whole.root.rglob("predictions.jsonl")]
    assert members["predictions.jsonl"] == b"".join(predictions) and len(predictions) == 1


def test_a_folder_that_was_unpacked_is_done(packed: Path, whole: World, tmp_path: Path) -> None:
    unpack(packed, tmp_path / "again")
    result, told = World(whole.suite, replace(whole.options, out=tmp_path / "again")).run()
    assert not told.started and not result.failed


@pytest.mark.parametrize(
    "words",
    [
        ["table", "--intervals"],
        ["table", "--format", "csv"],
        ["table", "--format", "json"],
        ["table", "--metric", "queries", "--format", "latex"],
        ["table", "--metric", "budget"],
        ["verify"],
        ["status"],
        ["claims"],
    ],
    ids=" ".join,
)
def test_a_verb_says_of_the_file_what_it_says_of_the_folder(words: list[str], whole: World, packed: Path) -> None:
    verb, *options = words
    one, other = (CliRunner().invoke(app, [verb, str(run), *options]) for run in (whole.root, packed))
    assert other.exit_code == one.exit_code
    here = [line for line in one.stdout.splitlines(keepends=True) if not line.startswith("not verified:")]
    assert other.stdout.replace(str(packed), "RUN") == "".join(here).replace(str(whole.root), "RUN")


def test_python_reads_the_file_as_the_folder(whole: World, packed: Path, tmp_path: Path) -> None:
    frame, same = api.load_results(whole.root), api.load_results(packed)
    assert len(frame) and frame.equals(same)
    (page,) = api.report(packed, tmp_path / "page.html")
    assert page.stat().st_size > 10_000
    assert api.strip(packed, tmp_path / "stripped").is_dir()
    assert api.verify(tmp_path / "stripped").damaged is False


def test_outcomes_are_decoded_once_and_not_more_are_kept_than_fit(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    before = packing._RunArchive.group

    def counted(archive: packing._RunArchive, number: int) -> dict[str, bytes]:
        decoded.append(number)
        return before(archive, number)

    monkeypatch.setattr(packing._RunArchive, "group", counted)
    monkeypatch.setattr(packing, "_KEPT", packing._DecodedGroups())
    files = contents_of(packed)
    assert decoded == [0] and contents_of(packed) == files and decoded == [0]
    monkeypatch.setattr(packing, "KEPT", 1)
    kept = packing._DecodedGroups()
    archive = PackedFolder(packed)._archive
    first = kept.get(archive, 0)
    kept._groups[archive, 1] = first
    assert kept.get(archive, 0) == first and [*kept._groups] == [(archive, 0)]


def test_files_stand_beside_the_run_by_default(world: World, tmp_path: Path) -> None:
    assert said("pack", world.root).startswith(str(tmp_path / "run.zip"))
    shutil.rmtree(world.root)
    (page,) = api.report(tmp_path / "run.zip")
    assert page == tmp_path / "run.html"
    assert said("pack", "--unpack", tmp_path / "run.zip").startswith(str(tmp_path / "run"))
    assert said("verify", world.root)


def test_a_packed_run_stays_as_it_is(packed: Path) -> None:
    before = packed.read_bytes()
    with refusal(StoreError, "whole.zip", "--unpack"):
        RunStore(packed).write_table("asr.md", "| a |")
    with pytest.raises(StoreError):
        pack(packed)
    assert packed.read_bytes() == before


def test_a_figure_of_a_packed_run_lies_beside_it(packed: Path) -> None:
    before = packed.read_bytes()
    svg, png = api.write_figure(packed, "queries", formats=["svg", "png"])
    assert [svg, png] == [packed.parent / f"{packed.stem}-queries.{fmt}" for fmt in ("svg", "png")]
    assert b"<svg" in svg.read_bytes() and png.read_bytes().startswith(b"\x89PNG")
    assert packed.read_bytes() == before


def test_what_is_damaged_is_not_packed(world: World, tmp_path: Path) -> None:
    file = world.file("/pwws")
    file.write_bytes(re.sub(rb'"num_queries":\d+', b'"num_queries":7', file.read_bytes(), count=1))
    with pytest.raises(StoreError):
        pack(world.root)
    assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*"))


def test_a_run_under_way_is_packed_with_what_is_there(world: World, tmp_path: Path) -> None:
    file = world.file("/pwws")
    lines = file.read_bytes().splitlines(keepends=True)
    (file.parent / "record.json").unlink()
    file.unlink()
    (file.parent / "outcomes.0123456789ab.jsonl").write_bytes(b"".join(lines[:5]))
    pack(world.root)
    assert len(RunStore(tmp_path / "run.zip").outcomes(world.job("/pwws"))) == 5
    again = World(world.suite, replace(world.options, out=unpack(tmp_path / "run.zip", tmp_path / "again").path))
    assert again.file("/pwws").read_bytes() == b"".join(lines[:5])  # what one process had done is in the file of all
    result, told = again.run()
    assert any("/pwws" in name for name in told.started) and not result.failed
    assert again.file("/pwws").read_bytes().splitlines(keepends=True)[:5] == lines[:5]
    assert again.store.record(again.job("/pwws")) is not None


def test_nothing_is_replaced(world: World, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "there.zip").write_text("mine")
    with pytest.raises(StoreError):
        pack(world.root, tmp_path / "there.zip")
    with pytest.raises(StoreError):
        pack(world.root, world.root / "own.zip")
    with pytest.raises(StoreError):
        unpack(packed, world.root)
    assert (tmp_path / "there.zip").read_text() == "mine"


def test_a_process_that_is_killed_leaves_no_half_file(world: World, tmp_path: Path) -> None:
    code = f"from rbench.store.pack import pack; pack({str(world.root)!r})"
    child = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < until and not list(tmp_path.glob(".*.tmp")):
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if (tmp_path / "run.zip").exists():
        assert api.verify(tmp_path / "run.zip").damaged is False
        (tmp_path / "run.zip").unlink()
    assert pack(world.root).path == tmp_path / "run.zip"


# ------------------------------------------------------------------------------------------ files of somebody else


@pytest.fixture
def members(packed: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(packed) as file:
        return {name: file.read(name) for name in file.namelist()}


def write(path: Path, members: dict[str, bytes], change: Callable[[zipfile.ZipInfo], Any] = lambda info: None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            change(info)
            file.writestr(info, content)
    return path


def links(info: zipfile.ZipInfo) -> None:
    if info.filename == "records.jsonl":
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


def with_a_comment(info: zipfile.ZipInfo) -> None:
    info.comment = b"x"


def write_with_a_comment(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(write(path, members), "a") as file:
        file.comment = b"x"
    return path


def twice(content: bytes, pair: bytes) -> bytes:
    """An object with a pair more at its head, whose key it has."""
    return content.replace(b"{", b"{" + pair + b",", 1)


def other_ways(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_LZMA


ZEROS = bytes(2 * ALWAYS_FITS)


def hostile(members: dict[str, bytes], path: Path) -> Iterator[Path]:
    """Yield files that nobody should open."""
    yield write(path, members, links)
    yield write(path, members, other_ways)
    for name in ("../evil", "/evil", "C:evil", "tables/evil.md", "attack/evil/record.json", "rows.json"):
        yield write(path, {**members, name: b"x"})
    plan = members["plan.json"]
    yield write(path, {**members, "plan.json": plan.replace(b'"attack"', b'"../../x"')})
    records = members["records.jsonl"]
    key = re.search(rb'"job":"([0-9a-f]{64})"', records)[1]  # type: ignore[index]
    yield write(path, {**members, "records.jsonl": records.replace(key, b"e" * 64)})
    yield write(path, {**members, "records.jsonl": records * 2})
    yield write(path, {**members, "predictions.jsonl": interleaved(members, key)})
    yield write(path, {**members, "rows.jsonl": b'{"names": {}}\n'})
    yield write(path, {**members, "rows.jsonl": b"x"})
    yield write(path, {**members, "outcomes.parquet": b"x"})
    content = write(path, members).read_bytes()
    for hidden in (b"x" + content, content + b"x", b"#!/bin/sh\n" + content, content + bytes(1000)):
        path.write_bytes(hidden)
        yield path
    yield write(path, members, with_a_comment)
    yield write_with_a_comment(path, members)
    yield write(path, {**members, "plan.json": twice(plan, b'"jobs": []')})
    yield write(path, {**members, "rows.jsonl": ZEROS})
    yield write(path, {name: content for name, content in members.items() if name != "plan.json"})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning):
        file.writestr("plan.json", b"{}")
        file.writestr("plan.json", b"{}")
    yield path
    path.write_bytes(b"PK\x03\x04 and so on")
    yield path
    path.write_bytes(b"")
    yield path


def interleaved(members: dict[str, bytes], key: bytes) -> bytes:
    """Lines of one job, of another, and of the first again."""
    line = members["predictions.jsonl"].splitlines(keepends=True)[0]
    own = re.search(rb"[0-9a-f]{64}", line)[0]  # type: ignore[index]
    return line + line.replace(own, key) + line


def test_a_hostile_file_is_refused_in_a_second(members: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    for path in hostile(members, tmp_path / "place" / "RUN.zip"):
        begun = time.process_time()
        with limit_time(), pytest.raises(StoreError) as error:
            unpack(path, tmp_path / "place" / "out")
        assert time.process_time() - begun < 1
        assert str(path) in str(error.value)
        assert sorted(tmp_path.rglob("*")) == [tmp_path / "place", path]


def test_overlapping_members_are_refused(packed: Path, tmp_path: Path) -> None:
    """A kernel of compressed bytes that all members share, as in the bombs of David Fifield (2019)."""
    with zipfile.ZipFile(tmp_path / "RUN.zip", "w") as file:
        file.writestr("plan.json", b"x" * 1000)
        first = file.infolist()[0]
        for number in range(50):
            info = zipfile.ZipInfo(f"tables/{number}.md")
            info.header_offset, info.compress_size, info.file_size, info.CRC = 0, first.compress_size, 1000, first.CRC
            file.filelist.append(info)
            file.NameToInfo[info.filename] = info
    with pytest.raises(StoreError):
        RunStore(tmp_path / "RUN.zip").plan()


def test_each_changed_byte_is_found(packed: Path, tmp_path: Path) -> None:
    """Sixty bytes over the whole file: it is refused, or verify says what is damaged, or no content has changed."""
    content, copy = packed.read_bytes(), tmp_path / "copy.zip"
    found = 0
    for place in range(0, len(content), max(1, len(content) // 60)):
        copy.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        os.utime(copy, ns=(place, place))
        try:
            damaged = api.verify(copy).damaged
            if not damaged:
                shutil.rmtree(tmp_path / "again", ignore_errors=True)
                unpack(copy, tmp_path / "again")
        except StoreError:
            damaged = True
        found += damaged
        if not damaged:  # a date, or another field that nothing is read from
            unpacked = contents(tmp_path / "again")
            assert unpacked == contents_of(packed)
    assert found > 40


def contents_of(packed: Path) -> dict[str, bytes]:
    below = PackedFolder(packed)
    return {path.relative_to(packed).as_posix(): below.read_lined(path) for path in below.files(packed)}


def test_a_key_that_is_there_twice_in_a_record_is_found(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(
        tmp_path / "RUN.zip", {**members, "records.jsonl": twice(members["records.jsonl"], b'"status":"failed"')}
    )
    assert "is there twice" in "\n".join(one.text for one in api.verify(path).findings if one.damage)
    with pytest.raises(StoreError):
        unpack(path, tmp_path / "out")


def other(members: dict[str, bytes], whole: World, **changes: Any) -> bytes:
    """The outcomes of the RUN, of which those of one attack are changed."""
    jobs = [(job.key, whole.store.outcomes(job)) for job in map(whole.job, ("/pwws", "/random"))]
    return parquet.write_parquet([(key, [o.model_copy(update=changes) for o in outcomes]) for key, outcomes in jobs])


def test_outcomes_that_become_many_times_larger_are_refused(
    members: dict[str, bytes], whole: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of 900 kB that a dictionary has once stands in each row: 24 rows, and it could be any number."""
    content = other(members, whole, error="x" * 900_000)
    path = write(tmp_path / "RUN.zip", {**members, "outcomes.parquet": content})
    assert len(content) < 1_100_000 and path.stat().st_size < 100_000
    monkeypatch.setattr(packing, "RATIO", 100)
    tracemalloc.start()
    try:
        assert "many times larger" in "\n".join(one.text for one in api.verify(path).findings if one.damage)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


def test_a_forged_outcome_is_found(members: dict[str, bytes], whole: World, tmp_path: Path) -> None:
    """The checksums of a forged outcome follow from it, but not the digest in its record."""
    path = write(tmp_path / "RUN.zip", {**members, "outcomes.parquet": other(members, whole, num_queries=1)})
    assert api.verify(path).damaged
    job = whole.job("/pwws")
    assert RunStore(path).look(job).record is None
    record = whole.store.record(job)
    assert record is not None
    with pytest.raises(StoreError):
        read_columns(RunStore(path), job, record, ["num_queries"])


def test_records_that_cannot_be_read_are_named(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "RUN.zip", {**members, "records.jsonl": members["records.jsonl"][:100]})
    with pytest.raises(StoreError) as caught:
        api.verify(path)
    assert "records.jsonl" in str(caught.value)
