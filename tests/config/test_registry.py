"""Names are file names: precedence of folders, names that cannot leave theirs, and what unknown names are told."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.config import registry
from rbench.config.registry import NAME, Registry, load_module, nearest_names, search_path, unknown_message
from rbench.errors import SuiteError


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An --include folder with a task, and an attack of each sort."""
    for kind in ("tasks", "attacks"):
        (tmp_path / kind).mkdir()
    (tmp_path / "tasks" / "movies.yaml").write_text("kind: single\n")
    (tmp_path / "attacks" / "soft.yaml").write_text("recipe: X\n")
    (tmp_path / "attacks" / "hard.py").write_text("TITLE = 'hard'\n")
    (tmp_path / "attacks" / "_helper.py").write_text("")
    (tmp_path / "attacks" / "notes.txt").write_text("")
    return tmp_path


def test_a_name_is_a_file_in_the_folder_of_its_kind(mine: Path) -> None:
    found = Registry([mine])
    assert found.path("tasks", "movies") == mine / "tasks" / "movies.yaml"
    assert found.path("attacks", "hard").suffix == ".py"
    assert {"soft", "hard"} <= set(found.names("attacks"))
    assert not {"_helper", "notes"} & set(found.names("attacks"))
    assert found.origin("tasks", "movies") == f"--include {mine}"


def test_python_files_are_attacks_only(mine: Path) -> None:
    (mine / "tasks" / "code.py").write_text("")
    assert "code" not in Registry([mine]).names("tasks")


def test_an_included_file_hides_one_further_back(mine: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "tasks").mkdir()
    (other / "tasks" / "movies.yaml").write_text("kind: nli\n")
    assert Registry([other, mine]).path("tasks", "movies").is_relative_to(other)
    assert Registry([mine, other]).path("tasks", "movies").is_relative_to(mine)


def test_rbench_has_files_of_its_own_without_any_include() -> None:
    assert "minilm" in Registry().names("encoders")
    assert Registry().origin("encoders", "minilm") == "rbench"


def test_in_a_wheel_suites_and_attacks_lie_in_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "rbench"
    for folder in ("bundled/suites", "encoders"):
        (package / folder).mkdir(parents=True)
    (package / "bundled" / "suites" / "demo.yaml").write_text("")
    (tmp_path / "suites").mkdir()  # another package's folder of that name in site-packages
    (tmp_path / "suites" / "foreign.yaml").write_text("")
    monkeypatch.setattr(registry, "_PACKAGE", package)
    assert Registry().names("suites") == ["demo"]
    assert Registry().names("attacks") == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "~x", "_x", ".x", "a\n", "ä", "a\0"]
)
def test_a_name_cannot_leave_its_folder(name: str, mine: Path) -> None:
    assert not NAME.fullmatch(name)
    (mine / "x.yaml").write_text("")
    with pytest.raises(SuiteError):
        Registry([mine]).path("tasks", name)


@given(st.text())
def test_any_text_is_a_file_of_the_registry_or_an_error(name: str) -> None:
    found = Registry()
    if name in found.names("tasks"):
        assert found.path("tasks", name).stem == name
    else:
        with pytest.raises(SuiteError):
            found.path("tasks", name)


def test_an_unknown_name_is_told_the_nearest_or_else_all(mine: Path) -> None:
    with pytest.raises(SuiteError, match=r'unknown task "movis"; did you mean movies'):
        Registry([mine]).path("tasks", "movis")
    with pytest.raises(SuiteError, match="--include"):
        Registry([mine]).path("tasks", "zzzz")
    assert unknown_message("fruit", "zzz", ["pear", "apple"]) == 'unknown fruit "zzz"; valid are: apple, pear'
    assert unknown_message("fruit", "zzz", []) == 'unknown fruit "zzz"; there are none'
    assert len(unknown_message("fruit", "z" * 10_000, ["apple"])) < 200


def test_nearest_is_blind_to_case() -> None:
    assert nearest_names("PWWS", ["pwws", "bae"]) == ["pwws"]
    assert nearest_names("textfoolerjin2019", ["TextFoolerJin2019"]) == ["TextFoolerJin2019"]


def test_a_name_twice_in_one_folder_is_an_error(mine: Path) -> None:
    (mine / "attacks" / "soft.py").write_text("")
    with pytest.raises(SuiteError) as caught:
        Registry([mine]).path("attacks", "soft")
    assert "soft.py and soft.yaml" in str(caught.value)


def test_an_include_must_be_a_folder_with_something_in_it(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(SuiteError) as caught:
            Registry([folder])
        assert str(folder) in str(caught.value)


class Offer:
    """Pretends that an installed package has an entry point."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.monkeypatch, self.folder = monkeypatch, folder
        monkeypatch.syspath_prepend(str(folder))

    def __call__(self, value: str) -> Registry:
        point = EntryPoint(name="plugin", value=value, group="rbench")
        self.monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "rbench" else [])
        return Registry()


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Offer:
    package = tmp_path / "rbench_plugin_for_tests"
    (package / "tasks").mkdir(parents=True)
    (package / "tasks" / "plugged.yaml").write_text("")
    (package / "__init__.py").write_text("import pathlib\nFOLDER = pathlib.Path(__file__).parent\n")
    return Offer(monkeypatch, tmp_path)


@pytest.mark.parametrize("value", ["rbench_plugin_for_tests", "rbench_plugin_for_tests:FOLDER"])
def test_an_installed_package_can_offer_a_folder(offer: Offer, value: str) -> None:
    found = offer(value)
    assert "plugged" in found.names("tasks")
    assert found.origin("tasks", "plugged") == "package plugin"


def test_a_broken_offer_names_the_package_and_the_remedy(offer: Offer) -> None:
    with pytest.raises(SuiteError) as caught:
        offer("rbench_no_such_module").names("tasks")
    assert "rbench_no_such_module" in str(caught.value)


def test_a_module_is_loaded_from_its_path_once_and_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "random.py"  # the standard library's name must not matter
    path.write_text("VALUE = []\n")
    assert load_module(path) is load_module(path)
    path.write_text("VALUE = [1]\n")
    assert load_module(path).VALUE == [1]


@pytest.mark.parametrize(
    ("source", "place"),
    [("x = 1\ndef f(:\n", "bad.py:2"), ("\n\nimport no_such_module_x\n", "bad.py:3")],
)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(tmp_path: Path, source: str, place: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source)
    with pytest.raises(SuiteError) as caught:
        load_module(path)
    assert place in str(caught.value)


def test_the_folders_of_a_kind_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks").mkdir()
    for name in ("one", "two", "three"):
        (tmp_path / "tasks" / f"{name}.yaml").write_text("")
    read, iterdir = [], Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: read.append(folder.name) or iterdir(folder))
    found = registry.Registry([tmp_path])
    for name in ("one", "two", "three", "mr"):
        assert found.path("tasks", name).stem == name
    assert {"one", "mr"} <= set(found.names("tasks")) and found.origin("tasks", "two").endswith(str(tmp_path))
    assert read == ["tasks", "tasks"], "a folder of one's own and rbench's, once each"


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
