"""Tests modules that suites name: how they enter keys, and that only the module that was found is opened."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import pytest

from rbench.config import code, registry
from rbench.config.registry import Registry, load_module
from rbench.errors import JobError, SuiteError

SOURCE = """from rbench.schema import Strict
from rbench.train.objectives import TrainingObjective

class Options(Strict):
    x: int = 1

class Own(TrainingObjective[Options]):
    def build(self, options, spec, base, resources): ...
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An --include folder with an objective, one that hides rbench's, and a private module."""
    (tmp_path / "objectives").mkdir()
    for name in ("own", "simcse", "_helper"):
        (tmp_path / "objectives" / f"{name}.py").write_text(SOURCE)
    return tmp_path


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_source_of_a_users_module_stands_for_it_and_a_version_for_one_of_rbench(mine: Path) -> None:
    found = Registry([mine])
    assert code.find("objectives", "own", found).source == sha(mine / "objectives" / "own.py")
    assert code.find("objectives", "own", found).versions == {}
    bundled = code.find("objectives", "mlm", found)
    assert bundled.source == "" and bundled.versions["objectives.mlm"] >= 1


def test_a_users_module_that_hides_one_of_rbench_counts_as_the_users(mine: Path) -> None:
    hidden = code.find("objectives", "simcse", Registry([mine]))
    assert not hidden.bundled and hidden.source == sha(hidden.path) and hidden.open().Options().x == 1
    assert code.find("objectives", "simcse").bundled


def test_a_users_module_may_state_a_version_and_uses_code_of_rbench(mine: Path) -> None:
    (mine / "objectives" / "own.py").write_text(f"VERSION = 3\nfrom rbench.train import contrastive_losses\n{SOURCE}")
    found = code.find("objectives", "own", Registry([mine])).versions
    assert found.keys() == {"objectives.own", "train.contrastive_losses"} and found["objectives.own"] == 3


def test_private_modules_and_packages_are_no_names(mine: Path) -> None:
    names = Registry([mine]).names("objectives")
    assert "own" in names and "_helper" not in names and "__init__" not in names
    assert {"_tuning", "_data", "__init__"}.isdisjoint(Registry().names("finetune"))


def test_a_bundled_module_is_the_one_that_import_gives() -> None:
    import rbench.train.objectives.simcse as simcse

    assert type(code.find("objectives", "simcse").open()) is simcse.SimcseTraining


def test_a_file_that_changed_since_it_was_found_is_not_opened(mine: Path) -> None:
    found = code.find("objectives", "own", Registry([mine]))
    found.open()
    found.path.write_text(SOURCE.replace("= 1", "= 2"))
    with pytest.raises(JobError) as caught:
        found.open()
    assert found.digest[:16] in str(caught.value) and sha(found.path)[:16] in str(caught.value)
    assert re.search(r"own\.py changed since the run was planned", str(caught.value))


def test_what_runs_is_the_source_that_was_compared(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file changes between the comparison and the import."""
    found = code.find("objectives", "own", Registry([mine]))
    found.path.write_text(SOURCE.replace("= 1", "= 2"))
    monkeypatch.setattr(code, "read_source", lambda path: SOURCE.encode())
    assert found.open().Options().x == 1


def test_a_file_that_is_gone_is_told(mine: Path) -> None:
    found = code.find("objectives", "own", Registry([mine]))
    found.path.unlink()
    with pytest.raises(FileNotFoundError):
        found.open()


def test_what_runs_is_the_source_and_no_compiled_copy_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python goes by a file's time, in seconds, and its size: an edit may change neither."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "quick.py"
    for value in (1, 2):
        path.write_text(f"VALUE = {value}\n")
        os.utime(path, (1_000_000_000, 1_000_000_000))
        assert value == load_module(path).VALUE
    assert not (tmp_path / "__pycache__").exists(), "and a user's folder is left as it is"


def test_a_module_that_exits_is_a_module_that_cannot_be_imported(tmp_path: Path) -> None:
    path = tmp_path / "bye.py"
    path.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(SuiteError) as caught:
        load_module(path)
    assert "bye.py:2" in str(caught.value)


def test_a_new_kind_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.KINDS, "measures", registry.KindInfo("measure", (".py",)))
    (tmp_path / "measures").mkdir()
    (tmp_path / "measures" / "mine.py").write_text("")
    found = Registry([tmp_path])
    assert found.names("measures") == ["mine"] and found.origin("measures", "mine") == f"--include {tmp_path}"
    with pytest.raises(SuiteError):
        found.path("measures", "mime")


MEASURE = """from rbench.measures import Measure
from rbench.schema import Meaning


class Mine(Measure):
    reads = "victims"
    numbers = {"own": Meaning("Mine", "mine", "lowest")}

    def cells(self, results): ...
"""


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"lowest"', '"low"', ":7"),
        ('Meaning("Mine", "mine", "lowest")', '"lowest"', ":5:1: `numbers`['own'] of Mine: Input should be"),
        ('"victims"', '"victim"', ":5:1: `reads`"),
        ("numbers =", 'resources = ("synonym",)\n    numbers =', ":5:1: `resources`[0]"),
        ("self, results", "self", ":9:1"),
    ],
)
def test_what_a_measure_says_of_itself_is_checked(old: str, new: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "measures").mkdir()
    path = tmp_path / "measures" / "mine.py"
    path.write_text(MEASURE)
    assert code.open_checked(code.find("measures", "mine", Registry([tmp_path]))).name == "mine"
    path.write_text(MEASURE.replace(old, new, 1))
    with pytest.raises(SuiteError) as refused:
        code.open_checked(code.find("measures", "mine", Registry([tmp_path])))
    assert str(refused.value).startswith(f"{path}{place}")


@pytest.mark.parametrize("name", Registry().names("measures"))
def test_rbenchs_own_measures_say_what_can_be(name: str) -> None:
    code.open_checked(code.find("measures", name))
