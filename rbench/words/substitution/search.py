"""The batched word-substitution search behind the Geometry attack, ADCL's hard positives and adversarial training.

`search` is Algorithm 1 of "Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained
Language Models" (sections 3.3 and 4.3, appendix A) for many texts at once. Its users differ in the loss, the encoder
and the stopping rule. These come in as three callables, each called once a round for all texts that are still open.

The paper leaves some things open. The projection is signed here; the printed argmax is of its absolute value, which
also admits the most negative one. The largest is taken even if it is negative, as printed. A word without candidates
is never tried again and does not count as a step; the next word in the same ranking is tried. z comes from the pass of
the round that gives v_z, so that the two belong together.

The authors' public code departs from the printed algorithm. `order`, `keep` and `accept_flip` have its ways as well.

`word_gradients` makes the norms by word that it needs; `candidates` has the candidates that all its users share. This
module knows neither TextAttack nor victims, tasks or training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

# Raising it runs every Geometry attack anew, and trains ADCL's encoders and adversarial victims anew. tests/golden
# (wordswap, geometry) holds its results.
VERSION = 1

Words = tuple[str, ...]
ProjectionRule = Literal["signed", "absolute"]
OrderRule = Literal["each_round", "once"]
KeepRule = Literal["always", "positive"]


class BatchText(NamedTuple):
    """A text with the words that it has by now; `row` is its number in the batch given to `search`."""

    row: int
    words: Words


class WordSlot(NamedTuple):
    """One word of a text for which replacements are wanted; `place` is its number in `words`."""

    row: int
    words: Words
    place: int


class TextGradients(NamedTuple):
    """Gradients of a loss for n texts."""

    vectors: Tensor
    """(n, dim): sentence vectors z."""
    directions: Tensor
    """(n, dim): gradient of the loss at z, that is v_z; any positive multiple does."""
    norms: Sequence[Tensor] | None = None
    """n tensors of shape (words,): norm of each word's gradient; -inf for a word that the encoder does not see. None
    where only vectors and directions were asked for."""


class CandidateScores(NamedTuple):
    """Vectors of n candidate texts, and whether they end their searches."""

    vectors: Tensor
    """(n, dim): sentence vectors."""
    done: Sequence[bool] | None = None
    """Whether the search of a text has reached its end with this candidate (an attack: the prediction flipped)."""
    last: bool = False
    """Whether this was the last round of all these texts, whatever it gave (an attack: no query is left)."""


@dataclass(frozen=True)
class Substitution:
    """One replaced word: its number in the text, the projection gained (signed), and its step, counted from 1."""

    index: int
    old: str
    new: str
    projection: float
    step: int


@dataclass(frozen=True)
class SearchResult:
    """What the search of one text came to."""

    words: Words
    substitutions: tuple[Substitution, ...]
    done: bool
    """True where the last candidate taken was marked done."""
    asked: int
    """Words of the text for which candidates were asked."""
    without: int
    """Those of them that had none."""


@dataclass
class _SearchState:
    """A text while it is searched; `free` are the numbers of the words that may still be replaced."""

    row: int
    words: Words
    free: set[int]
    budget: int
    substitutions: list[Substitution] = field(default_factory=list)
    done: bool = False
    last: bool = False
    order: list[int] = field(default_factory=list)
    """The words by the gradients that were looked at last."""
    look: tuple[Tensor, Tensor] | None = None
    """z and v_z of the text as it is; None where they are not known."""
    asked: int = 0
    without: int = 0

    @property
    def open(self) -> bool:
        return not (self.done or self.last) and len(self.substitutions) < self.budget and bool(self.free)

    @property
    def ranking(self) -> list[int]:
        """The words that may still be replaced, in their order."""
        return [i for i in self.order if i in self.free]

    def rank(self, norms: Tensor) -> None:
        """Order the words that may still be replaced: largest gradient first, equal ones in the order of the text."""
        values = norms.tolist()
        self.order = sorted((i for i in self.free if values[i] > -math.inf), key=lambda i: (-values[i], i))


def search(
    texts: Sequence[Sequence[str]],
    changeable: Sequence[Sequence[bool]],
    *,
    gradients: Callable[[list[BatchText]], TextGradients],
    candidates: Callable[[list[WordSlot]], Sequence[Sequence[str]]],
    scores: Callable[[list[BatchText]], CandidateScores],
    max_words: int | Sequence[int],
    directions: Callable[[list[BatchText]], TextGradients] | None = None,
    projection: ProjectionRule = "signed",
    accept_flip: bool = True,
    order: OrderRule = "each_round",
    keep: KeepRule = "always",
    lookahead: int = 1,
) -> list[SearchResult]:
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
        directions: as `gradients` without norms; asked in their place where no norms are needed. None: `gradients` is.
        projection: `signed`, or `absolute` for the largest absolute value.
        accept_flip: take a candidate marked done before all that are not, among several the one with the largest
            projection. False: take the largest projection regardless; the text is closed if that one is done.
        order: `each_round`: step 2 goes by the norms of the text as it is. `once`: always by those of the first round.
        keep: `always`: the replacement that step 4 takes is kept. `positive`: only if its projection is above zero, or
            it is marked done. Otherwise the word stays, is never tried again, and does not count as a substitution.
        lookahead: step 3 asks for so many words a text at once. This changes calls, never the result.
    """
    budgets = [max_words] * len(texts) if isinstance(max_words, int) else list(max_words)
    states = [
        _SearchState(row, tuple(words), {i for i, free in enumerate(mask) if free}, budget)
        for row, (words, mask, budget) in enumerate(zip(texts, changeable, budgets, strict=True))
    ]
    rank = True
    # All open texts share each call, so that forward passes are of whole batches and not of single texts.
    while active := [state for state in states if state.open]:
        _update_gradients(active, gradients if rank or directions is None else directions, rank)
        rank = order == "each_round"
        offers = _find_offers(active, candidates, lookahead)
        _take_best(active, offers, scores, projection, accept_flip, keep)
    return [SearchResult(s.words, tuple(s.substitutions), s.done, s.asked, s.without) for s in states]


