"""The batched word-substitution search behind the Geometry attack, ADCL's hard positives and adversarial training.

`search` is Algorithm 1 of "Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained
Language Models" (sections 3.3 and 4.3, appendix A) for many texts at once. Its users differ in the loss, the encoder
and the stopping rule. These come in as three callables, each called once a round for all texts that are still open.

The paper leaves some things open. The projection is signed here; the printed argmax is of its absolute value, which
also admits the most negative one. The largest is taken even if it is negative, as printed. A word without candidates
is never tried again and does not count as a step; the next word in the same ranking is tried. z comes from the gradient
pass of the round, so that z and v_z belong together.

`rbench.substitution.word_gradients` makes the norms by word that it needs; `rbench.substitution.candidates` has the
candidates that all its users share. This module knows neither TextAttack nor victims, tasks or training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

VERSION = 1

Words = tuple[str, ...]
Projection = Literal["signed", "absolute"]


class BatchText(NamedTuple):
    """A text with the words that it has by now; `row` is its number in the batch given to `search`."""

    row: int
    words: Words


class Slot(NamedTuple):
    """One word of a text for which replacements are wanted; `place` is its number in `words`."""

    row: int
    words: Words
    place: int


class Gradients(NamedTuple):
    """Gradients of a loss for n texts."""

    vectors: Tensor
    """(n, dim): sentence vectors z."""
    directions: Tensor
    """(n, dim): gradient of the loss at z, that is v_z; any positive multiple does."""
    norms: Sequence[Tensor]
    """n tensors of shape (words,): L2 norm of each word's gradient; -inf for a word that the encoder does not see."""


class Scores(NamedTuple):
    """Vectors of n candidate texts, and whether they end their searches."""

    vectors: Tensor
    """(n, dim): sentence vectors."""
    done: Sequence[bool] | None = None
    """Whether the search of a text is over once this candidate is taken (an attack: the prediction flipped)."""


@dataclass(frozen=True)
class Substitution:
    """One replaced word: its number in the text, the projection gained (signed), and its step, counted from 1."""

    index: int
    old: str
    new: str
    projection: float
    step: int


@dataclass(frozen=True)
class Result:
    """What the search of one text came to."""

    words: Words
    substitutions: tuple[Substitution, ...]
    done: bool
    """True where the last candidate taken was marked done."""


@dataclass
class _State:
    """A text while it is searched; `free` are the numbers of the words that may still be replaced."""

    row: int
    words: Words
    free: set[int]
    budget: int
    taken: list[Substitution] = field(default_factory=list)
    done: bool = False

    @property
    def open(self) -> bool:
        return not self.done and len(self.taken) < self.budget and bool(self.free)

    def ranking(self, norms: Tensor) -> list[int]:
        """The words that may still be replaced: largest gradient first, equal ones in the order of the text."""
        values = norms.tolist()
        if len(values) != len(self.words) or any(math.isnan(v) for v in values):
            raise ValueError(f"text {self.row}: gradient norms must be {len(self.words)} numbers, got {values}")
        return sorted((i for i in self.free if values[i] > -math.inf), key=lambda i: (-values[i], i))


def search(
    texts: Sequence[Sequence[str]],
    changeable: Sequence[Sequence[bool]],
    *,
    gradients: Callable[[list[BatchText]], Gradients],
    candidates: Callable[[list[Slot]], Sequence[Sequence[str]]],
    scores: Callable[[list[BatchText]], Scores],
    max_words: int | Sequence[int],
    projection: Projection = "signed",
    accept_flip: bool = True,
    lookahead: int = 1,
) -> list[Result]:
    """Replace words, one a round in every open text, so that sentence vectors move along the gradient of a loss.

    A round has four steps:

    1. `gradients` gives z, v_z and a norm for each word.
    2. The changeable word with the largest norm is chosen among those not yet replaced.
    3. `candidates` gives its replacements.
    4. `scores` gives the vector z_j of each text with a replacement in place. The replacement with the largest
       projection (z_j - z) . v_z / |v_z| is taken, the first in the order of `candidates` where several are equal.
       Where v_z is zero every projection is zero.

    A text is closed when it has `max_words` substitutions, when no changeable word is left, or when the candidate
    taken is marked done. For what the paper leaves open see the head of this module.

    Args:
        texts: the words of each text.
        changeable: for each word of each text whether it may be replaced.
        max_words: the most substitutions in a text: one number, or one for each text.
        projection: `signed`, or `absolute` for the largest absolute value.
        accept_flip: take a candidate marked done before all that are not, among several the one with the largest
            projection. False: take the largest projection regardless; the text is closed if that one is done.
        lookahead: step 3 asks for so many words a text at once. This changes calls, never the result.

    Raises:
        ValueError: lists do not belong together, or projections or norms are not numbers.
    """
    if len(texts) != len(changeable) or any(len(t) != len(m) for t, m in zip(texts, changeable, strict=False)):
        raise ValueError("every text needs a mask with one entry a word")
    budgets = [max_words] * len(texts) if isinstance(max_words, int) else list(max_words)
    states = [
        _State(row, tuple(words), {i for i, free in enumerate(mask) if free}, budget)
        for row, (words, mask, budget) in enumerate(zip(texts, changeable, budgets, strict=True))
    ]
    while active := [state for state in states if state.open]:
        found = gradients([BatchText(s.row, s.words) for s in active])
        rankings = [s.ranking(norms) for s, norms in zip(active, found.norms, strict=True)]
        offers = _first_offers(active, rankings, candidates, lookahead)
        _take_best(active, offers, found, scores, projection, accept_flip)
    return [Result(s.words, tuple(s.taken), s.done) for s in states]


