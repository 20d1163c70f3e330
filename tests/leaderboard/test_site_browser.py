"""The pages of a site in a real browser: from files, without a network, from page to page by their links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from tests import reference
from tests.browser import Axe, Opened
from tests.report.conftest import SCRIPT, write_run

TURNED = "\u202eevil"
PAGES = ("index.html", "encoders/minilm.html")
COLOUR = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def folder(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two RUNs. The title of one is hostile, the other lacks an encoder."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "newer", started="2026-02-03T04:05:06+00:00", title=f"{SCRIPT}</title>{TURNED}")
    write_run(root / "older", started="2026-01-02T03:04:05+00:00", leave="bert_b")
    return api.site(root, tmp_path_factory.mktemp("out") / "site").index.parent


@pytest.fixture(scope="module")
def site(browser: Any, folder: Path) -> Iterator[Opened]:
    opened = Opened.alone(browser, folder / "index.html")
    opened.page.set_viewport_size({"width": 360, "height": 800})  # all is done at the width of a phone
    yield opened
    opened.page.context.close()


def test_links_lead_from_the_index_to_each_kind_of_page_and_back(site: Opened, folder: Path) -> None:
    site.go()
    for section, page in (("runs", "runs/newer.html"), ("encoders", "encoders/minilm.html")):
        site.page.click(f"section[aria-labelledby={section}] a[href='{page}']")
        assert site.ready().page.url == (folder / page).as_uri()
        assert site.page.evaluate("document.documentElement.scrollWidth") <= 360, page
        site.page.click("text=All runs")
        assert site.page.url == (folder / "index.html").as_uri()
    site.go().page.click("section[aria-labelledby=claims] a >> nth=0")
    assert site.ready().text("#count").startswith("48 of 48")
    assert site.said == []
    assert site.page.evaluate("performance.getEntriesByType('resource').map(one => one.name)") == []


def test_hostile_names_are_shown_as_text(site: Opened) -> None:
    site.go()
    shown = site.text("section[aria-labelledby=runs]")
    assert SCRIPT in shown and "</title>" in shown and TURNED not in shown and "\\u202e" in shown
    assert site.page.evaluate("document.scripts.length") == 0 and site.said == []
    site.page.click("section[aria-labelledby=runs] a[href='runs/newer.html']")
    assert site.ready().text("h1").startswith(SCRIPT) and site.said == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_a_phone_follows_the_system_and_has_no_serious_finding_of_axe(
    browser: Any, axe: Axe, folder: Path, name: str, scheme: str
) -> None:
    page = browser.new_page(offline=True, color_scheme=scheme, viewport={"width": 360, "height": 800})
    page.goto((folder / name).as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    red, green, blue = page.evaluate(f"{COLOUR}.match(/\\d+/g).map(Number)")
    assert (red + green + blue > 600) == (scheme == "light")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert axe(page) == {}
    page.close()


# ------------------------------------------------------------------------------------------------------ leaderboard

BOARD = ("dose-response-part2", "noise-attacked", "noise-local", "strength-local")


@pytest.fixture(scope="module")
def board(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of a site with a leaderboard of committed RUNs."""
    runs = [reference.run(name) for name in BOARD]
    return api.site(runs, tmp_path_factory.mktemp("board") / "site", texts=False).index


def column(opened: Opened, at: int) -> list[str]:
    """The texts of a column of the first table, as they stand, without intervals."""
    js = f"row => row.cells[{at}].firstElementChild?.textContent ?? row.cells[{at}].textContent"
    return opened.all("table.board >> nth=0 >> tbody tr:not([hidden])", js)


def test_the_leaderboard_sorts_and_filters(browser: Any, board: Path) -> None:
    opened = Opened.alone(browser, board).go()
    first = "table.board >> nth=0"
    assert opened.page.get_attribute(f"{first} >> th >> nth=0", "aria-sort") == "ascending"
    clean = opened.all(f"{first} >> thead th").index("Clean")
    for order in ("descending", "ascending"):
        opened.page.click(f"{first} >> thead th >> nth={clean} >> button")
        assert opened.page.get_attribute(f"{first} >> thead th >> nth={clean}", "aria-sort") == order
        shown = [float(one) for one in column(opened, clean) if one != "–"]
        assert len(shown) > 2 and shown == sorted(shown, reverse=order == "descending")
    before = len(opened.all("table.board tbody tr:not([hidden])"))
    opened.page.fill(".find input[type=search]", "random")
    names = opened.all("table.board tbody tr:not([hidden]) th")
    assert names and all("random" in name.lower() for name in names)
    assert opened.text(".find [role=status]") == f"{len(names)} of {before} rows"
    opened.page.fill(".find input[type=search]", "")
    opened.page.uncheck(".find input[type=checkbox]")
    assert 0 < len(opened.all("table.board tbody tr:not([hidden])")) < before
    assert not opened.all("table.board tbody tr.control:not([hidden])") and opened.said == []
    opened.page.context.close()


def test_without_scripts_the_leaderboard_stands_by_rank(browser: Any, board: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(board.as_uri())
    ranks = [one.inner_text().split()[0] for one in page.locator("table.board").first.locator("td.rank").all()]
    numbers = [int(one) for one in ranks if one.isdigit()]
    assert numbers == sorted(numbers) and numbers[0] == 1 and set(ranks[len(numbers) :]) <= {"control", "flagged"}
    assert page.locator(".find").is_hidden() and page.locator("table.board button").count() == 0
    assert page.locator("figure.plane circle").count() > 2
    context.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_leaderboard_fits_and_has_no_serious_finding_of_axe(
    browser: Any, axe: Axe, board: Path, width: int, scheme: str
) -> None:
    page = browser.new_page(offline=True, color_scheme=scheme, viewport={"width": width, "height": 800})
    for name in ("index.html", "encoders/minilm.html"):
        page.goto((board.parent / name).as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert axe(page) == {}, name
    page.close()
