"""Read what the guides in docs/ show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[1] / "docs"


def read_yaml_blocks(guide: str) -> dict[str, Any]:
    """The YAML files that a guide shows: their content by the path in their first line, as in `tasks/films`."""
    blocks = re.findall(r"```yaml\n# DIR/(\S+)\.yaml\n(.*?)```", (DOCS / guide).read_text(encoding="utf-8"), re.DOTALL)
    return {name: yaml.safe_load(text) for name, text in blocks}
