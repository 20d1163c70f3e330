"""What mkdocs calls while it builds the site, for what the pages name outside docs/.

Images from there are copied. Links to other files lead to `repo_url` of mkdocs.yml, and become plain text without one.
tests/test_links.py holds that the files exist.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]


def _outside(file: File, image: bool) -> re.Pattern[str]:
    """What matches a page's links, or images, of files outside docs/; its groups are the words and the path."""
    up = r"\.\./" * (file.src_uri.count("/") + 1)
    return re.compile(rf"{'!' if image else '(?<!!)'}\[([^\]]{'*' if image else '+'})\]\({up}([^)\s]+)\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add the images of all pages that lie outside docs/."""
    pages = files.documentation_pages()
    images = {image[2] for page in pages for image in _outside(page, image=True).finditer(page.content_string)}
    for path in sorted(images):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: Any, **_: Any) -> str:
    """Return the page with its images inside the site, and its links to other files led to the repository."""
    base = config.repo_url and f"{config.repo_url.rstrip('/')}/blob/main"
    up = "../" * page.file.src_uri.count("/")
    markdown = _outside(page.file, image=True).sub(rf"![\1]({up}\2)", markdown)
    links = _outside(page.file, image=False)
    return links.sub(lambda link: f"[{link[1]}]({base}/{link[2]})" if base else link[1], markdown)
