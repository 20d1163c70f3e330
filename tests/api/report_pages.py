"""Read what `rbench report` wrote into its page."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any


def read_report_data(file: Path) -> dict[str, Any]:
    """The JSON that the page carries for its script."""
    found: dict[str, Any] = json.loads(re.search(r'id="data">(.*?)</script>', file.read_text(), re.S)[1])
    return found


def read_missing_parts(file: Path) -> dict[str, str]:
    """What the page says it leaves out, and why."""
    found = re.search(r'<details class="missing".*?</details>', file.read_text(), re.S)
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html.unescape(found[0]))) if found else {}
