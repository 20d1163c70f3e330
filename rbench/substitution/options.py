"""The options of candidate sources, which attacks, training objectives and strategies share. It never loads torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rbench.spec import Positive, ResourceKind, Strict

CandidateSource = Literal["masked_lm", "neighbours"]
Unknown = Literal["discard", "keep"]
CANDIDATE_NEEDS: tuple[ResourceKind, ...] = ("masked_lm", "word_vectors", "stopwords")
"""All kinds of resources that a source may need; `CandidateOptions.needed` says which one does."""


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
    def needed(self) -> tuple[ResourceKind, ...]:
        """The kinds of resources that a search with these options opens, of CANDIDATE_NEEDS."""
        if self.source == "neighbours":
            return ("word_vectors", "stopwords")
        return CANDIDATE_NEEDS if self.min_cosine is not None else ("masked_lm", "stopwords")
