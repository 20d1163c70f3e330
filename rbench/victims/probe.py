"""Fixed texts whose answers tell one classifier from another, for keys.

rbench sees no weights behind a function or an endpoint. In a job's key stands what the user says of it, and this
fingerprint. The texts are ours. Many of them are mixed or odd, because classifiers agree on clear ones. To change them
changes the keys of all such jobs.
"""

from __future__ import annotations

import hashlib
import json
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

DIGITS = 2
"""Decimals of probabilities in the fingerprint, so that another machine's last bits do not change it."""

_SENTENCES = (
    "The story is warm and the actors carry it, although the last half hour drags.",
    "Nothing here works: the jokes are stale and the sound is worse.",
    "I expected little and got a little more.",
    "The bank raised its rates again, and the shares fell within the hour.",
    "Two goals in the last minute turned the match.",
    "How many moons does the largest planet have?",
    "A new chip reads handwriting faster than people do.",
    "The soup was not bad, but I would not order it twice.",
    "Ministers met in the capital and agreed on nothing.",
    "It is hard to say whether this is a joke or a mistake.",
    "Delivery took a month, and yet I would buy it again.",
    "She plays the villain with obvious joy.",
)


class Asked(Protocol):
    """What `fingerprint` needs of `Answers`."""

    def check(self) -> NDArray[np.float64]: ...


def texts(columns: int) -> list[tuple[str, ...]]:
    """Return the probe's texts: each sentence, followed by the next ones for tasks with several columns."""
    n = len(_SENTENCES)
    return [tuple(_SENTENCES[(i + j) % n] for j in range(columns)) for i in range(n)]


def fingerprint(answers: Asked) -> str:
    """Ask the probe's texts, and return a hash of the rounded probabilities.

    Raises ResourceError where an answer cannot be used, or differs when the text is asked again.
    """
    rounded = np.rint(answers.check() * 10**DIGITS).astype(int).tolist()
    return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()
