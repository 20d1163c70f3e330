"""Follows the page "Put my encoder beside others": a folder, a path and a hub id in a suite, in commands, in Python.

One small run is made for all tests. Fine-tuning is short, and its victims are in a cache that all tests share.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

from rbench import api
from rbench.api.training import AdHocArgs, build_ad_hoc_entry
from rbench.cli import app
from rbench.config.registry import Registry
from rbench.encoders.locate import PACKAGED
from rbench.errors import PlanError, StoreError, SuiteError
from rbench.schema import AttackJob, FinetuneJob, Plan
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "guide-put-my-encoder.md").read_text(encoding="utf-8")
COMMIT = "0123456789" * 4
SHORT = "training={epochs: 1, max_train: 16, max_validation: 16}"
RUN = Path("results/runs/mine")


def rbench(*words: str | Path) -> Result:
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])
    assert result.exit_code in (0, 2), (result.output, result.exception)
    return result


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current folder with the page's suite, run for a few texts, and a hub cache that has `someone/toy`."""
    place = tmp_path_factory.mktemp("place")
    (suite,) = blocks("yaml")
    (place / "mine.yaml").write_text(suite, encoding="utf-8")
    shutil.copytree(PACKAGED / "simcse-mini-packaged", place / "mine")
    toy = place / "hub/models--someone--toy"
    shutil.copytree(PACKAGED / "simcse-mini-packaged", toy / "snapshots" / COMMIT)
    (toy / "refs").mkdir()
    (toy / "refs/main").write_text(COMMIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("RBENCH_CACHE", str(place / "cache"))
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place / "hub"))
        (run, _) = commands()
        result = rbench(*run, "--set", SHORT, "--set", "num_examples=2", "--backend", "torch", "--workers", "1")
        assert result.exit_code == 0, result.output
        yield place


def commands() -> list[list[str]]:
    (shown,) = blocks("bash")
    return [shlex.split(line.split("#")[0])[1:] for line in shown.splitlines()]


def options() -> api.Options:
    return api.Options(overrides=(SHORT,), backend="torch", device="cpu")


def plan() -> Plan:
    found = RunStore(RUN).plan()
    assert found is not None
    return found


def victims() -> set[str]:
    """The keys of the weights in the cache."""
    return {
        path.name for path in WeightCache(default_cache()).root.rglob("*") if re.fullmatch(r"[0-9a-f]{64}", path.name)
    }


def test_it_takes_fewer_than_ten_lines() -> None:
    lines = [line for block in (*blocks("yaml"), *blocks("bash")) for line in block.splitlines() if line[:1] != "#"]
    assert len(lines) < 10


def test_the_table_shows_the_folder_beside_the_other() -> None:
    cells = json.loads(api.table(RUN, fmt="json"))["cells"]
    assert {cell["encoder"] for cell in cells} == {"mine", "mini-bert-packaged"}
    store = RunStore(RUN)
    jobs = {job.name: job for job in plan().jobs}
    assert set(jobs) == {
        f"{job}/seed0"
        for label in ("mine", "mini-bert-packaged")
        for job in (
            f"finetune/{label}/mini-sentiment/clean",
            f"measure/{label}/mini-sentiment/clean/test_accuracy",
            f"attack/{label}/mini-sentiment/clean/pwws",
        )
    }
    victim = jobs["finetune/mine/mini-sentiment/clean/seed0"].spec
    assert isinstance(victim, FinetuneJob) and victim.encoder.pooling == "cls"
    attacked = store.record(jobs["attack/mine/mini-sentiment/clean/pwws/seed0"])
    assert attacked is not None and attacked.status == "complete"
    assert sum(attacked.counts[status] for status in ("succeeded", "failed", "skipped", "errored")) == 2


def test_the_comparison_takes_the_folder_too(place: Path) -> None:
    (_, compare) = commands()
    result = rbench(*compare)
    assert result.exit_code == 0 and "mine against mini-bert-packaged" in result.stdout, result.output
    assert result.stdout == rbench(*compare[:-1], f"{place}/mine").stdout == rbench(*compare[:-1], "mine").stdout
    unknown = rbench(*compare[:-1], "./mein")
    assert unknown.exit_code == 2 and "has no encoder ./mein; it has mine, mini-bert-packaged" in unknown.stderr
    with pytest.raises(StoreError) as caught:
        api.compare(RUN, between=("./mine", f"{place}/mine"))
    assert "mine" in str(caught.value)


