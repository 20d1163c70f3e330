"""`rbench site`: pages of several RUNs, one of them unfinished and one that cannot be read."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError, SuiteError
from tests.report.conftest import NASTY, SCRIPT, write_run

OLDER, NEWER = "2026-01-02T03:04:05+00:00", "2026-02-03T04:05:06+00:00"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of RUNs: `older` lacks an encoder, `newer` has all, `broken` has no plan that can be read."""
    root = tmp_path_factory.mktemp("runs")
    title = f"{SCRIPT}</title>"
    write_run(root / "newer", started=NEWER, title=title)
    write_run(root / "older", started=OLDER, leave="bert_b", title=title)
    (root / "broken").mkdir()
    (root / "broken" / "plan.json").write_text('{"schema_version": 99}')
    (root / "notes").mkdir()
    return root


@pytest.fixture(scope="module")
def made(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> api.WrittenSite:
    return api.site(runs, tmp_path_factory.mktemp("out") / "site")


@pytest.fixture(scope="module")
def pages(made: api.WrittenSite) -> dict[str, str]:
    folder = made.index.parent
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.html")}


def cells(page: str) -> list[list[str]]:
    """The texts of all table rows of a page."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.S)
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in rows]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", " ", one)).split()) for one in row] for row in found]


def test_there_is_a_page_for_each_run_and_encoder(pages: dict[str, str]) -> None:
    assert sorted(pages) == [
        *("encoders/bert_b.html", "encoders/minilm.html", "index.html", "runs/newer.html", "runs/older.html"),
    ]


def test_every_link_is_relative_and_leads_to_a_page(made: api.WrittenSite, pages: dict[str, str]) -> None:
    linked = set()
    for name, page in pages.items():
        hrefs = re.findall(r'href="([^"]*)"', page.partition("<script")[0])
        for href in hrefs:
            target, _, anchor = href.partition("#")
            file = ((made.index.parent / name).parent / target).resolve() if target else made.index.parent / name
            assert file.is_file(), (name, href)
            assert not anchor or f'id="{anchor}"' in file.read_text(), (name, href)
            linked.add(str(file.relative_to(made.index.parent.resolve())) if target else name)
    assert linked == pages.keys()


def test_index_and_encoders_have_no_script_and_load_nothing(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        if name.startswith("runs/"):
            continue
        policy = html.unescape(re.search(r'Content-Security-Policy" content="(.*?)"', page)[1])
        assert policy.startswith("default-src 'none'; style-src") and "script-src" not in policy
        assert "<script" not in page and not re.search(r'(?:src|action)="', page)


def test_names_are_escaped(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert SCRIPT not in page and page.count("</title>") == 1
    assert html.escape(SCRIPT) in pages["index.html"]


def test_the_newest_verdict_stands_before_the_older_one(runs: Path, pages: dict[str, str]) -> None:
    judged = {name: {one.claim.id: one for one in api.claims(runs / name)} for name in ("older", "newer")}
    rows = {row[0].split()[0]: row for row in cells(pages["index.html"]) if len(row) == 6 and row[1] != "Verdict"}
    for claim, one in judged["newer"].items():
        assert rows[claim][1] == one.verdict
        assert rows[claim][4] == "newer 2026-02-03"
        assert rows[claim][5] == f"{judged['older'][claim].verdict} 2026-01-02"
    assert judged["newer"]["few-fall"].verdict == "supported" != judged["older"]["few-fall"].verdict


@pytest.mark.parametrize("metric", ["asr", "clean"])
def test_an_encoder_has_the_numbers_of_the_tables_in_order_of_time(
    runs: Path, pages: dict[str, str], metric: str
) -> None:
    title = {"asr": "Attack success rate", "clean": "Clean accuracy"}[metric]
    section = pages["encoders/minilm.html"].partition(f">{title}</h2>")[2].partition("</section>")[0]
    rows = [row for row in cells(section) if row[0] != "Task"]
    stored = {}
    for name in ("older", "newer"):
        for cell in json.loads(api.table(runs / name, metric=metric, fmt="json"))["cells"]:
            if cell["encoder"] == "minilm":
                stored[name, cell["task"]] = cell
    assert len(rows) == len(stored) == 4
    for task in ("mr", "mini_nli"):
        several = [row for row in rows if row[0] == task]
        assert [row[3] for row in several] == ["older", "newer"]
        for row in several:
            cell = stored[row[3], task]
            assert row[1] == ("pwws" if metric == "asr" else "–") and row[2] == "clean"
            assert row[5] == f"{100 * cell['value']:.1f}" and row[7] == str(cell["n"])
            assert row[6] == f"{100 * cell['low']:.1f} to {100 * cell['high']:.1f}"


def test_what_is_not_done_is_no_number_of_an_encoder(pages: dict[str, str]) -> None:
    rows = [row for row in cells(pages["encoders/bert_b.html"]) if len(row) == 9 and row[0] != "Task"]
    assert {row[3] for row in rows} == {"newer"} and "n/a" not in {row[5] for row in rows}


def test_intervals_are_drawn_where_they_are(pages: dict[str, str]) -> None:
    page = pages["encoders/minilm.html"]
    rows = [row for row in cells(page) if len(row) == 9 and row[0] != "Task"]
    drawn = re.findall(r'class="interval" x1="([\d.]+)" x2="([\d.]+)"', page)
    assert len(drawn) == len(rows) == 8
    for row, ends in zip(rows, drawn, strict=True):
        assert [round(float(x), 1) for x in ends] == pytest.approx([float(x) for x in row[6].split(" to ")], abs=0.11)


def test_what_is_missing_is_said(made: api.WrittenSite, pages: dict[str, str]) -> None:
    (line,) = made.left_out
    assert line.startswith("broken: ") and "plan.json" in line
    index = html.unescape(pages["index.html"])
    assert "1 of the runs is left out" in index and line.partition(": ")[2] in index
    assert "not done: minilm" not in index and re.search(r"not done: s?.*bert_b", index)
    assert re.search(r"not done: [^<]*\brbench run\b", index)


def test_a_run_without_outcomes_has_a_page_that_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "bare")
    for file in run.rglob("outcomes.jsonl"):
        file.unlink()
    made = api.site(run, tmp_path / "site")
    assert made.left_out == () and "missing" in (made.index.parent / "runs" / "bare.html").read_text()


def test_without_texts_no_page_holds_one(runs: Path, tmp_path: Path) -> None:
    made = api.site(runs / "newer", tmp_path / "site", texts=False)
    for file in made.index.parent.rglob("*.html"):
        text = html.unescape(file.read_text())
        assert not [one for one in NASTY.values() if one != SCRIPT and one[:40] in text.partition("<script")[0]]
    report = (made.index.parent / "runs" / "newer.html").read_text()
    assert "--no-texts" in report


def test_a_folder_that_holds_something_else_is_left_alone(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError):
        api.site(runs, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(StoreError):
        api.site(runs, tmp_path / "mine.txt")


def test_a_site_is_made_anew_and_keeps_what_is_not_its_own(runs: Path, tmp_path: Path) -> None:
    out, outside = tmp_path / "site", tmp_path / "outside.html"
    api.site(runs, out)
    (out / "CNAME").write_text("example.org")
    outside.write_text("mine")
    mark = json.loads((out / "rbench-site.json").read_text())
    mark["files"] += ["../outside.html", str(outside)]
    (out / "rbench-site.json").write_text(json.dumps(mark))
    api.site(runs / "newer", out)
    assert not (out / "runs" / "older.html").exists() and (out / "runs" / "newer.html").exists()
    assert (out / "CNAME").read_text() == "example.org" and outside.read_text() == "mine"
    assert "older" not in (out / "index.html").read_text()


def test_runs_of_one_name_have_pages_of_their_own(runs: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "newer", encoders=("minilm",), claims=())
    made = api.site([runs / "newer", other, runs / "newer"][:2], tmp_path / "site")
    assert sorted(file.name for file in (made.index.parent / "runs").iterdir()) == ["newer-2.html", "newer.html"]


@pytest.mark.parametrize("name", ["none", "notes", "broken"])
def test_what_is_no_run_is_refused(runs: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError):
        api.site(runs / name, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_claims_of_files_stand_for_those_of_the_suite(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "claims"
    folder.mkdir()
    with pytest.raises(StoreError):
        api.site(runs / "newer", tmp_path / "site", claims=folder)
    file = folder / "newer.yaml"
    file.write_text("claims:\n  - {id: mine, lower: nobody, than: minilm}\n")
    with pytest.raises(SuiteError) as caught:
        api.site(runs / "newer", tmp_path / "site", claims=folder)
    assert f"{file}:2" in str(caught.value)
    assert not (tmp_path / "site").exists()
    file.write_text("claims:\n  - {id: mine, higher: minilm, than: bert_b}\n")
    made = api.site(runs / "newer", tmp_path / "site", claims=folder)
    found = [row[0].split()[0] for row in cells(made.index.read_text()) if len(row) == 6]
    assert "mine" in found and "few-fall" not in found
    page = (made.index.parent / "runs" / "newer.html").read_text()
    assert "<code>mine</code>" in page and "<code>few-fall</code>" not in page
