"""Measure a report of 10,000 examples in a browser: its size, the time to the first view, and that of filters.

    python benchmarks/report.py [--out FILE]      # needs the extra `browser`, and chromium

Writes benchmarks/results/report.json. Texts are drawn from a list of words, 80 a text; 6 attacks on 5 encoders share
them, as in a RUN. Each has the steps of its attack, one for each word that was changed. Times are of the page itself
(`performance.now`), over five loads; the median and the largest. The load is that of the machine as they began.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from rbench.recipes.observed import SCORE_DECIMALS
from rbench.report import examples
from rbench.report.data import ExampleSample, PageNames, RunReport
from rbench.report.html import render_page
from rbench.schema import Outcome, Step
from rbench.system.changes import Texts, list_changes

OUT = Path(__file__).resolve().parent / "results" / "report.json"
EXAMPLES, WORDS, LOADS = 10_000, 80, 5
ENCODERS, ATTACKS = tuple(f"encoder-{i}" for i in range(5)), tuple(f"attack-{i}" for i in range(6))
FILTERS = ({"status": "succeeded"}, {"encoder": "encoder-3", "attack": "attack-2"}, {"words": "3"}, {"q": "w123"})
MEASURED = """async (wanted) => {
  const start = performance.now();
  report.set(wanted);
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - start;
}"""


def drawn() -> list[examples.AttackedExample]:
    """Return the examples, those of one text side by side."""
    draw = random.Random(0)
    found = []
    for i in range(EXAMPLES // (len(ENCODERS) * len(ATTACKS)) + 1):
        words = [f"w{draw.randrange(5000)}" for _ in range(WORDS)]
        for encoder in ENCODERS:
            for attack in ATTACKS:
                way = list(attacked(words, draw))
                n = len(way) - 1
                outcome = Outcome(
                    example_id=f"test:{i}",
                    status=draw.choice(("succeeded", "failed")),
                    original=(" ".join(words),),
                    perturbed=way[-1],
                    label=1,
                    num_words=WORDS,
                    num_words_changed=n,
                    num_queries=draw.randint(2, 900),
                    steps=tuple(stepped(way, draw)),
                )
                found.append(examples.AttackedExample((attack, encoder, "clean", "task"), 0, None, outcome))
    return found[:EXAMPLES]


def attacked(words: Sequence[str], draw: random.Random) -> Iterator[Texts]:
    """Yield the text of each step, from the original on: one to six words are changed, one at a time."""
    after = list(words)
    yield (" ".join(after),)
    for at in draw.sample(range(WORDS), draw.randint(1, 6)):
        after[at] = f"W{draw.randrange(5000)}"
        yield (" ".join(after),)


def stepped(way: Sequence[Texts], draw: random.Random) -> Iterator[Step]:
    """Yield steps with answers that mean nothing but are as long as real ones."""
    for before, after in zip((way[0], *way), way, strict=False):
        yield Step(score=round(draw.random(), SCORE_DECIMALS), prediction=1, changes=list_changes(before, after))


def main() -> None:
    """Write the page, load it, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    chosen = drawn()
    names = PageNames(encoders=ENCODERS, finetunes=("clean",), tasks=("task",), attacks=ATTACKS)
    sampled = ExampleSample(shown=len(chosen), total=len(chosen))
    text = render_page(
        RunReport(title="10,000 examples", suite="s", names=names, sampled=sampled),
        examples.pack_examples(chosen, texts=True),
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "report.html"
        file.write_text(text, encoding="utf-8")
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        first, filters = [], []
        load = round(os.getloadavg()[0], 1)
        for _ in range(LOADS):
            opened: Any = browser.new_context(offline=True).new_page()
            opened.goto(file.as_uri())
            opened.wait_for_selector("html[data-ready]")
            first.append(opened.evaluate("performance.getEntriesByName('ready')[0].startTime"))
            filters += [opened.evaluate(MEASURED, {"q": "", **wanted}) for wanted in FILTERS]
        version = browser.version
    found = {
        "examples": len(chosen),
        "words a text": WORDS,
        "steps": sum(len(one.outcome.steps or ()) for one in chosen),
        "bytes of the page": len(text.encode()),
        "first view, ms": {"median": round(statistics.median(first)), "largest": round(max(first))},
        "a filter, ms": {"median": round(statistics.median(filters)), "largest": round(max(filters))},
        "browser": f"Chromium {version}, without a window",
        "machine": machine_name(),
        "load of the last minute": load,
    }
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def machine_name() -> str:
    from rbench.store import provenance

    return str(provenance.describe_machine())


if __name__ == "__main__":
    main()
