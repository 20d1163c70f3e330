"""Options of word substitutions, which attacks, training objectives and strategies share. It never loads torch.

The variant `released` of the Geometry attack, its random control and adversarial fine-tuning is put together of these
parts: `RELEASED_SOURCE`, `RELEASED_BUDGET` and `RELEASED_SEARCH` are from the authors' public code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rbench.schema import Positive, ResourceKind, Strict, Variant, Variants
from rbench.schema.common import Share

CandidateSource = Literal["masked_lm", "neighbours"]
Unknown = Literal["discard", "keep"]
CANDIDATE_NEEDS: tuple[ResourceKind, ...] = ("masked_lm", "word_vectors", "stopwords")
"""All kinds of resources that a source may need; `CandidateOptions.needed` says which one does."""
RELEASED_SOURCE: dict[str, Any] = {"source": "neighbours", "candidates": 24, "min_cosine": 0.5}
"""The mode that the README of the public code names: the top 25 of the nearest words with the word itself."""
RELEASED_BUDGET: dict[str, Any] = {"max_words": 50, "share": 0.4}
"""At most min(max_loops, 0.4 x tokens) words, with max_loops = 50. We count words as tokens."""
RELEASED_SEARCH: dict[str, Any] = {"order": "once", "word_norm": "l1", "direction": "deepfool", "accept_flip": False}
"""The order of words, and the direction; which steps are kept is an option of another name in each user."""
CODE = "the ADCL authors' public code, LotusDYH/ssl_robust"
PRINTED = Variant(source="the ADCL paper, Algorithm 1, sections 3.3 and 4.3, appendix F")


def at_most(words: int, share: float) -> Callable[[int], int]:
    """The budget of a text as a function of its number of words L: min(words, share * L), rounded down."""
    # 1e-9: in floating point 0.29 * 100 is 28.999999999999996, which must count as 29.
    return lambda length: min(words, int(share * length + 1e-9))


class CandidateOptions(Strict):
    """Where replacements of a word come from. The defaults are ours where a comment does not name the paper."""

    source: CandidateSource = "masked_lm"
    """`masked_lm`: the predictions of a masked language model, filtered by word vectors (section 3.3, step 3).
    `neighbours`: the nearest words in the word vectors, as in the authors' public code."""
    candidates: Positive = 50
    """T: the size of the set of candidates of a word, after the filter (Algorithm 1, appendix F). With `masked_lm` the
    4T most probable words are looked at, as in the authors' public code. Not printed for evaluation; 50 is what the
    paper uses in adversarial training, 25 in contrastive learning (appendix F)."""
    min_cosine: Annotated[float, Field(ge=-1, le=1)] | None = 0.5
    """Least cosine of a replacement's word vector with the word's own; null: no filter, and with `masked_lm` no word
    vectors. Not printed; 0.5 is that of TextAttack's TextFooler, whose filter the paper says it follows, and that of
    the authors' public code."""
    unknown: Unknown = "discard"
    """What becomes of a masked LM's prediction where it or the word has no vector: no filter can vouch for it."""

    @model_validator(mode="after")
    def _unknown_words_have_no_neighbours(self) -> CandidateOptions:
        if self.source == "neighbours" and self.unknown == "keep":
            raise ValueError("`unknown: keep` needs `source: masked_lm`: a word without a vector has no neighbours")
        return self

    @property
    def of_source(self) -> dict[str, Any]:
        """The options of the source alone, as `candidates.open_source` and `Geometry.of` take them."""
        return self.model_dump(include=set(CandidateOptions.model_fields))

    @property
    def needed(self) -> tuple[ResourceKind, ...]:
        """The kinds of resources that a search with these options opens, of CANDIDATE_NEEDS."""
        if self.source == "neighbours":
            return ("word_vectors", "stopwords")
        return CANDIDATE_NEEDS if self.min_cosine is not None else ("masked_lm", "stopwords")


class SearchOptions(CandidateOptions):
    """How the search of the Geometry attack goes on, in the attack and in adversarial fine-tuning."""

    order: Literal["each_round", "once"] = "each_round"
    """`each_round`: the gradients of the text as it is order its words anew after each replacement. `once`: those of
    the original text order them for good."""
    word_norm: Literal["l2", "l1"] = "l2"
    """A word's gradient as a number. `l2`: the L2 norm of the mean over its pieces. `l1`: the sum of absolute values
    over its pieces."""
    direction: Literal["gradient", "deepfool"] = "gradient"
    """Where candidates are to move the sentence vector. `gradient`: along the gradient of the cross-entropy.
    `deepfool`: along the normal of the classifier's nearest boundary. With two classes both are the same."""
    projection: Literal["signed", "absolute"] = "signed"
    """`absolute` is the argmax as printed, which also admits the most negative projection."""
    accept_flip: bool = True
    """A candidate that flips the prediction goes before one with a larger projection that does not. False: only the
    candidate with the largest projection can end the search."""


class AttackOptions(CandidateOptions, Variants):
    """What the Geometry attack and its random control have in common: candidates and budget."""

    max_words: Positive = 20
    """At most so many words are replaced in one text (section 4.3)."""
    share: Share = 1.0
    """At most this share of the words of the columns that may change. The paper prints none for the attack."""


class GeometryOptions(SearchOptions, AttackOptions):
    """What may be set of the Geometry attack."""

    keep: Literal["always", "positive"] = "always"
    """`always`: the best candidate replaces the word. `positive`: only if its projection is above zero or the
    prediction flips; otherwise the word stays and the next one is tried."""
