"""Compatibility forms: full-width, circled and mathematical letters, which NFKC makes plain again."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 1

_FORMS = ((0xFF21, 0xFF41), (0x24B6, 0x24D0), (0x1D400, 0x1D41A), (0x1D670, 0x1D68A))
"""Full-width, circled, bold and monospaced: the code points of A and of a."""


class Fullwidth(NoiseKind):
    title = "a full-width, circled or mathematical form of a letter"
    unit = "letters"
    only_for = "Latin letters"
    places = matches("[A-Za-z]")

    def put(self, found: str, rng: Random) -> str:
        """Return one of the letter's forms."""
        capital, small = _FORMS[int(rng.random() * len(_FORMS))]
        return chr(capital + ord(found) - ord("A") if found <= "Z" else small + ord(found) - ord("a"))
