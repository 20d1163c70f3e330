"""Says whether a folder holds a fine-tuned classifier, whose head an encoder would drop."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from rbench import hub
from rbench.errors import ResourceError

HEADED = "ForSequenceClassification"
"""The end of the names of transformers' classes that have a head for classification."""
_HEADS = ("classifier.", "score.", "classification_head.", "sequence_summary.", "logits_proj.")
"""How the names of a head's weights begin in these classes."""


def has_head(config: dict[str, Any]) -> bool:
    """Return whether the class that wrote a config.json has a head for classification."""
    wrote = config.get("architectures")
    return isinstance(wrote, list) and any(isinstance(name, str) and name.endswith(HEADED) for name in wrote)


def check_base(name: str, where: str) -> None:
    """Refuse a fine-tuned classifier as the base of an encoder, which would lose its head without a word.

    Args:
        name: the encoder, for the message.
        where: a folder, or `id@commit` on the hub; of the hub only what its cache has is looked at.

    Raises:
        ResourceError: config.json names a class with a head, and the weights, where they are here, have one.
    """
    repo, _, commit = where.partition("@")
    folder = Path(where) if Path(where).is_dir() else hub.cached(repo, commit) if commit else None
    if folder is None or not (folder / "config.json").is_file():
        return
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return  # opening the encoder says what is wrong
    if not isinstance(config, dict) or not has_head(config) or not _weights_have_head(folder):
        return
    meant = where if folder == Path(where) else repo
    raise ResourceError(
        f"encoder `{name}`: {meant} is a fine-tuned classifier ({', '.join(map(str, config['architectures']))}). As an "
        "encoder it loses its head, and a new one is trained. To measure the classifier as it is, name it in a suite "
        f"under `victims: [{meant}]`, or with --classifier {meant}. To take the network below its head all the same, "
        "write `head: drop` into the encoder's file"
    )


def _weights_have_head(folder: Path) -> bool:
    """Return whether a folder's safetensors have weights of a head; True where that cannot be seen."""
    files = sorted(folder.glob("*.safetensors"))
    found: set[str] = set()
    try:
        for file in files:
            with file.open("rb") as opened:
                (size,) = struct.unpack("<Q", opened.read(8))
                found |= json.loads(opened.read(min(size, 1 << 26))).keys()
    except (OSError, ValueError, struct.error, AttributeError):
        return True
    return not files or any(name.startswith(_HEADS) for name in found)
