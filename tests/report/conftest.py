"""A RUN with texts that would do harm as markup, its report, and one browser that opens it without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.schema import Change, Outcome, Step
from rbench.store.runs import RunStore
from tests.browser import Opened
from tests.tables.conftest import make_plan, make_record, make_suite

LETTERS = {"minilm": "ssssfffwssff", "bert_b": "ssffsfffswff"}
"""By encoder, what became of each example: `s` it fell, `f` it held, `w` the victim was wrong before."""
STATUS = {"s": "succeeded", "f": "failed", "w": "skipped"}
SCRIPT, AREA, TURNED, LONG = "<script>alert(1)</script>", "</textarea></script>", "safe\u202etxet", "word " * 20_000
NASTY = {0: SCRIPT, 1: AREA, 2: TURNED, 3: LONG}
"""Texts by example."""
WIDE = 11
"""The example whose text begins with a letter that JavaScript counts as two, and whose steps change two words each."""
STEPPED = 7
"""The first example of which steps are known."""
CHANGES = {"encoders": ("minilm", "bert_b"), "attacks": ("pwws",), "seeds": (0,)}
CLAIMS = (
    {"id": "lower", "lower": "minilm", "than": "bert_b"},
    {"id": "few-fall", "about": "weights", "of": {"attack": "pwws", "encoder": "bert_b"}, "at_most": 99},
)


def outcome(i: int, letter: str, columns: int) -> Outcome:
    wide = "😀 " if i == WIDE else ""
    before = (NASTY.get(i, f"{wide}a good film {i}"), "it is so")[:columns]
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
        steps=steps(letter, wide=i == WIDE) if i >= STEPPED and letter != "w" else None,
    )


def steps(letter: str, *, wide: bool) -> tuple[Step, ...]:
    """Two steps in the first column: `good` became `great`, and that `fine`. If wide, `film` was `movie` in between."""
    at = 4 if wide else 2
    second = [Change(column=0, start=at, end=at + 4, new="great")]
    last = [Change(column=0, start=at, end=at + 5, new="fine")]
    if wide:
        second.append(Change(column=0, start=at + 5, end=at + 9, new="movie"))
        last.append(Change(column=0, start=at + 6, end=at + 11, new="film"))
    return (
        Step(score=0.91, prediction=1),
        Step(score=0.75, prediction=1, changes=tuple(second)),
        Step(score=0.4 if letter == "s" else 0.6, prediction=int(letter != "s"), changes=tuple(last)),
    )


def write_run(root: Path, *, texts: bool = True, leave: str = "", started: str = "", **changes: Any) -> Path:
    """Write a RUN. Jobs of the encoder `leave` are not done; the others say that they `started` then."""
    store = RunStore(root, texts=texts)
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
def opened(browser: Any, page_file: Path) -> Opened:
    return Opened.alone(browser, page_file).go()
