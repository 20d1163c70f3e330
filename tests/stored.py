"""Change stored files as somebody would who also mends their checksums, or read them as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rbench.store.runs.files import seal, unseal


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the content of record.json or plan.json, and give it the checksum of its new content."""
    content = json.loads(unseal(path.read_bytes()))
    change(content)
    path.write_bytes(seal(json.dumps(content, indent=1)))


def read_folder(root: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, by its path in the folder."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
