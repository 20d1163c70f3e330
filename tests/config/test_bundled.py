"""Tests every file in suites/, attacks/, tasks/, encoders/ and resources/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rbench import config as loading
from rbench.config.positions import Problems, read
from rbench.config.registry import KINDS, Kind, Registry

REGISTRY = Registry()
LOADERS = {
    "tasks": loading.load_task,
    "encoders": loading.load_encoder,
    "attacks": loading.load_attack,
    "resources": loading.load_resources,
}


def profiles() -> list[tuple[str, str | None]]:
    """Every bundled suite, plain and with each of its profiles."""
    found: list[tuple[str, str | None]] = []
    for name in REGISTRY.names("suites"):
        data = read(REGISTRY.path("suites", name), Problems()).data
        found += [(name, profile) for profile in (None, *data.get("profiles", {}))]
    return found


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in LOADERS for name in REGISTRY.names(kind)])
def test_a_file_loads(kind: Kind, name: str) -> None:
    assert LOADERS[kind](name, REGISTRY).name == name


@pytest.mark.parametrize(("name", "profile"), profiles())
def test_a_suite_loads_with_each_of_its_profiles(name: str, profile: str | None) -> None:
    assert loading.load(name, registry=REGISTRY, profile=profile).suite.name == name


def test_the_guide_to_the_papers_names_every_suite_with_its_profiles() -> None:
    text = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|[^|]*\| `([^`]+)` \| ([a-z, -]+) \|$", text, re.MULTILINE)
    own = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    assert sorted([name for name, _ in rows] + own) == sorted(REGISTRY.names("suites"))
    for name, profiles in rows:
        data = read(REGISTRY.path("suites", name), Problems()).data
        assert profiles.split(", ") == list(data["profiles"]), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_says_what_it_is(kind: Kind) -> None:
    untitled = [entry.name for entry in loading.catalogue(kind, REGISTRY) if not entry.title]
    assert not untitled
