"""Edits that change what a text says: one file a kind, found by its name. They stand beside noise, which must not.

A kind is one subclass of `EditKind`: it says where it could change a text, what it writes there, and how sure it is
that the meaning changes. `edited` does the rest, alike for all kinds: it draws one of the edits by a seeded generator.
The measures `two_sided` and `triples` show the edited texts to victims and encoders.
"""

from __future__ import annotations

from rbench.edits._changes import (
    EditKind,
    Labelled,
    Replacement,
    TaggedText,
    edited,
    every_edit,
    needs_of,
)

__all__ = ["EditKind", "Labelled", "Replacement", "TaggedText", "edited", "every_edit", "needs_of"]
