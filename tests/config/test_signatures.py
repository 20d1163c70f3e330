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


@pytest.mark.parametrize("name", Registry().names("finetune"))
def test_rbenchs_own_strategies_can_be_called_so(name: str) -> None:
    checked(find("finetune", name))


def test_the_run_of_another_kind_has_arguments_of_its_own() -> None:
    checked(find("measures", "positives"))
