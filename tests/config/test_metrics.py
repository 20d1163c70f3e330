"""Tests which metrics are opened for what is asked, and in which order they come."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rbench.config import metrics as looked_up
from rbench.config.code import ModuleFile, find
from rbench.config.metrics import MetricCatalogue, MetricOf
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.schema import TaskKind

CONDITIONS: tuple[MetricOf, ...] = ("attacks", "victims", "all attacks")
KINDS: tuple[TaskKind, ...] = ("single", "sts", "ranking")
FILE = """
from rbench.metrics import Meaning, Metric


class Mine(Metric):
    about = Meaning("Mine", "mine", "lowest")
    of = {of}
    share = True
    place = {place}
    {more}

    def value(self, of):
        return of.fell
"""


def written(folder: Path, name: str, of: str, place: int = 50, more: str = "") -> MetricCatalogue:
    (folder / "metrics").mkdir(exist_ok=True)
    (folder / "metrics" / f"{name}.py").write_text(FILE.format(of=of, place=place, more=more))
    return MetricCatalogue(Registry([folder]))


def test_what_is_asked_is_what_a_look_at_every_file_finds() -> None:
    every = MetricCatalogue().all()
    assert every == sorted(every, key=lambda one: (one.place, one.name)) and len(every) > 10
    for of, kind in product(CONDITIONS, KINDS):
        found = MetricCatalogue().all(of, kinds={kind})
        assert [one.name for one in found] == [x.name for x in every if x.of == of and x.kind in (None, kind)]
    assert [one.name for one in MetricCatalogue().all()] == [
        one.name for one in MetricCatalogue().all(*CONDITIONS, kinds={*KINDS})
    ]


@pytest.mark.parametrize(("of", "more"), [('"victims"', ""), ('"attacks"', 'kind = "ranking"')])
def test_a_file_that_is_of_something_else_by_its_literals_is_not_opened(of: str, more: str, tmp_path: Path) -> None:
    metrics = written(tmp_path, "mine", of, more=f"{more}\n    raise OSError('opened')")
    names = [one.name for one in metrics.all("attacks", kinds={"single"})]
    assert "mine" not in names and "asr" in names
    with pytest.raises(SuiteError, match="opened"):
        metrics.all()


@pytest.mark.parametrize(("of", "more"), [('"atacks"', ""), ('"attacks"', 'kind = "rankin"')])
def test_a_misspelt_literal_is_told_and_not_passed_over(of: str, more: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as caught:
        written(tmp_path, "mine", of, more=more).all("attacks", kinds={"single"})
    assert "mine.py:5:1" in str(caught.value)


def test_a_file_that_computes_what_it_is_of_is_opened(tmp_path: Path) -> None:
    metrics = written(tmp_path, "mine", '"".join(["vic", "tims"])', place=-1, more='kind = "".join(["s", "ts"])')
    assert "mine" not in [one.name for one in metrics.all("attacks")]
    assert next(one.name for one in metrics.all("victims")) == "mine"
    assert "mine" not in [one.name for one in metrics.all("victims", kinds={"single"})]
    assert "mine" in [one.name for one in metrics.all("victims", kinds={"single", "sts"})]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"lowest"', '"low"', ":6"),
        ("about = ", "about = 1 #", ":5:1: `about`"),
        ("about = ", "#", ":5:1: Mine states no `about`"),
        ("share = True", "share = 2", ":5:1: `share`"),
        ("place", "bounds = 1.0\n    place", ":5"),
        ("def value(self, of)", "def other(self, of)", ":5:1"),
        ("(self, of)", "(self)", ":12:1: "),
        ("def value", "def units(self, of): ...\n\n    def value", ":5"),
        ("(Metric)", "", ":1:1"),
    ],
)
def test_what_a_metric_says_of_itself_is_checked(old: str, new: str, place: str, tmp_path: Path) -> None:
    metrics = written(tmp_path, "mine", '"attacks"')
    path = tmp_path / "metrics" / "mine.py"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(SuiteError) as refused:
        metrics.asked("mine")
    assert str(refused.value).startswith(f"{path}{place}")


def test_bounds_may_be_a_list_and_whole_numbers(tmp_path: Path) -> None:
    assert written(tmp_path, "mine", '"attacks"', more="bounds = [-1, 1]")["mine"].bounds == (-1.0, 1.0)


BROKEN = """from rbench.measures import Measure
numbers = {"taken": None}
def cells(results)
    return 1
"""


@pytest.mark.parametrize("name", ["effort", "effort.typos@0.1", "taken", "taken.typos"])
def test_a_number_whose_file_cannot_be_read_is_told_with_what_is_wrong_there(name: str, tmp_path: Path) -> None:
    (tmp_path / "measures").mkdir()
    (tmp_path / "measures" / "effort.py").write_text(BROKEN)
    metrics = MetricCatalogue(Registry([tmp_path]))
    with pytest.raises(SuiteError) as caught:
        metrics.asked(name)
    assert "effort.py:3" in str(caught.value)
    with pytest.raises(SuiteError):
        metrics.asked("token")
    assert metrics.asked("noise.typos@0.1").name == "noise.typos@0.1", "other files have their numbers"


@pytest.mark.parametrize(
    ("number", "opened"),
    [
        ("transfer", {"transfer"}),
        ("noise.typos@0.1", {"noise"}),
        ("ndcg", {"ranking"}),
        ("accuracy", {"parts"}),
    ],
)
def test_a_number_is_looked_up_by_file_name_and_source(
    number: str, opened: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run opens the measures that it names, and not all that there are."""
    there: list[str] = []

    def recorded(kind: str, name: str, registry: Registry) -> ModuleFile:
        there.append(name)
        return find(kind, name, registry)

    monkeypatch.setattr(looked_up, "find", recorded)
    found = MetricCatalogue().asked(number)
    assert found.name == number and opened <= {*there} and len(there) <= 3
