"""The page of a rater in a real browser: from the first item to the last, with a reload in the middle, and exported."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.api.judge import Exported
from tests.browser import Axe, Opened
from tests.report.conftest import SCRIPT, write_run

SIZES = {"phone": 390, "screen": 1280}


@pytest.fixture(scope="module")
def exported(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    root = tmp_path_factory.mktemp("judged")
    return api.judge_export(write_run(root / "run"), root / "sheet", per_cell=5, raters=2)


@pytest.fixture
def page(browser: Any, exported: Exported) -> Iterator[Opened]:
    opened = Opened.alone(browser, exported.folder / "raters" / "rater-1.html").go()
    yield opened
    opened.page.context.close()


def answer(opened: Opened) -> str:
    """Answer the item that is shown with keys alone, and go on. Return what it showed."""
    shown = opened.text("#texts")
    if opened.all("#questions legend")[0].startswith("How far"):
        opened.page.keyboard.press("4")
    else:
        opened.page.keyboard.press("0" if SCRIPT in shown else "2")
        opened.page.keyboard.press("n")
    opened.page.keyboard.press("Enter")
    return shown


def export(opened: Opened) -> list[dict[str, str]]:
    with opened.page.expect_download() as waiting:
        opened.page.click("#export")
    return list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))


def test_a_rater_goes_from_the_first_item_to_the_last_and_answers_outlive_a_reload(
    page: Opened, exported: Exported
) -> None:
    n = len(exported.sheet.items)
    assert page.text("#progress") == f"0 of {n} answered"
    seen = [answer(page) for _ in range(n // 2)]
    page.go()
    assert page.text("#progress") == f"{n // 2} of {n} answered"
    assert page.text("#heading").endswith(f"{n // 2 + 1} of {n}"), "it goes on where it stopped"
    assert len(export(page)) == n, "what is there may be exported at any time"
    seen += [answer(page) for _ in range(n - n // 2)]
    assert page.text("#done-heading") == "All answered. Thank you!"
    assert any(SCRIPT in one for one in seen) and page.said == []
    rows = export(page)
    assert {row["label"] for row in rows} == {"", "?", "pos"} and {row["meaning"] for row in rows} == {"", "4"}
    assert all((row["label"] != "") == (row["natural"] != "") != (row["meaning"] != "") for row in rows)
    assert all(float(row["seconds"]) >= 0 for row in rows)
    with page.page.expect_download() as waiting:
        page.page.click("#export")
    waiting.value.save_as(exported.folder / "answers.csv")
    found = api.judge_import(exported.folder.parent / "run", [exported.folder / "answers.csv"])
    assert (found.answers, found.raters, found.missing) == (n, (1,), ())
    assert page.page.evaluate("performance.getEntriesByType('resource').map(one => one.name)") == []


def test_an_answer_can_be_changed_and_left_open_ones_are_found_again(page: Opened, exported: Exported) -> None:
    page.page.click("#next")
    answer(page)
    page.page.keyboard.press("ArrowLeft")
    assert page.all("#questions input:checked", "one => one.value") == ["pos", "no"]
    page.page.click("text=neg")
    page.page.click("#open-item")
    assert page.text("#heading").startswith("Text, 3 of")
    page.go()
    assert page.text("#heading").startswith("Text, 1 of"), "the first that is open"
    for _ in exported.sheet.items:
        page.page.keyboard.press("Enter")
    assert page.text("#done-heading") == f"{len(exported.sheet.items) - 1} left open"
    page.page.click("#review")
    assert page.text("#heading").startswith("Text, 1 of")
    assert page.said == []


def test_raters_of_one_browser_do_not_share_answers(browser: Any, exported: Exported) -> None:
    one = Opened.alone(browser, exported.folder / "raters" / "rater-1.html").go()
    answer(one)
    other = Opened(one.page.context.new_page(), exported.folder / "raters" / "rater-2.html").go()
    assert other.text("#progress").startswith("0 of")
    one.page.context.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_has_no_serious_finding_of_axe(
    browser: Any, axe: Axe, exported: Exported, scheme: str, size: str
) -> None:
    page = browser.new_page(offline=True, color_scheme=scheme, viewport={"width": SIZES[size], "height": 844})
    page.goto((exported.folder / "raters" / "rater-1.html").as_uri())
    page.evaluate("document.querySelector('details').open = true")
    for item in (0, len(exported.sheet.items) - 1):
        for _ in range(item):
            page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]
        red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (red + green + blue > 600) == (scheme == "light")
        assert axe(page) == {}
    page.close()
