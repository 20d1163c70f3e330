"""Tests that the examples in docs/guide-train-an-encoder.md work as printed."""

from __future__ import annotations

import functools
import importlib
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rbench import config
from rbench.cli import app
from rbench.config.registry import Registry
from rbench.plan.prepare import Options
from rbench.schema import EncoderSpec, TrainSpec
from tests.train.bases import TEXTS, masked_bert

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide-train-an-encoder.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with the guide's corpora, and a small encoder in mini-bert's place to keep tests short."""
    for name in ("my.txt", "films.txt"):
        (tmp_path / name).write_text("\n".join(TEXTS) + "\n")
    masked_bert(tmp_path / "small", dropout=0.0)
    folder = tmp_path / "DIR" / "encoders"
    folder.mkdir(parents=True)
    for name in ("mini-bert", "simcse-mini"):
        (folder / f"{name}.yaml").write_text(f"base: {tmp_path / 'small'}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RBENCH_INCLUDE", "DIR")
    return tmp_path


def test_its_encoder_file_has_every_key_of_train_that_it_should(place: Path) -> None:
    text, *_ = blocks("yaml")
    name = re.match(r"# DIR/(encoders/\S+\.yaml)\n", text)
    assert name is not None
    (place / "DIR" / name.group(1)).write_text(text)
    spec = config.load_encoder("simcse-films", Registry([Path("DIR")]))
    assert spec == EncoderSpec.model_validate(yaml.safe_load(text)) and spec.train is not None
    shown = set(yaml.safe_load(text)["train"]) | {"epochs"}
    assert set(TrainSpec.model_fields) - shown <= {
        "select_by",
        "select_every",
        "select_split",
        "by_task",
        "patience",
        "gradient_accumulation",
        "precision",
    }
    result = CliRunner().invoke(app, ["train", "simcse-films", "--include", "DIR", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "simcse-films: loss" in result.stdout


def test_its_encoder_of_fragments_is_made_of_all_of_them(place: Path) -> None:
    _, *made, _ = blocks("yaml")
    for text in made:
        name = re.match(r"# DIR/(encoders/\S+\.yaml)\n", text)
        assert name is not None
        (place / "DIR" / name.group(1)).write_text(text)
    spec = config.load_encoder("uscal-films", Registry([Path("DIR")]))
    assert spec.train is not None and (spec.base, spec.pooling, spec.licence) == ("mini-bert", "cls", "Apache-2.0")
    assert (spec.train.objective, spec.train.data, spec.train.steps) == ("uscal", "films.txt", 20)
    assert spec.train.options == {"dropout": 0.1} and spec.title == "USCAL on film reviews"
    for fragment in set(re.findall(r"`(_[a-z0-9-]+)`", GUIDE)):
        assert fragment in Registry().fragments("encoders")


@pytest.mark.parametrize("name", ["my-retrofit", "my-distilled"])
@pytest.mark.nightly
def test_its_encoders_that_see_past_substitutions_are_made(name: str, place: Path) -> None:
    text = next(text for text in blocks("yaml") if text.startswith(f"# DIR/encoders/{name}.yaml"))
    (place / "DIR/encoders" / f"{name}.yaml").write_text(text.replace("steps: 100", "steps: 4"))
    result = CliRunner().invoke(app, ["train", name, "--include", "DIR", "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert {"my-retrofit": "words_moved", "my-distilled": "distance_before"}[name] in result.stdout


def test_its_suite_has_the_encoders_that_it_names(tmp_path: Path) -> None:
    *_, text = blocks("yaml")
    (tmp_path / "temperatures.yaml").write_text(text)
    loaded = config.load(tmp_path / "temperatures.yaml", registry=Registry())
    assert loaded.suite.encoders == (
        "simcse-mini",
        "simcse-mini[temperature=0.1]",
        "simcse-mini[select_by=mini-sts,steps=100,temperature=0.1]",
    )
    assert all(loaded.encoders[label].train is not None for label in loaded.suite.encoders)


def test_its_commands_work(place: Path) -> None:
    from sentence_transformers import SentenceTransformer

    commands = [shlex.split(line.split("#")[0]) for block in blocks("bash") for line in block.splitlines()]
    assert len(commands) == 5 and all(command[0] == "rbench" for command in commands)
    for _, *words in commands:
        if words == ["train", "simcse-mini"]:  # a name that is replaced here; exported below
            continue
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    for folder in ("my-encoder", "my-simcse"):
        assert SentenceTransformer(folder, device="cpu").encode(["a film"]).shape == (1, 8)


def test_its_python_works(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.import_module("rbench.api.training"), "Options", functools.partial(Options, include=(Path("DIR"),))
    )
    (code,) = [block for block in blocks("python") if "api" in block]
    exec(code, {})
    assert (place / "my-mini-bert" / "modules.json").is_file()


def test_its_names_are_those_of_files() -> None:
    names = Registry().names("encoders")
    for name in (
        "simcse-mini",
        "robustsentembed-bert-base",
        "uscal-minilm",
        "simcse-bert-base",
        "simcse-bert-base-ours",
    ):
        assert name in GUIDE and name in names
    for name in ("wiki1m", "corpus", "mini-corpus"):
        assert f"- `{name}`:" in GUIDE and name in Registry().names("tasks")
