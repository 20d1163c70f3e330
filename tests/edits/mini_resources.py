"""What kinds of edits read, from the embedded world."""

from __future__ import annotations

from rbench.words.resources import lexical
from rbench.words.resources.thesaurus import mini_thesaurus


class MiniWorldResources:
    """The thesaurus and the tagger of the embedded world, in place of `Resources`."""

    thesaurus = staticmethod(mini_thesaurus())
    pos_tags = staticmethod(lexical.open_tagger("mini"))