def test_a_claim_in_a_file_names_the_folder() -> None:
    Path("claims.yaml").write_text("claims: [{id: a, of: ./mine, at_most: 100}, {id: b, of: ./mein, at_most: 100}]\n")
    result = rbench("claims", RUN, "--claims", "claims.yaml")
    assert result.exit_code == 2 and '"./mein"' in result.stderr
    assert "./mine" not in result.stderr


def test_a_command_attacks_the_folder_with_the_victim_of_the_suite() -> None:
    before = victims()
    shown = rbench(
        *("attack", "--encoder", "./mine", "-t", "mini-sentiment", "-a", "pwws", "-n", "1", "--set", SHORT),
        *("--backend", "torch", "--workers", "1", "--device", "cpu", "--quiet"),
    )
    assert shown.exit_code == 0 and "[1/1]" in shown.stdout, shown.output
    assert victims() == before, "the key is that of the suite, so nothing is fine-tuned again"


def test_a_hub_id_is_attacked_from_python() -> None:
    (outcome,) = api.attack("someone/toy", "mini-sentiment", "pwws", 1, options())
    stored = RunStore(RUN)
    (job,) = (j for j in plan().jobs if isinstance(j.spec, AttackJob) and j.parts[0] == "mine")
    same = next(one for one in stored.outcomes(job) if one.example_id == outcome.example_id)
    assert (outcome.status, outcome.num_queries) == (same.status, same.num_queries), "the same weights"


def test_a_folder_is_exported_as_it_encodes() -> None:
    assert rbench("train", "./mine", "--out", "out", "--quiet").exit_code == 0
    theirs, ours = (load_file(folder / "model.safetensors") for folder in (Path("mine"), Path("out")))
    shared = {name for name in theirs if name in ours}
    assert shared and all(np.array_equal(theirs[name].astype("f4"), ours[name].astype("f4")) for name in shared)
    assert json.loads(Path("out/1_Pooling/config.json").read_text())["pooling_mode_cls_token"] is True
    assert str(Path.cwd()) not in Path("out/README.md").read_text()
    refused = rbench("train", "./mein", "--out", "out2")
    assert refused.exit_code == 2 and "mein: " in refused.stderr


@pytest.mark.nightly
def test_a_set_is_built_of_the_folder() -> None:
    built = api.build_adversarial_from(RUN, Path("set"), api.AttackSelection(encoder="./mine"))
    assert built.about.encoder == "mine" and built.about.counts["rows"] == 2
    with pytest.raises(StoreError):
        api.build_adversarial_from(RUN, Path("set2"), api.AttackSelection(encoder="./mein"))
    made = api.build_adversarial(
        api.AttackSelection("./mine", "mini-sentiment", "pwws"), Path("set3"), options(), num_examples=2
    )
    assert made.run == Path("results/runs/adversarial-mine-mini-sentiment-pwws")
    assert made.about.fingerprint == built.about.fingerprint


def test_a_training_starts_from_the_folder(place: Path) -> None:
    found = build_ad_hoc_entry("simcse", AdHocArgs(base="./mine", data="mini-corpus"), Registry())
    assert found is not None
    assert (found.data["base"], found.data["pooling"]) == (str(place / "mine"), "cls")
    assert found.data["name"] == "simcse-mine-mini-corpus"
    pooling = json.loads(Path("mine/1_Pooling/config.json").read_text())
    mean = {**pooling, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    shutil.copytree("mine", "mean")
    Path("mean/1_Pooling/config.json").write_text(json.dumps(mean))
    for base in ("./mean", "mean", f"{place}/mean"):
        found = build_ad_hoc_entry("simcse", AdHocArgs(base=base, data="mini-corpus"), Registry())
        assert found is not None and (found.data["base"], found.data["pooling"]) == (str(place / "mean"), "mean")
    found = build_ad_hoc_entry("simcse", AdHocArgs(base="someone/toy", data="mini-corpus"), Registry())
    assert found is not None and (found.data["base"], found.data["pooling"]) == ("someone/toy", "cls")
    with pytest.raises(SuiteError) as caught:
        build_ad_hoc_entry("simcse", AdHocArgs(base="./mein", data="mini-corpus"), Registry())
    assert "mein" in str(caught.value)


def test_a_folder_by_itself_is_not_trained() -> None:
    for name in ("./mine", "mine", "someone/toy"):
        with pytest.raises((SuiteError, PlanError)) as caught:
            api.train(name)
        assert name in str(caught.value)
