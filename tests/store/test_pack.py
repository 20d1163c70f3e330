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
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import StoreError
from rbench.store import pack as pack_module
from rbench.store.pack import pack, unpack
from rbench.store.runs import Store
from rbench.store.runs import packed as packing
from rbench.store.runs.packed import ALWAYS, CHECKSUMS, SHARED, Packed
from tests.store.conftest import World
from tests.test_foreign_runs import soon


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


def test_values_that_several_files_have_are_stored_once(members: dict[str, bytes], whole: World) -> None:
    """Two attacks are on the same texts. The first file has them itself."""
    names = [f"attack/{whole.job(end).key[:16]}/outcomes.json" for end in ("/pwws", "/random")]
    first, second = sorted(names, key=list(members).index)
    originals = [_originals(members[name]) for name in (first, second)]
    assert originals[0].keys() == {"values"} and originals[1].keys() == {"shared"}
    assert json.loads(members[SHARED])[originals[1]["shared"]] == originals[0]["values"]


def test_a_file_of_shared_values_alone_is_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large second file of the same values would take a few bytes, and be refused where it is read."""
    for module in (packing, pack_module):
        monkeypatch.setattr(module, "ALWAYS", 1000)
    content = b"".join(to_json({"job": "a", "text": sha256(bytes([i])).hexdigest()}) + b"\n" for i in range(256)) * 4
    with zipfile.ZipFile(tmp_path / "RUN.zip", "w", zipfile.ZIP_DEFLATED) as file:
        writer = pack_module._Writer(file, {})
        for folder in "abc":
            writer.add(f"attack/{folder}/outcomes.jsonl", content)
        sizes = {info.filename: info.compress_size for info in file.infolist()}
    assert [*sizes] == [f"attack/{folder}/outcomes.json" for folder in "abc"]
    assert all(packing.fits(len(content), size) for size in sizes.values())


def _originals(columns: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(columns)["lines"]["fields"]["outcome"]["fields"]["original"]
    return found


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
    assert api.write_figure(packed, "queries", out=tmp_path / "figures", formats=["svg"])


def test_a_file_is_unpacked_once_and_not_more_are_kept_than_fit(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[str] = []
    before = packing._Archive.unpacked

    def counted(archive: packing._Archive, name: str) -> bytes:
        unpacked.append(name)
        return before(archive, name)

    monkeypatch.setattr(packing._Archive, "unpacked", counted)
    monkeypatch.setattr(packing, "_KEPT", packing._Kept())
    files = contents_of(packed)
    assert sorted(unpacked) == sorted(files) and contents_of(packed) == files and len(unpacked) == len(files)
    room = max(map(len, files.values()))  # for the largest alone, and not for all others together
    assert room < sum(map(len, files.values()))
    monkeypatch.setattr(packing, "KEPT", room)
    monkeypatch.setattr(packing, "_KEPT", kept := packing._Kept())
    assert contents_of(packed) == files
    assert kept._size == sum(map(len, kept._contents.values())) <= room and kept._contents


def test_files_stand_beside_the_run_by_default(world: World, tmp_path: Path) -> None:
    assert said("pack", world.root).startswith(str(tmp_path / "run.zip"))
    shutil.rmtree(world.root)
    (page,) = api.report(tmp_path / "run.zip")
    assert page == tmp_path / "run.html"
    assert said("pack", "--unpack", tmp_path / "run.zip").startswith(str(tmp_path / "run"))
    assert said("verify", world.root)


def test_a_packed_run_stays_as_it_is(packed: Path) -> None:
    before = packed.read_bytes()
    with pytest.raises(
        StoreError, match=r"whole\.zip is packed, and stays as it is\. Unpack it first: rbench pack .* --unpack"
    ):
        Store(packed).write_table("asr.md", "| a |")
    with pytest.raises(StoreError, match="is packed already"):
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
    with pytest.raises(
        StoreError, match=r"what is damaged is not packed:\n.*outcomes\.jsonl.*same rbench run makes it again"
    ):
        pack(world.root)
    assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*"))


def test_a_run_under_way_is_packed_with_what_is_there(world: World, tmp_path: Path) -> None:
    file = world.file("/pwws")
    lines = file.read_bytes().splitlines(keepends=True)
    (file.parent / "record.json").unlink()
    file.unlink()
    (file.parent / "outcomes.0123456789ab.jsonl").write_bytes(b"".join(lines[:5]))
    pack(world.root)
    unpack(tmp_path / "run.zip", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(world.root, *NO_PART)
    assert len(Store(tmp_path / "run.zip").outcomes(world.job("/pwws"))) == 5


def test_nothing_is_replaced(world: World, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "there.zip").write_text("mine")
    with pytest.raises(StoreError, match="there already"):
        pack(world.root, tmp_path / "there.zip")
    with pytest.raises(StoreError, match="lies in"):
        pack(world.root, world.root / "own.zip")
    with pytest.raises(StoreError, match="there already"):
        unpack(packed, world.root)
    assert (tmp_path / "there.zip").read_text() == "mine"


def test_a_process_that_is_killed_leaves_no_half_file(world: World, tmp_path: Path) -> None:
    code = f"from rbench.store.pack import pack; pack({str(world.root)!r})"
    for wait in (0.0, 0.05, 0.2):
        child = subprocess.Popen([sys.executable, "-c", code])
        until = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < until and not list(tmp_path.glob(".*.tmp")):
            time.sleep(0.005)
        time.sleep(wait)
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


def listed(members: dict[str, bytes], **files: bytes) -> dict[str, bytes]:
    """The members with these files more, which checksums.json lists."""
    stated = json.loads(members[CHECKSUMS])
    for name, content in files.items():
        stated["files"][name] = {"size": len(content), "sha256": sha256(content).hexdigest()}
    return {**members, **files, CHECKSUMS: json.dumps(stated).encode()}


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


ZEROS = bytes(2 * ALWAYS)


def hostile(members: dict[str, bytes], path: Path) -> Iterator[tuple[str, Path]]:
    """Yield files that nobody should open, with what is said of them."""
    yield "no regular file", write(path, members, links)
    yield "in another way than deflate", write(path, members, other_ways)
    for name in ("../evil", "/evil", "tables/../../evil", "C:evil", "tables\\evil", "tables//evil", "tables/./evil"):
        yield "the name", write(path, listed(members, **{name: b"x"}))
    for name in ("evil", "attack/evil/record.json"):
        yield "of no job of its plan", write(path, listed(members, **{name: b"x"}))
    yield "says nothing", write(path, {**members, "tables/evil.md": b"x"})
    content = write(path, members).read_bytes()
    for hidden in (b"x" + content, content + b"x", b"#!/bin/sh\n" + content, content + bytes(1000)):
        path.write_bytes(hidden)
        yield "bytes before|bytes behind|is cut short", path
    yield "bytes before plan.json or beside it", write(path, members, with_a_comment)
    yield "bytes behind", write_with_a_comment(path, members)
    yield "is there twice", write(path, {**members, CHECKSUMS: twice(members[CHECKSUMS], b'"files": {}')})
    yield "would become", write(path, listed(members, **{"tables/zeros.md": ZEROS}))
    yield "say(s)? that (it|they) ha(s|ve)", write(path, {**members, CHECKSUMS: all_huge(members)})
    yield "it lacks", write(path, {name: content for name, content in members.items() if name != "plan.json"})
    yield "it lacks checksums.json", write(path, {n: c for n, c in members.items() if n != CHECKSUMS})
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning):
        file.writestr("plan.json", b"{}")
        file.writestr("plan.json", b"{}")
    yield "there twice", path
    path.write_bytes(b"PK\x03\x04 and so on")
    yield "is cut short or damaged", path
    path.write_bytes(b"")
    yield "is a file. Name the folder", path


def all_huge(members: dict[str, bytes]) -> bytes:
    stated = json.loads(members[CHECKSUMS])
    for content in stated["files"].values():
        content["size"] = 1 << 40
    return json.dumps(stated).encode()


def test_a_hostile_file_is_refused_in_a_second(members: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    for expected, path in hostile(members, tmp_path / "place" / "RUN.zip"):
        begun = time.process_time()
        with soon(), pytest.raises(StoreError, match=expected) as error:
            unpack(path, tmp_path / "place" / "out")
        assert time.process_time() - begun < 1
        assert str(path) in str(error.value) and re.search("Ask for it again|Name the folder", str(error.value))
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
    with pytest.raises(StoreError, match="share bytes"):
        Store(tmp_path / "RUN.zip").plan()


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
    below = Packed(packed)
    return {path.relative_to(packed).as_posix(): below.read_lined(path) for path in below.files(packed)}


@pytest.mark.parametrize("name", ["records.jsonl", "outcomes.json", SHARED, "plan.json"])
def test_a_key_that_is_there_twice_is_found(name: str, members: dict[str, bytes], whole: World, tmp_path: Path) -> None:
    """The bytes of the RUN's files stay as their checksums say: what is there twice is in their packed form alone."""
    member = f"attack/{whole.job('/pwws').key[:16]}/{name}" if name == "outcomes.json" else name
    if name == SHARED:
        changed = members[name].replace(b"[[", b'[[{"a":1,"a":2}],[', 1)
    else:
        pair = {"records.jsonl": b'"status":"failed"', "outcomes.json": b'"n":1', "plan.json": b'"jobs":[]'}[name]
        changed = twice(members[member], pair)
    path = write(tmp_path / "RUN.zip", {**members, member: changed})
    try:
        said = "\n".join(one.text for one in api.verify(path).findings if one.damage)
    except StoreError as error:
        said = str(error)
    assert "is there twice" in said or (name == "plan.json" and "not what was packed" in said)
    with pytest.raises(StoreError):
        unpack(path, tmp_path / "out")


