"""The commands in README: all parse, and the one that needs no data of the user's runs as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from tests import reference

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
LINES = [line.split(" #")[0].strip() for block in BLOCKS for line in block.splitlines()]
COMMANDS = [line.removeprefix("rbench ") for line in LINES if line.startswith("rbench ")]
ATTACKS = [line for line in COMMANDS if line.startswith("attack ")]


def parse(words: list[str]) -> None:
    """Parse a command line as the program does. Raises where a verb or an option is not there."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("rbench", words)
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATA", "MODELS"):
        (tmp_path / name).mkdir()
    parse(shlex.split(line))


def test_the_first_attack_runs_in_an_empty_folder_with_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    # What is added makes it quick, and changes nothing that a missing file could stop.
    quick = ["--set", "training={max_train: 16, max_validation: 8, epochs: 1}", "--backend", "torch", "--workers", "1"]
    result = CliRunner().invoke(app, [*shlex.split(ATTACKS[0]), *quick])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("example ") == 5
    assert not {"--data", "--models"} & set(shlex.split(ATTACKS[0]))


def test_the_table_of_a_run_on_real_data_is_that_of_the_committed_run() -> None:
    run = reference.run("table1-local")
    table = api.table(run, metric="asr", intervals=True, names=True)
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 9 and "\n".join(rows) in README
