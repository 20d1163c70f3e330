"""Adversarial sets from end to end: made in a RUN, written as a data set, opened without rbench, and scored again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner, Result

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.cli import app
from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.encoders.classifier import EncoderClassifier
from rbench.errors import PlanError, ResourceError, StoreError, SuiteError
from rbench.plan.prepare import Options
from rbench.schema import Job, Plan, Record
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from tests import tiny
from tests.films import SET_YAML, TASK_YAML, write_edits, write_rows, write_text
from tests.refusals import unknown

FLIP = """
from rbench.attacks import AttackMethod

GOOD, BAD = {good}, {bad}


class FlipAttack(AttackMethod):
    title = "Words of the other class"
    reference = "a test"

    def build(self, victim, resources, options, task):
        from textattack import Attack
        from textattack.goal_functions import UntargetedClassification
        from textattack.search_methods import GreedyWordSwapWIR
        from textattack.transformations import WordSwap

        class Flip(WordSwap):
            def _get_replacement_words(self, word):
                return BAD[:2] if word in GOOD else GOOD[:2] if word in BAD else []

        return Attack(UntargetedClassification(victim), [], Flip(), GreedyWordSwapWIR("delete"))
"""
SUITE = """\
encoders: [toy]
tasks: [films]
finetune: [clean, probe]
evaluate:
  - {adversarial: {victim: toy, attack: flip, finetune: probe}}
  - contrast
seeds: [0, 1]
num_examples: 24
resources: mini
"""
FROM_FOLDER = SUITE.replace(
    "{adversarial: {victim: toy, attack: flip, finetune: probe}}", "{adversarial: sets/flipped}"
)


def make(place: Path) -> None:
    """A task of films, an encoder, an attack that swaps the word that decides, and a suite."""
    write_text(place / "mine/tasks/films.yaml", TASK_YAML)
    write_text(place / "mine/contrast/films-edited.yaml", SET_YAML)
    write_text(place / "mine/encoders/toy.yaml", "base: toy\npooling: mean\n")
    write_text(place / "mine/attacks/flip.py", FLIP.format(good=tiny.GOOD, bad=tiny.BAD))
    write_text(place / "suite.yaml", SUITE)
    write_text(place / "again.yaml", FROM_FOLDER)
    tiny.write_bert(place / "models" / "toy")
    data = tiny.data(train=64)
    for split in ("train", "validation", "test"):
        rows = [{"text": example.texts[0], "label": example.label} for example in data.split(split)]
        write_rows(place / f"data/films/{split}.jsonl", rows)
    write_edits(place)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the RUN of the suite, results/runs/suite, and the set sets/flipped made of it."""
    place = tmp_path_factory.mktemp("adversarial")
    make(place)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("RBENCH_INCLUDE", "mine")
        patch.setenv("RBENCH_DATA", "data")
        patch.setenv("RBENCH_MODELS", "models")
        result = api.run("suite.yaml", options())
        assert not result.failed, result.failed[0].error
        api.build_adversarial_from(result.run, Path("sets/flipped"), api.AttackSelection())
        yield place


