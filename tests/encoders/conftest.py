from __future__ import annotations

from pathlib import Path

import pytest

from tests.encoders.layouts import networks as networks
from tests.encoders.layouts import saved as saved
from tests.tiny import write_bert
from tests.victims.server import serve as serve


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test of this folder may reach a real hub; those that need one start their own in another process."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer BERT with its pooler; tests only read it."""
    return write_bert(tmp_path_factory.mktemp("models") / "bert")
