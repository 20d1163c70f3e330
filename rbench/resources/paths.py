"""Find files on the model search path, in NLTK's data folders and in TextAttack's cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from rbench.errors import ResourceError
from rbench.system import digests

NLTK_FILES = {
    "wordnet": tuple(
        f"corpora/wordnet/{stem}.{part}" for part in ("noun", "verb", "adj", "adv") for stem in ("index", "data")
    ),
    "averaged_perceptron_tagger_eng": tuple(
        f"taggers/averaged_perceptron_tagger_eng/averaged_perceptron_tagger_eng.{part}.json"
        for part in ("weights", "tagdict", "classes")
    ),
    "universal_tagset": ("taggers/universal_tagset/en-ptb.map",),
    "stopwords": ("corpora/stopwords/english",),
}
"""The files of each NLTK package that attacks read."""


def on_path(name: str, models_path: Sequence[Path]) -> Path | None:
    """Return the first file or folder `name` on the search path; a name with a separator may also be a path itself."""
    part = PurePosixPath(name)
    if not part.is_absolute() and ".." not in part.parts and "\\" not in name:
        for root in models_path:
            if (root / name).exists():
                return root / name
    path = Path(name).expanduser()
    explicit = path.is_absolute() or len(path.parts) > 1
    return path if explicit and path.exists() else None


def searched(models_path: Sequence[Path]) -> str:
    """Return the search path as text, for messages."""
    return ", ".join(map(str, models_path)) or "the model search path, which is empty"


def textattack_cache() -> Path:
    """Return TextAttack's cache folder: `TA_CACHE_DIR`, or ~/.cache/textattack."""
    return Path(os.environ.get("TA_CACHE_DIR") or Path.home() / ".cache" / "textattack")


def nltk_package(package: str) -> tuple[str, str]:
    """Return the place of an NLTK package, unpacked or zipped, and the hash of its files that attacks read.

    Raises:
        ResourceError: the package is missing, or NLTK refuses it because other accounts may write to it; gives the
            remedy.
    """
    import nltk

    whole, where = hashlib.sha256(), ""
    for name in NLTK_FILES[package]:
        try:
            pointer = nltk.data.find(name)
            whole.update(name.encode() + b"\0" + bytes.fromhex(_content_of(pointer, name)))
        except (LookupError, OSError) as error:
            raise ResourceError(_nltk_remedy(package, error)) from error
        where = where or str(pointer).rsplit("/", 1)[0]
    return where, whole.hexdigest()


def _content_of(pointer: Any, name: str) -> str:
    """Return the hash of the file, or entry of a zip file, of one of NLTK's pointers."""

    def read() -> str:
        with pointer.open() as file:
            return hashlib.sha256(file.read()).hexdigest()

    archive = getattr(pointer, "zipfile", None)
    return digests.remembered([Path(archive.filename if archive is not None else pointer.path)], name, read)


def _nltk_remedy(package: str, error: Exception) -> str:
    refused = tuple(getattr(error, "_nltk_refused_writable", ()))
    if refused:
        return (
            f"NLTK refuses its {package} data because other accounts may write to {', '.join(map(str, refused))}; "
            f"run `chmod go-w` on them"
        )
    return (
        f"NLTK's {package} data is missing; run `python -m nltk.downloader {package}`, "
        "or set NLTK_DATA to a folder that has it"
    )
