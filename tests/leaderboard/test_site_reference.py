"""The committed RUNs as one site, made once, without texts: every page, number and verdict is the committed one.

On every push the site is of some of them, and of all of them in the nightly run.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.api.runs import results_of
from rbench.errors import StoreError
from rbench.tables.aggregate import attack_grid
from rbench.tables.any_attack import build_any_attack_cells
from rbench.verdicts.cells import iterate_cells
from tests import pages, reference

REFERENCE = reference.REFERENCE
SOME = (
    *("adcl-table3-local", "adcl-table4-local", "dose-response-part2", "geometry-finetuning-table7"),
    *("robustsentembed-table2-local", "table1-local", "vadvcse-table3-local"),
)
"""RUNs with figures and without, with attacks and with measures alone, with a paper's numbers and without."""


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.nightly)])
def runs(request: pytest.FixtureRequest) -> list[str]:
    """The names of the RUNs of the site."""
    return sorted(SOME) if request.param == "some" else reference.NAMES


@pytest.fixture(scope="module")
def site(runs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    below = tmp_path_factory.mktemp("reference")
    for run in runs:
        (below / "runs").mkdir(exist_ok=True)
        shutil.copy(reference.run(run), below / "runs")
    made = api.site(below / "runs", below / "site", claims=REFERENCE / "claims", texts=False)
    assert made.left_out == ()
    return below / "site"


def data(site: Path, run: str) -> dict[str, Any]:
    found = re.search(r'id="data">(.*?)</script>', (site / "runs" / f"{run}.html").read_text(), re.S)
    content: dict[str, Any] = json.loads(found[1])
    return content


def claims(site: Path) -> list[dict[str, str]]:
    """The rows of the index's table of claims."""
    row = (
        r'<span class="id">(?P<id>.*?)</span>.*?<span class="verdict \w+">(?P<verdict>\w+)</span>.*?'
        r'<td class="wide">.*?</td>\s*<td class="wide">(?P<paper>.*?)</td>\s*<td><a href="runs/(?P<run>.*?)\.html"'
        r".*?</td>\s*<td>(?P<earlier>.*?)</td>"
    )
    found = re.finditer(row, (site / "index.html").read_text(), re.S)
    return [
        {
            name: text if name == "earlier" else html.unescape(re.sub("<br>.*", "", text))
            for name, text in one.groupdict().items()
        }
        for one in found
    ]


@pytest.mark.nightly
def test_each_run_has_a_page_of_less_than_five_megabytes(site: Path, runs: list[str]) -> None:
    pages = {file.stem: file.stat().st_size for file in (site / "runs").iterdir()}
    assert sorted(pages) == runs and max(pages.values()) < 5_000_000


def test_the_heat_tables_are_the_committed_tables(site: Path, runs: list[str]) -> None:
    compared = 0
    for run in runs:
        metrics = {one["name"]: one["cells"] for one in data(site, run)["metrics"]}
        for metric in (heading for heading in reference.headings(run) if heading in metrics):
            stored = {(c["attack"], c["encoder"], c["finetune"], c["task"]): c for c in reference.cells(run, metric)}
            shown = {tuple(cell["key"]): cell for cell in metrics[metric] if cell["key"][3]}
            assert shown.keys() == stored.keys(), (run, metric)
            for key, cell in shown.items():
                assert (cell["value"], cell["n"]) == (stored[key]["value"], stored[key]["n"]), (run, metric, key)
            compared += len(shown)
    assert compared > 300


def test_no_page_has_texts(site: Path, runs: list[str]) -> None:
    examples = 0
    for run in runs:
        found = re.search(r'id="packed">(.*?)</script>', (site / "runs" / f"{run}.html").read_text(), re.S)
        if found[1]:
            packed = json.loads(gzip.decompress(base64.b64decode(found[1])))
            examples += len(packed["rows"])
            assert all(row[packed["fields"].index("text")] is None for row in packed["rows"])
    assert examples > 1000


def test_the_verdicts_are_the_committed_ones(site: Path, runs: list[str]) -> None:
    """A claim that several RUNs judge has one row, with the newest verdict and those before it."""
    shown = {(one["run"], one["id"]): one["verdict"] for one in claims(site)}
    for one in claims(site):
        shown |= {
            (run, one["id"]): verdict
            for run, verdict in re.findall(r'<a href="runs/(.*?)\.html">(\w+)</a>', one["earlier"])
        }
    committed = {}
    for run in runs:
        for line in reference.verdicts(run).splitlines():
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if cells and re.fullmatch(r"[a-z0-9][a-z0-9.-]*", cells[0]):
                committed[run, cells[0]] = re.match(r"\w+", cells[-1])[0]
    assert len(committed) > 20 and shown == committed


def test_the_papers_numbers_stand_beside_claims(site: Path) -> None:
    of = {(one["run"], one["id"]): one["paper"] for one in claims(site)}
    half = "holds in 8 of 10; closest, stsb, pwws: 12.68 against 24.15, ×0.525"
    assert of["robustsentembed-table2-local", "rse-advsts-half-of-simcse"] == half
    assert of["table1-local", "geometry-below-textfooler"] == "–"


def test_the_index_begins_with_the_leaderboard_and_has_the_committed_numbers(site: Path, runs: list[str]) -> None:
    """Every accuracy under an attack in the tables of the leaderboard is one of the RUN that stands beside it."""
    page = (site / "index.html").read_text()
    assert page.index('id="board"') < page.index('id="claims"')
    shown = re.findall(r'data-value="([\d.]+)"><span title="([\w.-]+), n (\d+)">', page)
    values: dict[str, set[float]] = {}
    for run in {run for _, run, _ in shown}:
        results = results_of(reference.run(run), ())
        kinds = {job.attacking.task.kind for job in results.plan.attacks}
        of_attacks = ("ndcg_after", "ndcg_before") if kinds == {"ranking"} else ("aua", "clean")
        for metric in (*of_attacks, "sts", "noise"):
            with suppress(StoreError):
                found = iterate_cells(results, results.metrics.asked(metric))
                values.setdefault(run, set()).update(one.value for _, one in found if one.value is not None)
        with suppress(StoreError):
            every = build_any_attack_cells(results, attack_grid(results)).cells.values()
            for metric in ("aua", "words_needed"):
                values[run].update(one.score(metric).value for one in every if one.present)
    assert len(shown) > 100
    assert [one for one in shown if float(one[0]) not in values[one[1]]] == []


def test_the_suites_figures_are_in_their_pages(site: Path, runs: list[str]) -> None:
    for run in runs:
        files = {path.read_bytes() for path in pages.shown_figures(run)}
        page = (site / "runs" / f"{run}.html").read_text()
        shown = {base64.b64decode(one) for one in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", page)}
        assert files <= shown, run
        asked = len(reference.plan(run).suite.figures)
        assert len(shown) >= asked, run
