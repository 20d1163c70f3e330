"""Builds the Geometry attack from TextAttack objects: a word-substitution search on the gradients of a victim.

"Self-Supervised Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models", sections
3.3 and 4.3, Algorithm 1 with the cross-entropy loss of the true label. It is a white-box attack: it needs the victim's
gradients. `rbench.words.substitution.search.search` implements the search. This module defines its loss and counts
queries.

Cross-entropy is log(1 + exp(m)) with m the log-odds against the true label y, m = logsumexp(l_k, k != y) - l_y. Its
gradients are those of m times sigmoid(m) > 0. The gradients of m are used instead. They give the same direction of v_z
and the same order of words, and they do not underflow where a victim is confident.

The victim's head is linear, l = W z + b. So v_z = W'g with g the gradient of m at the logits. Since g sums to zero,
(z_j - z) . v_z = g . (log p_j - log p), with p the probabilities that TextAttack's goal function keeps. So the
projection of a candidate's sentence vector follows from the victim's probabilities, which may come from a cache.
The same holds for DeepFool's normal of the boundary between y and the class k: there g is 1 at k and -1 at y. The order
of the words follows from the gradients of m in any case.

On STS tasks a scorer of sentence pairs is attacked (ours: the ADCL paper attacks classifiers only). Algorithm 1 raises
a loss. For a pair it is the error of the score, on the side of the gold score that has more room: the score is pushed
towards the end of the scale that is farther from the gold score, since only there every pair's error can grow by the
threshold. (The gradient of |score - gold| itself would push a pair with the gold score 4.5 and the score 4.6 upwards,
where it has 0.4 to go.) The sentence vector z is (u, v), the vectors of both sentences in turn, of which a replacement
changes one. The loss is an increasing function of plus or minus the raw score r(u, v), a cosine or log-odds. So v_z is
the gradient of r at (u, v), with this sign. It does not vanish where the map from r to the scale is flat. In place of a
second class there is one number, so the normal of the nearest boundary (`direction: deepfool`) is the same vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from textattack import Attack
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.search_methods import SearchMethod
from textattack.shared import AttackedText
from torch import Tensor, nn

from rbench.encoders.inference import build_rows
from rbench.errors import JobError
from rbench.recipes.substitutes import (
    WordSwapCandidates,
    make_transformation,
    substitution_attack,
    word_budget,
    word_spans,
)
from rbench.recipes.victim import LabelledRow, ScorerVictim, gradient_at_logits
from rbench.words.substitution.options import GeometryOptions
from rbench.words.substitution.search import BatchText, CandidateScores, TextGradients, Words, WordSlot, search
from rbench.words.substitution.word_gradients import WordNorm, compute_norms, find_nearest_boundary

VERSION = 1
USES = ("recipes.substitutes", "inference.input_gradients", "substitution.search", "substitution.word_gradients")

Direction = Literal["gradient", "deepfool"]


class GradientPass(NamedTuple):
    """Result of one gradient pass over n texts."""

    log_probabilities: Tensor
    """(n, labels), float64, on the CPU."""
    at_logits: Tensor
    """(n, labels), float64, on the CPU: g in the module's docstring, or DeepFool's."""
    lengths: Tensor
    """(n,): |v_z|, the length of W'g."""
    norms: list[Tensor]
    """n tensors (words,): a gradient norm for each word, -inf where truncation hides the word."""


