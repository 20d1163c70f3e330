"""`rbench table --with-paper`: the option stands alone or names a printed table, wherever it stands in the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from tests.cli.conftest import Api, Shell


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, mock: Api) -> list[tuple[Any, ...]]:
    """The arguments of each call."""
    found: list[tuple[Any, ...]] = []

    def table(run: list[Path], *, with_paper: str, **options: Any) -> str:
        found.append(([str(path) for path in run], with_paper, options))
        return "a table"

    monkeypatch.setattr(api, "table", table)
    return found


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("RUN", "--with-paper"), "suite"),
        (("--with-paper", "RUN"), "suite"),
        (("RUN", "--with-paper", "--intervals"), "suite"),
        (("RUN", "--with-paper", "adcl-table1"), "adcl-table1"),
        (("--with-paper", "adcl-table1", "RUN"), "adcl-table1"),
        (("--with-paper=adcl-table1", "RUN"), "adcl-table1"),
    ],
)
def test_with_paper_may_stand_alone(
    words: tuple[str, ...], name: str, shell: Shell, calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (run := tmp_path / "run").mkdir()
    result = shell("table", *(str(run) if word == "RUN" else word for word in words))
    assert result.exit_code == 0 and result.stdout == "a table\n"
    ((runs, asked, options),) = calls
    assert (runs, asked) == ([str(run)], name)
    assert options["metric"] is None and options["intervals"] is ("--intervals" in words)


@pytest.mark.parametrize("option", [("--bold", "best"), ("--pick", "validation"), ("--aggregation", "mean")])
def test_an_option_that_would_do_nothing_is_refused(option: tuple[str, str], shell: Shell, tmp_path: Path) -> None:
    result = shell("table", str(tmp_path), "--with-paper", *option)
    assert result.exit_code == 2
    assert f"{option[0]} does not go with --with-paper" in result.stderr
