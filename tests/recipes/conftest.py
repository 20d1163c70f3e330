from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rbench import recipes
from rbench.words.resources import Resources
from tests.recipes import world


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The networks are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_bert(tmp_path_factory.mktemp("victim"), 0, head=False)


@pytest.fixture(scope="session")
def lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write_bert(tmp_path_factory.mktemp("lm"), 2, head=True)


@pytest.fixture(scope="session")
def resources(lm: Path) -> Resources:
    return world.resources(lm)


@pytest.fixture(scope="session")
def single(bert: Path) -> recipes.Victim:
    return world.victim(bert, world.SINGLE)


@pytest.fixture(scope="session")
def pair(bert: Path) -> recipes.Victim:
    return world.victim(bert, world.PAIR)
