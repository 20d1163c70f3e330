"""A module whose function cannot be called as rbench calls it is refused while the suite loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench.config import checked
from rbench.config.code import find
from rbench.config.registry import Registry
from rbench.errors import SuiteError

OPTIONS = "from rbench.schema import Strict as Options\n"
BEFORE = "def run(encoder, data, training, options, *, seed, device, progress): ...\n"


def strategy(folder: Path, source: str) -> None:
    """Load a strategy with this source, from a file of its own."""
    (folder / "finetune").mkdir()
    (folder / "finetune" / "mine.py").write_text(OPTIONS + source)
    checked(find("finetune", "mine", Registry([folder])))


@pytest.mark.parametrize(
    ("source", "place", "said"),
    [
        (f"\n\n{BEFORE}", "4:1", "takes (encoder, data, training, options, seed, device, progress)"),
        ("def run(options): ...\n", "2:1", "takes (options)"),
        ("def run(options, context, *, seed): ...\n", "2:1", "takes (options, context, seed)"),
        ("run = 3\n", "1:1", "is not a function"),
        ("from subprocess import list2cmdline as run\n", "1:1", "takes (seq)"),
    ],
)
def test_another_signature_is_refused_with_its_line_and_what_to_write(
    source: str, place: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SuiteError) as refused:
        strategy(tmp_path, source)
    text = str(refused.value)
    assert text.startswith(
        f"{tmp_path / 'finetune' / 'mine.py'}:{place}: rbench calls the `run` of a finetune strategy"
    )
    assert "as run(options, context), and this one " + said in text
    assert "Write `def run(options, context)`" in text and "docs/guide-add-a-strategy.md" in text


@pytest.mark.parametrize(
    "source",
    [
        "def run(options, context): ...\n",
        "def run(_, what, /, more=None): ...\n",
        "def run(*everything): ...\n",
        "import functools\n\nrun = functools.partial(lambda a, b, c: None, 1)\n",
    ],
)
def test_whatever_can_be_called_so_is_taken(source: str, tmp_path: Path) -> None:
    strategy(tmp_path, source)


def build(folder: Path, kind: str, function: str, needs: str) -> None:
    """Load an attack or an objective with this `build`, from a file of its own."""
    (folder / kind).mkdir()
    (folder / kind / "mine.py").write_text(f"{OPTIONS}TITLE = REFERENCE = 'mine'\nNEEDS = {needs}\n{function}: ...\n")
    checked(find(kind, "mine", Registry([folder])))


@pytest.mark.parametrize(
    ("kind", "function", "needs", "said"),
    [
        (
            "attacks",
            "def build(victim, resources)",
            "('synonyms',)",
            "an attack as build(victim, resources, options), and this one takes (victim, resources). Write "
            "`def build(victim, resources, options, task)`",
        ),
        (
            "attacks",
            "def build(victim, resources, options, task, seed)",
            "()",
            "an attack as build(victim, resources, options, task=task), and this one takes",
        ),
        ("attacks", "def build(task, victim, resources)", "()", "an attack as build(victim, resources, options, task="),
        ("objectives", "def build(options)", "()", "an objective as build(options, spec, base), and this one takes ("),
        (
            "objectives",
            "def build(options, spec, base)",
            "('synonyms',)",
            "an objective as build(options, spec, base, resources=resources), and this one takes",
        ),
        ("objectives", "def build(options, spec, base, *, resources)", "()", "an objective as build(options, spec, b"),
    ],
)
def test_a_build_that_cannot_be_called_is_refused_with_its_line_and_guide(
    kind: str, function: str, needs: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SuiteError) as refused:
        build(tmp_path, kind, function, needs)
    text = str(refused.value)
    assert text.startswith(f"{tmp_path / kind / 'mine.py'}:4:1: rbench calls the `build` of {said}")
    assert f"docs/guide-add-an-{kind.removesuffix('s')}.md" in text


@pytest.mark.parametrize(
    ("kind", "function", "needs"),
    [
        ("attacks", "def build(victim, resources, options)", "()"),
        ("attacks", "def build(victim, resources, options, task)", "()"),
        ("attacks", "def build(victim, resources, options, *, task, more=1)", "()"),
        ("attacks", "def build(*arguments)", "()"),
        ("objectives", "def build(options, spec, base)", "()"),
        ("objectives", "def build(*arguments, **more)", "('synonyms',)"),
        ("objectives", "def build(options, spec, base, resources)", "('synonyms',)"),
    ],
)
def test_a_build_that_can_be_called_is_taken(kind: str, function: str, needs: str, tmp_path: Path) -> None:
    build(tmp_path, kind, function, needs)


OWN = [
    (kind, name)
    for kind in ("finetune", "attacks", "objectives")
    for name in Registry().names(kind)
    if Registry().path(kind, name).suffix == ".py"
]


@pytest.mark.parametrize(("kind", "name"), OWN)
def test_rbenchs_own_files_can_be_called_so(kind: str, name: str) -> None:
    checked(find(kind, name))


def test_the_run_of_another_kind_has_arguments_of_its_own() -> None:
    checked(find("measures", "positives"))
