"""What is known to fool a victim: an entry of the file that `rbench best` keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated

from pydantic import Field

from rbench.schema.common import Checked, Count, Positive
from rbench.schema.space import Space

Hash = Annotated[str, Field(pattern="^[0-9a-f]{16,64}$")]
Name = Annotated[str, Field(min_length=1, max_length=400)]
Text = Annotated[tuple[str, ...], Field(min_length=1, max_length=16)]
Key = tuple[str, str, str]


class Known(Checked):
    """The text with the fewest words replaced that is known to change a victim's prediction, in a declared space."""

    victim: Name
    """The hash of its weights, as the records of RUNs have it; of a function or an endpoint its name and version."""
    unverifiable: bool = False
    """Whether it is a function or an endpoint: nobody can say that another one of the same name is the same."""
    text: Hash
    """`hash_of` the original and its label."""
    space: Hash
    """`place_of` the space."""
    label: Count
    original: Text
    adversarial: Text
    words: Positive
    """How many words of the original are replaced."""
    queries: Count
    """How many queries the attack that found it took."""
    attack: Name
    """The attack that found it."""

    @property
    def key(self) -> Key:
        """What there is one entry for."""
        return self.victim, self.text, self.space

    def wrong(self) -> Iterator[str]:
        if self.text != hash_of(self.original, self.label):
            yield "`text` is not the hash of the original and its label"
        if len(self.adversarial) != len(self.original) or self.adversarial == self.original:
            yield "`adversarial` is no changed text with the columns of the original"


def hash_of(original: Sequence[str], label: int) -> str:
    """Return the hash of a text's columns and its label, 64 hex digits."""
    return sha256(json.dumps([*original, label]).encode()).hexdigest()


def place_of(space: Space, resources: Mapping[str, str], protected: Sequence[str]) -> str:
    """Return the fingerprint of what texts a space has: of the declared space, its resources and protected columns.

    Args:
        resources: the fingerprints of resources by kind. Those that the space does not need are left out.
        protected: the columns that stay as they are.
    """
    needed = {str(kind): resources.get(kind, "") for kind in sorted(space.needed)}
    return sha256(json.dumps([space.fingerprint, needed, sorted(protected)]).encode()).hexdigest()[:16]