def _first_offers(
    active: list[_State],
    rankings: list[list[int]],
    candidates: Callable[[list[Slot]], Sequence[Sequence[str]]],
    lookahead: int,
) -> dict[int, tuple[int, Sequence[str]]]:
    """Row -> (word, its candidates), for the first word of each ranking that has candidates.

    Words without candidates are taken out of `free`. A text in which no word has any gets no entry.
    """
    offers: dict[int, tuple[int, Sequence[str]]] = {}
    waiting = list(zip(active, rankings, strict=True))
    while waiting:
        slots = [Slot(s.row, s.words, i) for s, ranking in waiting for i in ranking[:lookahead]]
        replies = dict(zip(slots, candidates(slots), strict=True)) if slots else {}
        still = []
        for state, ranking in waiting:
            for index in ranking[:lookahead]:
                if reply := replies[Slot(state.row, state.words, index)]:
                    offers[state.row] = (index, reply)
                    break
                state.free.discard(index)
            else:
                if ranking[lookahead:]:
                    still.append((state, ranking[lookahead:]))
                else:
                    state.free.clear()
        waiting = still
    return offers


def _take_best(
    active: list[_State],
    offers: dict[int, tuple[int, Sequence[str]]],
    found: Gradients,
    scores: Callable[[list[BatchText]], Scores],
    projection: Projection,
    accept_flip: bool,
) -> None:
    """Step 4 for all open texts: score their candidates in one call and replace a word in each."""
    texts: list[BatchText] = []
    owners: list[int] = []
    for place, state in enumerate(active):
        if state.row in offers:
            index, words = offers[state.row]
            texts += [BatchText(state.row, (*state.words[:index], w, *state.words[index + 1 :])) for w in words]
            owners += [place] * len(words)
    if not texts:
        return
    scored = scores(texts)
    projections = _projections(scored.vectors, found, owners)
    done = [bool(d) for d in scored.done] if scored.done is not None else [False] * len(texts)
    if not len(done) == len(projections) == len(texts) or not all(map(math.isfinite, projections)):
        raise ValueError(f"scores must be one finite vector for each of {len(texts)} texts")
    start = 0
    for state in active:
        if state.row not in offers:
            continue
        index, words = offers[state.row]

        def merit(j: int, start: int = start) -> tuple[bool, float, int]:
            value = projections[start + j]
            return accept_flip and done[start + j], abs(value) if projection == "absolute" else value, -j

        best = max(range(len(words)), key=merit)
        old, step = state.words[index], len(state.taken) + 1
        state.taken.append(Substitution(index, old, words[best], projections[start + best], step))
        state.words = texts[start + best].words
        state.done = done[start + best]
        state.free.discard(index)
        start += len(words)


def _projections(vectors: Tensor, found: Gradients, owners: list[int]) -> list[float]:
    """(z_j - z) . v / |v| of each candidate. Double precision keeps the shape of a batch from deciding their order."""
    owner = torch.tensor(owners, device=vectors.device)
    directions = found.directions.detach().double()
    lengths = directions.norm(dim=1)
    lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    moved = vectors.detach().double() - found.vectors.detach().double()[owner]
    projections: list[float] = ((moved * directions[owner]).sum(dim=1) / lengths[owner]).tolist()
    return projections
