"""Tests `evaluate`, `select_by` and further models of an objective: what loads, and what is refused and where."""

from __future__ import annotations

import pytest

from rbench.schema import Evaluation
from tests.config.conftest import SUITE, World
from tests.refusals import nearest, unknown

STS = "kind: sts\ncolumns: [a, b]\nmetric: spearman\n"
RSE = "base: some/lm\ntrain: {objective: robustsentembed, data: corpus, options: {generator: GENERATOR}}\n"


@pytest.fixture
def rated(world: World) -> World:
    """The world with two STS tasks, and a suite that is scored on one of them."""
    for name in ("similar", "related"):
        world.write(f"tasks/{name}.yaml", STS)
    world.change("resources: world", "evaluate: [similar, related: {split: validation}]\nresources: world")
    return world


def test_an_evaluation_is_a_task_with_a_split(rated: World) -> None:
    loaded = rated.load()
    assert loaded.suite.evaluations == (Evaluation(task="similar"), Evaluation(task="related", split="validation"))
    assert [e.label for e in loaded.suite.evaluations] == ["similar", "related[split=validation]"]
    assert {"similar", "related", "reviews"} <= set(loaded.tasks)


def test_tables_are_of_what_a_suite_asks_for(rated: World) -> None:
    assert [table.metric for table in rated.load().suite.tables] == ["asr", "sts"]
    assert [table.metric for table in rated.load(None, "evaluate=[]").suite.tables] == ["asr"]
    assert [table.metric for table in rated.load(None, "attacks=[]").suite.tables] == ["sts"]
    assert rated.load(None, "tables=[]").suite.tables == ()
    assert [table.metric for table in rated.load(None, "tables=[metric: sts]").suite.tables] == ["sts"]


def test_a_suite_that_only_evaluates_needs_no_tasks(rated: World) -> None:
    rated.suite("encoders: plain\nevaluate: similar\nresources: world\n")
    assert rated.load().suite.tasks == ()
    assert rated.load(None, "tasks=[]").suite.tasks == ()
    rated.suite(SUITE.split("attacks:")[0].replace("tasks:\n  - reviews\n  - pairs\n", "") + "evaluate: similar\n")
    assert rated.load().suite.attacks == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("encoders: plain\n", "my.yaml:1:1: `tasks` is missing"),
        ("encoders: plain\ntasks: []\n", "my.yaml:2:8: `tasks`: expected at least 1 of them, found a list"),
        ("encoders: plain\ntasks:\n", "my.yaml:2:7: `tasks`: "),
        ("encoders: plain\nevaluate: similar\nattacks: words\n", "my.yaml:1:1: `tasks` is missing"),
        (
            "encoders: plain\ntasks: reviews\ntables: [{metric: sts}]\n",
            "my.yaml:3:19: a table of sts needs `evaluate`, a list of STS tasks, which this suite lacks",
        ),
        (
            "encoders: plain\ntasks: reviews\ntables: sts\n",
            "my.yaml:3:9: a table of sts needs `evaluate`, a list of STS tasks, which this suite lacks",
        ),
        (
            "encoders: plain\ntasks: reviews\ntables: [positives]\n",
            "my.yaml:3:10: a table of positives needs `build: [positives]`, which this suite lacks",
        ),
        (
            "encoders: plain\ntasks: reviews\nprofiles: {other: {tasks: []}}\n",
            "my.yaml:3:27: `tasks`: expected at least 1 of them, found a list",
        ),
        ("encoders: plain\nevaluate: simlar\n", "my.yaml:2:11: " + unknown("evaluation", "simlar", "similar")),
        (
            "encoders: plain\nevaluate: reviews\n",
            "my.yaml:2:11: task reviews (its kind is single) has no similarity scores; ",
        ),
        (
            "encoders: plain\nevaluate: [similar: {split: dev}]\n",
            'my.yaml:2:29: `split`: expected "train", "validation" or "test", found "dev"',
        ),
        (
            "encoders: plain\nevaluate: [similar: {splt: test}]\n",
            "my.yaml:2:22: " + unknown("key", "splt", "split"),
        ),
        ("encoders: plain\nevaluate: [similar, similar]\n", "my.yaml:2:21: `evaluate` lists similar twice; remove one"),
        (
            "encoders: plain\nevaluate: [similar, similar: {split: test}]\n",
            "my.yaml:2:21: `evaluate` lists similar twice; remove one",
        ),
    ],
)
def test_what_is_wrong_is_told_with_place_and_remedy(rated: World, text: str, message: str) -> None:
    rated.suite(f"{text}resources: world\n")
    (line,) = rated.errors()
    assert line.startswith(message)


def test_valid_evaluations_are_those_with_scores(rated: World) -> None:
    line = rated.error(None, "evaluate=x")
    assert line.startswith('--set evaluate=x: unknown evaluation "x"; valid are: ')
    assert {"similar", "related", "mini-sts"} <= set(line.rpartition(": ")[2].split(", "))
    assert nearest("stsb") in rated.error(None, "evaluate=stsbb")
    assert "reviews" not in line


# ------------------------------------------------------------------------------------------------------- training


def test_what_steps_are_selected_by_is_loaded(rated: World) -> None:
    rated.write("encoders/bottom.yaml", "base: some/lm\ntrain: {objective: simcse, data: corpus, select_by: related}\n")
    loaded = rated.load(None, "evaluate=[]")
    assert "related" in loaded.tasks and "similar" not in loaded.tasks
    train = loaded.encoders["bottom"].train
    assert train is not None and (train.select_every, train.patience) == (125, None)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("relatd", "encoders/bottom.yaml:2:53: " + unknown("task to select by", "relatd", "related")),
        ("reviews", "encoders/bottom.yaml:2:53: task reviews (its kind is single) has no similarity scores"),
        ("[related, reviews]", "encoders/bottom.yaml:2:53: task reviews (its kind is single) has no similarity"),
        ("[related, related]", "encoders/bottom.yaml:2:53: "),
        ("[]", "encoders/bottom.yaml:2:53: "),
    ],
)
def test_select_by_must_be_an_sts_task(rated: World, task: str, message: str) -> None:
    rated.write(
        "encoders/bottom.yaml", f"base: some/lm\ntrain: {{objective: simcse, data: corpus, select_by: {task}}}\n"
    )
    assert any(line.startswith(message) for line in rated.errors())


def test_further_models_are_named_by_encoder_and_option(world: World) -> None:
    world.write("encoders/trained.yaml", RSE.replace("GENERATOR", "some/masked-lm"))
    assert world.load().models["trained"] == {"generator": "some/masked-lm"}
    world.write("encoders/trained.yaml", RSE.replace("GENERATOR", "bottom"))
    loaded = world.load()
    assert loaded.models == {"trained": {"generator": "bottom"}, "bottom": {}}
    assert "bottom" in loaded.encoders


def test_models_that_cannot_serve_are_refused_with_their_place(world: World) -> None:
    world.write("encoders/trained.yaml", RSE.replace("GENERATOR", "over"))
    world.write("encoders/over.yaml", "base: trained\ntrain: {objective: simcse, data: corpus}\n")
    assert "trained -> over -> trained" in world.error()
    world.write("encoders/half.yaml", "base: some/lm\nlayers: 3\n")
    world.write("encoders/over.yaml", "base: half\ntrain: {objective: simcse, data: corpus}\n")
    world.load()  # what is trained on three layers has three layers, all of them
    world.write("encoders/over.yaml", "base: half\n")
    assert world.error() == ("encoders/trained.yaml:2:72: encoder over keeps 3 layers; name one that keeps them all")
