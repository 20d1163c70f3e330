"""Make positives by replacing words: so that the contrastive loss increases (ADCL, section 3.3), at random, or none.

The last two are controls of ours. They show what a training owes to the adversary, what to any other words of the same
candidates, and what to dropout alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from rbench.substitution.batched import Geometry, Swapped, Target, at_most
from rbench.substitution.search import Substitution
from rbench.substitution.segmentation import SegmentedTexts
from rbench.train.moco import Held, MoCo

VERSION = 1


class HardPositives:
    """Implement `Positives` by substitutions.

    Args:
        geometry: the Geometry attack, here on equation 1 (see `rbench.train.objectives.adcl`).
        how: as the option `positives`.
        max_words, share: at most min(max_words, share * L) words of a sentence of L words are replaced.
        ranked_by: the encoder that the attack moves z of: the query or the key encoder.
    """

    counts: tuple[str, ...] = ("words", "replaced", "raised")

    def __init__(
        self,
        geometry: Geometry,
        how: Literal["hard", "random", "same"] = "hard",
        *,
        max_words: int,
        share: float,
        ranked_by: Literal["query", "key"] = "query",
    ) -> None:
        self._geometry, self._how, self._ranked_by = geometry, how, ranked_by
        self._budget = at_most(max_words, share)

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        """Return X' of each text, and the numbers of words, of words replaced, and the summed increase of the loss."""
        encoder, head = (
            (model.encoder, model.head) if self._ranked_by == "query" else (model.key_encoder, model.key_head)
        )
        held = model.queue.after(model.z(model.key_encoder, model.key_head, texts))

        def loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            return model.losses(z, Held(held.keys, held.positive_index[list(rows)]))

        target = Target(encoder, loss, model.max_length, project=head)
        swapped = substituted(self._how, self._geometry, self._budget, texts, target)
        changed = [row for row, found in enumerate(swapped) if found.substitutions]
        made = [found.texts[0] for found in swapped]
        raised = 0.0
        if changed:
            before = loss(model.z(encoder, head, [texts[row] for row in changed]), changed)
            after = loss(model.z(encoder, head, [made[row] for row in changed]), changed)
            raised = float((after - before).sum())
        return made, {**counts(swapped), "raised": raised}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return `loss_raised`, in nats, and `words_replaced`, a share, 0..1.

        `loss_raised` is the mean increase of equation 1 from X to X'. z is that of the attacked encoder without
        dropout, the key is that of X. Unchanged sentences count as 0.
        """
        return {
            "loss_raised": sums["raised"] / max(1.0, sums["positives"]),
            "words_replaced": sums["replaced"] / max(1.0, sums["words"]),
        }


def substituted(
    how: Literal["hard", "random", "same", "none"],
    geometry: Geometry,
    budget: Callable[[int], int],
    texts: Sequence[str],
    target: Target,
) -> list[Swapped]:
    """Replace words of each text.

    Args:
        how: `hard`: the words that the Geometry attack finds. `random`: see `at_random`. Otherwise nothing is replaced.
        budget: how many words of a text of L words, at most.
        target: what the attack moves.
    """
    if how == "hard":
        return geometry([(text,) for text in texts], target, max_words=budget)
    if how == "random":
        return at_random(geometry, budget, texts)
    words = SegmentedTexts([(text,) for text in texts]).words
    return [Swapped((text,), (), len(own)) for text, own in zip(texts, words, strict=True)]


def counts(swapped: Sequence[Swapped]) -> dict[str, float]:
    """Return the numbers of `words` and of words `replaced`."""
    words, replaced = sum(one.num_words for one in swapped), sum(len(one.substitutions) for one in swapped)
    return {"words": words, "replaced": replaced}


def at_random(geometry: Geometry, budget: Callable[[int], int], texts: Sequence[str]) -> list[Swapped]:
    """Replace random words of each text by random candidates of the text as it is.

    Random numbers come from torch's global generator.

    Args:
        geometry: says which words may be replaced, and by which.
        budget: how many words of a text of L words, at most.
    """
    segmented = SegmentedTexts([(text,) for text in texts])
    found = []
    for row, words in enumerate(segmented.words):
        free = [place for place, word in enumerate(words) if word.lower() not in geometry.stopwords]
        spans = segmented.spans[row]
        proposed = geometry.source([(texts[row], *spans[place][1:]) for place in free])
        able = [(place, choices) for place, choices in zip(free, proposed, strict=True) if choices]
        order = torch.randperm(len(able)).tolist()[: budget(len(words))]
        changed, taken = list(words), []
        for step, (place, choices) in enumerate((able[k] for k in order), 1):
            changed[place] = choices[int(torch.randint(len(choices), ()))]
            taken.append(Substitution(place, words[place], changed[place], 0.0, step))
        columns = segmented.columns(row, tuple(changed))
        found.append(Swapped(columns, tuple(taken), len(words), asked=len(free), without=len(free) - len(able)))
    return found