def _update_gradients(active: list[_SearchState], ask: Callable[[list[BatchText]], TextGradients], rank: bool) -> None:
    """Steps 1 and 2, for the texts that changed since they were looked at. `rank`: order their words anew."""
    changed = [state for state in active if state.look is None]
    if not changed:
        return
    gradients = ask([BatchText(s.row, s.words) for s in changed])
    for place, state in enumerate(changed):
        state.look = gradients.vectors[place].detach().double(), gradients.directions[place].detach().double()
    if rank:
        assert gradients.norms is not None, "the order of words needs them"
        for state, norms in zip(changed, gradients.norms, strict=True):
            state.rank(norms)


def _find_offers(
    active: list[_SearchState],
    candidates: Callable[[list[WordSlot]], Sequence[Sequence[str]]],
    lookahead: int,
) -> dict[int, tuple[int, Sequence[str]]]:
    """Row -> (word, its candidates), for the first word of each ranking that has candidates.

    Words without candidates are taken out of `free`. A text in which no word has any gets no entry.
    """
    offers: dict[int, tuple[int, Sequence[str]]] = {}
    waiting = [(state, state.ranking) for state in active]
    while waiting:
        slots = [WordSlot(s.row, s.words, i) for s, ranking in waiting for i in ranking[:lookahead]]
        replies = dict(zip(slots, candidates(slots), strict=True)) if slots else {}
        asked_again = []
        for state, ranking in waiting:
            for index in ranking[:lookahead]:
                state.asked += 1
                if reply := replies[WordSlot(state.row, state.words, index)]:
                    offers[state.row] = (index, reply)
                    break
                state.without += 1
                state.free.discard(index)
            else:
                if ranking[lookahead:]:
                    # The next call asks for these together with those of other texts: one call per depth, not per text.
                    asked_again.append((state, ranking[lookahead:]))
                else:
                    state.free.clear()
        waiting = asked_again
    return offers


def _take_best(
    active: list[_SearchState],
    offers: dict[int, tuple[int, Sequence[str]]],
    scores: Callable[[list[BatchText]], CandidateScores],
    projection: ProjectionRule,
    accept_flip: bool,
    keep: KeepRule,
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
    candidate_scores = scores(texts)
    projections = _compute_projections(candidate_scores.vectors, active, owners)
    done = [bool(d) for d in candidate_scores.done] if candidate_scores.done is not None else [False] * len(texts)
    start = 0
    for state in active:
        if state.row not in offers:
            continue
        index, words = offers[state.row]

        def merit(j: int, start: int = start) -> tuple[bool, float, int]:
            # `-j`: of equal candidates the first wins. A flip comes before any projection (`accept_flip`).
            value = projections[start + j]
            if projection == "absolute":
                value = abs(value)
            return accept_flip and done[start + j], value, -j

        best = start + max(range(len(words)), key=merit)
        state.free.discard(index)
        # Kept or not, the word is never tried again, so that each round brings the search nearer to its end.
        state.last = candidate_scores.last
        if keep == "always" or projections[best] > 0 or done[best]:
            old, new = state.words[index], texts[best].words[index]
            state.substitutions.append(Substitution(index, old, new, projections[best], len(state.substitutions) + 1))
            # The gradients are of the text before the replacement. If the word stays, they remain valid.
            state.words, state.done, state.look = texts[best].words, done[best], None
        start += len(words)


def _compute_projections(vectors: Tensor, active: list[_SearchState], owners: list[int]) -> list[float]:
    """(z_j - z) . v / |v| of each candidate. Double precision keeps the shape of a batch from deciding their order."""
    pairs = [state.look for state in active if state.look is not None]
    assert len(pairs) == len(active)  # `_update_gradients` came first
    vectors_now, directions = torch.stack([z for z, _ in pairs]), torch.stack([v for _, v in pairs])
    owner_rows = torch.tensor(owners, device=vectors.device)
    lengths = directions.norm(dim=1)
    lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
    changes = vectors.detach().double() - vectors_now[owner_rows]
    projections: list[float] = ((changes * directions[owner_rows]).sum(dim=1) / lengths[owner_rows]).tolist()
    return projections
