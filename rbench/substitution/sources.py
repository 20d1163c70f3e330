"""Sources of candidates: what proposes words for places in texts. All of them are called in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rbench.substitution.candidates import MaskedWords
from rbench.substitution.neighbours import Neighbours
from rbench.substitution.options import CandidateSource, Unknown

VERSION = 1


class Candidates(Protocol):
    """Proposes replacements of words: `MaskedWords`, `Neighbours`, or a source of a user's own."""

    def __call__(self, slots: Sequence[tuple[str, int, int]]) -> list[list[str]]:
        """Return the replacements of each word, the best first.

        Args:
            slots: texts, each with the first and the last character (exclusive) of a word in it.
        """
        ...


def open_source(
    resources: Any,
    *,
    source: CandidateSource = "masked_lm",
    candidates: int = 50,
    min_cosine: float | None = 0.5,
    unknown: Unknown = "discard",
    step: int | None = None,
) -> Candidates:
    """Open a source with those resources of a profile that it needs (`CandidateOptions.needed`), and no others.

    Args:
        resources: a `rbench.resources.Resources`.
        source, candidates, min_cosine, unknown: as in `CandidateOptions`.
        step: the masked LM's batches are padded to a multiple of so many tokens. It changes no candidate.

    Raises:
        ResourceError: a resource that it needs is missing or damaged.
    """
    if source == "neighbours":
        return Neighbours(resources.word_vectors, candidates=candidates, min_cosine=min_cosine)
    language_model = resources.masked_lm if step is None else resources.masked_lm.padded(step)
    return MaskedWords(
        language_model,
        None if min_cosine is None else resources.word_vectors,
        candidates=candidates,
        min_cosine=min_cosine,
        unknown=unknown,
    )