@pytest.fixture
def place(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to be in and to change."""
    shutil.copytree(ran, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def options(**more: Any) -> Options:
    folders = {"include": (Path("mine"),), "data": (Path("data"),), "models": (Path("models"),)}
    return Options(**folders, device="cpu", backend="torch", **more)


def rbench(*words: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


def planned(run: str = "results/runs/suite") -> tuple[RunStore, Plan]:
    store = RunStore(Path(run))
    plan = store.plan()
    assert plan is not None
    return store, plan


def job_of(plan: Plan, name: str) -> Job:
    (job,) = [job for job in plan.jobs if job.name == name]
    return job


def record_of(store: RunStore, job: Job) -> Record:
    record = store.record(job)
    assert record is not None
    return record


def rows_of(folder: Path = Path("sets/flipped")) -> list[dict[str, Any]]:
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(folder / "data/test-00000-of-00001.parquet").to_pylist()
    return rows


# ------------------------------------------------------------------------------------------------------ in one RUN


@pytest.mark.nightly
def test_a_suite_attacks_one_victim_once_and_scores_all_victims_on_its_texts(ran: Path) -> None:
    store, plan = planned()
    attacks = [job for job in plan.jobs if job.stage == "attack"]
    assert [job.name for job in attacks] == ["attack/toy/films/probe/flip/seed0"], "one set for all victims and seeds"
    scored = [job for job in plan.jobs if job.what == "adversarial"]
    assert [job.name for job in scored] == [
        f"measure/toy/films/{strategy}/flip-on-toy-probe/seed{seed}"
        for seed in (0, 1)
        for strategy in ("clean", "probe")
    ]
    assert all(job.needs["attack"] == attacks[0].key for job in scored)
    assert api.plan("suite.yaml", options()).done == {job.key for job in plan.jobs}, "nothing is left to do"
    assert api.verify(store.root).counts["verified"] == len(plan.jobs)
    for job in scored:
        check(store, job)
    own = record_of(store, scored[1])
    assert {score.name: score.value for score in own.scores}["changed"] == 0, "the victim that was attacked"


def check(store: RunStore, job: Job) -> None:
    """Compare a record with the victim's answers, text by text, to the rows of the set that was written."""
    victim, _ = EncoderClassifier.load(WeightCache(default_cache()).folder(job.needs["victim"]))

    def right(text: str, label: int) -> bool:
        with torch.no_grad():
            return int(victim(**victim.tokenizer(text, return_tensors="pt")).logits.argmax()) == label

    rows = rows_of()
    before = [right(row["original_text"], row["label"]) for row in rows]
    after = [right(row["text"], row["label"]) for row in rows]
    changed = [row["status"] == "succeeded" for row in rows]
    expected = {
        "clean": (sum(before), len(rows)),
        "adversarial": (sum(after), len(rows)),
        "changed": (sum(ok for ok, yes in zip(after, changed, strict=True) if yes), sum(changed)),
        "clean_changed": (sum(ok for ok, yes in zip(before, changed, strict=True) if yes), sum(changed)),
    }
    record = record_of(store, job)
    assert {score.name: (score.value, score.n) for score in record.scores} == {
        name: (pytest.approx(count / n), n) for name, (count, n) in expected.items()
    }
    assert record.counts["changed"] == sum(changed) > 3
    assert "film" not in json.dumps([one.model_dump() for one in store.predictions(job)]), "no texts"


def test_the_table_says_which_victim_was_attacked(ran: Path) -> None:
    printed = rbench("table", "results/runs/suite", "--metric", "adversarial", "--intervals", "--quiet")
    text = api.table(Path("results/runs/suite"), metric="adversarial", intervals=True, notes="full", names=True)
    assert printed.exit_code in (0, 2) and "films Clean" in text and "films Adv" in text and "films Changed" in text
    changed = sum(row["status"] == "succeeded" for row in rows_of())
    assert f"films (flip-on-toy-probe): 24 rows, {changed} of them changed; made by flip against toy with probe" in text
    assert text.count("is the victim that was attacked") == 1
    assert "toy with probe fine-tuning, seed 0, is the victim that was attacked" in text
    cells = json.loads(api.table(Path("results/runs/suite"), metric="adversarial", fmt="json"))["cells"]
    store, plan = planned()
    for cell in cells:
        records = [
            record_of(store, job_of(plan, f"measure/toy/films/{cell['finetune']}/flip-on-toy-probe/seed{seed}"))
            for seed in (0, 1)
        ]
        values = [{score.name: score.value or 0 for score in record.scores}["adversarial"] for record in records]
        assert cell["value"] == pytest.approx(sum(values) / 2) and cell["n"] == 24
    assert [cell["made_against_seeds"] for cell in cells] == [[], [0]]
    assert Path("results/runs/suite/tables/adversarial.md").is_file(), "the default tables hold it"


# ------------------------------------------------------------------------------------------------------- on disk


def test_the_written_set_is_what_the_store_holds(ran: Path) -> None:
    store, plan = planned()
    outcomes = {one.example_id: one for one in store.outcomes(job_of(plan, "attack/toy/films/probe/flip/seed0"))}
    rows = rows_of()
    assert len(rows) == len(outcomes) == 24
    for row in rows:
        one = outcomes[row["id"]]
        assert (row["original_text"],) == one.original and row["label"] == one.label and row["status"] == one.status
        assert (row["text"],) == (one.perturbed if one.status == "succeeded" else one.original)
        assert (row["num_queries"], row["num_words_changed"]) == (one.num_queries, one.num_words_changed)
        assert row["original_prediction"] == one.original_prediction


def test_datasets_opens_it(ran: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    found = load_dataset(str(Path("sets/flipped").resolve()), split="test", cache_dir=str(tmp_path))
    assert found.features["label"].names == found.features["original_prediction"].names == ["bad", "good"]
    assert list(found["text"]) == [row["text"] for row in rows_of()]
    _, front, card = Path("sets/flipped/README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert yaml.safe_load(front)["configs"][0]["data_files"][0]["split"] == "test"
    for status, words_of in {"succeeded": "the attack succeeded", "failed": "the attack failed"}.items():
        assert f"| {words_of} | {list(found['status']).count(status)} |" in card, "the card's counts are the file's"
    assert f"{len(found)} rows" in card and str(ran) not in card, "no path"


@pytest.mark.parametrize(("only", "statuses"), [("attacked", {"succeeded", "failed"}), ("successes", {"succeeded"})])
def test_which_rows_are_written_can_be_chosen(only: Any, statuses: set[str], place: Path) -> None:
    built = api.build_adversarial_from(
        Path("results/runs/suite"), Path("few"), api.AttackSelection(task="films"), only=only
    )
    chosen = [row["id"] for row in rows_of() if row["status"] in statuses]
    assert [row["id"] for row in rows_of(Path("few"))] == chosen and built.about.counts["rows"] == len(chosen)
    assert built.about.counts["total"] == 24


def test_overwriting_replaces_the_set_and_nothing_else(place: Path) -> None:
    write_text(place / "sets/flipped/mine.txt", "kept")
    words = ("attack", "--run", "results/runs/suite", "--out", "sets/flipped", "--only", "successes")
    refused = rbench(*words)
    assert refused.exit_code == 2 and len(rows_of()) == 24
    done = rbench(*words, "--overwrite")
    assert done.exit_code == 0, done.output
    assert {row["status"] for row in rows_of()} == {"succeeded"} and (place / "sets/flipped/mine.txt").is_file()
    assert not list((place / "sets").glob(".rbench*")), "no temporary folder is left"


@pytest.mark.parametrize(
    "words",
    [
        ["--run", "results/runs/suite"],
        ["--run", "results/runs/suite", "--out", "x", "-n", "3"],
        ["-e", "toy", "--out", "x"],
        ["-c", "toy", "-t", "films", "-a", "flip", "--out", "x"],
    ],
)
def test_what_goes_with_no_set_or_no_run_is_refused(words: list[str], ran: Path) -> None:
    assert rbench("attack", *words).exit_code == 2 and not Path("x").exists()


def test_one_cell_is_run_and_written_and_resumed(place: Path) -> None:
    words = ("attack", "-e", "toy", "-t", "films", "-a", "flip", "-n", "6", "--seed", "1")
    more = ("--backend", "torch", "--workers", "1", "--resources", "mini", "--finetune", "probe")
    done = rbench(*words, "--out", "one", *more)
    assert done.exit_code == 0, done.output
    about = json.loads(Path("one/rbench.json").read_text())
    assert (about["counts"]["total"], about["seed"], about["finetune"]) == (6, 1, "probe")
    _, plan = planned("results/runs/adversarial-toy-films-flip")
    attack = job_of(plan, "attack/toy/films/probe/flip/seed1")
    assert about["job"] == attack.key and about["victim"] == attack.needs["victim"]


# ------------------------------------------------------------------------------------------------ scored from a folder


def test_victims_are_scored_on_a_set_in_a_folder(place: Path) -> None:
    one_seed = options(overrides=("seeds=[0]",))
    result = api.run("again.yaml", one_seed)
    assert not result.failed, result.failed[0].error
    store, plan = planned("results/runs/again")
    assert not [job for job in plan.jobs if job.stage == "attack"]
    scored = [job for job in plan.jobs if job.what == "adversarial"]
    assert len(scored) == 2 and str(place) not in scored[0].model_dump_json(), "no path in a job"
    for job in scored:
        check(store, job)
    shutil.move("sets/flipped", "elsewhere-first")
    shutil.move("elsewhere-first", "sets/flipped")
    assert api.plan("again.yaml", one_seed).done == {job.key for job in plan.jobs}


def test_texts_of_a_set_are_kept_out_of_training(place: Path) -> None:
    def victim(suite: str) -> str:
        return job_of(prepare_suite(suite, options()).plan, "finetune/toy/films/clean/seed0").key

    before = victim("suite.yaml")
    leak = next(row["text"] for row in rows_of() if row["status"] == "succeeded")
    train = [json.loads(line) for line in Path("data/films/train.jsonl").read_text().splitlines()]
    write_rows(place / "data/films/train.jsonl", [*train, {"text": f"{leak}!", "label": 1}])
    assert prepare_suite("again.yaml", options()).data["films"].dropped["train: also in flipped"] == 1
    assert victim("again.yaml") == before, "the text is left out again"
    assert victim("suite.yaml") != before, "a suite that does not name the set trains on it"


def test_the_key_holds_the_rows_of_a_set(place: Path) -> None:
    def key() -> str:
        return job_of(prepare_suite("again.yaml", options()).plan, "measure/toy/films/clean/flipped/seed0").key

    first = key()
    write_text(place / "sets/flipped/README.md", "another card")
    assert key() == first
    few = api.build_adversarial_from(
        Path("results/runs/suite"), Path("sets/flipped"), api.AttackSelection(), only="successes", overwrite=True
    )
    assert few.about.only == "successes" and key() != first


# ---------------------------------------------------------------------------------------------------- what is refused


def test_an_unfinished_or_textless_run_is_refused_with_the_remedy(place: Path) -> None:
    store, plan = planned()
    attack = job_of(plan, "attack/toy/films/probe/flip/seed0")
    (store.folder(attack) / "record.json").unlink()
    with pytest.raises(StoreError):
        api.build_adversarial_from(store.root, Path("x"), api.AttackSelection())
    stripped = api.strip(store.root)
    with pytest.raises(StoreError):
        api.build_adversarial_from(stripped, Path("x"), api.AttackSelection())
    with pytest.raises(PlanError):
        api.run("suite.yaml", options(texts=False, out=Path("textless")))
    with pytest.raises(StoreError) as caught:
        api.build_adversarial_from(store.root, Path("x"), api.AttackSelection(encoder="bert"))
    assert "attack/toy/films/probe/flip/seed0" in str(caught.value)
    with pytest.raises(StoreError):
        api.build_adversarial_from(Path("data"), Path("x"), api.AttackSelection())
    assert not Path("x").exists()


def test_a_set_that_is_damaged_or_of_another_task_is_refused_with_its_place(place: Path) -> None:
    about = json.loads(Path("sets/flipped/rbench.json").read_text())

    def refused(change: dict[str, Any]) -> str:
        Path("sets/flipped/rbench.json").write_text(json.dumps(about | change))
        with pytest.raises((SuiteError, ResourceError)) as error:
            prepare_suite("again.yaml", options())
        return str(error.value)

    assert "again.yaml:5:19" in refused({"task": "film"}) and 'unknown task "film"' in refused({"task": "film"})
    assert "is of the task mr, not among the suite's `tasks`" in refused({"task": "mr"})
    assert "has the columns body, and its task films here has text" in refused({"columns": ["body"]})
    assert "has the labels good, bad, and its task films here has bad, good" in refused({"labels": ["good", "bad"]})
    assert "does not match" in refused({"fingerprint": "0" * 64})
    assert "`format`" in refused({"format": 2})
    Path("sets/flipped/rbench.json").unlink()
    with pytest.raises(SuiteError) as caught:
        prepare_suite("again.yaml", options())
    assert "rbench.json" in str(caught.value)


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ("[adversarial]", "expected `set`, the folder of a set, or `victim` and `attack`"),
        ("[{adversarial: {set: sets/flipped, attack: flip}}]", "`set` names a set that is there"),
        ("[{adversarial: {victim: tay, attack: flip}}]", unknown("encoder", "tay", "toy")),
        ("[{adversarial: {victim: toy, attack: flop}}]", unknown("attack", "flop", "flip")),
        ("[{adversarial: {victim: toy, attack: flip, finetune: cleen}}]", 'unknown finetune strategy "cleen"'),
        ("[{adversarial: {victim: toy, atack: flip}}]", 'unknown key "atack"'),
        ("[adverserial]", "adversarial"),
        ("[{adversarial: sets/flipped}, {adversarial: ./sets/flipped}]", "two sets of films are called flipped"),
        ("[contrast]\ntables=[{metric: adversarial}]", "a table of adversarial needs `evaluate: [{adversarial: DIR}]`"),
    ],
)
def test_what_a_suite_may_not_ask_for(evaluate: str, message: str, ran: Path) -> None:
    with pytest.raises(SuiteError) as error:
        prepare_suite("suite.yaml", options(overrides=tuple(f"evaluate={evaluate}".split("\n"))))
    assert message in str(error.value)


def test_more_examples_than_there_are_and_nothing_to_write_are_refused(place: Path) -> None:
    with pytest.raises(PlanError) as caught:
        prepare_suite("suite.yaml", options(overrides=("num_examples=100",)))
    assert "60" in str(caught.value)
    store, plan = planned()
    attack = job_of(plan, "attack/toy/films/probe/flip/seed0")
    none = [one.model_copy(update={"status": "failed"}) for one in store.outcomes(attack)]
    record = record_of(store, attack)
    store.write_record(record.model_copy(update={"outcomes": store.write_outcomes(attack, none)}))
    with pytest.raises(PlanError):
        api.build_adversarial_from(store.root, Path("x"), api.AttackSelection(), only="successes")


# --------------------------------------------------------------------------------------------------------- the guide


def test_the_suites_of_the_guide_load_and_its_python_runs(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[1] / "docs/guide-adversarial-sets.md").read_text(encoding="utf-8")
    whole, part = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    found = load_mapping(yaml.safe_load(whole) | {"name": "guide"}, registry=Registry())
    assert {task: [one.set.encoder for one in sets] for task, sets in found.sets.items()} == {
        "mini-sentiment": ["mini-bert-mean"],
        "mini-nli": ["mini-bert-mean"],
    }
    changes = yaml.safe_load(part)["evaluate"]
    assert changes == [{"adversarial": "my-set"}]
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(ran / "hf"))
    exec(code.replace("my-set", "sets/flipped"), {})
    for line in re.findall(r"```bash\n(.*?)```", guide, re.DOTALL)[0].splitlines():
        known = set(re.findall(r"--[a-z-]+", rbench("attack", "--help").output))
        assert set(re.findall(r"--[a-z-]+", line)) <= known


