"""Numbers of one model in the formats of the hub, read back by huggingface_hub."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import yaml

from rbench import api
from rbench.errors import StoreError, SuiteError
from rbench.plan.prepare import _name_hub_data
from rbench.schema import HubData, Origin
from rbench.store.runs import RunStore
from rbench.tasks import TaskData
from tests.refusals import refusal
from tests.tables.conftest import TASKS, finish, make_plan, make_suite

HUB = HubData(id="owner/mr", revision="c0ffee", config="plain", splits={"test": "test"}, columns={"text": "text"})
MR_ORIGIN = Origin(id="owner/mr", revision="c0ffee", config="plain")
ORIGIN = Origin(id="owner/nli", revision="abc")
LINK = "https://example.org/run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One encoder on a task of the hub and on one that mteb or the hub gave, under two attacks."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(TASKS, "mr", TASKS["mr"].model_copy(update={"hub": HUB, "origin": MR_ORIGIN}))
        patched.setitem(TASKS, "mini_nli", TASKS["mini_nli"].model_copy(update={"origin": ORIGIN}))
        return write_run(tmp_path_factory.mktemp("published") / "run", encoders=("minilm",))


def write_run(root: Path, **suite: Any) -> Path:
    store, plan = RunStore(root), make_plan(make_suite(**suite))
    store.write_plan(plan)
    for job in plan.jobs:
        finish(store, job)
    return root


def cells(run: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(cell["task"], cell["attack"]): cell for cell in json.loads(api.table(run, fmt="json"))["cells"]}


def test_eval_results_are_those_of_the_table(run: Path) -> None:
    parse = pytest.importorskip("huggingface_hub._eval_results").parse_eval_result_entries
    entries = parse(yaml.safe_load(api.table(run, fmt="eval-results", link=LINK)))
    by_task = {
        (("mr", "mini_nli")[entry.dataset_id == "owner/nli"], attack): entry
        for entry in entries
        for attack in ("pwws", "bertattack[max_words=10]")
        if f"_{attack}_" in entry.task_id
    }
    assert len(by_task) == len(entries) == 4
    assert {(entry.dataset_id, entry.dataset_revision) for entry in entries} == {
        ("owner/mr", "c0ffee"),
        ("owner/nli", "abc"),
    }
    for key, cell in cells(run).items():
        entry = by_task[key]
        assert entry.value == pytest.approx(100 * cell["value"], abs=1e-4)
        assert f"n {cell['n']};" in entry.notes and f"{100 * cell['low']:.1f} to" in entry.notes
        assert entry.source_url == LINK


def test_a_model_card_has_the_same_numbers_for_programs_and_for_people(run: Path) -> None:
    text = api.table(run, metric="aua", beside=["asr"], layout="paper", fmt="model-card", link=LINK)
    card = huggingface_hub.ModelCard(text)
    assert card.data.model_name == "minilm" and len(card.data.eval_results) == 8
    by_name = {
        (result.metric_type, result.dataset_type, result.metric_args["attack"]): result
        for result in card.data.eval_results
    }
    for (task, attack), cell in cells(run).items():
        result = by_name["asr", "owner/mr" if task == "mr" else "owner/nli", attack]
        assert result.metric_value == pytest.approx(100 * cell["value"], abs=1e-4)
        assert result.metric_args["n"] == cell["n"]
        assert result.metric_args["low"] == pytest.approx(100 * cell["low"], abs=1e-4)
        assert (result.task_type, result.source_url) == ("text-classification", LINK)
        shown = f"{100 * cell['value']:.1f} [{100 * cell['low']:.1f}, {100 * cell['high']:.1f}]"
        assert shown in card.text
    assert LINK in card.text


def test_only_rows_that_were_read_from_the_hub_are_said_to_be_of_it() -> None:
    task = TASKS["mr"].model_copy(update={"hub": HUB})
    data = partial(TaskData, task, fingerprint="f", dropped={}, where={}, conflicts={}, examples={})
    assert _name_hub_data(task, data(origin="hub owner/mr@c0ffee (plain)")).origin == MR_ORIGIN
    assert _name_hub_data(task, data(origin="local data/mr")).origin is None


def test_a_victims_accuracy_is_one_entry_however_many_attacks_there_are(run: Path) -> None:
    entries = yaml.safe_load(api.table(run, metric="asr", beside=["clean"], layout="paper", fmt="eval-results"))
    ids = [entry["dataset"]["task_id"] for entry in entries]
    assert len(set(ids)) == len(ids) == 2 * 2 + 2


def test_data_on_no_hub_have_a_card_and_no_eval_results(tmp_path: Path) -> None:
    own = write_run(tmp_path / "own", encoders=("minilm",), tasks=("mr",))
    (first, *_) = huggingface_hub.ModelCard(api.table(own, fmt="model-card")).data.eval_results
    assert (first.dataset_type, first.dataset_revision, first.source_url) == ("mr", None, None)
    with pytest.raises(StoreError):
        api.table(own, fmt="eval-results")


def test_a_card_is_of_one_model(tmp_path: Path) -> None:
    two = write_run(tmp_path / "two", tasks=("mr",))
    with refusal(StoreError, "--only"):
        api.table(two, fmt="model-card")
    card = huggingface_hub.ModelCard(api.table(two, fmt="model-card", only=["/minilm/"]))
    assert card.data.model_name == "minilm"


@pytest.mark.parametrize(
    "asked",
    [
        {"fmt": "markdown", "link": LINK},
        {"fmt": "model-card", "bold": "best"},
        {"fmt": "eval-results", "intervals": True},
        {"fmt": "eval-results", "layout": "means"},
        {"fmt": "mteb", "metric": "asr"},
    ],
)
def test_what_a_format_cannot_honour_is_refused(asked: dict[str, Any], run: Path) -> None:
    with pytest.raises(SuiteError):
        api.table(run, **asked)


def test_scores_of_other_protocols_are_none_of_mteb(run: Path) -> None:
    with pytest.raises(StoreError):
        api.table(run, fmt="mteb")
