"""Tests that settings shared by encoder files are in fragments, each used more than once, and not repeated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import rbench.encoders
from rbench.config import load_encoder
from rbench.config.registry import Registry
from rbench.schema import EncoderSpec

FOLDER = Path(rbench.encoders.__file__).parent
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
ENTRIES = [name for name in FILES if not name.startswith("_")]
REGISTRY = Registry()


def own(name: str) -> dict[str, Any]:
    """A file's own keys, read by another reader of YAML; PyYAML's 1.1 wants `3.0e-5` with a dot, which all have."""
    data = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
    return {key: value for key, value in data.items() if key != "include"}


def includes(name: str) -> list[str]:
    named = yaml.safe_load(FILES[name].read_text(encoding="utf-8")).get("include", [])
    return [named] if isinstance(named, str) else named


def over(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: over(below[key], value) if key in below else value for key, value in above.items()}


def below(name: str) -> dict[str, Any]:
    """All that a file includes, merged."""
    merged: dict[str, Any] = {}
    for fragment in includes(name):
        merged = over(merged, over(below(fragment), own(fragment)))
    return merged


def repeated(above: Any, said: Any, where: str = "") -> list[str]:
    """The keys that say what `said` says already."""
    if isinstance(above, dict) and isinstance(said, dict):
        return [r for key in above.keys() & said.keys() for r in repeated(above[key], said[key], f"{where}.{key}")]
    return [where] if above == said else []


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_nothing_that_its_fragments_say(name: str) -> None:
    assert not repeated(own(name), below(name))
    assert "name" not in own(name)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_encoder_is_its_file_over_its_fragments(name: str) -> None:
    data = {**over(below(name), own(name)), "name": name}
    found = load_encoder(name, REGISTRY)
    if found.train is not None and "variant" in found.train.options:  # loading says which one the default is
        data = over({"train": {"options": {"variant": "printed"}}}, data)
        assert found.variant_source
        data["variant_source"] = found.variant_source
    assert found == EncoderSpec.model_validate(data)


def test_every_fragment_is_included_more_than_once() -> None:
    used = Counter(fragment for name in FILES for fragment in includes(name))
    assert {name for name in FILES if name not in ENTRIES} == {name for name, times in used.items() if times > 1}