# --------------------------------------------------------------------------------------------------------------- cases


def test_cases_are_edits_that_one_victim_has_right_and_the_other_wrong(ran: Path) -> None:
    store, plan = planned()
    expected: dict[str, int] = {}
    back: set[str] = set()
    name = "measure/toy/films/{}/films-edited/seed{}"
    for seed in (0, 1):
        one, other = (
            {one.example_id: one for one in store.predictions(job_of(plan, name.format(how, seed)))}
            for how in ("clean", "probe")
        )
        for edit, ours in one.items():
            right, wrong = ours.prediction == ours.label, other[edit].prediction != other[edit].label
            if right and wrong and not ours.original:
                expected[edit] = expected.get(edit, 0) + 1
            if not right and not wrong and not ours.original:
                back.add(edit)
    (found,) = api.cases(Path("results/runs/suite"), "toy/clean", "toy/probe", data=[Path("data")])
    assert expected and {case.example_id: len(case.wrong) for case in found.cases} == expected
    assert found.reverse == len(back) and found.edits == 60 and found.seeds == 2
    assert [len(case.wrong) for case in found.cases] == sorted(expected.values(), reverse=True)
    rows = {r["pair_id"]: r for r in map(json.loads, Path("data/films-edited/test.jsonl").read_text().splitlines())}
    for case in found.cases:
        row = rows[case.example_id]
        assert (case.original, case.edit, case.label) == ((row["before"],), (row["after"],), row["is"])


