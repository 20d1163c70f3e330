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
The same holds for DeepFool's normal of the boundary between y and the class k: there g is 1 at k and -1 at y. The order
of the words follows from the gradients of m in any case.

On STS tasks `rbench.attack.scorer_geometry` takes the place of all this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from textattack import Attack
from textattack.search_methods import SearchMethod
from textattack.shared import AttackedText
from torch import Tensor, nn

from rbench.attack.geometry_example import GeometryExample
from rbench.attack.gradients import Labelled, at_logits
from rbench.attack.scorer_geometry import ScorerGradients
from rbench.attack.scorer_victim import ScorerVictim
from rbench.attack.substitutes import WordSwapCandidates, substitution_attack, swaps, word_budget, word_spans
from rbench.errors import JobError
from rbench.inference import rows_of
from rbench.substitution.deepfool import nearest_boundary
from rbench.substitution.search import (
    BatchText,
    Gradients,
    Keep,
    Order,
    Projection,
    Scores,
    search,
)
from rbench.substitution.word_gradients import WordNorm, norms_by_word

VERSION = 1
USES = (
    "attack.substitutes",
    "inference.input_gradients",
    "substitution.deepfool",
    "substitution.search",
    "substitution.word_gradients",
)
"""attack.scorer_geometry and attack.scorer_victim are not listed, because only attacks on STS tasks use them."""

Direction = Literal["gradient", "deepfool"]


class Look(NamedTuple):
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
        word_norm: as `rbench.substitution.word_gradients`.

    Raises:
        JobError: the victim's head is not linear, or its tokenizer is not a fast one.
    """

    def __init__(self, victim: Any, direction: Direction = "gradient", word_norm: WordNorm = "l2") -> None:
        self.victim, self.classifier = victim, victim.classifier
        self.direction, self.word_norm = direction, word_norm
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
        embeddings = [one.embeddings for one in found]
        norms = norms_by_word(encoded, embeddings, [word_spans(text) for text in texts], self.word_norm)
        log_probabilities = logits.log_softmax(dim=1)
        return Look(log_probabilities, *self.towards(log_probabilities, labels), norms)

    def towards(self, log_probabilities: Tensor, labels: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return g (n, labels) and |W'g| (n,) for texts with these log-probabilities (n, labels)."""
        weight, own = self.classifier.head.weight.detach().double().cpu(), torch.tensor(labels)
        if self.direction == "gradient":
            g = at_logits(log_probabilities, own.unsqueeze(1))
        else:
            nearest = nearest_boundary(log_probabilities, own, weight)
            g = torch.zeros_like(log_probabilities)
            g = g.scatter(1, nearest.unsqueeze(1), 1.0).scatter(1, own.unsqueeze(1), -1.0)
        return g, (g @ weight).norm(dim=1)

    def example(self, method: GeometrySearch, initial: Any) -> GeometryExample:
        """Return the callables of the search for one example."""
        return _LabelExample(method, initial)


class Settings(NamedTuple):
    """The options of `attacks/geometry.py` that steer the search."""

    max_words: int
    share: float
    projection: Projection
    accept_flip: bool
    order: Order
    keep: Keep


class GeometrySearch(SearchMethod):  # type: ignore[misc]
    """Runs `rbench.substitution.search.search` on one text, against the victim of the goal function.

    Each scored candidate counts as one query (in the goal function). So does each gradient pass, since it includes a
    forward pass of the victim. Under a query budget, a round scores only as many candidates as the budget allows, the
    most probable first.
    """

    is_black_box = False

    def __init__(
        self, gradients: VictimGradients | ScorerGradients, transformation: WordSwapCandidates, settings: Settings
    ) -> None:
        self.gradients, self.transformation, self.settings = gradients, transformation, settings

    def perform_search(self, initial_result: Any) -> Any:
        if self._left() < 2:
            return initial_result
        example = self.gradients.example(self, initial_result)
        text = initial_result.attacked_text
        _, free = self.get_indices_to_order(text)
        (result,) = search(
            [text.words],
            [[index in set(free) for index in range(text.num_words)]],
            gradients=example.gradients,
            directions=example.directions,
            candidates=example.candidates,
            scores=example.scores,
            max_words=word_budget(self, text, self.settings.max_words, self.settings.share),
            projection=self.settings.projection,
            accept_flip=self.settings.accept_flip,
            order=self.settings.order,
            keep=self.settings.keep,
        )
        return example.results[result.words]

    def _left(self) -> float:
        """Return the number of queries left in the budget."""
        left: float = self.goal_function.query_budget - self.goal_function.num_queries
        return left

    def extra_repr_keys(self) -> list[str]:
        return ["settings"]


class _LabelExample(GeometryExample):
    """The callables of the search for one example of a classification task."""

    def __init__(self, method: GeometrySearch, initial: Any) -> None:
        super().__init__(method, initial)
        self.label = int(initial.ground_truth_output)
        self.axis = torch.zeros(0)

    def gradients(self, batch: list[BatchText]) -> Gradients:
        self.method.goal_function.num_queries += len(batch)
        look = self.method.gradients([self.texts[s.words] for s in batch], [self.label] * len(batch))
        # z comes from where the candidates' z_j come from: a candidate that changes no token has the projection zero.
        return self._along(self._logs([self.results[s.words] for s in batch]), look.at_logits, look.lengths, look.norms)

    def directions(self, batch: list[BatchText]) -> Gradients:
        """As `gradients` without norms. It asks nothing: the victim's answers to these texts are known."""
        logs = self._logs([self.results[s.words] for s in batch])
        return self._along(logs, *self.method.gradients.towards(logs, [self.label] * len(batch)))

    def _along(self, logs: Tensor, g: Tensor, lengths: Tensor, norms: list[Tensor] | None = None) -> Gradients:
        """Where the sentence vectors lie along v_z. The search needs no more: one number per text."""
        lengths = torch.where(lengths > 0, lengths, torch.ones_like(lengths))
        self.axis = (g / lengths.unsqueeze(1))[0]
        return Gradients(logs @ self.axis.unsqueeze(1), torch.ones(len(logs), 1), norms)

    def _logs(self, results: Sequence[Any]) -> Tensor:
        """Log-probabilities (n, labels) of goal function results, float64."""
        smallest = torch.finfo(torch.float32).tiny
        probabilities = torch.stack([torch.as_tensor(result.raw_output) for result in results])
        return probabilities.double().clamp(min=smallest).log()

    def scores(self, batch: list[BatchText]) -> Scores:
        flipped, last = self.asked(batch)
        logs = self._logs([self.results[s.words] for s in batch])
        return Scores((logs @ self.axis).unsqueeze(1), flipped, last=last)


def build(
    victim: Any,
    resources: Any,
    *,
    direction: Direction,
    word_norm: WordNorm,
    max_words: int,
    share: float,
    projection: Projection,
    accept_flip: bool,
    order: Order,
    keep: Keep,
    **candidates: Any,
) -> Attack:
    """Build the attack of `attacks/geometry.py`; `candidates` are options of `CandidateOptions`."""
    transformation = swaps(resources, **candidates)
    settings = Settings(max_words, share, projection, accept_flip, order, keep)
    scorer = isinstance(victim, ScorerVictim)
    gradients = ScorerGradients(victim, word_norm) if scorer else VictimGradients(victim, direction, word_norm)
    method = GeometrySearch(gradients, transformation, settings)
    return substitution_attack(victim, resources, transformation, method)