def test_columns_that_repeat_a_large_value_are_refused_before_they_take_memory(
    members: dict[str, bytes], whole: World, tmp_path: Path
) -> None:
    """Some kilobytes stand for lists of the same word, of 15 MB a line: they would take 200 MB, or any number."""
    name = f"attack/{whole.job('/pwws').key[:16]}/outcomes.json"
    columns = json.loads(members[name])
    step = {"score": 0.5, "prediction": 1, "changes": [{"column": 0, "start": 0, "end": 1, "new": "x" * 10_000}]}
    lengths = {"lengths": {"same": 1500}, "items": {"same": step}}
    columns["lines"]["fields"]["outcome"]["fields"]["steps"] = lengths
    path = write(tmp_path / "RUN.zip", {**members, name: json.dumps(columns).encode()})
    tracemalloc.start()
    try:
        assert "repeats more bytes than the file has" in "\n".join(one.text for one in api.verify(path).findings)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_tables_in_a_file_of_an_older_rbench_are_passed_over(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "RUN.zip", listed(members, **{"tables/asr.md": b"| 31.2 |", "figures/a.svg": b"<svg/>"}))
    assert not api.verify(path).damaged and api.verify(path).derived == ()
    unpack(path, tmp_path / "out")
    assert not (tmp_path / "out" / "tables").exists() and not (tmp_path / "out" / "figures").exists()


def test_a_forged_outcome_is_found(members: dict[str, bytes], whole: World, tmp_path: Path) -> None:
    """The checksums of a forged outcome follow from it, but not the numbers of its record."""
    name = f"attack/{whole.job('/pwws').key[:16]}/outcomes.json"
    columns = json.loads(members[name])
    columns["lines"]["fields"]["outcome"]["fields"]["status"] = {"same": "failed"}
    forged = {**members, name: json.dumps(columns).encode()}
    path = write(tmp_path / "RUN.zip", forged)
    assert api.verify(path).damaged
    with pytest.raises(StoreError, match="damaged"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_records_that_cannot_be_read_are_named(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write(tmp_path / "RUN.zip", {**members, "records.jsonl": members["records.jsonl"][:100]})
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert result.output.count("record.json is damaged") >= len(json.loads(members["plan.json"])["jobs"])