def test_cases_are_printed_with_what_was_edited_or_by_id(place: Path) -> None:
    words = ("compare", "results/runs/suite", "--between", "clean", "probe", "--metric", "rev", "--show", "1")
    shown = rbench(*words, "--data", "data")
    assert shown.exit_code == 0 and "]] -> [[" in shown.stdout, shown.output
    ways = [("toy/clean", "toy/probe"), ("toy/probe", "toy/clean")]
    for right, wrong in ways:
        (found,) = api.cases(Path("results/runs/suite"), right, wrong)
        assert f"films-edited: {len(found.cases)} of 60 edits: {right} is right and {wrong} is wrong" in shown.stdout
        assert f"[1/{len(found.cases)}] {found.cases[0].example_id}: " in shown.stdout
    write_edits(place, n=29)
    changed = rbench(*words, "--data", "data")
    assert changed.exit_code == 0 and "no longer the set that was classified" in changed.stdout
    assert "]] -> [[" not in changed.stdout and "[1/" in changed.stdout


@pytest.mark.parametrize(
    ("right", "wrong", "name", "message"),
    [
        ("toy/clean", "toy/freelb", None, "toy/freelb: no such victim; there are toy/clean, toy/probe"),
        ("toy", "toy/probe", None, "2 victims of that name"),
        ("toy/clean", "toy/probe", "contrast_imdb", "it has the sets films-edited"),
    ],
)
def test_cases_of_what_is_not_there_are_refused(
    right: str, wrong: str, name: str | None, message: str, ran: Path
) -> None:
    with pytest.raises(StoreError) as error:
        api.cases(Path("results/runs/suite"), right, wrong, contrast_set=name)
    assert message in str(error.value)
