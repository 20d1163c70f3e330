"""The boundary between rbench and what users write: what fails there is told with its file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from rbench.config.registry import load_module
from rbench.errors import ResourceError, StoreError
from rbench.system.own_code import error_message, failing_in, place_of_error


def raised(function: object, *args: object) -> Exception:
    with pytest.raises(Exception) as caught:
        function(*args)  # type: ignore[operator]
    return caught.value


def test_the_place_is_the_last_line_of_the_users_own_file(tmp_path: Path) -> None:
    """Also where a library raised it, below the user's line."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import json\n\ndef parse(text):\n    return inner(text)\n\ndef inner(text):\n    return json.loads(text)\n"
    )
    mine = load_module(file)
    assert place_of_error(raised(mine.parse, "{")) == f"{file}:7"
    assert place_of_error(raised(json.loads, "{")) is None, "of a library alone, nothing is the user's"
    assert place_of_error(raised(load_module, tmp_path / "none.py")) is None


def test_a_place_below_the_current_folder_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def f():\n    return 1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert place_of_error(raised(load_module(tmp_path / "mine.py").f)) == "mine.py:2"


class Options(BaseModel):
    steps: list[int] = []


def test_errors_of_libraries_are_told_with_the_file_and_the_line_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    with pytest.raises(ResourceError) as caught, failing_in(file):
        json.loads('{\n  "a": 1,\n}')
    assert str(caught.value).startswith(f"{file}:3: ")
    with pytest.raises(StoreError) as told, failing_in(f"{file}:7", StoreError, "Write it again"):
        Options.model_validate({"steps": [1, "x"]})
    assert str(told.value).startswith(f"{file}:7: `steps.1`: Input should be a valid integer")
    assert str(told.value).endswith(". Write it again")
    assert isinstance(told.value.__cause__, ValueError)


def test_errors_that_have_their_place_pass(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), failing_in("x.csv"):
        (tmp_path / "none").open()
    with pytest.raises(StoreError) as passed, failing_in("x.csv"):
        raise StoreError("a.json:3: wrong")
    assert str(passed.value) == "a.json:3: wrong"
    with pytest.raises(KeyboardInterrupt), failing_in("x.csv"):
        raise KeyboardInterrupt


def test_text_that_is_not_utf_8_says_how_it_is_mended() -> None:
    assert error_message(raised(b"a\xff".decode)) == "not UTF-8 (invalid start byte at byte 1); save it as UTF-8"
