from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rbench.encoders.locate import find_transformer_folder, hash_model, locate
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from tests.refusals import refusal


def encoder(**more: Any) -> EncoderSpec:
    return EncoderSpec(**{"name": "toy", "base": "someone/toy"} | more)


def folder(path: Path, **files: str) -> Path:
    """A folder that looks like a model."""
    path.mkdir(parents=True)
    for name, content in ({"config.json": "{}", "model.safetensors": "w"} | files).items():
        (path / name).write_text(content)
    return path


def test_own_name_goes_before_base_and_the_first_root_before_both(tmp_path: Path) -> None:
    by_base = folder(tmp_path / "one" / "someone" / "toy")
    by_name = folder(tmp_path / "two" / "toy")
    both = folder(tmp_path / "three" / "someone" / "toy")
    named = folder(tmp_path / "three" / "toy")
    assert locate(encoder(), [tmp_path / "one", tmp_path / "two"]).where == str(by_base)
    assert locate(encoder(), [tmp_path / "two", tmp_path / "one"]).where == str(by_name)
    found = locate(encoder(), [tmp_path / "none", tmp_path / "three"])
    assert found.where == str(named) != str(both)
    assert found.fingerprint == hash_model(named)


def test_a_base_may_be_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = folder(tmp_path / "mine" / "model")
    assert locate(encoder(base=str(where))).where == str(where)
    monkeypatch.chdir(tmp_path)
    assert locate(encoder(base="mine/model")).where == "mine/model"
    with refusal(ResourceError, "other/model"):
        locate(encoder(base="./other/model"))


@pytest.mark.parametrize("base", ["../outside", "a/../../outside", "..", "a\\..\\outside"])
def test_a_name_cannot_leave_the_models_folder(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "outside")
    (tmp_path / "models" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere" if base != "../outside" else tmp_path)
    with pytest.raises(ResourceError):
        locate(encoder(base=base), [tmp_path / "models"])


def test_not_found_says_where_and_how(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        locate(encoder(revision="v1"), [tmp_path])
    for words in ("`toy`", str(tmp_path), "hf download someone/toy --revision v1", "--models"):
        assert words in str(caught.value)


def test_a_bare_name_that_is_not_found_is_said_to_be_a_folders(tmp_path: Path) -> None:
    with pytest.raises(ResourceError) as caught:
        locate(encoder(base="toy"), [tmp_path])
    assert "DIR/toy" in str(caught.value) and "hf download" not in str(caught.value)


def test_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    first = hash_model(folder(tmp_path / "a", **{"tokenizer.json": "t", "README.md": "x"}))
    assert hash_model(folder(tmp_path / "b", **{"tokenizer.json": "t", "README.md": "y"})) == first
    assert hash_model(folder(tmp_path / "c", **{"tokenizer.json": "u"})) != first
    assert hash_model(folder(tmp_path / "d", **{"tokenizer.json": "t", "config.json": "{ }"})) != first
    changed = tmp_path / "a" / "model.safetensors"
    changed.write_text("v")
    os.utime(changed, ns=(1, 1))
    assert hash_model(tmp_path / "a") != first


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    where = folder(tmp_path / "toy")
    (where / "model.safetensors").unlink()
    with pytest.raises(ResourceError, match="toy"):
        locate(encoder(), [tmp_path])


def modules(*kinds: str, path: str = "0_Transformer") -> str:
    return json.dumps([{"type": f"sentence_transformers.models.{kind}", "path": path} for kind in kinds])


def test_sentence_transformers_folders_are_read_where_their_transformer_is(tmp_path: Path) -> None:
    inner = folder(tmp_path / "toy" / "0_Transformer")
    (tmp_path / "toy" / "modules.json").write_text(modules("Transformer", "Pooling", "Normalize"))
    assert find_transformer_folder(tmp_path / "toy") == inner
    assert locate(encoder(), [tmp_path]).fingerprint == hash_model(inner)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (modules("Transformer", "Pooling", "Dense"), "Dense"),
        (modules("Transformer", path="../../x"), "../../x"),
        ("{", "modules.json"),
    ],
)
def test_modules_that_rbench_does_not_read_are_refused(content: str, words: str, tmp_path: Path) -> None:
    (folder(tmp_path / "toy") / "modules.json").write_text(content)
    with pytest.raises(ResourceError, match=words):
        locate(encoder(), [tmp_path])


def test_a_link_to_a_model_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "toy").symlink_to(folder(tmp_path / "store" / "x"))
    assert locate(encoder(), [tmp_path / "models"]).where == str(tmp_path / "models" / "toy")


def test_code_of_the_folder_enters_its_fingerprint_where_a_config_names_it(tmp_path: Path) -> None:
    where = folder(tmp_path / "m")
    (where / "modeling_mine.py").write_text("A = 1\n")
    (where / "notes.py").write_text("")
    before = hash_model(where)
    (where / "modeling_mine.py").write_text("A = 2\n")
    assert hash_model(where) == before, "nothing runs it"
    for name in ("config.json", "tokenizer_config.json"):
        own = folder(tmp_path / name)
        (own / name).write_text('{"auto_map": {"AutoModel": "modeling_mine.Mine"}}')
        (own / "modeling_mine.py").write_text("A = 1\n")
        before = hash_model(own)
        (own / "modeling_mine.py").write_text("A = 2\n")
        assert hash_model(own) != before


@pytest.mark.parametrize(
    ("beside", "counts"),
    [("adapter_model.safetensors", True), ("model.safetensors", False), ("model-00001-of-00002.safetensors", False)],
)
def test_pickled_weights_count_unless_transformers_leaves_them_out(beside: str, counts: bool, tmp_path: Path) -> None:
    where = folder(tmp_path / "m")
    (where / "model.safetensors").unlink(missing_ok=True)
    (where / beside).write_bytes(b"a")
    (where / "pytorch_model.bin").write_bytes(b"b")
    before = hash_model(where)
    (where / "pytorch_model.bin").write_bytes(b"c")
    assert (hash_model(where) != before) is counts
