"""Settings for all tests: one thread, one hypothesis profile, and a cache that no test shares with the user."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# The networks are tiny: a second thread would only wait for the first, and take the core of the other test process.
# torch and numpy read this when they are imported, in this process and in those that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("rbench", deadline=None)  # machines are busy; speed is measured in benchmarks/
settings.load_profile("rbench")


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's search paths or writes the user's cache."""
    patch = pytest.MonkeyPatch()
    for name in ("RBENCH_DATA", "RBENCH_MODELS", "RBENCH_INCLUDE", "NLTK_DATA"):
        patch.delenv(name, raising=False)
    patch.setenv("RBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A verb that a test runs shows rbench's log on standard error, and the next test finds the log as it was."""
    log = logging.getLogger("rbench")
    before = (log.handlers[:], log.level, log.propagate)
    yield
    log.handlers[:], log.level, log.propagate = before
