"""Clauses that say nothing of a text's subject, and no opinion, for the kinds `before` and `after`."""

from __future__ import annotations

CLAUSES = (
    "as I said on Monday",
    "by the way",
    "for what it is worth",
    "if you ask me",
    "in other words",
    "it is now half past nine",
    "just so you know",
    "let me put it like this",
    "so to speak",
    "that is what I wanted to write",
    "the bus stops at the corner",
    "the meeting is in the afternoon",
    "the shop opens at eight",
    "this is my first message today",
    "to come to the point",
    "today is Tuesday",
)