class VictimGradients:
    """Gradients of the log-odds against a label, for texts of one or two columns.

    Args:
        victim: the victim.
        direction: the direction at the sentence vector: the gradient, or DeepFool's normal of the nearest boundary.
        word_norm: as `rbench.words.substitution.word_gradients`.

    Raises:
        JobError: the victim's head is not linear.
    """

    def __init__(self, victim: Any, direction: Direction = "gradient", word_norm: WordNorm = "l2") -> None:
        self.victim, self.classifier = victim, victim.classifier
        self.direction, self.word_norm = direction, word_norm
        if not isinstance(self.classifier.head, nn.Linear):
            raise JobError("the Geometry attack reads projections off the logits and needs a victim with a linear head")

    def __call__(self, texts: Sequence[AttackedText], labels: Sequence[int]) -> GradientPass:
        """Compute all texts in one forward and one backward pass. Other attacks under way share these passes."""
        encoded = self.classifier.tokenizer(
            [text.tokenizer_input for text in texts],
            truncation=True,
            max_length=self.victim.max_length,
            return_offsets_mapping=True,
        )
        labelled = (LabelledRow(row, label) for row, label in zip(build_rows(encoded), labels, strict=True))
        answers = self.victim.log_odds_gradients(labelled)
        embeddings = [answer.embeddings for answer in answers]
        norms = compute_norms(encoded, embeddings, [word_spans(text) for text in texts], self.word_norm)
        log_probabilities = torch.stack([answer.answer for answer in answers]).cpu().double().log_softmax(dim=1)
        return GradientPass(log_probabilities, *self.towards(log_probabilities, labels), norms)

    def towards(self, log_probabilities: Tensor, labels: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return g (n, labels) and |W'g| (n,) for texts with these log-probabilities (n, labels)."""
        weight, true_labels = self.classifier.head.weight.detach().double().cpu(), torch.tensor(labels)
        if self.direction == "gradient":
            g = gradient_at_logits(log_probabilities, true_labels.unsqueeze(1))
        else:
            nearest = find_nearest_boundary(log_probabilities, true_labels, weight)
            g = torch.zeros_like(log_probabilities)
            g = g.scatter(1, nearest.unsqueeze(1), 1.0).scatter(1, true_labels.unsqueeze(1), -1.0)
        return g, (g @ weight).norm(dim=1)


class ScorerGradients:
    """Gradients of the raw score, for pairs of sentences.

    Args:
        victim: a `ScorerVictim`.
        word_norm: as `rbench.words.substitution.word_gradients`.
    """

    def __init__(self, victim: Any, word_norm: WordNorm = "l2") -> None:
        self.victim, self.word_norm = victim, word_norm

    def __call__(self, texts: Sequence[AttackedText], *, norms: bool) -> TextGradients:
        """Return z (n, 2 dim), the gradient of the raw score at z, and, if `norms`, a norm for each word of both."""
        pairs = [text.tokenizer_input for text in texts]
        vectors = self.victim.vectors(pairs)
        gradients = [torch.cat(self.victim.raw_gradient(u, v)) for u, v in vectors]
        joined = torch.stack([torch.cat(pair_vectors) for pair_vectors in vectors])
        return TextGradients(joined, torch.stack(gradients), self._norms(texts, pairs) if norms else None)

    def _norms(self, texts: Sequence[AttackedText], pairs: Sequence[tuple[str, ...]]) -> list[Tensor]:
        spans = [
            [(0, start, end) for column, start, end in word_spans(text) if column == side]
            for text in texts
            for side in (0, 1)
        ]
        encoded = self.victim.encoded(pairs, return_offsets_mapping=True)
        norms = compute_norms(encoded, self.victim.embedding_gradients(pairs), spans, self.word_norm)
        return [torch.cat(both) for both in zip(norms[::2], norms[1::2], strict=True)]


class GeometrySearch(SearchMethod):  # type: ignore[misc]
    """Runs `rbench.words.substitution.search.search` on one text, against the victim of the goal function.

    Each scored candidate counts as one query (in the goal function). So does each gradient pass, since it includes a
    forward pass of the victim. Under a query budget, a round scores only as many candidates as the budget allows, the
    most probable first.
    """

    is_black_box = False

    def __init__(
        self, gradients: VictimGradients | ScorerGradients, transformation: WordSwapCandidates, options: GeometryOptions
    ) -> None:
        self.gradients, self.transformation, self.options = gradients, transformation, options

    def perform_search(self, initial_result: Any) -> Any:
        # A replacement costs at least two queries: a gradient pass and a candidate.
        if self._left() < 2:
            return initial_result
        of_pairs = isinstance(self.gradients, ScorerGradients)
        example = (PairExample if of_pairs else _ClassExample)(self, initial_result)
        text = initial_result.attacked_text
        _, free = self.get_indices_to_order(text)
        (result,) = search(
            [text.words],
            [[index in set(free) for index in range(text.num_words)]],
            gradients=example.gradients,
            directions=example.directions,
            candidates=example.candidates,
            scores=example.scores,
            max_words=word_budget(self, text, self.options),
            projection=self.options.projection,
            accept_flip=self.options.accept_flip,
            order=self.options.order,
            keep=self.options.keep,
        )
        return example.results[result.words]

    def _left(self) -> float:
        return float(self.goal_function.query_budget - self.goal_function.num_queries)

    def extra_repr_keys(self) -> list[str]:
        return ["options"]


class GeometryExample(ABC):
    """The callables of the search for one example: the texts and goal function results that it has seen so far.

    A subclass says what depends on the victim.

    Args:
        method: the `GeometrySearch`.
        initial: the goal function's result for the original text.
    """

    def __init__(self, method: Any, initial: Any) -> None:
        self.method, self.initial = method, initial
        self.results: dict[Words, Any] = {tuple(initial.attacked_text.words): initial}
        self.texts: dict[Words, AttackedText] = {tuple(initial.attacked_text.words): initial.attacked_text}

    @abstractmethod
    def gradients(self, batch: list[BatchText]) -> TextGradients:
        """Return sentence vectors, directions and norms of words. Each text counts as a query."""

    @abstractmethod
    def directions(self, batch: list[BatchText]) -> TextGradients:
        """As `gradients` without norms. It asks nothing: the victim's answers to these texts are known."""

    @abstractmethod
    def scores(self, batch: list[BatchText]) -> CandidateScores:
        """Return the sentence vectors of candidates, and whether they reach the goal."""

    def candidates(self, batch: list[WordSlot]) -> list[list[str]]:
        free = {words: set(self.method.get_indices_to_order(self.texts[words])[1]) for _, words, _ in batch}
        slots = [slot for slot in batch if slot.place in free[slot.words]]
        replacements = self.method.transformation.replacements([(self.texts[s.words], s.place) for s in slots])
        queries = getattr(self.method, "candidate_queries", None)
        for slot, words in zip(slots, replacements, strict=True):
            if not words and queries is not None:
                queries.nothing_for(self.texts[slot.words], slot.place)  # `_allowed` counts the other words
        allowed = {slot: self._allowed(slot, words) for slot, words in zip(slots, replacements, strict=True) if words}
        return [allowed.get(slot, []) for slot in batch]

    def _allowed(self, slot: WordSlot, ranked: list[str]) -> list[str]:
        """Return candidates that pass the constraints, most probable first, at most as many as the budget allows."""
        text, place = self.texts[slot.words], slot.place
        changed = self.method.get_transformations(
            text, original_text=self.initial.attacked_text, indices_to_modify=[place]
        )
        allowed_texts = {changed_text.words[place]: changed_text for changed_text in changed}
        words = [word for word in ranked if word in allowed_texts][: int(min(self.method._left(), len(ranked)))]
        self.texts.update((tuple(allowed_texts[word].words), allowed_texts[word]) for word in words)
        return words

    def asked(self, batch: list[BatchText]) -> tuple[list[bool], bool]:
        """Query the victim. Return for each text whether it reaches the goal, and whether this was the last round."""
        results, _ = self.method.get_goal_results([self.texts[s.words] for s in batch])
        self.results.update((s.words, result) for s, result in zip(batch, results, strict=True))
        flipped = [result.goal_status == GoalFunctionResultStatus.SUCCEEDED for result in results]
        # A round costs a candidate, and a gradient pass where the words are ordered anew.
        costs = 1 if self.method.options.order == "once" else 2
        return flipped, self.method._left() < costs


class _ClassExample(GeometryExample):
    def __init__(self, method: Any, initial: Any) -> None:
        super().__init__(method, initial)
        self.label = int(initial.ground_truth_output)
        self.axis = torch.zeros(0)

    def gradients(self, batch: list[BatchText]) -> TextGradients:
        self.method.goal_function.num_queries += len(batch)
        # Counted here and not by the goal function, which is not asked: the pass includes a forward pass.
        gradient_pass = self.method.gradients([self.texts[s.words] for s in batch], [self.label] * len(batch))
        # z comes from where the candidates' z_j come from: a candidate that changes no token has the projection zero.
        return self._project(
            self._log_probabilities([self.results[s.words] for s in batch]),
            gradient_pass.at_logits,
            gradient_pass.lengths,
            gradient_pass.norms,
        )

    def directions(self, batch: list[BatchText]) -> TextGradients:
        logs = self._log_probabilities([self.results[s.words] for s in batch])
        return self._project(logs, *self.method.gradients.towards(logs, [self.label] * len(batch)))

    def _project(self, logs: Tensor, g: Tensor, lengths: Tensor, norms: list[Tensor] | None = None) -> TextGradients:
        """Where the sentence vectors lie along v_z. The search needs no more: one number per text."""
        # Where v_z is zero, so is g. Any other length then gives projections of zero, where 0 / 0 would give NaN.
        lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
        self.axis = (g / lengths.unsqueeze(1))[0]
        return TextGradients(logs @ self.axis.unsqueeze(1), torch.ones(len(logs), 1), norms)

    def _log_probabilities(self, results: Sequence[Any]) -> Tensor:
        """Log-probabilities (n, labels) of goal function results, float64."""
        # A probability that underflowed to 0 would have the logarithm -inf and turn projections into NaN.
        smallest = torch.finfo(torch.float32).tiny
        probabilities = torch.stack([torch.as_tensor(result.raw_output) for result in results])
        return probabilities.double().clamp(min=smallest).log()

    def scores(self, batch: list[BatchText]) -> CandidateScores:
        flipped, last = self.asked(batch)
        logs = self._log_probabilities([self.results[s.words] for s in batch])
        return CandidateScores((logs @ self.axis).unsqueeze(1), flipped, last=last)


class PairExample(GeometryExample):
    """The callables of the search for one pair."""

    def __init__(self, method: Any, initial: Any) -> None:
        super().__init__(method, initial)
        self.look: ScorerGradients = method.gradients
        low, high = self.look.victim.scorer.scale
        gold = float(initial.ground_truth_output)
        # In the middle both ends are equally far. Then the score goes on in the direction in which it errs.
        room = (high - gold) - (gold - low)
        self.sign = 1.0 if (room or float(initial.output) - gold) > 0 else -1.0

    def gradients(self, batch: list[BatchText]) -> TextGradients:
        self.method.goal_function.num_queries += len(batch)
        return self._signed_gradients(batch, norms=True)

    def directions(self, batch: list[BatchText]) -> TextGradients:
        return self._signed_gradients(batch, norms=False)

    def _signed_gradients(self, batch: list[BatchText], *, norms: bool) -> TextGradients:
        raw_gradients = self.look([self.texts[s.words] for s in batch], norms=norms)
        return raw_gradients._replace(directions=self.sign * raw_gradients.directions)

    def scores(self, batch: list[BatchText]) -> CandidateScores:
        flipped, last = self.asked(batch)
        pairs = [self.texts[s.words].tokenizer_input for s in batch]
        return CandidateScores(
            torch.stack([torch.cat(pair_vectors) for pair_vectors in self.look.victim.vectors(pairs)]),
            flipped,
            last=last,
        )


def build(victim: Any, resources: Any, options: GeometryOptions) -> Attack:
    """Build the attack of `attacks/geometry.py`."""
    transformation = make_transformation(resources, options)
    gradients: VictimGradients | ScorerGradients
    if isinstance(victim, ScorerVictim):
        gradients = ScorerGradients(victim, options.word_norm)
    else:
        gradients = VictimGradients(victim, options.direction, options.word_norm)
    method = GeometrySearch(gradients, transformation, options)
    return substitution_attack(victim, resources, transformation, method)
