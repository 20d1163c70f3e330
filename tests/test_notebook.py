"""A notebook runs a suite and an attack, and shows progress, rates and changed words.

tests/system/progress/test_notebook.py has the progress on every push, without a kernel.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.nightly

RUN = """
import rbench
suite = {"encoders": ["robustsentembed-mini-victim"], "tasks": ["mini-sentiment"], "attacks": ["pwws"],
         "finetune": ["saved"], "num_examples": 1, "resources": "mini"}
rbench.run(suite, out="RUN", backend="torch", device="cpu")
"""
ATTACK = """
def predict(texts):
    return [[0.9, 0.1] if "disaster" in text else [0.2, 0.8] for text in texts]

rbench.attack(predict, ["The farce was a <disaster> in his city."], [0], "pwws", resources="mini")
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of the notebook after it was run."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:  # the kernel that the tests run in, whatever else is installed
        spec = folder / "jupyter" / "kernels" / "python3"
        spec.mkdir(parents=True)
        arguments = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
        (spec / "kernel.json").write_text(f'{{"argv": {arguments}, "display_name": "tests", "language": "python"}}')
        patch.setenv("JUPYTER_PATH", str(folder / "jupyter"))
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (RUN, ATTACK)])
        client = nbclient.NotebookClient(
            made, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    return made.cells


def html(cell: Any) -> list[str]:
    return [output["data"]["text/html"] for output in cell.outputs if "text/html" in output.get("data", {})]


def test_a_run_shows_its_progress_in_one_output_that_ends_without_bars(cells: list[Any]) -> None:
    (progress,) = [text for text in html(cells[0]) if "rbench-progress" in text]
    assert "attack/robustsentembed-mini-victim/mini-sentiment/saved/pwws/seed0: complete in" in progress
    assert "<progress" not in progress
    assert not [output for output in cells[0].outputs if output.output_type == "stream"], "no lines beside the output"


def test_a_run_shows_its_rates(cells: list[Any]) -> None:
    shown = html(cells[0])[-1]
    assert "<th>ASR %</th>" in shown and "robustsentembed-mini-victim" in shown and "results are in RUN" in shown


def test_an_attack_shows_its_progress_and_the_words_that_changed(cells: list[Any]) -> None:
    progress, shown = html(cells[1])
    assert "pwws on predict: complete in" in progress and "ASR 100% of 1" in progress
    assert "&lt;disaster&gt;</del> <ins" in shown and "<disaster" not in shown
