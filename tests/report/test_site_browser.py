"""The pages of a site in a real browser: from files, without a network, from page to page by their links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
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
