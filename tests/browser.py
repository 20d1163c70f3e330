"""One browser for all tests of pages: it opens them from files, without a network.

Only `tests/conftest.py` imports the fixtures. Imported elsewhere they would be others, and Playwright starts once in a
process.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="needs the extra `browser`: pip install 'rbench[browser]'")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser is installed; these tests drive one of {', '.join(names)}")
    with sync.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


Axe = Callable[[Any], dict[str, list[str]]]
"""Returns the serious and critical findings of axe-core on a page: the first elements of each."""


@pytest.fixture(scope="session")
def axe() -> Axe:
    module = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs the extra `browser`: pip install 'rbench[browser]'"
    )

    def found(page: Any) -> dict[str, list[str]]:
        violations = module.Axe().run(page).response["violations"]
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        return {one["id"]: [node["html"][:120] for node in one["nodes"]][:3] for one in serious}

    return found


class Opened:
    """A page, and what it said on its console."""

    def __init__(self, page: Any, file: Path) -> None:
        self.page, self.file = page, file
        page.set_default_timeout(15_000)  # milliseconds; machines are busy
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))

    @classmethod
    def alone(cls, browser: Any, file: Path) -> Opened:
        """Open a window without a network for a file."""
        context = browser.new_context(offline=True, color_scheme="light", viewport={"width": 1200, "height": 900})
        return cls(context.new_page(), file)

    def go(self, hash: str = "") -> Opened:
        """Load the page anew with a state."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.file.as_uri()}{hash}")
        return self.ready()

    def ready(self) -> Opened:
        """Wait until the page is drawn, if it has scripts that draw it."""
        drawn = "'ready' in document.documentElement.dataset"
        self.page.wait_for_function(f"() => !document.getElementById('packed') || {drawn}")
        return self

    def state(self, hash: str) -> Opened:
        """Change the state as a link does."""
        self.page.evaluate("(hash) => { location.hash = hash; }", hash)
        self.page.wait_for_function("(hash) => location.hash.slice(1) === hash", arg=hash)
        return self

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def all(self, selector: str, js: str = "one => one.textContent") -> list[Any]:
        found: list[Any] = self.page.eval_on_selector_all(selector, f"all => all.map({js})")
        return found
