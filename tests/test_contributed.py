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


def rbench_of(copy: Path, *words: str | Path) -> str:
    """Run the copy's command line, and return what it prints."""
    code = "import sys; from rbench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "kind", ["measures", "metrics", "noise", "attacks", "objectives", "finetune", "figures", "edits"]
)
def test_the_new_name_is_listed_as_one_of_rbenchs_own(copy: Path, kind: str) -> None:
    lines = {line.split()[0]: line for line in rbench_of(copy, "list", kind).splitlines() if line.strip()}
    for added in (name for name in ADDED if name.startswith(kind)):
        line = lines[added.partition("/")[2]]
        assert "cannot be read" not in line and line.endswith("rbench")


@pytest.mark.parametrize("metric", ["fast", "shortest"])
def test_a_run_shows_it_at_once(copy: Path, metric: str) -> None:
    run = ROOT / "results" / "quickstart.zip"
    table = rbench_of(copy, "table", run, "--metric", metric, "--format", "json")
    assert '"cells": [' in table and '"low": 0' in table.replace('quick_low"', 'low"')
