"""Hard positives and adversarial examples from an encoder that is being trained: Geometry's search, batched.

`Geometry` stands between `rbench.substitution.search.search` (Algorithm 1 of the ADCL paper, "Self-Supervised
Contrastive Learning with Adversarial Perturbations for Robust Pretrained Language Models") and an encoder in the middle
of its training. It says what is a word and which words may be replaced; `callbacks` asks the encoder. The loss comes
from the caller: the contrastive one (sections 3.2 and 3.3), or cross-entropy (adversarial fine-tuning, section 4.4).

It takes plain texts and knows neither TextAttack nor objectives. The Geometry attack (`rbench.attack.geometry`) is the
same search against a finished victim, with TextAttack's goals, constraints and count of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rbench.resources import Resources
from rbench.substitution.callbacks import STEP, SearchCallbacks
from rbench.substitution.options import CandidateSource, Unknown
from rbench.substitution.options import at_most as at_most
from rbench.substitution.search import Keep, Order, Projection, Result, Substitution, search
from rbench.substitution.segmentation import Columns, SegmentedTexts
from rbench.substitution.sources import Candidates, open_source
from rbench.substitution.target import Target
from rbench.substitution.word_gradients import WordNorm

VERSION = 1


@dataclass(frozen=True)
class Swapped:
    """A text after the search."""

    texts: Columns
    """The columns, with words replaced."""
    substitutions: tuple[Substitution, ...]
    """The replaced words in the order of their steps; `index` counts the words of all columns."""
    num_words: int
    """Words of the columns that may be changed: the L of the budget."""
    asked: int = 0
    """Words for which candidates were asked."""
    without: int = 0
    """Those of them that had none."""


class Geometry:
    """The search, with a source that proposes words.

    Args:
        source: proposes replacements; reads all columns of a text as one, joined with a line break.
        stopwords: lower-case words that stay as they are, in whatever case they are written.
        projection, accept_flip, order, keep, lookahead: as `rbench.substitution.search.search`.
        word_norm: as `rbench.substitution.word_gradients`.
    """

    def __init__(
        self,
        source: Candidates,
        stopwords: frozenset[str],
        *,
        projection: Projection = "signed",
        accept_flip: bool = True,
        order: Order = "each_round",
        keep: Keep = "always",
        word_norm: WordNorm = "l2",
        lookahead: int = 1,
    ) -> None:
        self.source, self.stopwords = source, stopwords
        self.projection, self.accept_flip, self.lookahead = projection, accept_flip, lookahead
        self.order, self.keep, self.word_norm = order, keep, word_norm

    @classmethod
    def of(
        cls,
        resources: Resources,
        *,
        source: CandidateSource = "masked_lm",
        candidates: int,
        min_cosine: float | None,
        unknown: Unknown = "discard",
        **search: Any,
    ) -> Geometry:
        """Make it from a resource profile. The options of the source are those of `CandidateOptions`.

        `search` are further arguments of `Geometry`.

        Only what the source needs is opened: with `neighbours` no masked LM need exist.

        Raises:
            ResourceError: a resource that is needed is missing or damaged.
        """
        proposes = open_source(
            resources, source=source, candidates=candidates, min_cosine=min_cosine, unknown=unknown, step=STEP
        )
        return cls(proposes, resources.stopwords, **search)

    def __call__(
        self,
        texts: Sequence[Columns],
        target: Target,
        *,
        max_words: Callable[[int], int],
        fixed: Collection[int] = (),
    ) -> list[Swapped]:
        """Replace words of each text so that z moves along the gradient of its loss (Algorithm 1).

        Everything is computed in eval mode, whatever mode the target's modules are in; they, their gradients and
        torch's global generator stay as they are. A text's result depends on the others' by rounding alone: where
        the tokenizer cannot tell two candidates apart they have the same vector, and the first is taken.

        Args:
            texts: one or two columns each, encoded as the tokenizer encodes single texts or pairs.
            target: gives z and the loss. It knows texts by their numbers in `texts`.
            max_words: the budget of a text, given L, the number of words in the columns that are not fixed (also those
                that truncation hides). See `at_most`.
            fixed: numbers of columns in which nothing is replaced.

        Returns:
            One result a text, in the order of `texts`.

        Raises:
            JobError: the encoder gives numbers that are not finite: its training has diverged.
            ResourceError: the encoder has no fast tokenizer.
            ValueError: some texts have one column and others two, or one has more; or the loss is not one number a
                text.
        """
        if not texts:
            return []
        if len(texts[0]) not in (1, 2) or any(len(columns) != len(texts[0]) for columns in texts):
            raise ValueError("texts must all have one column or all have two")
        segmented = SegmentedTexts(texts)
        free = [[column not in fixed for column, _, _ in spans] for spans in segmented.spans]
        changeable = [
            [may and word.lower() not in self.stopwords for may, word in zip(row, words, strict=True)]
            for row, words in zip(free, segmented.words, strict=True)
        ]
        with target.in_eval_mode():
            ask = SearchCallbacks(target, segmented, self.source, self.word_norm)
            budgets = [0 if over else max_words(sum(row)) for row, over in zip(free, ask.over_at_start(), strict=True)]
            results = self._search(ask, segmented.words, changeable, budgets)
        return [
            Swapped(
                segmented.columns(row, result.words),
                result.substitutions,
                sum(free[row]),
                asked=result.asked,
                without=result.without,
            )
            for row, result in enumerate(results)
        ]

    def _search(
        self,
        ask: SearchCallbacks,
        words: Sequence[Sequence[str]],
        changeable: Sequence[Sequence[bool]],
        budgets: Sequence[int],
    ) -> list[Result]:
        return search(
            words,
            changeable,
            gradients=ask.gradients,
            directions=ask.directions,
            candidates=ask.candidates,
            scores=ask.scores,
            max_words=budgets,
            projection=self.projection,
            accept_flip=self.accept_flip,
            order=self.order,
            keep=self.keep,
            lookahead=self.lookahead,
        )
