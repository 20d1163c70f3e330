"""Builds the Geometry attack from TextAttack objects: a word-substitution search on the gradients of a victim.

"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models", sections
3.3 and 4.3, Algorithm 1 with the cross-entropy loss of the true label. It is a white-box attack: it needs the victim's
gradients. `rbench.substitution.search.search` implements the search. This module defines its loss and counts queries.

Cross-entropy is log(1 + exp(m)) with m the log-odds against the true label y, m = logsumexp(l_k, k != y) - l_y. Its
gradients are those of m times sigmoid(m) > 0. The gradients of m are used instead. They give the same direction of v_z
and the same order of words, and they do not underflow where a victim is confident.

The victim's head is linear, l = W z + b. So v_z = W'g with g the gradient of m at the logits. Since g sums to zero,
(z_j - z) . v_z = g . (log p_j - log p), with p the probabilities that TextAttack's goal function keeps. So the
projection of a candidate's sentence vector follows from the victim's probabilities, which may come from a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from textattack import Attack
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.search_methods import SearchMethod
from textattack.shared import AttackedText
from torch import Tensor, nn

from rbench.attack.gradients import Labelled, at_logits
from rbench.attack.substitutes import WordSwapCandidates, substitution_attack, swaps, word_spans
from rbench.errors import JobError
from rbench.inference import rows_of
from rbench.substitution.search import (
    BatchText,
    Gradients,
    Projection,
    Scores,
    Slot,
    Words,
    search,
)
from rbench.substitution.word_gradients import norms_by_word

VERSION = 1


class Look(NamedTuple):
    """Result of one gradient pass over n texts."""

    log_probabilities: Tensor
    """(n, labels), float64, on the CPU."""
    at_logits: Tensor
    """(n, labels), float64, on the CPU: g in the module's docstring."""
    lengths: Tensor
    """(n,): |v_z|, the norm of the gradient at the sentence vector."""
    norms: list[Tensor]
    """n tensors (words,): a gradient norm for each word, -inf where truncation hides the word."""


class VictimGradients:
    """Gradients of the log-odds against a label, for texts of one or two columns.

    Raises:
        JobError: the victim's head is not linear, or its tokenizer is not a fast one.
    """

    def __init__(self, victim: Any) -> None:
        self.victim, self.classifier = victim, victim.classifier
        if not isinstance(self.classifier.head, nn.Linear):
            raise JobError("the Geometry attack reads projections off the logits and needs a victim with a linear head")
        if not self.classifier.tokenizer.is_fast:
            raise JobError("the Geometry attack needs a victim with a fast tokenizer, to know which pieces make a word")

    def __call__(self, texts: Sequence[AttackedText], labels: Sequence[int]) -> Look:
        """Compute all texts in one forward and one backward pass. Other attacks under way share these passes."""
        encoded = self.classifier.tokenizer(
            [text.tokenizer_input for text in texts],
            truncation=True,
            max_length=self.victim.max_length,
            return_offsets_mapping=True,
        )
        labelled = (Labelled(row, label) for row, label in zip(rows_of(encoded), labels, strict=True))
        found = self.victim.log_odds_gradients(labelled)
        logits = torch.stack([one.logits for one in found]).double()
        target = torch.tensor(labels).unsqueeze(1)
        towards = at_logits(logits, target)
        norms = norms_by_word(encoded, [one.embeddings for one in found], [word_spans(text) for text in texts])
        weight = self.classifier.head.weight.detach().double().cpu()
        return Look(logits.log_softmax(dim=1), towards, (towards @ weight).norm(dim=1), norms)


