"""The fixture `rbench_gate`: a test passes with the baseline's model and fails with a worse one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import PlanError
from rbench.gate.vector_check import VectorCheck
from tests.tiny import write_bert
from tests.victims.made import write_classifier

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]
VICTIM = '''
"""Knows the mini language by its test rows, and forgets as many as WRONG says."""
from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.tasks import open_task

WRONG = {wrong}
ROWS = open_task(load_task("mini-sentiment", Registry())).split("test")
KNOWN = {{row.texts[0]: row.label if i % 10 >= WRONG else 1 - row.label for i, row in enumerate(ROWS)}}


def predict(texts):
    return [[0.1, 0.9] if KNOWN.get(text, len(text) % 2) else [0.9, 0.1] for text in texts]
'''
TEST = """
def test_gate(rbench_gate):
    found = rbench_gate("baseline.json", {model}, task="mini-sentiment", attacks="pwws", n=40, workers=1)
    assert found.rows
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
    pytester.makepyfile(predictor=VICTIM.format(wrong=0))
    pytester.makepyfile(test_gate=TEST.format(model="'predictor:predict'"))
    return pytester


def run_tests(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", "rbench.pytest_plugin", "-q", *words)


@pytest.mark.nightly
def test_a_gate_is_written_passes_and_fails(project: pytest.Pytester) -> None:
    missing = run_tests(project)
    missing.assert_outcomes(failed=1)
    assert "--rbench-baseline" in missing.stdout.str() and "Traceback" not in missing.stdout.str()
    written = run_tests(project, "--rbench-baseline")
    written.assert_outcomes(passed=1)
    assert (
        project.path / "baseline.json"
    ).is_file() and "rbench: undecided" in written.stdout.str()  # 40 texts are few
    project.makepyfile(predictor=VICTIM.format(wrong=5))
    worse = run_tests(project)
    worse.assert_outcomes(failed=1)
    assert "rbench: failed" in worse.stdout.str() and "clean" in worse.stdout.str().lower()


def test_a_function_and_the_baseline_alone_say_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Task, attack, number of texts, seed and the victim's name are those of the baseline."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "gated_one.py").write_text(VICTIM.format(wrong=0))
    (tmp_path / "gated_two.py").write_text(VICTIM.format(wrong=0))
    import gated_one
    import gated_two

    where = tmp_path / "baseline.json"
    options = {"workers": 1, "device": "cpu"}
    asked = {"task": "mini-sentiment", "attacks": [{"pwws": {"max_words": 1}}], "n": 6}
    api.gate(where, gated_one.predict, out=tmp_path / "one", write=True, **asked, **options)
    found = api.gate(where, gated_two.predict, out=tmp_path / "two", allow_undecided=True, **options)
    assert found.verdict == "passed"
    assert {str(row.key) for row in found.rows} == {
        "predict/mini-sentiment/as-is/pwws[max_words=1]",
        "predict/mini-sentiment/as-is",
    }


def test_an_encoder_without_a_task_is_held_to_its_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says what it is a baseline of, so a check needs no more than its name and the model."""
    monkeypatch.setattr("rbench.api.encoder_watch.ROUNDS", 2)
    folder, where = write_bert(tmp_path / "bert"), tmp_path / "vectors.json"
    how = {"out": tmp_path / "run", "device": "cpu"}
    assert api.gate(where, str(folder), write=True, **how).verdict == "passed"
    assert api.gate(where, folder, **how).verdict == "passed"
    write_bert(folder, seed=1)
    found = api.gate(where, folder, **how)
    assert isinstance(found, VectorCheck) and found.verdict == "failed"
    assert not (tmp_path / "run").exists()
    assert found.said in api.check_table(found)


EMBED = "import numpy as np\n\n\ndef embed(texts):\n    return np.array([[len(t), t.count('a'), {}] for t in texts])\n"
TEST_OF_VECTORS = """
def test_written(rbench_gate, request, monkeypatch):
    monkeypatch.setattr(request.config.option, "rbench_baseline", True)
    rbench_gate("vectors.json", "embedder:embed")

def test_same(rbench_gate):
    rbench_gate("vectors.json", "embedder:embed")

def test_changed(rbench_gate):
    rbench_gate("vectors.json", "changed:embed")

def test_missing(rbench_gate):
    rbench_gate("vectors.json", "./nowhere")
"""


def test_the_fixture_holds_a_function_to_its_vectors_and_says_which_model_is_not_there(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(embedder=EMBED.format(1), changed=EMBED.format("-t.count('e')"), test_gate=TEST_OF_VECTORS)
    ended = run_tests(project, "-p", "no:cacheprovider")
    ended.assert_outcomes(passed=2, failed=2)
    said = ended.stdout.str()
    assert "rbench: failed" in said and "short texts" in said
    assert "nowhere" in said and "gating.py" not in said, "no traceback"


@pytest.mark.nightly
def test_a_network_at_hand_is_saved_for_the_run(tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    write_classifier(tmp_path / "shipped")
    pair = tuple(
        kind.from_pretrained(tmp_path / "shipped") for kind in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    asked = {"task": "mini-sentiment", "attacks": "pwws", "n": 8, "workers": 1, "device": "cpu", "backend": "torch"}
    where = tmp_path / "baseline.json"
    api.gate(where, str(tmp_path / "shipped"), out=tmp_path / "one", write=True, **asked)
    found = api.gate(where, pair, out=tmp_path / "two", allow_undecided=True, **asked)
    assert found.verdict == "passed" and found.rows


def test_what_cannot_be_gated_is_refused(tmp_path: Path) -> None:
    def inner(texts: list[str]) -> list[list[float]]:
        return [[0.5, 0.5] for _ in texts]

    where = tmp_path / "baseline.json"
    with pytest.raises(PlanError):
        api.gate(where, inner, out=tmp_path / "run", write=True, task="mini-sentiment")
    with pytest.raises(PlanError):
        api.gate(where, out=tmp_path / "run", write=True)
    write_classifier(tmp_path / "shipped")
    with pytest.raises(PlanError):
        api.gate(where, str(tmp_path / "shipped"), out=tmp_path / "run", write=True)


def test_the_plugin_is_an_entry_point_and_light() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert content["project"]["entry-points"]["pytest11"] == {"rbench": "rbench.pytest_plugin"}
    code = (
        "import sys, rbench.pytest_plugin; print(sorted({'numpy', 'torch', 'pydantic', 'rbench.api'} & {*sys.modules}))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
