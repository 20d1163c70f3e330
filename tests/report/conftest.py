"""A RUN with texts that would do harm as markup, its report, and one browser that opens it without a network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.spec import Change, Outcome, Step
from rbench.storage.runs import Store
from tests.tables.conftest import make_plan, make_record, make_suite

LETTERS = {"minilm": "ssssfffwssff", "bert_b": "ssffsfffswff"}
"""By encoder, what became of each example: `s` it fell, `f` it held, `w` the victim was wrong before."""
STATUS = {"s": "succeeded", "f": "failed", "w": "skipped"}
SCRIPT, AREA, TURNED, LONG = "<script>alert(1)</script>", "</textarea></script>", "safe\u202etxet", "word " * 20_000
NASTY = {0: SCRIPT, 1: AREA, 2: TURNED, 3: LONG}
"""Texts by example."""
STEPPED = 7
"""The first example of which steps are known."""
CHANGES = {"encoders": ("minilm", "bert_b"), "attacks": ("pwws",), "seeds": (0,)}
CLAIMS = (
    {"id": "lower", "lower": "minilm", "than": "bert_b"},
    {"id": "few-fall", "of": {"attack": "pwws", "encoder": "bert_b"}, "at_most": 99},
)


def outcome(i: int, letter: str, columns: int) -> Outcome:
    before = (NASTY.get(i, f"a good film {i}"), "it is so")[:columns]
    after = (before[0].replace("good", "fine") if i > 3 else f"{before[0]} indeed", *before[1:])
    return Outcome(
        example_id=f"test:{i}",
        status=STATUS[letter],
        original=before,
        perturbed=after if letter != "w" else None,
        label=1,
        original_prediction=int(letter != "w"),
        perturbed_prediction={"s": 0, "f": 1}.get(letter),
        num_queries=10 + i,
        num_words=4,
        num_words_changed=int(letter != "w"),
        perturbed_share=0.25 if letter == "s" else None,
        steps=steps(letter) if i >= STEPPED and letter != "w" else None,
    )


def steps(letter: str) -> tuple[Step, ...]:
    """Two steps in the first column: `good` became `great`, and that `fine`."""
    first = Step(score=0.91, prediction=1)
    second = Step(score=0.75, prediction=1, changes=(Change(column=0, start=2, end=6, new="great"),))
    last = Change(column=0, start=2, end=7, new="fine")
    return first, second, Step(score=0.4 if letter == "s" else 0.6, prediction=int(letter != "s"), changes=(last,))


def write_run(root: Path, *, texts: bool = True, leave: str = "", started: str = "", **changes: Any) -> Path:
    """Write a RUN. Jobs of the encoder `leave` are not done; the others say that they `started` then."""
    store = Store(root, texts=texts)
    plan = make_plan(make_suite(**{**CHANGES, "claims": CLAIMS, **changes}))
    store.write_plan(plan)
    for job in plan.jobs:
        if job.parts[0] != leave:
            made = [outcome(i, x, len(job.spec.task.columns)) for i, x in enumerate(LETTERS[job.parts[0]])]
            digest = store.write_outcomes(job, made)
            record = make_record(job, made, commit="abcdef", **({"started": started} if started else {}))
            store.write_record(record.model_copy(update={"outcomes": digest}))
    return root


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("reported") / "run")


@pytest.fixture(scope="session")
def page_file(run: Path) -> Path:
    return api.report(run)[0]


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


class Opened:
    """A page, and what it said on its console."""

    def __init__(self, page: Any, file: Path) -> None:
        self.page, self.file = page, file
        page.set_default_timeout(15_000)  # milliseconds; machines are busy
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))

    def go(self, hash: str = "") -> Opened:
        """Load the page anew with a state."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.file.as_uri()}{hash}")
        self.page.wait_for_selector("html[data-ready]")
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


@pytest.fixture(scope="session")
def opened(browser: Any, page_file: Path) -> Opened:
    context = browser.new_context(offline=True, color_scheme="light", viewport={"width": 1200, "height": 900})
    return Opened(context.new_page(), page_file).go()
