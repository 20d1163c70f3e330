"""The encoder files of what is trained on mini-bert: settings that load, and that training accepts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import rbench.encoders
from rbench.spec import EncoderSpec
from rbench.train import objectives

FOLDER = Path(rbench.encoders.__file__).parent
OURS = [name for name in objectives.names() if name != "mlm"]


@pytest.mark.parametrize("objective", OURS)
def test_every_objective_has_an_encoder_of_the_embedded_world(objective: str) -> None:
    data = yaml.safe_load((FOLDER / f"{objective}-mini.yaml").read_text(encoding="utf-8"))
    spec = EncoderSpec.model_validate(data)
    fitted = objective in ("whitening", "flow")
    assert spec.train is not None and spec.base == "mini-bert" and spec.pooling == ("mean" if fitted else "cls")
    assert (spec.name, spec.train.objective, spec.train.data) == (f"{objective}-mini", objective, "mini-corpus")
    assert spec.title and spec.reference and spec.licence
    objectives.find(objective).Options(**spec.train.options)


def test_options_are_checked_without_torch() -> None:
    """They are when a suite is loaded, and `rbench list` is to answer at once."""
    code = (
        "import sys; from rbench.train import objectives\n"
        "for name in objectives.names(): objectives.find(name).Options()\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
