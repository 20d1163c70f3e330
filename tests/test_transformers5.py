"""transformers 5: the list of what rbench stands on there is whole, and docs/install.md leads there when pasted."""

from __future__ import annotations

import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOR_FIVE = {"transformers", "huggingface-hub", "tokenizers"}
"""Packages whose bounds in the list are those of transformers 5; rbench's own are those of transformers 4."""
UNSAID = {"langdetect"}
"""What TextAttack imports and does not list, since it comes with flair."""
WITHOUT = {"textattack", "flair"}
"""What pip installs afterwards without its requirements, and what cannot be imported there."""


def named(lines: list[str]) -> dict[str, Requirement]:
    requirements = [Requirement(line) for line in lines if "extra ==" not in line]
    return {canonicalize_name(one.name): one for one in requirements}


def listed() -> dict[str, Requirement]:
    lines = (ROOT / "transformers5.txt").read_text(encoding="utf-8").splitlines()
    return named([line for line in lines if line and not line.startswith("#")])


def test_the_list_has_all_that_rbench_and_textattack_require() -> None:
    found = listed()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = {name: one for name, one in named(project["dependencies"]).items() if name not in WITHOUT}
    assert {name: found[name].specifier for name in ours.keys() - FOR_FIVE} == {
        name: one.specifier for name, one in ours.items() if name not in FOR_FIVE
    }
    theirs = named(importlib.metadata.requires("textattack") or [])
    assert theirs.keys() - WITHOUT <= found.keys()
    assert found.keys() == (ours.keys() | theirs.keys() | UNSAID | FOR_FIVE) - WITHOUT, "nothing that nobody requires"
    for name, one in found.items():
        assert {mark.operator for mark in one.specifier} & {"<", "<="}, f"{name} has no upper bound"


def test_its_environment_has_all_that_tests_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = [
        line for extra in ("test", "fast", "flow", "peft", "slurm", "browser", "mteb", "ray") for line in extras[extra]
    ]
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    deps = tox["testenv:transformers5"]["deps"].split("\n")
    assert {line.strip() for line in deps if line.strip()} == {
        "-r transformers5.txt",
        *(line for line in needed if not line.startswith("rbench")),
    }


CLASSIFIER = """
import sys
from pathlib import Path
import rbench, torch, transformers
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

assert transformers.__version__.startswith("5."), transformers.__version__
folder = Path(sys.argv[1])
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "bad", "film"]
(folder / "vocab.txt").write_text("\\n".join(words))
BertTokenizer.from_pretrained(folder).save_pretrained(folder)
shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
torch.manual_seed(0)
labels = {0: "negative", 1: "positive"}
model = BertForSequenceClassification(BertConfig(vocab_size=9, id2label=labels, **shape, initializer_range=0.3)).eval()
model.save_pretrained(folder)
texts = ["a fine film", "a bad film"]
said = rbench.textattack_wrapper(str(folder), label_names=["negative", "positive"])(texts)
with torch.no_grad():
    asked = [model(**BertTokenizer.from_pretrained(folder)([text], return_tensors="pt")).logits[0] for text in texts]
assert torch.allclose(said, torch.stack(asked), atol=1e-5), (said, asked)
assert not torch.allclose(said[0], said[1])
result = rbench.attack(str(folder), texts, said.argmax(1).tolist(), "DeepWordBugGao2018", resources="mini")
assert len(result.frame) == 2 and not result.frame["error"].notna().any(), result.frame
"""


@pytest.mark.nightly
def test_the_documented_way_works_when_pasted_and_reads_a_classifier(tmp_path: Path) -> None:
    """It takes a package index and some minutes, most of them for what pip downloads."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (pasted,) = [block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "transformers5.txt" in block]
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    there = tmp_path / "rbench"
    for name in listed.splitlines():  # what a clone has, with today's changes
        if (ROOT / name).is_file() and not name.startswith(("results/reference", "docs")):
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there / name)
    surroundings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    plain = Path(sys.base_prefix) / "bin"
    surroundings |= {"PATH": f"{plain}{os.pathsep}{surroundings['PATH']}", "RBENCH_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(["bash", "-euc", pasted], cwd=there, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "classifier").mkdir()
    command = [there / ".venv" / "bin" / "python", "-c", CLASSIFIER, tmp_path / "classifier"]
    done = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
