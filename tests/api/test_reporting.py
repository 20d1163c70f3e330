"""`rbench report`: one file from whatever a RUN has, and what it says of what is missing."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rbench import api
from rbench.api.runs import results_of
from rbench.errors import StoreError
from rbench.report import examples
from rbench.report.provenance import rerun_commands
from rbench.store.runs import RunStore
from tests.api.report_pages import read_missing_parts, read_report_data
from tests.report.conftest import LETTERS, NASTY, SCRIPT, TURNED, write_run
from tests.report.conftest import page_file as page_file
from tests.report.conftest import run as run
from tests.stored import rewrite


def packed(file: Path) -> dict[str, Any]:
    text = re.search(r'id="packed">(.*?)</script>', file.read_text(), re.S)[1]
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text))) if text else {"rows": []}
    return found


def test_the_file_lies_in_the_run_and_asks_no_network(page_file: Path, run: Path) -> None:
    text = page_file.read_text()
    assert page_file == run / "report.html" and page_file.stat().st_size < 2_000_000
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", text.partition("<script")[0])
    policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', text)[1])
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "connect-src" not in policy
    assert "unsafe" not in policy.partition("style-src")[0]
    assert read_missing_parts(page_file) == {}


def test_without_texts_all_else_is_there(run: Path, page_file: Path, tmp_path: Path) -> None:
    (file,) = api.report(run, tmp_path / "open.html", texts=False)
    one, other = packed(file), packed(page_file)
    assert examples.FIELDS[-2:] == ("text", "steps"), "all else stands before these"
    assert [row[:-2] for row in one["rows"]] == [row[:-2] for row in other["rows"]]
    assert all(row[-2:] == [None, None] for row in one["rows"])
    assert all(row[-2] for row in other["rows"]) and any(row[-1] for row in other["rows"])
    assert (
        read_report_data(file)["metrics"] == read_report_data(page_file)["metrics"]
        and read_report_data(file)["pairs"] == read_report_data(page_file)["pairs"]
    )
    for text in NASTY.values():
        assert text[:40] not in html.unescape(file.read_text()) + json.dumps(one, ensure_ascii=False)
    assert "--no-texts" in read_report_data(file)["sampled"]["said"]


def test_a_run_without_texts_says_so(tmp_path: Path) -> None:
    stripped = api.strip(write_run(tmp_path / "run"), tmp_path / "stripped")
    (file,) = api.report(stripped)
    assert "keeps no texts" in read_report_data(file)["sampled"]["said"] and len(packed(file)["rows"]) == 48


def test_a_run_of_records_alone_has_its_numbers(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    store = RunStore(root)
    for job in store.plan().jobs:  # type: ignore[union-attr]
        (store.folder(job) / "outcomes.jsonl").unlink()
        rewrite(store.folder(job) / "record.json", lambda record: record.update(outcomes=None))
    (file,) = api.report(root)
    assert len(read_report_data(file)["metrics"][0]["cells"]) > 3 and packed(file)["rows"] == []
    assert {"examples", "curves"} <= read_missing_parts(file).keys() and "no outcomes" in read_missing_parts(file)[
        "examples"
    ]
    assert read_report_data(file)["pairs"][0]["cells"][0]["fourfold"] is None


def test_an_unfinished_run_says_what_is_not_done(tmp_path: Path) -> None:
    (file,) = api.report(write_run(tmp_path / "run", leave="bert_b"))
    said = read_missing_parts(file)
    assert "attack/bert_b/mr/clean/pwws" in said["not done"] and "rbench run" in said["not done"]
    assert "no attack on bert_b is complete" in read_report_data(file)["pairs"][0]["missing"]


def test_a_run_in_which_nothing_is_done_is_a_page_that_says_so(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", encoders=("minilm",), leave="minilm")
    (file,) = api.report(root)
    assert "no attack is done yet" in read_missing_parts(file)["attacks"] and read_report_data(file)["metrics"] == []


def test_a_record_of_another_schema_is_named(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    store = RunStore(root)
    plan = store.plan()
    assert plan is not None
    job = next(job for job in plan.jobs if job.name.startswith("attack/bert_b/mr/"))
    rewrite(store.folder(job) / "record.json", lambda record: record.update(schema_version=99))
    (file,) = api.report(root)
    assert "schema version 99" in read_missing_parts(file)["damaged"]
    assert {tuple(cell["key"][1:4:2]) for cell in read_report_data(file)["metrics"][0]["cells"] if cell["key"][3]} == {
        ("minilm", "mr"),
        ("minilm", "mini_nli"),
        ("bert_b", "mini_nli"),
    }


def test_a_suite_of_hostile_names_is_escaped(tmp_path: Path) -> None:
    (file,) = api.report(write_run(tmp_path / "run", title=f"{SCRIPT}</title>", notes=(TURNED,)))
    text = file.read_text()
    assert SCRIPT not in text and text.count("</title>") == 1


def test_what_cannot_be_written_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    with pytest.raises(OSError):
        api.report(run, tmp_path / "a file" / "report.html")


def test_no_folder_is_made_where_a_run_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        api.report(tmp_path / "misspelt")
    assert not (tmp_path / "misspelt").exists()


def test_the_folder_of_the_file_is_made(run: Path, tmp_path: Path) -> None:
    (file,) = api.report(run, tmp_path / "pages" / "new" / "report.html")
    assert file == tmp_path / "pages" / "new" / "report.html" and file.is_file()


def test_n_of_a_cell_counts_what_tables_count(run: Path, tmp_path: Path) -> None:
    (file,) = api.report(run, tmp_path / "open.html")
    attacked = [len(letters.replace("w", "").replace("!", "")) for letters in LETTERS.values()]
    low, high = min(attacked), max(attacked)
    said = str(low) if low == high else f"{low} to {high}"
    shown = re.sub(r"<[^>]*>|\s+", " ", file.read_text().partition("<script")[0])
    assert re.search(rf"cell +{said}\b", shown)
    assert f"cell: {said}." in api.table(run)


def test_the_command_names_the_folder_as_a_shell_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = write_run(tmp_path / "my run", encoders=("minilm",))
    monkeypatch.chdir(where)
    for named in (where, Path()):
        (command,) = rerun_commands(results_of(named))
        assert shlex.split(command)[-2:] == ["--out", "my run"]


def test_several_runs_need_a_file_and_make_one_page(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, encoders=(name,)) for name in ("minilm", "bert_b")]
    with pytest.raises(StoreError):
        api.report(runs)
    (file,) = api.report(runs, tmp_path / "both.html")
    assert read_report_data(file)["names"]["encoders"] == ["minilm", "bert_b"] and len(packed(file)["rows"]) == 48


def test_above_the_limit_a_sample_has_all_on_which_encoders_differ(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "MOST", 30)
    monkeypatch.setattr(
        examples.choose_and_pack, "__kwdefaults__", {"most_examples": 30, "most_bytes": examples.MOST_BYTES}
    )
    page, beside = api.report(run, tmp_path / "part.html", texts=False)
    rows = packed(page)["rows"]
    assert 20 < len(rows) <= 30
    cells, at = packed(page)["cells"], packed(page)["fields"].index
    there = {(*cells[row[0]][1::2], row[at("example")]) for row in rows}
    pairs = enumerate(zip(*LETTERS.values(), strict=True))
    differing = {f"test:{i}" for i, pair in pairs if set(pair) == {"s", "f"}}
    assert {("minilm", "mr", one) for one in differing} | {("bert_b", "mini_nli", one) for one in differing} <= there
    assert f"{len(rows)} of 48" in read_report_data(page)["sampled"]["said"]
    frame = pd.read_parquet(beside)
    assert len(frame) == 48 and not {"original", "perturbed", "steps", "error"} & set(frame.columns)


def test_a_page_that_would_be_too_large_holds_fewer(run: Path) -> None:
    from rbench.api.runs import results_of

    small = examples.choose_and_pack(results_of(run), texts=True, most_bytes=2_000)
    assert len(small.content) <= 2_000 and 1 <= small.sampled.shown < 48
