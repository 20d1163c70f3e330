"""Homophones: words that sound alike, or nearly, and are often mistaken for each other."""

from __future__ import annotations

from random import Random

from rbench.noise import NoiseKind, cased, each_word

VERSION = 2

_SETS = """
accept except / affect effect / allowed aloud / bare bear / board bored / brake break / by buy bye /
cell sell / cent scent sent / cite sight site / coarse course / complement compliment / dear deer / die dye /
fair fare / feat feet / flour flower / for four fore / great grate / hear here / heal heel /
hi high / hole whole / hour our / its it's / knew new / know no / lead led / loose lose / made maid /
mail male / main mane / meat meet / missed mist / morning mourning / one won / pair pear /
passed past / peace piece / plain plane / principal principle / quiet quite / rain reign / read red /
real reel / right write / role roll / sail sale / scene seen / sea see / seam seem / some sum /
son sun / stair stare / steal steel / story storey / tail tale / than then / their there they're /
threw through / to too two / wait weight / waste waist / way weigh / weak week / weather whether / were where /
which witch / who's whose / wood would / your you're
"""
_OTHERS = {word: [other for other in own.split() if other != word] for own in _SETS.split("/") for word in own.split()}


class Homophones(NoiseKind):
    title = "a word that sounds like the right one"
    unit = "words"
    only_for = "English"
    places = each_word(lambda word: word.lower() in _OTHERS)

    def put(self, found: str, rng: Random) -> str:
        """Return a word that sounds like it, in its case."""
        others = _OTHERS[found.lower()]
        return cased(others[int(rng.random() * len(others))], found)
