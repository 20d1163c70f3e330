"""Members of a cluster on other machines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from rbench.execution.cluster.membership import ProcessIdentity


def write_remote_member(root: Path, name: str, **changes: object) -> Path:
    """Write the file of a member that runs on another machine; `changes` replaces fields."""
    file = root / "members" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    member = {"id": name, **dataclasses.asdict(ProcessIdentity.own()), "host": "elsewhere", "since": "2026", "beat": 1}
    file.write_text(json.dumps({**member, **changes}))
    return file
