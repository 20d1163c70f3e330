"""Options as mteb and lm-eval call them do what ours do, and help shows one name of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rbench import api
from rbench.cli import app
from rbench.errors import PlanError
from tests.cli.conftest import Api, Shell
from tests.victims.made import write_classifier


class Asked(Exception):
    """Ends a verb once what it asks of the API is known."""


def evaluated(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what `rbench eval` asks for."""
    got: dict[str, Any] = {}

    def evaluate(model: list[str], **how: Any) -> None:
        got.update(how, model=model)
        raise Asked

    monkeypatch.setattr(api, "evaluate", evaluate)
    ended = CliRunner().invoke(app, ["eval", *words, "--quiet"])
    assert isinstance(ended.exception, Asked), ended.output
    return {name: got[name] for name in ("model", "task", "n")} | {"out": got["options"].out}


OURS = ["minilm", "bge", "--task", "mr", "--task", "my.csv", "-n", "20", "--out", "RUN"]


@pytest.mark.parametrize(
    "words",
    [
        "--model minilm -m bge --tasks mr,my.csv --limit 20 --output-path RUN",
        "--model=minilm --model=bge --tasks=mr,my.csv --limit=20 --output_path=RUN",
        "minilm -m bge --tasks mr -t my.csv --limit 20 --output_path RUN",
    ],
)
def test_eval_reads_them_as_its_own(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert evaluated(words.split(), monkeypatch) == evaluated(OURS, monkeypatch)


def test_run_reads_the_folder(shell: Shell, mock: Api) -> None:
    shell("run", "demo", "--output-path", "RUN", "--limit", "7")
    assert (mock.options.out, mock.options.limit) == (Path("RUN"), 7)


def test_attack_tells_encoders_from_classifiers(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["attack"] = lambda *_, **__: iter(())
    write_classifier(tmp_path / "shipped")
    shell("attack", "-m", "minilm", "--tasks", "mr", "-a", "pwws", "--limit", "2")
    shell("attack", "-m", str(tmp_path / "shipped"), "--tasks", "mini-sentiment", "-a", "pwws")
    (_, first, one), (_, second, other) = mock.calls
    assert first[:4] == ("minilm", "mr", "pwws", 2) and one["classifier"] is None
    assert second[0] is None and other["classifier"] == {"model": str(tmp_path / "shipped")}


def test_two_tasks_of_a_verb_that_has_one_are_refused(shell: Shell) -> None:
    ended = shell("attack", "-m", "minilm", "--tasks", "mr,sst2", "-a", "pwws")
    assert ended.exit_code == 2 and "names 2 tasks" in ended.output
    ended = shell("attack", "-m", "minilm", "-e", "minilm", "--tasks", "mr", "-a", "pwws")
    assert ended.exit_code == 2 and "--model excludes" in ended.output


@pytest.mark.parametrize("verb", ["eval", "attack", "run"])
def test_help_shows_one_name_of_each(verb: str, shell: Shell) -> None:
    shown = shell(verb, "--help").output
    assert not [name for name in ("--model ", "--tasks", "--output") if name in shown]


def test_verbs_without_such_an_option_do_not_know_it(shell: Shell) -> None:
    assert "No such option: --tasks" in shell("table", "RUN", "--tasks", "mr").output


def test_python_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from rbench.api import call_options, evaluating

    assert call_options.resolve_options(None, {"output_path": "RUN"}).out == Path("RUN")
    with pytest.raises(PlanError):
        call_options.resolve_options(None, {"limit": 0})
    got: dict[str, Any] = {}

    def given(n: int | None, attacks: str | None, minutes: float | None) -> None:
        got["n"] = n
        raise Asked

    monkeypatch.setattr(evaluating.choosing, "chosen_by_user", given)
    with pytest.raises(Asked):
        api.evaluate("minilm", tasks=["mr"], limit=20)
    assert got["n"] == 20


def test_a_value_that_is_missing_is_told_by_the_verb() -> None:
    assert "--task" in CliRunner().invoke(app, ["attack", "--tasks"]).output
