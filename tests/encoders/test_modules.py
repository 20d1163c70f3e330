"""Tests that modules.json may only name module types that rbench knows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rbench import encoders
from rbench.encoders.locate import find_transform_folders, find_transformer_folder, locate
from rbench.errors import ResourceError
from rbench.schema import EncoderSpec
from rbench.words.resources.sentences import sentence_transformer
from tests.refusals import refusal

SPELLINGS = [
    # sentence-transformers 2.0 to 5.3
    *(f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize", "Dense")),
    # 5.4 and later
    "sentence_transformers.base.modules.transformer.Transformer",
    "sentence_transformers.base.modules.dense.Dense",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "sentence_transformers.sentence_transformer.modules.normalize.Normalize",
    # 6.0 and later
    "sentence_transformers.base.modules.normalize.Normalize",
]
FOREIGN = [
    "evilmod.Transformer",
    "Transformer",
    "sentence_transformers.evil.Transformer",
    "sentence_transformers.models.Transformer.evil.Transformer",
    " sentence_transformers.models.Transformer",
    "sentence_transformers.models.WordEmbeddings",
    "sentence_transformers.base.modules.router.Router",
]
"""The last two import what their own configuration names."""


def model(bert: Path, folder: Path, *types: str) -> Path:
    """A folder of sentence-transformers whose modules have these types, with evilmod.py beside them."""
    shutil.copytree(bert, folder)
    listed = [{"idx": i, "name": str(i), "path": f"{i}_x" if i else "", "type": t} for i, t in enumerate(types)]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "evilmod.py").write_text(
        f"from pathlib import Path\nPath({str(folder.parent / 'executed')!r}).write_text('yes')\n"
        "import torch\n\n\nclass Transformer(torch.nn.Identity):\n    load = classmethod(lambda cls, *a, **k: cls())\n"
        "Identity = evilmod = Transformer\n"
    )
    return folder


def dense(folder: Path, activation: Any) -> None:
    (folder / "1_x").mkdir()
    config = {"in_features": 8, "out_features": 8, "bias": False, "activation_function": activation}
    (folder / "1_x" / "config.json").write_text(json.dumps(config))


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where transformers copies code before it runs it."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_type_that_is_not_known_is_refused_by_its_whole_name(kind: str, bert: Path, tmp_path: Path) -> None:
    folder = model(bert, tmp_path / "toy", kind)
    for open_it in (
        lambda: locate(EncoderSpec(name="toy", base="someone/toy"), [tmp_path]),
        lambda: encoders.load(EncoderSpec(name="toy", base="x/y", pooling="mean"), folder),
        lambda: sentence_transformer(folder, "cpu"),
    ):
        with refusal(ResourceError, "modules.json"):
            open_it()
    assert not (tmp_path / "executed").exists()


def test_a_foreign_type_behind_known_ones_is_refused_too(bert: Path, tmp_path: Path) -> None:
    folder = model(bert, tmp_path / "toy", SPELLINGS[0], "evilmod.Transformer")
    with refusal(ResourceError, "evilmod.Transformer"):
        sentence_transformer(folder, "cpu")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("activation", ["evilmod.Identity", "torch.nn.Linear", None, ["x.Identity"]])
def test_an_activation_that_is_not_known_is_refused(activation: Any, bert: Path, tmp_path: Path) -> None:
    folder = model(bert, tmp_path / "toy", SPELLINGS[0], "sentence_transformers.models.Dense")
    dense(folder, activation)
    for open_it in (lambda: find_transformer_folder(folder), lambda: sentence_transformer(folder, "cpu")):
        with pytest.raises(ResourceError, match="Dense"):
            open_it()


@pytest.mark.parametrize("content", ["{", '[{"kind": 1}]', '[{"type": ["x"]}]', "[" * 100_000])
def test_a_damaged_list_is_refused_wherever_it_is_read(content: str, bert: Path, tmp_path: Path) -> None:
    folder = model(bert, tmp_path / "toy")
    (folder / "modules.json").write_text(content)
    for open_it in (lambda: find_transformer_folder(folder), lambda: sentence_transformer(folder, "cpu")):
        with refusal(ResourceError, "modules.json"):
            open_it()


@pytest.mark.parametrize("kind", SPELLINGS)
def test_every_spelling_of_the_known_types_is_read(kind: str, bert: Path, tmp_path: Path) -> None:
    folder = model(bert, tmp_path / "toy", SPELLINGS[0], kind) if not kind.endswith("Transformer") else None
    if folder is None:
        folder = model(bert, tmp_path / "toy", kind)
    if kind.endswith("Dense"):
        dense(folder, "torch.nn.modules.linear.Identity")
    assert find_transformer_folder(folder) == folder
    assert find_transform_folders(folder) == ((folder / "1_x",) if kind.endswith("Dense") else ())


def test_what_the_installed_version_writes_is_read_and_opened(bert: Path, tmp_path: Path) -> None:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

    first = Transformer(str(bert))
    parts = [first, Pooling(32), Dense(32, 4, bias=False, activation_function=torch.nn.Identity()), Normalize()]
    theirs = SentenceTransformer(modules=parts, device="cpu")
    theirs.save(str(tmp_path / "toy"))
    texts = ["the film was good", "the plot"]
    expected = theirs.encode(texts, convert_to_tensor=True)
    torch.testing.assert_close(sentence_transformer(tmp_path / "toy", "cpu").encode(texts), expected)
    ours = encoders.load(EncoderSpec(name="toy", base="x/y", pooling="mean"), tmp_path / "toy").encode(texts)
    torch.testing.assert_close(torch.nn.functional.normalize(torch.tensor(ours)), expected)
