"""Hard positives: sentences with words replaced so that the contrastive loss rises (ADCL, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from rbench.substitution.batched import Geometry, at_most
from rbench.substitution.target import Target
from rbench.train.moco import Held, MoCo

VERSION = 1


class HardPositives:
    """Makes `Positives` by the Geometry search on equation 1; see `rbench.train.objectives.adcl`.

    Args:
        geometry: the search.
        max_words, share: at most min(max_words, share * L) of a sentence's L words are replaced.
        ranked_by: whose z the search moves, the query encoder's or the key encoder's.
    """

    counts = ("words", "replaced", "raised")

    def __init__(
        self, geometry: Geometry, *, max_words: int, share: float, ranked_by: Literal["query", "key"] = "query"
    ) -> None:
        self._geometry = geometry
        self._budget = at_most(max_words, share)
        self._ranked_by = ranked_by

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        """X' of each text; and how many words there are, how many were replaced, and by how much the losses rose."""
        encoder, head = (
            (model.encoder, model.head) if self._ranked_by == "query" else (model.key_encoder, model.key_head)
        )
        held = model.queue.after(model.z(model.key_encoder, model.key_head, texts))

        def loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            return model.losses(z, Held(held.keys, held.positive_index[list(rows)]))

        swapped = self._geometry(
            [(text,) for text in texts],
            Target(encoder, loss, model.max_length, project=head),
            max_words=self._budget,
        )
        changed = [row for row, found in enumerate(swapped) if found.substitutions]
        made = [found.texts[0] for found in swapped]
        raised = 0.0
        if changed:
            before = loss(model.z(encoder, head, [texts[row] for row in changed]), changed)
            after = loss(model.z(encoder, head, [made[row] for row in changed]), changed)
            raised = float((after - before).sum())
        words = sum(found.num_words for found in swapped)
        replaced = sum(len(found.substitutions) for found in swapped)
        return made, {"words": words, "replaced": replaced, "raised": raised}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """`loss_raised`, in nats, and `words_replaced`, a share of all words, 0..1.

        `loss_raised` is how much equation 1 rises from X to X', the mean over all sentences; those that stay as they
        are count 0. z is that of the encoder that the search moves, without dropout; the key is that of X.
        """
        return {
            "loss_raised": sums["raised"] / max(1.0, sums["positives"]),
            "words_replaced": sums["replaced"] / max(1.0, sums["words"]),
        }
