"""Loads a victim: a classifier, or a scorer of sentence pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.on_encoder import ABOUT
from rbench.encoders.scorer import KIND, EncoderScorer


def load_victim(folder: Path, device: str = "cpu") -> tuple[EncoderClassifier | EncoderScorer, dict[str, Any]]:
    """Read the victim that a fine-tuning saved. Return it, in eval mode on `device`, with its meta.

    Raises:
        ResourceError: there is no such folder, no victim was saved in it, or it is damaged.
    """
    return (EncoderScorer if _kind(folder) == KIND else EncoderClassifier).load(folder, device)


def _kind(folder: Path) -> str | None:
    """Return the kind that the folder states; None for a classifier, and where it cannot be read."""
    try:
        kind = json.loads((folder / ABOUT).read_text(encoding="utf-8")).get("kind")
    except (OSError, ValueError, AttributeError):
        return None  # `EncoderClassifier.load` says what is wrong
    return None if kind is None else str(kind)
