"""The first line of each verb: what is being done, on standard error, before anything heavy is imported.

One new process imports the command line, which prints nothing; a fork of it runs the example of each verb's help.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from rbench.cli import app
from tests.cli.conftest import Api, Shell

EXAMPLE = re.compile(r"\[bold\]rbench (.*?)\[/bold\]")
HEAVY = (
    "torch",
    "transformers",
    "textattack",
    "datasets",
    "pandas",
    "numpy",
    "scipy",
    "sklearn",
    "statsmodels",
    "nltk",
    "matplotlib",
)
SCRIPT = f"""
import json, os, sys

class First:
    \"\"\"Ends the process with what is printed first, and with the heavy modules that are there by then.\"\"\"

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        os.write(1, f"{{self.stream}}: {{text}} {{sorted(set({HEAVY!r}) & set(sys.modules))}}\\n".encode())
        os._exit(0)

sys.stdout, sys.stderr = First("stdout"), First("stderr")
from rbench.cli import main
for words in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        sys.argv[1:] = words.split()
        try:
            main()
        finally:
            os._exit(1)
    os.waitpid(child, 0)
os._exit(0)
"""


def examples(command: Any) -> Iterator[str]:
    """The first example in the help of each command below `command`, also of those in groups."""
    below = getattr(command, "commands", None)
    if below is None:
        yield EXAMPLE.findall(command.epilog)[0].replace("\\[", "[")
    else:
        for one in below.values():
            yield from examples(one)


def test_the_first_line_comes_before_anything_heavy(tmp_path: Path) -> None:
    every = [*examples(typer.main.get_command(app))]
    for folder in ("~/data", "~/models", "mine"):  # those that examples name must be there
        (tmp_path / folder).mkdir(parents=True)
    command = [sys.executable, "-c", SCRIPT, json.dumps(every)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()
    said = dict(zip(every, lines, strict=True))
    wrong = {words: line for words, line in said.items() if not re.fullmatch(r"stderr: [A-Z].+ \[\]", line)}
    assert wrong == {}
    assert any(line == "stderr: Planning table1 []" for line in lines), "it says what it does with what it was given"


def test_quiet_is_quiet(shell: Shell, mock: Api) -> None:
    mock.answers["attack"] = []
    result = shell("attack", "-e", "minilm", "-t", "mr", "-a", "pwws", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
