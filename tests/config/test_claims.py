"""Claims in suites and in files of their own: what is refused, where, and what a profile leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench.api.suites import prepare_suite
from rbench.config.claims import read_claims
from rbench.config.metrics import MetricCatalogue
from rbench.errors import SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Plan, Suite
from rbench.schema.claims import ClaimScope
from rbench.tables import Results
from rbench.verdicts.cells import RunCells
from tests.config.conftest import SUITE, World
from tests.refusals import unknown
from tests.tables.conftest import make_plan, make_suite

RIGHT = "{id: a, lower: trained, than: plain, for_each: [task, attack]}"


def ground_of(plan: Plan) -> ClaimScope:
    return RunCells(Results.for_plan(plan, MetricCatalogue())).claim_scope


def claims(world: World, *lines: str) -> None:
    """The suite with these claims, from line 16 on."""
    world.suite(
        SUITE.replace("resources: world\n", "resources: world\nclaims:\n" + "".join(f"  - {x}\n" for x in lines))
    )


def test_right_claims_are_kept_and_stored(world: World) -> None:
    claims(
        world,
        RIGHT,
        "{id: b, of: {objective: mlm}, at_most: 60}",
        "{id: c, metric: queries, higher: {attack: letters}, than: {attack: words}}",
    )
    suite = world.load().suite
    assert [claim.id for claim in suite.claims] == ["a", "b", "c"]
    stored = json.loads(suite.model_dump_json())
    assert Suite.model_validate(stored) == suite


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("{id: a, lower: traned, than: plain}", "20: " + unknown("encoder of this suite", "traned", "trained")),
        (
            "{id: a, metric: arr, lower: trained, than: plain}",
            "21: " + unknown("metric of a claim", "arr", "mrr", "asr"),
        ),
        ("{id: a, of: {task: revews}, at_most: 1}", "24: " + unknown("task of this suite", "revews", "reviews")),
        ("{id: a, of: {attack: wrds}, at_most: 1}", "26: " + unknown("attack of this suite", "wrds", "words")),
        (
            "{id: a, of: {finetune: cleen}, at_most: 1}",
            "28: " + unknown("finetune of this suite", "cleen", "clean"),
        ),
        (
            "{id: a, of: {objective: mlmm}, at_most: 1}",
            "29: " + unknown("objective of this suite's encoders", "mlmm", "mlm"),
        ),
        ("{id: a, falling: trained, in: mosk}", "35: " + unknown("option of trained", "mosk", "mask")),
        ("{id: a, falling: trained, in: mask}", "35: no two encoders of this suite differ in mask alone: trained"),
        ("{id: a, falling: plain, in: mask}", "33: plain is not trained by rbench, so it has no options"),
        (
            "{id: a, of: plain, at_most: 1, where: {task: pears}}",
            "50: " + unknown("task of this suite", "pears", "pairs"),
        ),
        (
            "{id: a, metric: sts, lower: trained, than: plain}",
            "21: this suite does not produce the metric sts: it needs `evaluate`, a list of STS tasks",
        ),
        (
            "{id: a, metric: con, of: plain, at_least: 1}",
            "21: this suite does not produce the metric con: it needs `evaluate: [contrast]`",
        ),
        (
            "{id: a, metric: oracle_asr, of: plain, at_least: 1}",
            "21: this suite does not produce the metric oracle_asr: it needs `attacks` and a task with an oracle, such "
            "as mini-sentiment",
        ),
        (
            "{id: a, metric: any_attack, of: {attack: words}, at_least: 1}",
            "46: any_attack has no attack in this suite, so a claim cannot name one",
        ),
        (
            "{id: a, lower: plain, than: plain}",
            "5: nothing in this suite matches the claim a (asr of plain lower than plain)",
        ),
        ("{id: a, of: plain, at_most: 160}", "33: asr lies between 0 and 100, so no limit is 160"),
        ("{id: a, of: plain, at_least: -10}", "34: asr lies between 0 and 100, so no limit is -10"),
        (
            "{id: a, lower: plain, than: trained, by: -500}",
            "46: asr lies between 0 and 100, so no difference is -500",
        ),
        ("{id: a, lower: plain, than: trained, times: -1}", "5: times is a factor above 0"),
        ("{id: a, lowr: plain, than: trained}", "13: " + unknown("key", "lowr", "lower")),
        ("{id: a, falling: trained, in: mask, from: true}", "47: `claims[0].from`: "),
    ],
)
def test_a_wrong_claim_is_an_error_with_its_place(world: World, claim: str, message: str) -> None:
    claims(world, claim)
    assert world.error().startswith(f"my.yaml:16:{message}")


def test_two_claims_with_one_id_are_refused(world: World) -> None:
    claims(world, RIGHT, "{id: a, of: plain, at_most: 1}")
    assert (
        world.error()
        == f"my.yaml:17:10: two claims have the id a; the first stands at {world.folder}/my.yaml:16:10".replace(
            f"{world.folder}/", ""
        )
    )


def test_a_profile_with_other_encoders_leaves_claims_out_and_says_so(world: World) -> None:
    claims(world, RIGHT, "{id: b, of: plain, at_most: 60}")
    text = (world.folder / "my.yaml").read_text()
    world.suite(
        text + "  other: {encoders: [plain]}\n  own: {encoders: [plain], claims: [{id: z, of: plain, at_most: 1}]}\n"
    )
    loaded = world.load("other")
    assert [claim.id for claim in loaded.suite.claims] == ["b"]
    assert loaded.notes == ("left out, because the suite has other encoders, tasks, attacks or metrics here: claims a",)
    own = world.load("own")
    assert [claim.id for claim in own.suite.claims] == ["z"] and own.notes == ()
    assert [claim.id for claim in world.load(None, "encoders=[plain]").suite.claims] == ["b"]


def test_a_name_that_no_profile_has_is_an_error_under_each(world: World) -> None:
    claims(world, "{id: a, lower: traned, than: plain}")
    text = (world.folder / "my.yaml").read_text()
    world.suite(text + "  other: {encoders: [plain]}\n")
    assert world.error("other").startswith('my.yaml:16:20: unknown encoder of this suite "traned"')


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("{id: a, metric: arr, lower: trained, than: plain}", 'unknown metric of a claim "arr"'),
        ("{id: a, of: {objective: mlmm}, at_most: 1}", 'unknown objective of this suite\'s encoders "mlmm"'),
    ],
)
def test_a_metric_or_objective_that_there_is_nowhere_is_an_error_under_each_profile(
    world: World, claim: str, said: str
) -> None:
    claims(world, claim)
    world.suite((world.folder / "my.yaml").read_text() + "  other: {encoders: [plain]}\n")
    assert said in world.error("other")


def test_a_strategy_that_a_suite_has_without_naming_it_is_no_mistake_under_a_profile(world: World) -> None:
    claims(world, "{id: a, lower: {encoder: trained, finetune: clean}, than: plain}", "{id: b, of: plain, at_most: 60}")
    world.suite((world.folder / "my.yaml").read_text() + "  other: {encoders: [plain]}\n")
    assert [claim.id for claim in world.load("other").suite.claims] == ["b"]


def test_the_claims_that_a_profile_brings_itself_must_fit_it(world: World) -> None:
    claims(world, RIGHT)
    own = "  own: {encoders: [plain], claims: [{id: z, lower: trained, than: plain}]}\n"
    world.suite((world.folder / "my.yaml").read_text() + own)
    assert 'unknown encoder of this suite "trained"' in world.error("own")


def test_a_plan_has_the_same_ground_as_its_suite(tmp_path: Path) -> None:
    plan = prepare_suite("mini-encoders", Options(out=tmp_path / "run", limit=5)).plan
    ground = ground_of(plan)
    assert {"asr", "oracle_asr", "sts"} <= ground.cells.keys() and "con" not in ground.cells
    assert ground.names("encoder", "asr") == ground.names("encoder", "sts") == plan.suite.encoders
    assert len(ground.cells["asr"]) == 3 * 2 * 6


@pytest.mark.parametrize(
    ("suite", "metric", "tasks"),
    [
        ("cline-table7", "hits", ("cls", "mean", "bertscore")),
        ("vadvcse-table3", "accuracy", ("dev R1", "dev R2", "dev R3", "test R1", "test R2", "test R3")),
    ],
)
def test_what_a_papers_table_has_in_its_columns_stands_for_tasks(
    tmp_path: Path, suite: str, metric: str, tasks: tuple[str, ...]
) -> None:
    claim = (
        f'claims=[{{id: a, metric: {metric}, of: simcse-mini-packaged, at_least: 1, where: {{task: "{tasks[1]}"}}}}]'
    )
    prepared = prepare_suite(suite, Options(out=tmp_path / "run", profile="mini", overrides=(claim,)))
    assert [one.id for one in prepared.plan.suite.claims] == ["a"], "the suite has such cells"
    ground = ground_of(prepared.plan)
    assert set(ground.names("task", metric)) <= {*tasks} and tasks[1] in ground.names("task", metric)
    assert {cell.encoder for cell in ground.cells[metric]} == {*prepared.plan.suite.encoders}


@pytest.fixture
def ground() -> ClaimScope:
    plan: Plan = make_plan(make_suite())
    return ground_of(plan)


def test_claims_of_a_file_are_checked_against_the_run(tmp_path: Path, ground: ClaimScope) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("claims:\n  - {id: a, lower: minilm, than: bert_b}\n")
    assert [claim.id for claim in read_claims(file, ground)] == ["a"]
    file.write_text("claims:\n  - {id: a, lower: minilm, than: bert_c}\n")
    with pytest.raises(SuiteError) as caught:
        read_claims(file, ground)
    assert "claims.yaml:2:34: " in str(caught.value) and "bert_b" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("claim: []\n", "c.yaml:1:1"),
        ("claims: []\n", "c.yaml:1:9"),
        ("claims: [{id: a, lower: minilm}]\n", "c.yaml:1:10"),
    ],
)
def test_a_file_without_claims_is_an_error_with_its_place(
    tmp_path: Path, ground: ClaimScope, text: str, place: str
) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(SuiteError) as caught:
        read_claims(tmp_path / "c.yaml", ground)
    assert place in str(caught.value)
