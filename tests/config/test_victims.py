"""`victims:` of a suite: files, folders, hub ids, functions and endpoints, each error with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import LoadedSuite, load
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.schema import victim_name
from tests.refusals import unknown

REST = "tasks: [mini-sentiment]\nattacks: [{attack}]\nresources: mini\n"


def loaded(folder: Path, victims: str, attack: str = "pwws", rest: str = "") -> LoadedSuite:
    path = folder / "s.yaml"
    path.write_text(f"victims: {victims}\n{REST.format(attack=attack)}{rest}", encoding="utf-8")
    return load(path, registry=Registry([folder]))


def wrong(folder: Path, victims: str, attack: str = "pwws", rest: str = "") -> str:
    with pytest.raises(SuiteError) as caught:
        loaded(folder, victims, attack, rest)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "victims").mkdir()
    (tmp_path / "victims" / "ours.yaml").write_text("model: ./there\ntitle: Ours\nmax_length: 99\n")
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "config.json").write_text("{}")
    return tmp_path


def test_each_spelling_has_a_name_and_a_place(folder: Path) -> None:
    (folder / "more.yaml").write_text("function: my.code:classify\nversion: '3'\n")
    entries = (
        "[ours, ./shipped, shipped/, owner/model, more.yaml, {model: owner/other, name: mine, labels: {0: negative}}, "
        "{endpoint: {url: 'http://host.example/v1'}, version: a}]"
    )
    found = loaded(folder, entries.replace("shipped/, ", "")).victims
    assert list(found) == ["ours", "shipped", "model", "more", "mine", "host.example"]
    assert found["ours"].model == str(folder / "victims" / "there") and found["ours"].max_length == 99
    assert found["shipped"].model == str(folder / "shipped") and found["model"].model == "owner/model"
    assert found["more"].function == "my.code:classify" and found["mine"].labels == {"0": "negative"}
    assert loaded(folder, "shipped").victims["shipped"].model == str(folder / "shipped")
    assert loaded(folder, "shipped").suite.victims == ("shipped",) == loaded(folder, "shipped").suite.lineup


def test_equal_names_get_one_more_part(folder: Path) -> None:
    assert list(loaded(folder, "[a/model, b/model, c/other]").victims) == ["a-model", "b-model", "other"]
    assert list(loaded(folder, "[a/mini-bert]", rest="encoders: [mini-bert]\n").victims) == ["a-mini-bert"]


def test_names_are_safe_as_file_names() -> None:
    assert victim_name("../../etc/pass wd") == "pass-wd" and victim_name("..") == "classifier"
    assert victim_name({"function": "a.b:c"}) == "c" and victim_name({"function": "a.b:c"}, longer=True) == "a.b-c"


@pytest.mark.parametrize(
    ("victims", "place", "message"),
    [
        ("my.code:classify", "s.yaml:1:10", "is a Python function: write {function: my.code:classify, version: ...}"),
        ("code/my.py:classify", "s.yaml:1:10", "write my:classify, without .py, and run rbench in code"),
        ("https://host", "s.yaml:1:10", "is an address"),
        ("[{model: a/b, function: m:f}]", "s.yaml:1:11", "exactly one of `model`, `function` and `endpoint`"),
        ("[{name: none}]", "s.yaml:1:11", "exactly one of `model`, `function` and `endpoint`"),
        ("[{function: m:f}]", "s.yaml:1:11", "write a `version`"),
        ("[{model: a/b, labls: {}}]", "s.yaml:1:24", unknown("key", "labls", "labels")),
        ("[{model: a/b, name: a/b}]", "s.yaml:1:30", "a name has letters, digits"),
        ("[{model: a/b, name: x}, {model: c/d, name: x}]", "s.yaml:1:34", "`victims` lists x twice"),
        ("[missing.yaml]", "s.yaml:1:11", "there is no victim's file missing.yaml"),
        ("[3]", "s.yaml:1:11", "expected text"),
        ("[]", "s.yaml:1:1", "`encoders` is missing"),
    ],
)
def test_mistakes_have_a_place_and_a_remedy(folder: Path, victims: str, place: str, message: str) -> None:
    said = wrong(folder, victims)
    assert any(line.startswith(f"{place}: ") and message in line for line in said.splitlines()), said


@pytest.mark.parametrize("attack", ["geometry", "A2TYoo2021"])
def test_attacks_that_need_gradients_are_refused_on_answers_alone(folder: Path, attack: str) -> None:
    said = wrong(folder, "[{function: m:f, version: a}, ./shipped]", attack)
    assert f"s.yaml:3:11: attack {attack} needs the gradients of a network, and f is asked for answers alone" in said
    assert loaded(folder, "[./shipped]", attack).attacks


def test_attacks_without_gradients_take_any_classifier(folder: Path) -> None:
    for attack in ("pwws", "textfooler", "bae", "bertattack", "textbugger", "random", "DeepWordBugGao2018"):
        assert loaded(folder, "[{function: m:f, version: a}]", attack).attacks


def test_what_classifiers_cannot_do_is_said(folder: Path) -> None:
    said = wrong(folder, "[./shipped]", rest="evaluate: [space]\n")
    assert "s.yaml:5:12: the measure space reads the vectors of encoders" in said
    said = wrong(folder, "[./shipped]", rest="evaluate: [mini-sts]\n")
    assert "s.yaml:5:12: mini-sts scores encoders, and this suite has none" in said
    path = folder / "t.yaml"
    path.write_text("victims: [./shipped]\ntasks: [mini-sts]\nattacks: [pwws]\nresources: mini\n")
    with pytest.raises(SuiteError) as caught:
        load(path, registry=Registry())
    assert "t.yaml:2:9: mini-sts" in str(caught.value)
