"""Fine-tuning strategies that are for some of a suite's encoders alone (`encoders` among a strategy's options)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.config import load
from rbench.config.registry import Registry
from rbench.errors import SuiteError
from rbench.plan.labels import relabel_plan
from rbench.plan.prepare import Options
from rbench.plan.union import unite_plans
from rbench.schema import Plan, Strategy
from rbench.store.runs import RunStore

SUITE = """\
encoders: [mini-bert-packaged, mini-bert-random]
tasks: [mini-sentiment]
finetune: [clean, {adversarial: {epochs: 1, candidates: 3, source: neighbours, encoders: [mini-bert-random]}}]
attacks: [pwws]
num_examples: 4
resources: mini
training: {max_train: 16, max_validation: 16, epochs: 1}
"""
TUNED = "adversarial[candidates=3,epochs=1,source=neighbours]"
FOR_ONE = ", encoders: [mini-bert-random]"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plan(text: str = SUITE, name: str = "suite") -> Plan:
    Path(f"{name}.yaml").write_text(text, encoding="utf-8")
    return prepare_suite(f"{name}.yaml", Options(device="cpu")).plan


def victims(of: Plan) -> set[tuple[str, ...]]:
    return {(job.parts[0], job.parts[2]) for job in of.jobs if job.stage == "finetune"}


def test_only_the_named_encoders_are_fine_tuned_with_it() -> None:
    planned = plan()
    assert victims(planned) == {
        ("mini-bert-packaged", "clean"),
        ("mini-bert-random", "clean"),
        ("mini-bert-random", TUNED),
    }
    attacked = [job.parts[0] for job in planned.jobs if job.stage == "attack" and job.parts[2] == TUNED]
    assert attacked == ["mini-bert-random"]


def test_it_changes_no_key_and_no_label() -> None:
    some, every = plan(), plan(SUITE.replace(FOR_ONE, ""))
    assert {job.key for job in some.jobs} < {job.key for job in every.jobs}
    assert [one.label for one in some.suite.finetune] == [one.label for one in every.suite.finetune]


def test_a_plan_on_disk_keeps_it() -> None:
    planned = plan()
    assert Plan.model_validate_json(planned.model_dump_json()) == planned
    assert planned.suite.finetune[1].encoders == ("mini-bert-random",)


def test_an_encoder_may_be_named_with_options_and_alone() -> None:
    text = SUITE.replace("mini-bert-random]", "mini-bert-random: {max_length: 20}]", 1)
    planned = plan(text.replace(FOR_ONE, ", encoders: {mini-bert-random: {max_length: 20}}"))
    assert ("mini-bert-random[max_length=20]", TUNED) in victims(planned) and len(victims(planned)) == 3


def test_each_training_seed_of_an_encoder_is_meant() -> None:
    text = SUITE.replace("mini-bert-packaged", "simcse-mini").replace(FOR_ONE, ", encoders: [simcse-mini]")
    tuned = {encoder for encoder, strategy in victims(plan(text + "train_seeds: [0, 1]\n")) if strategy == TUNED}
    assert len(tuned) == 2 and all(encoder.startswith("simcse-mini") for encoder in tuned)


def test_it_runs_and_tables_have_the_rows_that_there_are() -> None:
    Path("suite.yaml").write_text(SUITE + "evaluate: [transfer, space]\n", encoding="utf-8")
    result = api.run("suite.yaml", Options(device="cpu"))
    assert not result.failed and not result.skipped
    rows = api.table(result.run, fmt="csv", metric="asr", layout="full").splitlines()
    assert [sum(name in row for row in rows) for name in ("mini-bert-random", "mini-bert-packaged")] == [2, 1]
    assert "the first encoder with the same fine-tuning" in api.table(result.run, metric="space", fmt="json")
    written = RunStore(result.run).plan()
    assert written is not None and written.suite.finetune[1].encoders == ("mini-bert-random",)


def test_a_claim_on_a_victim_that_is_not_made_is_an_error_with_its_place() -> None:
    claim = '  - {id: tuned, lower: {finetune: "FT"}, than: {finetune: clean}, where: {encoder: ENCODER}}\n'
    text = SUITE + "claims:\n" + claim.replace("FT", TUNED)
    assert plan(text.replace("ENCODER", "mini-bert-random")).suite.claims
    with pytest.raises(SuiteError) as caught:
        plan(text.replace("ENCODER", "mini-bert-packaged"))
    assert "suite.yaml:9" in str(caught.value)


def test_a_profile_may_drop_an_encoder_that_a_strategy_names() -> None:
    text = SUITE + "profiles:\n  small: {encoders: [mini-bert-packaged]}\n"
    Path("suite.yaml").write_text(text, encoding="utf-8")
    assert [one.label for one in load("suite.yaml", registry=Registry(), profile="small").suite.finetune] == [
        "clean",
        TUNED,
    ]
    assert victims(plan(text)) == victims(plan())


@pytest.mark.parametrize(
    ("old", "new", "place", "named"),
    [
        (FOR_ONE, ", encoders: [mini-bert-randm]", 3, "mini-bert-randm"),
        (FOR_ONE, ", encoders: []", 3, "finetune[1]"),
        (FOR_ONE, ", encoders: [mini-bert-packaged, 4]", 3, "finetune[1]"),
        ("[clean, ", "[", 1, "mini-bert-packaged"),
    ],
)
def test_wrong_encoders_are_an_error_with_their_place(old: str, new: str, place: int, named: str) -> None:
    Path("suite.yaml").write_text(SUITE.replace(old, new), encoding="utf-8")
    with pytest.raises(SuiteError) as error:
        load("suite.yaml", registry=Registry())
    assert f"suite.yaml:{place}:" in str(error.value) and named in str(error.value)


def test_a_union_of_plans_joins_the_encoders_of_a_strategy() -> None:
    one = plan(SUITE)
    other = plan(
        SUITE.replace("[mini-bert-packaged, mini-bert-random]", "[mini-bert-packaged]").replace(FOR_ONE, ""), "b"
    )
    both, _ = unite_plans({"one": one, "other": other})
    assert [one.label for one in both.suite.finetune] == ["clean", TUNED]
    assert both.suite.finetune[1].encoders == ("mini-bert-random", "mini-bert-packaged")
    assert both.suite.finetune[0].encoders is None
    assert victims(both) == {(encoder, strategy) for encoder in one.suite.encoders for strategy in ("clean", TUNED)}


def test_a_label_of_a_run_is_part_of_the_names() -> None:
    labelled, _ = relabel_plan(plan(), "before")
    (name,) = labelled.suite.finetune[1].encoders or ()
    assert name in labelled.suite.encoders and name != "mini-bert-random"


def test_options_of_other_choices_are_left_alone() -> None:
    assert Strategy.model_validate({"clean": {"encoders": "a", "epochs": 2}}) == Strategy(
        name="clean", options={"epochs": 2}, encoders=("a",)
    )
