"""A file of the guides, put where CONTRIBUTING's table says, is one of rbench's own: no other file names it.

The files are put into a copy of the package, and the commands run there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rbench.config.registry import KINDS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
ADDED = {
    "measures/lengths": "guide-add-a-measure.md",
    "measures/shortest": "guide-add-a-measure.md",
    "metrics/fast": "guide-add-a-metric.md",
    "noise/leet": "noise.md",
    "attacks/synonyms": "guide-add-an-attack.md",
    "objectives/align-uniform": "guide-add-an-objective.md",
    "finetune/centroids": "guide-add-a-strategy.md",
    "figures/spent": "guide-add-a-figure.md",
    "edits/calendar": "edits.md",
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, to which the guides' files were added."""
    folder = tmp_path_factory.mktemp("contributed")
    shutil.copytree(ROOT / "rbench", folder / "rbench", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)  # by which rbench knows a checkout
    for beside in ("attacks", "suites"):
        shutil.copytree(ROOT / beside, folder / beside, ignore=shutil.ignore_patterns("__pycache__"))
    for added, guide in ADDED.items():
        kind, name = added.split("/")
        text = (DOCS / guide).read_text(encoding="utf-8")
        (block,) = re.findall(rf"```python\n# DIR/{added}\.py\n(.*?)```", text, re.DOTALL)
        place = folder / "rbench" / KINDS[kind].bundled if KINDS[kind].bundled else folder / kind
        (place / f"{name}.py").write_text(block, encoding="utf-8")
    return folder


METRICS = ("fast", "shortest")
RUN = """
import sys
from rbench.cli import main

for words in sys.argv[1:]:
    sys.argv = ["rbench", *words.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, words
    print("<end>", flush=True)
"""


@pytest.fixture(scope="module")
def printed(copy: Path) -> dict[str, str]:
    """What the copy's commands print, by what is listed or shown. One process runs all: each start takes seconds."""
    asked = {kind: f"list {kind}" for kind in dict.fromkeys(name.partition("/")[0] for name in ADDED)}
    run = ROOT / "results" / "quickstart.zip"
    asked |= {metric: f"table {run} --metric {metric} --format json" for metric in METRICS}
    done = subprocess.run(
        [sys.executable, "-c", RUN, *asked.values()], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, done.stdout.split("<end>\n"), strict=False))


@pytest.mark.parametrize("added", ADDED)
def test_the_new_name_is_listed_as_one_of_rbenchs_own(printed: dict[str, str], added: str) -> None:
    kind, name = added.split("/")
    (line,) = [line for line in printed[kind].splitlines() if line.split()[:1] == [name]]
    assert "cannot be read" not in line and line.endswith("rbench")


@pytest.mark.parametrize("metric", METRICS)
def test_a_run_shows_it_at_once(printed: dict[str, str], metric: str) -> None:
    table = printed[metric]
    assert '"cells": [' in table and '"low": 0' in table.replace('quick_low"', 'low"')
