"""The suites that come with rbench."""

from __future__ import annotations

from functools import cache

from rbench.config import LoadedSuite, load
from rbench.config.positions import Problems, read_yaml
from rbench.config.registry import Registry

REGISTRY = Registry()


def list_suite_profiles() -> list[tuple[str, str | None]]:
    """Every bundled suite, plain and with each of its profiles."""
    found: list[tuple[str, str | None]] = []
    for name in REGISTRY.names("suites"):
        data = read_yaml(REGISTRY.path("suites", name), Problems()).data
        found += [(name, profile) for profile in (None, *data.get("profiles", {}))]
    return found


@cache
def load_bundled(name: str, profile: str | None = None) -> LoadedSuite:
    """A bundled suite as it stands, loaded once for all tests."""
    return load(name, registry=REGISTRY, profile=profile)
