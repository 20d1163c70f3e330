"""Perturbations of texts, as ordinary or hostile typing makes them: one file a kind, found by its name.

A kind is one subclass of `NoiseKind`: it says where it could change a text, and what it puts there. `noised` does the
rest, alike for all kinds: it chooses places by a seeded generator, as many as the degree asks for. The measure `noise`
classifies the changed texts.
"""

from __future__ import annotations

from rbench.noise._changes import MOST_CLAUSES, Noised, NoiseKind, Span, cased, each_word, matches, noised
from rbench.noise._normalise import normalise

__all__ = ["MOST_CLAUSES", "NoiseKind", "Noised", "Span", "cased", "each_word", "matches", "noised", "normalise"]
