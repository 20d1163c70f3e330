"""The claims that docs/guide-write-claims.md shows: all are loaded with its suite, and there is one of each kind."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from rbench.config import load_mapping
from rbench.config.registry import Registry

GUIDE = (Path(__file__).parents[1] / "docs" / "guide-write-claims.md").read_text(encoding="utf-8")


def test_every_block_of_the_guide_is_loaded() -> None:
    suite, *blocks = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL))
    claims = [claim for block in blocks for claim in block["claims"]]
    loaded = load_mapping(suite | {"claims": claims}, registry=Registry()).suite
    assert [claim.id for claim in loaded.claims] == [claim["id"] for claim in claims]
    assert {claim.kind for claim in loaded.claims} >= {"lower", "of", "ordering", "falling"}
    assert len(blocks) == 2 and len(claims) == GUIDE.count("id: ")
