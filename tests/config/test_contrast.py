"""Tests `evaluate: [contrast]`: which contrast sets a suite selects, and what is refused and where."""

from __future__ import annotations

import pytest

from tests.config.conftest import World
from tests.refusals import unknown

SET = """\
task: TASK
local: TASK-edited/test
original: {text: before, label: was}
perturbed: {text: after, label: "is"}
"""
PAIRS = SET.replace("{text: before", "{premise: p, hypothesis: before").replace(
    "{text: after", "{premise: p, hypothesis: after"
)


@pytest.fixture
def edited(world: World) -> World:
    """The world with two contrast sets of reviews, of which the task names one, and one of pairs."""
    world.write("contrast/edited.yaml", SET.replace("TASK", "reviews"))
    world.write("contrast/edited-too.yaml", SET.replace("TASK", "reviews"))
    world.write("contrast/pairs-edited.yaml", PAIRS.replace("TASK", "pairs"))
    world.write("tasks/reviews.yaml", "kind: single\ncolumns: [text]\nlabels: [no, yes]\ncontrast: edited\n")
    world.write("tasks/similar.yaml", "kind: sts\ncolumns: [a, b]\n")
    world.suite("encoders: plain\ntasks: [reviews]\nresources: world\nevaluate: [contrast]\n")
    return world


def sets(world: World, *overrides: str) -> dict[str, list[str]]:
    return {task: [one.set.name for one in found] for task, found in world.load(None, *overrides).sets.items()}


def test_contrast_means_the_set_that_each_task_names(edited: World) -> None:
    assert sets(edited) == {"reviews": ["edited"]}
    assert edited.load().suite.evaluations == ()
    assert [table.metric for table in edited.load().suite.tables] == ["contrast"]


def test_an_option_names_another_set(edited: World) -> None:
    assert sets(edited, "evaluate=[contrast: {set: edited-too}]") == {"reviews": ["edited-too"]}
    both = "evaluate=[contrast, contrast: {set: edited-too}, contrast: {set: edited}]"
    assert sets(edited, both) == {"reviews": ["edited", "edited-too"]}
    some = sets(edited, "tasks=[reviews, pairs]", "evaluate=[contrast: {set: pairs-edited}]")
    assert some == {"pairs": ["pairs-edited"]}, "a suite may have tasks that it does not evaluate"


def test_a_set_may_name_a_column_of_clusters(edited: World) -> None:
    edited.write("contrast/edited.yaml", SET.replace("TASK", "reviews") + "cluster: source\n")
    (asked,) = edited.load().sets["reviews"]
    assert getattr(asked.set, "cluster") == "source"  # noqa: B009 (a set of another kind has none)


def test_contrast_stands_beside_sts_tasks(edited: World) -> None:
    loaded = edited.load(None, "evaluate=[similar, contrast]", "attacks=[words]")
    assert [evaluation.task for evaluation in loaded.suite.evaluations] == ["similar"]
    assert [table.metric for table in loaded.suite.tables] == ["asr", "sts", "contrast"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tasks: [pairs, reviews]\nevaluate: [contrast]\n",
            "my.yaml:3:12: there is no contrast set for pairs; tasks with one: ",
        ),
        ("evaluate: [contrast]\n", "my.yaml:1:1: `tasks` is missing"),
        ("tasks: []\nevaluate: [contrast]\n", "my.yaml:2:8: `tasks`: "),
        (
            "tasks: reviews\nevaluate: [contrast: {set: editd}]\n",
            "my.yaml:3:28: " + unknown("contrast set", "editd", "edited"),
        ),
        (
            "tasks: reviews\nevaluate: [contrast: {set: pairs-edited}]\n",
            "my.yaml:3:28: contrast set pairs-edited is for the task pairs, not among the suite's `tasks`",
        ),
        ("tasks: reviews\nevaluate: [contrast: {sets: x}]\n", "my.yaml:3:23: " + unknown("key", "sets", "set")),
        (
            "tasks: reviews\nevaluate: [contrats]\n",
            "my.yaml:3:12: " + unknown("evaluation", "contrats", "contrast"),
        ),
        (
            "tasks: reviews\nevaluate: [contrast, contrast]\n",
            "my.yaml:3:22: `evaluate` lists contrast",
        ),
        (
            "tasks: reviews\ntables: [{metric: contrast}]\n",
            "my.yaml:3:19: a table of contrast needs `evaluate: [contrast]`",
        ),
        (
            "tasks: reviews\nevaluate: [contrast]\ntables: [{metric: sts}]\n",
            "my.yaml:4:19: a table of sts",
        ),
    ],
)
def test_what_is_wrong_is_told_with_place_and_remedy(edited: World, text: str, message: str) -> None:
    edited.suite(f"encoders: plain\n{text}resources: world\n")
    (line,) = edited.errors()
    assert line.startswith(message)


def test_who_has_a_contrast_set_is_said(edited: World) -> None:
    line = edited.error(None, "tasks=[reviews, pairs]")
    told = line.partition("tasks with one: ")[2].partition(". ")[0].split(", ")
    assert {"reviews", "imdb", "snli", "boolq", "perspectrum", "mini-sentiment", "mini-nli"} == set(told)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "text: before",
            "txt: before",
            "contrast/edited.yaml:3:12: " + unknown("column of reviews", "txt", "text") + "?",
        ),
        (
            "{text: before, label: was}",
            "{text: before}",
            "contrast/edited.yaml:3:11: `original` does not say which column is the task's `label`",
        ),
        (
            "local: TASK-edited/test\n",
            "",
            "contrast/edited.yaml:1:1: a contrast set has either a `local` file or a `generator`",
        ),
        (
            "task: TASK",
            "task: pairs",
            "my.yaml:2:9: contrast set edited is for the task pairs, not reviews, which names it",
        ),
    ],
)
def test_a_set_that_does_not_fit_its_task_is_refused(edited: World, old: str, new: str, message: str) -> None:
    content = PAIRS if new == "task: pairs" else SET
    edited.write("contrast/edited.yaml", content.replace(old, new).replace("TASK", "reviews"))
    assert message in edited.errors()
