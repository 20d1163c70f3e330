"""The Geometry attack on a scorer of sentence pairs (ours: the ADCL paper attacks classifiers only).

Algorithm 1 raises a loss. For classes it is the cross-entropy of the true label. For a pair it is the error of the
score, on the side of the gold score that has more room: the score is pushed towards the end of the scale that is
farther from the gold score, since only there every pair's error can grow by the threshold. (The gradient of
|score - gold| itself would push a pair with the gold score 4.5 and the score 4.6 upwards, where it has 0.4 to go.)

The sentence vector z is (u, v), the vectors of both sentences in turn, of which a replacement changes one. The loss
is an increasing function of plus or minus the raw score r(u, v), a cosine or log-odds. So v_z is the gradient of r at
(u, v), with this sign. It does not vanish where the map from r to the scale is flat. In place of a second class there
is one number, so the normal of the nearest boundary (`direction: deepfool`) is the same vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from textattack.shared import AttackedText
from torch import Tensor

from rbench.attack.geometry_example import GeometryExample
from rbench.attack.substitutes import word_spans
from rbench.errors import JobError
from rbench.substitution.search import BatchText, Gradients, Scores
from rbench.substitution.word_gradients import WordNorm, pieces_to_words, word_norms

VERSION = 1
USES = ()
"""What it imports is behind `attack.geometry` anyway, and no other attack on STS tasks uses it."""


class PairLook(NamedTuple):
    """Result of one gradient pass over n pairs of sentences."""

    vectors: Tensor
    """(n, 2 dim): z."""
    raw_gradients: Tensor
    """(n, 2 dim): gradient of the raw score at z."""
    norms: list[Tensor] | None
    """n tensors (words,): a gradient norm for each word of both sentences, -inf where truncation hides the word."""


class ScorerGradients:
    """Gradients of the raw score, for pairs of sentences.

    Args:
        victim: a `ScorerVictim`.
        word_norm: as `rbench.substitution.word_gradients`.

    Raises:
        JobError: the victim's tokenizer is not a fast one.
    """

    def __init__(self, victim: Any, word_norm: WordNorm = "l2") -> None:
        self.victim, self.word_norm = victim, word_norm
        if not victim.tokenizer.is_fast:
            raise JobError("the Geometry attack needs a victim with a fast tokenizer, to know which pieces make a word")

    def __call__(self, texts: Sequence[AttackedText], *, norms: bool) -> PairLook:
        """Look at all pairs; `norms` says whether gradients at word pieces are computed too."""
        pairs = [text.tokenizer_input for text in texts]
        vectors = self.victim.vectors(pairs)
        gradients = [torch.cat(self.victim.raw_gradient(u, v)) for u, v in vectors]
        joined = torch.stack([torch.cat(one) for one in vectors])
        return PairLook(joined, torch.stack(gradients), self._norms(texts, pairs) if norms else None)

    def _norms(self, texts: Sequence[AttackedText], pairs: Sequence[tuple[str, ...]]) -> list[Tensor]:
        offsets = self.victim.encoded(pairs, return_offsets_mapping=True)
        found = self.victim.embedding_gradients(pairs)
        rows = []
        for number, text in enumerate(texts):
            sides = []
            for side in (0, 1):
                row = 2 * number + side
                spans = [(0, start, end) for column, start, end in word_spans(text) if column == side]
                owners = pieces_to_words(offsets["offset_mapping"][row], offsets.sequence_ids(row), spans)
                sides.append(word_norms(found[row], owners, len(spans), self.word_norm))
            rows.append(torch.cat(sides))
        return rows

    def example(self, method: Any, initial: Any) -> PairExample:
        """Return the callables of the search for one example."""
        return PairExample(method, initial, self)


class PairExample(GeometryExample):
    """The callables of the search for one pair."""

    def __init__(self, method: Any, initial: Any, look: ScorerGradients) -> None:
        super().__init__(method, initial)
        self.look = look
        low, high = look.victim.scorer.scale
        gold = float(initial.ground_truth_output)
        # In the middle both ends are equally far. Then the score goes on in the direction in which it errs.
        room = (high - gold) - (gold - low)
        self.sign = 1.0 if (room or float(initial.output) - gold) > 0 else -1.0

    def gradients(self, batch: list[BatchText]) -> Gradients:
        self.method.goal_function.num_queries += len(batch)
        return self._looked(batch, norms=True)

    def directions(self, batch: list[BatchText]) -> Gradients:
        """As `gradients` without norms. It asks nothing: the victim's answers to these texts are known."""
        return self._looked(batch, norms=False)

    def _looked(self, batch: list[BatchText], *, norms: bool) -> Gradients:
        vectors, gradients, found = self.look([self.texts[s.words] for s in batch], norms=norms)
        return Gradients(vectors, self.sign * gradients, found)

    def scores(self, batch: list[BatchText]) -> Scores:
        flipped, last = self.asked(batch)
        pairs = [self.texts[s.words].tokenizer_input for s in batch]
        return Scores(torch.stack([torch.cat(one) for one in self.look.victim.vectors(pairs)]), flipped, last=last)
