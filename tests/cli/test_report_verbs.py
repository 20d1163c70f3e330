"""`rbench site`: what it hands over, and where it prints what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from tests.cli.conftest import Shell


def test_site_hands_over_every_option_and_says_what_is_left_out(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[Any] = []

    def site(*args: Any, **kwargs: Any) -> api.WrittenSite:
        calls.append((args, kwargs))
        return api.WrittenSite(Path("site/index.html"), ("old: made by another version",))

    monkeypatch.setattr(api, "site", site)
    options = ("--claims", "c", "--no-texts", "--include", tmp_path)
    result = shell("site", "one", "two", "--out", "site", *options)
    assert result.exit_code == 0, result.output
    assert calls == [
        (([Path("one"), Path("two")], Path("site")), {"claims": Path("c"), "texts": False, "include": (tmp_path,)})
    ]
    assert result.stdout == "site/index.html\n"
    assert "left out: old: made by another version" in result.stderr


def test_site_needs_a_folder_for_its_pages(shell: Shell) -> None:
    result = shell("site", "one")
    assert result.exit_code == 2 and "--out" in result.stderr


def test_an_error_is_one_line(shell: Shell, tmp_path: Path) -> None:
    result = shell("site", tmp_path / "none", "--out", tmp_path / "site")
    assert result.exit_code == 2 and result.stderr.splitlines()[1].startswith("error: ")
    assert "is not a RUN" in result.stderr
