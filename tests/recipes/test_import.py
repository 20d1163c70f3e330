"""TextAttack is imported without network, NLTK data or side effects: in a process of its own, with an empty home.

What it imports and rbench does not use is imported when an attack of a user's own uses it.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from rbench.recipes import _textattack
from rbench.store.weights import inventory
from tests import forked

SCRIPT = """
import logging, os, socket, sys
from importlib.metadata import version
from pathlib import Path
from packaging.version import Version

def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")

socket.socket.connect = refuse
socket.getaddrinfo = refuse

read = []

def watch(event, about):
    if event == "os.listdir" or (event == "open" and not about[2] & os.O_CREAT):
        read.append(str(about[0]))

sys.addaudithook(watch)
mine = logging.getLogger("rbench.mine")
mine.addHandler(logging.StreamHandler(sys.stdout))
before = dict(os.environ)

import rbench.recipes
from rbench.errors import ResourceError
import nltk, textattack

made = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
assert not [one for one in made if one.disabled], "those of libraries that TextAttack brings, too"
mine.warning("still heard")
for name in ("HF_HOME", "XDG_CACHE_HOME", "TFHUB_CACHE_DIR", "PYTORCH_TRANSFORMERS_CACHE", "TA_CACHE_DIR"):
    assert os.environ.get(name) == before.get(name), name
assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
assert not (Path.home() / ".cache" / "textattack" / "post_install_check_3").exists()
assert nltk.download.__name__ == "download"
try:
    nltk.corpus.stopwords.words("english")
except LookupError:
    print("stop words are as missing as before")
later = {"flair", "flair.data", "flair.models", "bert_score", "datasets"}
assert not later & set(sys.modules), "they wait for their first use"

import tempfile
from textattack.shared.utils import words_from_text

print(words_from_text("\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8"))
assert tempfile.gettempdir().endswith("shared")
print("read:", sorted({path for path in read if path.startswith(tempfile.gettempdir())}))

if Version(version("flair")) < Version("0.12"):  # that which comes with rbench, and cannot be imported
    try:
        textattack.shared.utils.TextAttackFlairTokenizer()
    except ResourceError as error:
        assert "flair 0.15 needs transformers 4" in str(error)
        assert "flair" not in sys.modules
        sys.exit()
    raise AssertionError("flair was imported: compare it as below")

# A user's attack in which TextAttack tags words: it gets flair itself, only the tagger's weights are ours here.
from textattack.shared import AttackedText
from textattack.constraints.grammaticality import part_of_speech
from textattack.constraints.semantics import bert_score as constraint

class Tagger:
    def predict(self, sentence, **options):
        for token, tag in zip(sentence.tokens, ("DET", "ADJ", "NOUN"), strict=True):
            token.add_label("upos", tag)

text = AttackedText("a fine film")
tokenizer = textattack.shared.utils.TextAttackFlairTokenizer()
import flair
assert isinstance(tokenizer, flair.data.Tokenizer) and tokenizer.name == "TextAttackFlairTokenizer"
assert flair.device == textattack.shared.utils.device
flair.models.SequenceTagger.load = lambda name: Tagger()
assert [text.pos_of_word_index(i) for i in range(3)] == ["DET", "ADJ", "NOUN"]
assert isinstance(part_of_speech.Sentence("a fine film"), flair.data.Sentence)
assert isinstance(part_of_speech.SequenceTagger.load("upos-fast"), Tagger)
assert constraint.bert_score.BERTScorer.__module__ == "bert_score.scorer" and "bert_score" in sys.modules
"""


class Imported(NamedTuple):
    """What came of the import in a process of its own."""

    code: int
    lines: list[str]
    errors: str
    cache: Path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """A process with an empty home that shares its temporary folder with somebody who put a table of words there."""
    place = tmp_path_factory.mktemp("imported")
    (place / "shared").mkdir()
    words = {"\u6211\u7231\u5317\u4eac\u5929\u5b89\u95e8"[:i]: 10**9 if i == 7 else 0 for i in range(1, 8)}
    (place / "shared" / "jieba.cache").write_bytes(marshal.dumps((words, 10**9)))
    unset = ("NLTK_DATA", "TA_CACHE_DIR", "HF_HOME", "TOKENIZERS_PARALLELISM")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"HOME": str(place), "XDG_CACHE_HOME": str(place / ".cache"), "TMPDIR": str(place / "shared")}
    environment["RBENCH_CACHE"] = str(place / "cache")
    done = forked.run(SCRIPT, environment)
    return Imported(done.returncode, done.stdout.splitlines(), done.stderr, place / "cache")


def test_importing_textattack_needs_and_changes_nothing(imported: Imported) -> None:
    assert imported.code == 0, imported.errors
    assert imported.lines[:2] == ["still heard", "stop words are as missing as before"]
    assert "textattack:" not in imported.errors


def test_nothing_is_read_from_the_shared_temporary_folder(imported: Imported) -> None:
    """jieba's table of words would be: whoever shares the machine could divide Chinese texts at will, or worse."""
    assert imported.lines[2:4] == ["['\u6211', '\u7231', '\u5317\u4eac', '\u5929\u5b89\u95e8']", "read: []"], (
        imported.errors
    )
    assert [item.kind for item in inventory.list_items(imported.cache)] == ["words"]


def test_a_library_that_was_imported_before_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("flair")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("flair", "bert_score")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flair", own)
    with _textattack._defer_imports():
        assert sys.modules["flair"] is own and "flair.data" not in sys.modules
        assert sys.modules["bert_score"] is _textattack._STAND_INS["bert_score"]
        with pytest.raises(ImportError):
            _ = sys.modules["bert_score"].BERTScorer
    assert sys.modules["flair"] is own and "bert_score" not in sys.modules


def test_the_stand_ins_go_when_the_import_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("flair", "bert_score")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(OSError), _textattack._defer_imports():
        raise OSError
    assert not [name for name, stand_in in _textattack._STAND_INS.items() if sys.modules.get(name) is stand_in]


UNUSED = ("flair", "bert_score", "datasets", "sklearn", "scipy.stats")
"""Libraries that TextAttack and NLTK import for functions that no attack calls."""


@pytest.mark.nightly
def test_an_attack_imports_no_library_that_only_others_use_and_each_is_there_afterwards() -> None:
    code = f"""
import sys
import rbench.recipes, rbench.encoders.classifier
found = [name for name in {UNUSED} if name in sys.modules]
assert not found, found
import datasets, scipy.stats, sklearn.metrics
from textattack.datasets import huggingface_dataset
assert huggingface_dataset.datasets.load_dataset is datasets.load_dataset
assert sklearn.metrics.accuracy_score([0, 1], [0, 1]) == 1
assert scipy.stats.norm.cdf(0) == 0.5
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
