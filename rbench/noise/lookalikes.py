"""Look-alikes: Cyrillic and Greek letters in the place of Latin ones, which readers cannot tell apart.

The pairs are those of Unicode's confusables (Unicode Technical Standard 39) that are one letter of these two scripts
and that NFKC leaves as they are.
"""

from __future__ import annotations

from random import Random

from rbench.noise import matches

TITLE = "a Cyrillic or Greek letter that looks like a Latin one"
UNIT = "letters"
VERSION = 1

LIKE = {
    "a": "αа",
    "b": "Ь",
    "c": "с",
    "d": "ԁ",
    "e": "е",
    "h": "һ",
    "i": "іι",
    "j": "јϳ",
    "l": "Ӏ",
    "o": "оο",
    "p": "рρ",
    "q": "ԛ",
    "r": "г",
    "s": "ѕ",
    "u": "υ",
    "v": "νѵ",
    "w": "ԝ",
    "x": "х",
    "y": "уү",
    "A": "АΑ",
    "B": "ВΒ",
    "C": "С",
    "E": "ЕΕ",
    "G": "Ԍ",
    "H": "НΗ",
    "J": "ЈͿ",
    "K": "КΚ",
    "M": "МΜ",
    "N": "Ν",
    "O": "ОΟ",
    "P": "РΡ",
    "S": "Ѕ",
    "T": "ТΤ",
    "V": "Ѵ",
    "W": "Ԝ",
    "X": "ХΧ",
    "Y": "УΥ",
    "Z": "Ζ",
}
"""By Latin letter, the Cyrillic and Greek letters that look like it."""

places = matches(f"[{''.join(LIKE)}]")


def put(found: str, rng: Random) -> str:
    """Return a letter that looks like it."""
    like = LIKE[found]
    return like[int(rng.random() * len(like))]
