"""Errors of optical character recognition: letters, or pairs of letters, that look alike in print.

A pair that is read as one letter counts as one unit.
"""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 1

_BOTH_WAYS = "rn m / cl d / vv w / li h / nn m / ri n / c e / h b / u v / f t / I l / i j / P F / O Q / B R"
_ONE_WAY = "o 0 / O 0 / l 1 / I 1 / S 5 / B 8 / g 9 / q 9 / Z 2 / z 2 / b 6 / G 6 / T 7 / D 0 / s 5"
_READ: dict[str, list[str]] = {}
_PAIRS = [pair.split() for pair in _BOTH_WAYS.split(" / ")]
for _from, _to in (*_PAIRS, *(pair.split() for pair in _ONE_WAY.split(" / ")), *(pair[::-1] for pair in _PAIRS)):
    _READ.setdefault(_from, []).append(_to)


class Ocr(NoiseKind):
    title = "letters that look alike in print, as a scanner confuses them"
    unit = "letters"
    only_for = "Latin letters"
    places = matches("|".join(sorted(_READ, key=len, reverse=True)))

    def put(self, found: str, rng: Random) -> str:
        """Return what the scanner reads."""
        read = _READ[found]
        return read[int(rng.random() * len(read))]
