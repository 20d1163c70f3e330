"""Tests every file in suites/, attacks/, tasks/, encoders/ and resources/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rbench import config as loading
from rbench.config.registry import KINDS, Kind
from tests.config.bundled import REGISTRY, list_suite_profiles, load_bundled

LOADERS = {
    "tasks": loading.load_task,
    "encoders": loading.load_encoder,
    "attacks": loading.load_attack,
    "resources": loading.load_resources,
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in LOADERS for name in REGISTRY.names(kind)])
def test_a_file_loads(kind: Kind, name: str) -> None:
    assert LOADERS[kind](name, REGISTRY).name == name


EVERY = [
    pytest.param(name, profile, marks=() if profile in (None, "mini") else pytest.mark.nightly)
    for name, profile in list_suite_profiles()
]
"""On a push each suite and what runs on a laptop. Loading one checks the keys and values of all its profiles."""


@pytest.mark.parametrize(("name", "profile"), EVERY)
def test_a_suite_loads_with_each_of_its_profiles(name: str, profile: str | None) -> None:
    assert load_bundled(name, profile).suite.name == name


def test_the_guide_to_the_papers_names_every_suite_once() -> None:
    text = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    suites = re.findall(r"^\| `([a-z0-9-]+)` \| [^|]+ \|$", text, re.MULTILINE)
    options = {"classes", "contrast", "pooler", "anchor"}  # of CLINE, in a table of two columns as well
    assert sorted(name for name in suites if name not in options) == sorted(REGISTRY.names("suites"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_says_what_it_is(kind: Kind) -> None:
    untitled = [entry.name for entry in loading.catalogue(kind, REGISTRY) if not entry.title]
    assert not untitled
