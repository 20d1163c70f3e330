"""Say where a result comes from: package versions, commit and machine. Imports nothing heavy."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path

import rbench

PACKAGES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "textattack",
    "datasets",
    "nltk",
    "numpy",
    "scipy",
    "flair",
)


@cache
def commit() -> tuple[str | None, bool | None]:
    """Return (commit, dirty) of the checkout that rbench runs from; (None, None) for an installed wheel."""
    root = Path(rbench.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None, None
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head.strip(), bool(_git(root, "status", "--porcelain", "--untracked-files=no").strip())
    except (OSError, subprocess.CalledProcessError):  # git is missing or fails: the commit is not known
        return None, None


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


@cache
def packages() -> dict[str, str]:
    """Return the installed versions of the packages that can change a score."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def machine() -> str:
    """Return operating system, architecture and processor, without host or user names."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        if names:
            cpu = f"{names[0]} x{len(names)}"
    return f"{platform.system()} {platform.machine()}, {cpu}"
