"""What CONTRIBUTING's table says suffices to add a thing: in a copy of the repository, no other test is touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (?P<thing>[^|]+) \| `(?P<path>[^`]+)`", re.MULTILINE)
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "results", "site", "dist")

ATTACK = re.findall(
    r"```python\n# DIR/attacks/\w+\.py\n(.*?)```", (ROOT / "docs/guide-add-an-attack.md").read_text(), re.S
)
VERB = '''

@app.command(rich_help_panel=KEEP, epilog="Example: [bold]rbench tally results/runs/quickstart[/bold]")
@verb("Counting the jobs of {run}")
def tally(run: Path = a.RUN) -> None:
    """Count the jobs of a run."""
    say(f"{rbench.api.tally(run)} jobs")
'''
TALLY = '''"""Counts the jobs of a RUN (`rbench tally`)."""

from __future__ import annotations

from pathlib import Path

from rbench.store.runs import RunStore


def tally(run: Path | str) -> int:
    """Return how many jobs of a RUN have a record."""
    return len(list(RunStore(run).records()))
'''


def paths() -> dict[str, str]:
    """By kind of thing: where its file lies, as the table has it."""
    return {row["thing"]: row["path"] for row in ROW.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository, in which results are those of the repository itself."""
    made = shutil.copytree(ROOT, tmp_path / "rbench", ignore=LEFT_OUT)
    (made / "results").symlink_to(ROOT / "results")
    return made


def python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy, with the package and the tests of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def check(copy: Path, *tests: str) -> None:
    ended = python(copy, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-m", "not nightly", "--tb=short", *tests)
    assert ended.returncode == 0, ended.stdout[-3000:]


def replace(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1, (file, before)
    file.write_text(text.replace(before, after), encoding="utf-8")


def test_the_table_names_folders_that_there_are() -> None:
    found = paths()
    assert {"a task", "a metric", "a kind of noise", "a measure", "a verb"} < found.keys()
    assert [path for path in found.values() if not (ROOT / path).parent.is_dir()] == []


@pytest.mark.nightly
def test_an_attack_needs_its_file_and_a_golden_value(copy: Path) -> None:
    own = copy / paths()["an attack with a search of its own"].replace("NAME", "synonyms")
    own.write_text(ATTACK[0].replace("\n\n\nclass", "\n\nVERSION = 1\n\n\nclass"))
    recipe = copy / paths()["an attack that is a TextAttack recipe"].replace("NAME", "textfooler-near")
    shutil.copy(copy / "attacks/textfooler.yaml", recipe)
    replace(recipe, "name: textfooler\n", "name: textfooler-near\n")
    replace(recipe, "min_cos_sim: 0.5\n", "min_cos_sim: 0.7  # TextAttack: 0.5\n")
    made = python(copy, "-m", "tests.golden.make", "attacks/synonyms", "attacks/textfooler-near")
    assert made.returncode == 0, made.stdout + made.stderr
    check(
        copy, "tests/test_attacks_files.py", "tests/golden/test_values.py", "-k", "files or every or synonyms or near"
    )
    check(copy, "tests/config/test_bundled.py", "tests/config/test_versions.py", "tests/config/test_references.py")
    check(
        copy, "tests/cli/test_verbs.py", "tests/recipes/test_by_name.py", "tests/test_layers.py", "tests/test_notes.py"
    )


@pytest.mark.nightly
def test_a_verb_needs_its_function_and_one_of_the_api(copy: Path) -> None:
    file = copy / paths()["a verb"].replace("PART", "keeping")
    file.write_text(file.read_text() + VERB)
    (copy / "rbench/api/tallying.py").write_text(TALLY)
    replace(copy / "rbench/cli/__init__.py", '"keeping_verbs": (', '"keeping_verbs": ("tally", ')
    names = copy / "rbench/api/__init__.py"
    replace(
        names, "    from rbench.api.training", "    from rbench.api.tallying import tally\n    from rbench.api.training"
    )
    replace(names, '    "api.training"', '    "api.tallying": "tally",\n    "api.training"')
    check(copy, "tests/cli/test_first_line.py", "tests/cli/test_arguments.py", "tests/cli/test_verbs.py")
    check(copy, "tests/test_layers.py", "-k", "not run_of_one")
