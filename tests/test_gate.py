"""The gate of rbench's own CI: its victim passes against the committed baseline, and a worse one fails.

The commands of docs/guide-gate-in-ci.md run here too, on the same RUN.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import yaml
from typer.testing import CliRunner, Result

from rbench import api
from rbench.api.suites import prepare_suite
from rbench.cli import app
from rbench.encoders.locate import PACKAGED
from rbench.plan.prepare import Options
from rbench.schema import FinetuneJob
from rbench.store.runs import RunStore

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "docs" / "guide-gate-in-ci.md").read_text(encoding="utf-8")
BASELINE = ROOT / "results" / "gate" / "baseline.json"
NAME = "robustsentembed-mini-victim"
HERE = ("--backend", "torch", "--workers", "1")


def rbench(*words: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gate") / "gate-run"
    result = rbench("run", "gate", "--out", out, *HERE)
    assert result.exit_code == 0, result.output
    return out


@pytest.mark.nightly  # `tox` runs and checks the gate after the tests
def test_the_victim_that_comes_with_rbench_passes(run: Path) -> None:
    found = api.check(run, BASELINE, about_these_weights=True)
    assert not found.failed, found.said
    victim = f"{NAME}/mini-sentiment/saved"
    attacks = [f"{victim}/{attack}" for attack in ("textbugger", "pwws")]
    assert found.verdict == "passed" and [str(row.key) for row in found.rows] == [*attacks, victim, *attacks]
    finetuned = [record for record in RunStore(run).records() if isinstance(record.job.spec, FinetuneJob)]
    about = json.loads((PACKAGED / NAME / "victim.json").read_text(encoding="utf-8"))
    (accuracy,) = finetuned[0].scores
    assert accuracy.value == pytest.approx(about["scores"]["validation_accuracy"], abs=0.01)


def test_a_worse_victim_under_the_same_name_fails(tmp_path: Path) -> None:
    """A head of the other sign: right where it was wrong, on 6 of 100 texts, so that all that held before are lost."""
    folder = shutil.copytree(PACKAGED / NAME, tmp_path / "models" / NAME)
    head = safetensors.torch.load_file(folder / "head.safetensors")
    safetensors.torch.save_file({name: -tensor for name, tensor in head.items()}, folder / "head.safetensors")
    out = tmp_path / "gate-run"
    ran = rbench("run", "gate", "--out", out, "--models", tmp_path / "models", *HERE)
    assert ran.exit_code == 0, ran.output
    failed = rbench("check", out, "--baseline", BASELINE, "--about-these-weights")
    assert failed.exit_code == 3, failed.output
    assert failed.stdout.splitlines()[-1].startswith("failed: ")
    told = rbench("check", out, "--baseline", BASELINE, "--allow-undecided")
    assert told.exit_code == 3 and "one baseline run cannot tell" in told.stdout
    empty = rbench("check", out, "--baseline", BASELINE, "--metric", "asr")
    assert empty.exit_code == 4 and "no text counts in both" in empty.stdout


def test_the_victim_is_that_of_todays_trainings() -> None:
    """If this fails: the code or data behind the victim has changed. Run python benchmarks/package_victim.py."""
    plan = prepare_suite("gate", Options(profile="from-scratch")).plan
    (job,) = (job for job in plan.jobs if isinstance(job.spec, FinetuneJob))
    assert json.loads((PACKAGED / NAME / "victim.json").read_text(encoding="utf-8"))["key"] == job.key


def commands() -> list[list[str]]:
    """The commands of the guide, in its order: of its shell block, its workflow and its hook."""
    (shell,) = re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL)
    workflow, hook = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL))
    lines = shell.splitlines()
    lines += [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    (one,) = hook["repos"][0]["hooks"]
    bash, option, script = shlex.split(one["entry"])
    assert (bash, option) == ("bash", "-c")
    lines += script.split(" && ")
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.nightly
def test_the_commands_of_the_guide_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(run, tmp_path / "gate-run")  # what is done is not done again
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    ours = [words for words in commands() if words[0] == "rbench"]
    assert [words[1] for words in ours] == ["run", "baseline", "check", "run", "check", "run", "check"]
    (install,) = [words for words in commands() if words[0] != "rbench"]
    assert install[:2] == ["pip", "install"] and install[2].startswith("rbench @ git+https://")
    for words in ours:
        result = rbench(*words[1:])
        assert result.exit_code == 0, result.output
    assert (tmp_path / "check.xml").is_file()
    assert (tmp_path / "summary.md").read_text().count("## rbench check passed") == 3


def test_the_action_runs_the_same_commands_and_our_workflow_uses_it() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    ran = [shlex.split(step["run"]) for step in action["runs"]["steps"] if "run" in step]
    assert [words[:2] for words in ran] == [["pip", "install"], ["rbench", "run"], ["rbench", "check"]]
    known = set(re.findall(r"--[a-z-]+", rbench("check", "--help").output + rbench("run", "--help").output))
    assert {word for words in ran for word in words if word.startswith("--")} <= known
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == {*action["inputs"]}
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    (step,) = [step for step in jobs["gate"]["steps"] if step.get("uses") == "./"]
    assert (ROOT / step["with"]["baseline"]).is_file() and {*step["with"]} <= {*action["inputs"]}
