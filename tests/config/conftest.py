"""A small world of registry files, and a suite over it that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import LoadedSuite, load
from rbench.config.registry import Registry
from rbench.errors import SuiteError

SUITE = """\
title: A suite that is right
encoders: [plain, trained]
tasks:
  - reviews
  - pairs
attacks:
  - words
  - letters: {max_words: 3}
  - name: code
    options: {strength: 2}
seeds: [0, 1]
num_examples: {reviews: 10, default: all}
training: {epochs: 2, pairs: {epochs: 1}}
resources: world
profiles:
  small:
    tasks: reviews
    seeds: 0
    num_examples: {reviews: 5}
    training: {batch_size: 8}
  large:
    num_examples: 1000
"""

FILES = {
    "encoders/plain.yaml": "base: some/model\npooling: mean\n",
    "encoders/trained.yaml": "base: bottom\ntrain: {objective: mlm, data: corpus}\n",
    "encoders/bottom.yaml": ("architecture: {hidden_size: 8}\ntrain:\n  objective: mlm\n  data: corpus\n"),
    "tasks/reviews.yaml": "title: Reviews\nkind: single\ncolumns: [text]\nlabels: [no, yes]\n",
    "tasks/pairs.yaml": "kind: nli\ncolumns: [premise, hypothesis]\nlabels: [entailment, neutral]\n",
    "tasks/corpus.yaml": "kind: unlabelled\ncolumns: [text]\n",
    "attacks/words.yaml": "recipe: TextFoolerJin2019\nreference: Jin et al.\n",
    "attacks/letters.yaml": "recipe: DeepWordBugGao2018\nneeds: []\nmax_words: 9\nquery_budget: 50\n",
    "attacks/code.py": (
        "from rbench.attacks import AttackMethod\n"
        "from rbench.schema import Positive, Strict\n"
        "class Options(Strict):\n"
        "    strength: Positive = 1\n"
        "    mode: str = 'calm'\n"
        "class Code(AttackMethod[Options]):\n"
        "    title = 'Code'\n"
        "    resources = ('masked_lm',)\n"
        "    def build(self, victim, resources, options, task):\n"
        "        return None\n"
    ),
    "resources/world.yaml": (
        "word_vectors: {kind: folder, name: vectors}\n"
        "masked_lm: {kind: encoder, name: bottom}\n"
        "pos_tagger: {kind: nltk}\n"
    ),
}


class World:
    """A folder of registry files with a suite in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            self.write(name, text)
        self.suite(SUITE)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def suite(self, text: str | bytes) -> None:
        self.write("my.yaml", text)

    def change(self, old: str, new: str) -> None:
        """Replace one piece of the suite."""
        text = (self.folder / "my.yaml").read_text()
        assert text.count(old) == 1
        self.suite(text.replace(old, new))

    def load(self, profile: str | None = None, *overrides: str) -> LoadedSuite:
        registry = Registry([self.folder])
        return load(self.folder / "my.yaml", registry=registry, profile=profile, overrides=overrides)

    def errors(self, profile: str | None = None, *overrides: str) -> list[str]:
        """The lines of the SuiteError, without the folder's name."""
        with pytest.raises(SuiteError) as caught:
            self.load(profile, *overrides)
        return str(caught.value).replace(f"{self.folder}/", "").splitlines()

    def error(self, profile: str | None = None, *overrides: str) -> str:
        """The only line of the SuiteError."""
        (line,) = self.errors(profile, *overrides)
        return line


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))
