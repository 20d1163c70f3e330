"""The first line of each verb: what is being done, on standard error, before anything heavy is imported.

One new process imports the command line, which prints nothing; a fork of it runs each verb.
"""

from __future__ import annotations

import json
import subprocess
import sys

import typer

from rbench.cli import app
from tests.cli.conftest import Api, Shell

FIRST = {
    "run quickstart": "Planning quickstart",
    "eval mini-bert": "Evaluating mini-bert",
    "plan quickstart": "Planning quickstart",
    "status .": "Reading .",
    "table .": "Reading .",
    "report .": "Reading .",
    "site . --out site": "Reading .",
    "figure . --kind queries": "Reading .",
    "baseline . --out b.json": "Making a baseline in b.json",
    "check . --baseline b.json": "Checking . against b.json",
    "compare . --between a b": "Comparing cells of .",
    "claims .": "Judging claims",
    "judge export . --out sheets": "Drawing texts of .",
    "judge import . README.md": "Reading answers for .",
    "judge proxy . --by chat": "Asking chat about the successes of .",
    "judge best .": "Checking what . found",
    "train simcse-mini": "Preparing to train simcse-mini",
    "attack -e mini-bert -t mini-nli -a pwws": "Preparing to attack mini-bert on mini-nli with pwws",
    "attack --out set --run .": "Building an adversarial set in set",
    "list": "Listing names that suites and commands know",
    "status --environment": "Looking for resources, data and encoders",
    "verify .": "Verifying .",
    "pack .": "Packing .",
    "pack run.zip --unpack": "Unpacking run.zip",
    "pack . other --out new": "Packing ., other",
    "cache": "Listing the cache",
    "cache --prune": "Looking for what may go from the cache",
    "cache --verify": "Reading all weights in the cache",
}
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


def verbs(command: object, above: tuple[str, ...] = ()) -> list[str]:
    """The names of all commands below `command`, those of groups with the group's."""
    below = getattr(command, "commands", None)
    if below is None:
        return [" ".join(above)]
    return [verb for name, one in below.items() for verb in verbs(one, (*above, name))]


def test_every_verb_is_among_those_below() -> None:
    every = verbs(typer.main.get_command(app))
    assert "judge proxy" in every
    assert [verb for verb in every if not any(f"{words} ".startswith(f"{verb} ") for words in FIRST)] == []


def test_the_first_line_comes_before_anything_heavy() -> None:
    command = [sys.executable, "-c", SCRIPT, json.dumps(list(FIRST))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"stderr: {line} []" for line in FIRST.values()]


def test_quiet_is_quiet(shell: Shell, mock: Api) -> None:
    mock.answers["attack"] = []
    result = shell("attack", "-e", "minilm", "-t", "mr", "-a", "pwws", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
