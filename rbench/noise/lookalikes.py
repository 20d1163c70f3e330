"""Look-alikes: Cyrillic and Greek letters in the place of Latin ones, which readers cannot tell apart.

The pairs are those of Unicode's confusables (Unicode Technical Standard 39) that are one letter of these two scripts
and that NFKC leaves as they are.
"""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, matches

VERSION = 1

_SMALL = "aαа bЬ cс dԁ eе hһ iіι jјϳ lӀ oоο pрρ qԛ rг sѕ uυ vνѵ wԝ xх yуү AАΑ BВΒ"
_CAPITAL = "CС EЕΕ GԌ HНΗ JЈͿ KКΚ MМΜ NΝ OОΟ PРΡ SЅ TТΤ VѴ WԜ XХΧ YУΥ ZΖ"
LIKE = {one[0]: one[1:] for one in (*_SMALL.split(), *_CAPITAL.split())}
"""By Latin letter, the Cyrillic and Greek letters that look like it."""


class Lookalikes(NoiseKind):
    title = "a Cyrillic or Greek letter that looks like a Latin one"
    unit = "letters"
    only_for = "Latin letters"
    places = matches(f"[{''.join(LIKE)}]")

    def put(self, found: str, rng: Random) -> str:
        """Return a letter that looks like it."""
        like = LIKE[found]
        return like[int(rng.random() * len(like))]
