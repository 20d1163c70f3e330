"""Strategies, attacks and things to build are matched with tasks: those with classes, and those with scores (STS)."""

from __future__ import annotations

import pytest

from tests.config.conftest import World

STRATEGY = """\
from rbench.schema import Strict
from rbench.train.finetune import FinetuneStrategy
class Options(Strict):
    strength: int = 1
class Own(FinetuneStrategy[Options]):
    {serves}
    def run(self, options, context):
        raise NotImplementedError
"""
ATTACK = """\
from rbench.attacks import AttackMethod
from rbench.schema.extension import NoOptions
class Own(AttackMethod[NoOptions]):
    {serves}
    def build(self, victim, resources, options, task):
        return None
"""
SCORED = "kind: sts\ncolumns: [one, two]\nscale: [0, 5]\n"


@pytest.fixture
def world(world: World) -> World:
    """A suite with a task of each sort, and attacks that can take both."""
    world.write("tasks/similar.yaml", SCORED)
    world.write("finetune/cosine.py", STRATEGY.format(serves='serves = ("similarity",)'))
    world.write("finetune/both.py", STRATEGY.format(serves='serves = ("classification", "similarity")'))
    world.suite("encoders: plain\ntasks: [reviews, similar]\nattacks: [words]\nresources: world\n")
    return world


def tuned(world: World, *overrides: str) -> dict[str, list[str]]:
    return {task: [choice.label for choice in own] for task, own in world.load(None, *overrides).tuning.items()}


def test_a_suite_that_names_no_strategy_has_one_for_each_sort_of_task(world: World) -> None:
    assert tuned(world) == {"reviews": ["clean"], "similar": ["cosine"]}
    loaded = world.load()
    assert {name for kind, name in loaded.modules if kind == "finetune"} == {"clean", "cosine"}
    assert [table.metric for table in loaded.suite.tables] == ["asr", "advsts"]


def test_strategies_go_to_the_tasks_that_they_serve(world: World) -> None:
    assert tuned(world, "finetune=[probe, cosine: {strength: 2}, both, clean]") == {
        "reviews": ["probe", "both", "clean"],
        "similar": ["cosine[strength=2]", "both"],
    }


def test_a_suite_of_classes_has_the_strategies_that_it_names_and_no_table_of_similarity(world: World) -> None:
    assert tuned(world, "tasks=[reviews]", "finetune=[clean, probe]") == {"reviews": ["clean", "probe"]}
    assert [table.metric for table in world.load(None, "tasks=[reviews]").suite.tables] == ["asr"]


@pytest.mark.parametrize(
    ("add", "task", "message"),
    [
        ("finetune: [clean]\n", "similar", "my.yaml:5:11: no strategy here is for similar, one of the tasks with "),
        ("finetune: cosine\n", "reviews", "my.yaml:5:11: no strategy here is for reviews, one of the tasks with cla"),
    ],
)
def test_a_task_without_a_strategy_is_refused_with_those_that_serve_it(
    add: str, task: str, message: str, world: World
) -> None:
    world.change("resources: world\n", f"resources: world\n{add}")
    error = world.error()
    assert error.startswith(message)
    names = error.partition("these are: ")[2].split(", ")
    assert "both" in names and ("cosine" in names) == (task == "similar") and ("probe" in names) == (task == "reviews")


def test_a_strategy_that_serves_no_task_is_refused_unless_a_task_was_left_out_by_an_override(world: World) -> None:
    world.suite("encoders: plain\ntasks: [reviews]\nattacks: [words]\nresources: world\nfinetune: [clean, cosine]\n")
    assert world.error() == "my.yaml:5:19: cosine is for tasks with similarity scores, and this suite has none"
    world.change("[reviews]", "[reviews, similar]")
    assert tuned(world, "tasks=[reviews]") == {"reviews": ["clean"]}


def test_a_task_of_scores_states_their_scale(world: World) -> None:
    world.write("tasks/similar.yaml", SCORED.replace("scale: [0, 5]\n", ""))
    assert world.error() == (
        "my.yaml:2:18: task similar does not say which its lowest and highest scores are; write them into its file, "
        "for instance `scale: [0, 5]`"
    )


def test_an_attack_that_needs_classes_is_refused_with_those_that_can(world: World) -> None:
    world.write("attacks/own.py", ATTACK.format(serves=""))
    world.change("[words]", "[words, own]")
    error = world.error()
    assert error.startswith("my.yaml:3:18: attack own needs classes, and similar has similarity scores; take it out")
    assert "words" in error.partition("scores: ")[2].split(", ")
    world.write("attacks/own.py", ATTACK.format(serves='serves = ("classification", "similarity")'))
    assert world.load().attacks.keys() == {"words", "own"}


def test_a_build_and_a_contrast_set_need_classes(world: World) -> None:
    world.change("resources: world\n", "resources: world\nbuild: [positives]\nevaluate: [contrast]\n")
    errors = world.errors(None, "encoders=[trained]")
    assert "my.yaml:5:9: `build: positives` needs tasks with classes, and similar has similarity scores" in errors
    assert any(error.startswith("my.yaml:6:12: ") and "reviews, similar" in error for error in errors)


def test_a_table_of_adversarial_sts_needs_such_a_task(world: World) -> None:
    world.change("resources: world\n", "resources: world\ntables: [metric: advsts]\n")
    assert [table.metric for table in world.load().suite.tables] == ["advsts"]
    world.change("[reviews, similar]", "[reviews]")
    assert world.error().startswith("my.yaml:5:18: a table of advsts needs `attacks` and STS tasks under `tasks`")


def test_what_a_module_serves_is_checked(world: World) -> None:
    world.write("finetune/cosine.py", STRATEGY.format(serves='serves = ("similarities",)'))
    assert "cosine.py:5:1: `serves`[0] of Own: Input should be 'classification', 'similarity' or" in world.error()
