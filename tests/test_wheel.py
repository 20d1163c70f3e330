"""The wheel carries the suites and attacks, and works from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip has the build back-end of pyproject.toml make."""
    out = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(out), versions=["standard"])))


def test_the_wheel_carries_every_named_file_and_no_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for kind in ("suites", "attacks"):
        files = [file for file in (ROOT / kind).iterdir() if file.suffix in (".yaml", ".py")]
        assert files
        assert {f"rbench/bundled/{kind}/{file.name}" for file in files} <= names
    paper = list((ROOT / "results" / "paper").glob("*.json"))
    assert paper
    assert {f"rbench/bundled/paper/{file.name}" for file in paper} <= names
    claims = list((ROOT / "results" / "paper" / "claims").glob("*.yaml"))
    assert claims and {file.stem for file in claims} <= {file.stem for file in paper}  # a table may state no comparison
    assert {f"rbench/bundled/paper/claims/{file.name}" for file in claims} <= names
    assert "rbench/references.bib" in names
    for kind in ("tasks", "encoders", "resources", "contrast", "mini/lexicon"):
        files = list((ROOT / "rbench" / kind).glob("*.yaml"))
        assert {f"rbench/{kind}/{file.name}" for file in files} <= names
    packaged = [path for path in (ROOT / "rbench" / "packaged").rglob("*") if path.is_file()]
    assert packaged
    assert {path.relative_to(ROOT).as_posix() for path in packaged} <= names
    assert {"rbench/py.typed", "rbench/execution/publish/card.md.jinja"} <= names
    assert not [name for name in names if name.startswith(("tests/", "results/", "benchmarks/"))]
    assert wheel.stat().st_size < 6_500_000  # most of it are the packaged weights


@pytest.mark.nightly
def test_the_wheel_works_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(site), str(wheel)]
    assert subprocess.run(install, capture_output=True).returncode == 0
    code = "import sys, rbench; from rbench.cli import main; print(rbench.__file__); sys.exit(main())"

    def rbench(*words: str) -> str:
        result = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=empty,
            env={**os.environ, "PYTHONPATH": str(site), "RBENCH_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert str(site) in result.stdout
        return result.stdout

    assert "quickstart" in rbench("list", "suites")
    assert "geometry" in rbench("list", "attacks")
    assert "attack/mini-bert-packaged/mini-sentiment/clean[epochs=4]/pwws" in rbench("plan", "quickstart")
    assert not list(empty.iterdir())
