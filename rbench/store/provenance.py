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
    "mteb",
    "nltk",
    "numpy",
    "scipy",
    "flair",
)


@cache
def read_commit() -> tuple[str | None, bool | None]:
    """Return (commit, dirty) of the checkout that rbench runs from; (None, None) for an installed wheel."""
    root = Path(rbench.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None, None
    try:
        head = _run_git(root, "rev-parse", "HEAD")
        return head.strip(), bool(_run_git(root, "status", "--porcelain", "--untracked-files=no").strip())
    except (OSError, subprocess.CalledProcessError):  # git is missing or fails: the commit is not known
        return None, None


def _run_git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


@cache
def read_packages() -> dict[str, str]:
    """Return the installed versions of the packages that can change a score."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


@cache
def describe_machine() -> str:
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
