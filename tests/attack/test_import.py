"""TextAttack is imported without network, NLTK data or side effects: in a process of its own, with an empty home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import logging, os, socket, sys
from pathlib import Path

def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
mine = logging.getLogger("rbench.mine")
mine.addHandler(logging.StreamHandler(sys.stdout))
before = dict(os.environ)

from rbench import attack
import nltk, textattack

assert not mine.disabled
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
"""


def test_importing_textattack_needs_and_changes_nothing(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("NLTK_DATA", "TA_CACHE_DIR", "HF_HOME")}
    environment.pop("TOKENIZERS_PARALLELISM", None)
    environment |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / ".cache")}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "still heard" in done.stdout and "stop words are as missing as before" in done.stdout
    assert "textattack:" not in done.stderr
