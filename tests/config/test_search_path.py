"""Tests the search path: flags come first, then an environment variable written like PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rbench.config.search_path import search_path


def test_flags_come_before_the_variable_each_folder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_TEST", os.pathsep.join(["/c", "/a", "/d"]))
    assert search_path([Path("/a"), Path("/b")], "RBENCH_TEST") == tuple(map(Path, ("/a", "/b", "/c", "/d")))


@pytest.mark.parametrize("value", [None, "", os.pathsep, f"{os.pathsep} {os.pathsep}"])
def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("RBENCH_TEST", raising=False)
    if value is not None:
        monkeypatch.setenv("RBENCH_TEST", value)
    assert search_path([], "RBENCH_TEST") == ()


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("RBENCH_TEST", "~/data")
    assert search_path([], "RBENCH_TEST") == (Path("/home/someone/data"),)
