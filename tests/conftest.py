"""Settings for all tests: one hypothesis profile, and a cache that no test shares with the user."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("rbench", deadline=None)  # machines are busy; speed is measured in benchmarks/
settings.load_profile("rbench")


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's search paths or writes the user's cache."""
    patch = pytest.MonkeyPatch()
    for name in ("RBENCH_DATA", "RBENCH_MODELS", "RBENCH_INCLUDE", "NLTK_DATA"):
        patch.delenv(name, raising=False)
    patch.setenv("RBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
