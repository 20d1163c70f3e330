"""What kinds of tasks promise to the code that asks them, and that no other code compares their names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pydantic import ValidationError

import rbench
from rbench.config import versions
from rbench.config.metrics import MetricCatalogue
from rbench.config.registry import Registry
from rbench.schema import KINDS, AttackSpec, Choice, EncoderSpec, Family, KindName, TaskKind, TaskSpec
from tests.schema.builders import make_task

PACKAGE = Path(rbench.__file__).parent
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
OWN: dict[str, Any] = {
    "parts": [{"name": "one", "split": "train", "local": ["one/rows"]}],
    "scale": (0.0, 1.0),
    "subsets": {"test": {"one": 3}},
    "ranking": {"folder": "there"},
}
"""A value of each field that one family has alone."""


def test_names_and_families_are_those_of_the_types_of_fields() -> None:
    assert tuple(KINDS) == get_args(KindName) and all(KINDS[name].name == name for name in KINDS)
    assert {kind.family for kind in KINDS.values()} == {*get_args(Family)}


@EVERY
def test_what_a_kind_names_elsewhere_is_there(kind: TaskKind) -> None:
    """Modules, fields, metrics and strategies that a kind names as texts."""
    registry = Registry()
    assert kind.goal is None or kind.goal in AttackSpec.model_fields
    assert {*kind.own_fields} <= {*TaskSpec.model_fields} & {*OWN}
    assert {*kind.attack_code} <= {*versions.versioned_files()}
    assert kind.default_strategy in registry.names("finetune")
    assert all(MetricCatalogue(registry)[name] for name in kind.board_metrics)
    assert all(EncoderSpec(name="e", base="b", prompt={key: "q: "}) for key in kind.prompts.values())  # type: ignore[dict-item]
    victims = importlib.import_module(f"rbench.encoders.{kind.victim}")
    assert kind.victim == victims.VICTIM.KIND


@pytest.mark.parametrize("package", ["rbench.recipes.attacked", "rbench.measures._answers"])
@EVERY
def test_packages_that_treat_each_family_in_its_own_way_have_a_module_for_each(kind: TaskKind, package: str) -> None:
    assert kind.module_in(package) is importlib.import_module(f"{package}.{kind.family}")


def test_only_rankings_have_a_reader_of_rows_of_their_own() -> None:
    assert {name for name, kind in KINDS.items() if kind.module_in("rbench.tasks") is not None} == {"ranking"}


@pytest.mark.parametrize("name", OWN)
@EVERY
def test_a_field_of_another_family_is_refused(kind: TaskKind, name: str) -> None:
    own = name in kind.own_fields
    if own:
        assert getattr(make_task(kind.name, **{name: OWN[name]}), name)
        return
    with pytest.raises(ValidationError) as caught:
        make_task(kind.name, **{name: OWN[name]})
    assert f"`{name}`" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "wrong"), [("single", {"labels": ()}), ("nli", {"labels": ("one",)}), ("sts", {"scale": None})]
)
def test_a_task_without_what_its_victims_need_says_so(kind: str, wrong: dict[str, Any]) -> None:
    whole, lacking = make_task(kind), make_task(kind, **wrong)
    assert whole.of_kind.why_no_victims(whole) is None
    assert "t" in (lacking.of_kind.why_no_victims(lacking) or "").split()


def test_texts_without_labels_have_no_victims_and_rankings_need_nothing_more() -> None:
    corpus, ranking = make_task("unlabelled"), make_task("ranking")
    assert corpus.of_kind.why_no_victims(corpus) is not None and ranking.of_kind.why_no_victims(ranking) is None


def test_classes_are_those_of_a_task_whose_kind_has_them() -> None:
    assert {name for name in KINDS if make_task(name).has_classes} == {"single", "nli", "pair", "paraphrase"}
    assert not make_task("pair", labels=()).has_classes


def test_options_beyond_the_documents_of_a_ranking_are_found() -> None:
    held = SimpleNamespace(ids=("a", "b", "c"), place={"a": 0, "b": 1, "c": 2})
    kind = KINDS["ranking"]
    assert [*kind.beyond_data("t", {"k": 2, "target": "c"}, held)] == []
    assert len([*kind.beyond_data("t", {"k": 3, "target": None}, held)]) == 1
    assert len([*kind.beyond_data("t", {"k": 3, "target": "d"}, held)]) == 2


def test_goals_are_described_where_they_are_not_the_attacks_own() -> None:
    for name, kind in KINDS.items():
        job: Any = SimpleNamespace(
            task=make_task(name), attack=AttackSpec(name="a", recipe="PWWSRen2019"), strategy=Choice(name="cosine")
        )
        assert bool(kind.goal_notes([job])) == (kind.goal is not None)
        assert kind.success_rule(job)


COMPARED = re.compile(rf"""\bkind\s*(?:==|!=|in|not in)\s*[(\[{{]?["'](?:{"|".join(KINDS)})["']""")
BY_KIND = re.compile(rf"""(?:[{{,]|^)\s*["'](?:{"|".join(KINDS)})["']\s*:""", re.MULTILINE)
REASONS = {
    "measures/senteval.py": "SentEval reports F1 of paraphrases alone",
    "measures/judged.py": "a kind of item on a sheet for raters, which is called pair",
    "store/judged.py": "the same",
    "schema/entries.py": "columns that attacks protect; users write them by kind",
    "train/finetune/_options.py": "the same of a strategy that attacks its training texts",
    # The table of STS evaluations is called `sts`, as the kind is.
    "measures/sts.py": "the measure, and the name of its number",
    "schema/suite.py": "tables and what they need",
    "tables/aggregate.py": "tables and what they need",
    "config/consistency.py": "tables and what they need",
    "config/claims.py": "tables and what they need",
    "api/results.py": "tables and what they need",
    "api/evaluating.py": "a key of the JSON that `rbench eval` prints",
    "config/mteb_tables.py": "the fields of a task file that it writes",
    "config/hub_tables.py": "the fields of a task file that it writes",
    "api/ranking.py": "the fields of a task; a module of rankings",
}
"""Modules that compare the name of a kind, or have a dictionary with it, and why."""


def naming() -> Iterator[str]:
    for file in sorted(PACKAGE.rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if not file.is_relative_to(PACKAGE / "schema" / "kinds") and (
            COMPARED.search(source) or BY_KIND.search(source)
        ):
            yield file.relative_to(PACKAGE).as_posix()


def test_code_asks_kinds_and_does_not_compare_their_names() -> None:
    """A question that a name answers in many places is one that a new kind gets wrong in some of them."""
    assert {*naming()} <= REASONS.keys(), "ask `task.of_kind` (rbench/schema/kinds), or say here why not"
