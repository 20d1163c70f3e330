"""A file whose class cannot be used as its base says is refused while the suite loads, with its line and its guide."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import open_checked
from rbench.config.code import base_of, find
from rbench.config.registry import KINDS, Registry
from rbench.errors import SuiteError

BEFORE = "def run(self, encoder, data, training, options, *, seed, device, progress): ..."
IMPORTS = {
    "attacks": "from rbench.attacks import AttackMethod as Base",
    "figures": "from rbench.report.figures import RunFigure as Base",
    "finetune": "from rbench.train.finetune import FinetuneStrategy as Base",
    "objectives": "from rbench.train.objectives import TrainingObjective as Base",
}
METHODS = {
    "attacks": "def build(self, victim, resources, options, task): ...",
    "figures": "def draw(self, options, results): ...",
    "finetune": "def run(self, options, context): ...",
    "objectives": "def build(self, options, spec, base, resources): ...",
}


def load(folder: Path, kind: str, source: str) -> None:
    """Load a thing of this kind from a file of its own."""
    (folder / kind).mkdir()
    (folder / kind / "mine.py").write_text(source)
    open_checked(find(kind, "mine", Registry([folder])))


def of_class(kind: str, *members: str) -> str:
    """Return a file with a class that has these members; its first member stands in line 6."""
    return "\n".join((IMPORTS[kind], "", "", "class Mine(Base):", "", *(f"    {member}" for member in members), ""))


@pytest.mark.parametrize(
    ("kind", "method", "line", "said"),
    [
        ("finetune", BEFORE, 6, "a finetune strategy as run(options, context), and this one takes (encoder, data, "),
        ("finetune", "def run(self, options): ...", 6, "a finetune strategy as run(options, context), and this one"),
        ("finetune", "run = 3", 1, "a finetune strategy as run(options, context), and this one is not a function"),
        (
            "attacks",
            "def build(self, victim, resources): ...",
            6,
            "an attack as build(victim, resources, options, t",
        ),
        (
            "objectives",
            "def build(self, options, spec, base): ...",
            6,
            "an objective as build(options, spec, base, re",
        ),
        ("figures", "def draw(self, options): ...", 6, "a figure as draw(options, results), and this one takes (opt"),
    ],
)
def test_another_signature_is_refused_with_its_line_and_guide(
    kind: str, method: str, line: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SuiteError) as refused:
        load(tmp_path, kind, of_class(kind, method))
    text = str(refused.value)
    assert text.startswith(f"{tmp_path / kind / 'mine.py'}:{line}:1: rbench calls the `") and said in text
    assert text.endswith(f"see {base_of(kind).guide}")


@pytest.mark.parametrize(
    "method",
    [
        METHODS["finetune"],
        "def run(self, _, what, /, more=None): ...",
        "def run(self, *everything): ...",
        "run = staticmethod(__import__('functools').partial(lambda a, b, c: None, 1))",
    ],
)
def test_whatever_can_be_called_so_is_taken(method: str, tmp_path: Path) -> None:
    load(tmp_path, "finetune", of_class("finetune", method))


@pytest.mark.parametrize(
    ("kind", "member", "said"),
    [
        ("attacks", "resources = ('synonym',)", "`resources`[0] of Mine: Input should be 'word_vectors', "),
        ("attacks", "gradients = 'yes, please'", "`gradients` of Mine: Input should be a valid boolean"),
        ("attacks", "queries_per_word = 'few'", "`queries_per_word` of Mine: Input should be a valid number"),
        ("objectives", "model_options = 3", "`model_options` of Mine: Input should be a valid tuple"),
        ("objectives", "counted = {'loss': 3}", "`counted`['loss'] of Mine: Input should be a valid string"),
        ("finetune", "serves = ('similarities',)", "`serves`[0] of Mine: Input should be 'classification', "),
        ("finetune", "Options = 1", "`Options` of Mine: Input should be a subclass of BaseModel"),
        ("figures", "title = 3", "`title` of Mine: Input should be a valid string"),
    ],
)
def test_a_member_of_another_type_is_refused(kind: str, member: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as refused:
        load(tmp_path, kind, of_class(kind, member, METHODS[kind]))
    assert str(refused.value).startswith(f"{tmp_path / kind / 'mine.py'}:4:1: {said}")


@pytest.mark.parametrize(
    ("kind", "source", "shown"),
    [
        (
            "attacks",
            "TITLE, NEEDS = '', ()\ndef build(victim, resources, options): ...\n",
            "AttackMethod",
        ),
        ("figures", "def draw(options, results): ...\n", "RunFigure"),
        ("finetune", "SERVES = 'ranking'\ndef run(options, context): ...\n", "FinetuneStrategy"),
        ("objectives", "def build(options, spec, base): ...\n", "TrainingObjective"),
    ],
)
def test_a_file_of_functions_is_told_which_class_they_belong_into(
    kind: str, source: str, shown: str, tmp_path: Path
) -> None:
    with pytest.raises(SuiteError) as refused:
        load(tmp_path, kind, source)
    text = str(refused.value)
    assert text.startswith(f"{tmp_path / kind / 'mine.py'}:1:1: ") and f"`class Mine({shown})`" in text
    assert METHODS[kind].removeprefix("def ").removesuffix(": ...") in text
    assert text.endswith(f"see {base_of(kind).guide}")


OWN = [
    (kind, name)
    for kind, sort in KINDS.items()
    if sort.base
    for name in Registry().names(kind)
    if Registry().path(kind, name).suffix == ".py"
]


@pytest.mark.parametrize(("kind", "name"), OWN)
def test_rbenchs_own_files_are_what_their_bases_say(kind: str, name: str) -> None:
    open_checked(find(kind, name))
