"""What mkdocs calls while it builds the site, for what the pages name outside docs/.

Images from there are copied. Links to other files lead to `repo_url` of mkdocs.yml, and become plain text without one.
tests/test_links.py holds that the files exist.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
_IMAGE = re.compile(r"(!\[[^\]]*\]\()\.\./([^)\s]+)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the images of all pages that lie outside docs/."""
    images = {image[2] for page in files.documentation_pages() for image in _IMAGE.finditer(page.content_string)}
    for path in sorted(images):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, config: Any, **_: Any) -> str:
    """Return the page with its images inside the site, and its links to other files led to the repository."""
    base = config.repo_url and f"{config.repo_url.rstrip('/')}/blob/main"
    markdown = _IMAGE.sub(r"\1\2)", markdown)
    return _LINK.sub(lambda link: f"[{link[1]}]({base}/{link[2]})" if base else link[1], markdown)
