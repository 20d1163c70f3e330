from __future__ import annotations

from pathlib import Path

import pytest

from tests.train import bases


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer BERT with its masked-LM head; tests only read it."""
    return bases.masked_bert(tmp_path_factory.mktemp("base"))