class GeometrySearch(SearchMethod):  # type: ignore[misc]
    """Runs `rbench.substitution.search.search` on one text, against the victim of the goal function.

    Each scored candidate counts as one query (in the goal function). So does each gradient pass, since it includes a
    forward pass of the victim. Under a query budget, a round scores only as many candidates as the budget allows, the
    most probable first.
    """

    is_black_box = False

    def __init__(
        self,
        gradients: VictimGradients,
        transformation: WordSwapCandidates,
        *,
        max_words: int,
        projection: Projection,
        accept_flip: bool,
    ) -> None:
        self.gradients, self.transformation = gradients, transformation
        self.max_words: int = max_words
        self.projection: Projection = projection
        self.accept_flip = accept_flip

    def perform_search(self, initial_result: Any) -> Any:
        if self._left() < 2:
            return initial_result
        example = _Example(self, initial_result)
        text = initial_result.attacked_text
        _, free = self.get_indices_to_order(text)
        (result,) = search(
            [text.words],
            [[index in set(free) for index in range(text.num_words)]],
            gradients=example.gradients,
            candidates=example.candidates,
            scores=example.scores,
            max_words=self.max_words,
            projection=self.projection,
            accept_flip=self.accept_flip,
        )
        return example.results[result.words]

    def _left(self) -> float:
        """Return the number of queries left in the budget."""
        left: float = self.goal_function.query_budget - self.goal_function.num_queries
        return left

    def extra_repr_keys(self) -> list[str]:
        return ["max_words", "projection", "accept_flip"]


class _Example:
    """The three callables of the search for one example. It keeps the texts and goal function results seen so far."""

    def __init__(self, method: GeometrySearch, initial: Any) -> None:
        self.method, self.initial = method, initial
        self.label = int(initial.ground_truth_output)
        self.results: dict[Words, Any] = {tuple(initial.attacked_text.words): initial}
        self.texts: dict[Words, AttackedText] = {tuple(initial.attacked_text.words): initial.attacked_text}
        self.axis = torch.zeros(0)

    def gradients(self, batch: list[BatchText]) -> Gradients:
        self.method.goal_function.num_queries += len(batch)
        look = self.method.gradients([self.texts[s.words] for s in batch], [self.label] * len(batch))
        # The search only needs the position of a sentence vector along v_z: one number per text.
        lengths = torch.where(look.lengths > 0, look.lengths, torch.ones_like(look.lengths))
        self.axis = (look.at_logits / lengths.unsqueeze(1))[0]
        return Gradients(look.log_probabilities @ self.axis.unsqueeze(1), torch.ones(len(batch), 1), look.norms)

    def candidates(self, batch: list[Slot]) -> list[list[str]]:
        free = {words: set(self.method.get_indices_to_order(self.texts[words])[1]) for _, words, _ in batch}
        slots = [slot for slot in batch if slot.place in free[slot.words]]
        ranked = self.method.transformation.replacements([(self.texts[s.words], s.place) for s in slots])
        kept = {slot: self._allowed(slot, words) for slot, words in zip(slots, ranked, strict=True) if words}
        return [kept.get(slot, []) for slot in batch]

    def _allowed(self, slot: Slot, ranked: list[str]) -> list[str]:
        """Return candidates that pass the constraints, most probable first, at most as many as the budget allows."""
        text, place = self.texts[slot.words], slot.place
        changed = self.method.get_transformations(
            text, original_text=self.initial.attacked_text, indices_to_modify=[place]
        )
        found = {new.words[place]: new for new in changed}
        kept = [word for word in ranked if word in found][: int(min(self.method._left(), len(ranked)))]
        self.texts.update((tuple(found[word].words), found[word]) for word in kept)
        return kept

    def scores(self, batch: list[BatchText]) -> Scores:
        results, _ = self.method.get_goal_results([self.texts[s.words] for s in batch])
        self.results.update((s.words, result) for s, result in zip(batch, results, strict=True))
        smallest = torch.finfo(torch.float32).tiny
        probabilities = torch.stack([torch.as_tensor(result.raw_output) for result in results])
        places = probabilities.double().clamp(min=smallest).log() @ self.axis
        flipped = [result.goal_status == GoalFunctionResultStatus.SUCCEEDED for result in results]
        exhausted = self.method._left() < 2  # a round costs a gradient pass and a candidate
        if exhausted and not (self.method.accept_flip and any(flipped)):
            return Scores(places.unsqueeze(1), [True] * len(batch))
        return Scores(places.unsqueeze(1), flipped)


def build(
    victim: Any, resources: Any, *, max_words: int, projection: Projection, accept_flip: bool, **candidates: Any
) -> Attack:
    """Build the attack of `attacks/geometry.py`; `candidates` are options of `CandidateOptions`."""
    transformation = swaps(resources, **candidates)
    method = GeometrySearch(
        VictimGradients(victim), transformation, max_words=max_words, projection=projection, accept_flip=accept_flip
    )
    return substitution_attack(victim, resources, transformation, method)
