"""Compute errors and correlations of attacked STS pairs (AdvSTS: RobustSentEmbed, section 4.2), before and after.

| score                                            | definition                                                        |
|--------------------------------------------------|-------------------------------------------------------------------|
| error_before, error_after                        | mean of abs(score - gold) over all pairs, on the task's scale     |
| attacked_error_before, attacked_error_after      | the same over the attacked pairs (succeeded and failed)           |
| spearman_before, spearman_after                  | Spearman's correlation of scores and gold scores over all pairs   |

`after` is the score of the final texts, which are those of a success or the farthest that a failed attack came. A pair
that was skipped because its error was past the threshold before any change keeps its score. So `before` and `after` are
of the same pairs, and these are the same for every encoder. Errors of attacked pairs alone are of other pairs for each
encoder. Left out are pairs that errored and pairs that the victim never scored (no words, an empty sentence, a gold
score outside the scale). The paper prints success rates only; the other numbers are ours.

Means have Student's t 95% intervals. Correlations have those of `rbench.score.sts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from rbench.errors import StoreError
from rbench.score.statistics import Sample
from rbench.score.sts import pooled_spearman, sts_scores
from rbench.spec import Outcome, Record, Score

ErrorName = Literal["error_before", "error_after", "attacked_error_before", "attacked_error_after"]
CorrelationName = Literal["spearman_before", "spearman_after"]
ERRORS: tuple[ErrorName, ...] = ("error_before", "error_after", "attacked_error_before", "attacked_error_after")
CORRELATIONS: tuple[CorrelationName, ...] = ("spearman_before", "spearman_after")
DEVIATIONS: tuple[ErrorName | CorrelationName, ...] = (*ERRORS, *CORRELATIONS)
"""The names of the scores, as records have them."""


@dataclass(frozen=True)
class Deviations:
    """Errors and correlations of one or several attacked samples of STS pairs, from which scores are computed."""

    errors: Mapping[ErrorName, Sample]
    correlations: Mapping[CorrelationName, tuple[Score, ...]]
    """For each sample one correlation."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self:
        """Compute the errors and correlations of one attacked sample."""
        pairs = [pair for outcome in outcomes if (pair := _pair(outcome)) is not None]
        gold = [pair.gold for pair in pairs]
        attacked = [pair for pair in pairs if pair.attacked]
        errors: dict[ErrorName, Sample] = {
            "error_before": Sample.of(abs(pair.before - pair.gold) for pair in pairs),
            "error_after": Sample.of(abs(pair.after - pair.gold) for pair in pairs),
            "attacked_error_before": Sample.of(abs(pair.before - pair.gold) for pair in attacked),
            "attacked_error_after": Sample.of(abs(pair.after - pair.gold) for pair in attacked),
        }
        correlations: dict[CorrelationName, tuple[Score, ...]] = {
            "spearman_before": sts_scores([pair.before for pair in pairs], gold)[:1],
            "spearman_after": sts_scores([pair.after for pair in pairs], gold)[:1],
        }
        return cls(errors, correlations)

    @classmethod
    def of_record(cls, record: Record) -> Self:
        """Read them from a record's scores, so that tables need no outcomes.

        Raises:
            StoreError: the record lacks one of the scores.
        """
        scores = {score.name: score for score in record.scores}
        missing = next((name for name in DEVIATIONS if name not in scores), None)
        if missing is not None:
            raise StoreError(f"the record of {record.job.name} has no {missing}.")
        return cls(
            {name: Sample(scores[name].n, scores[name].value, scores[name].sd) for name in ERRORS},
            {name: (scores[name],) for name in CORRELATIONS},
        )

    @classmethod
    def pooled(cls, several: Sequence[Self]) -> Self:
        """Pool several samples, for example those of several seeds."""
        return cls(
            {name: Sample.pooled(one.errors[name] for one in several) for name in ERRORS},
            {name: tuple(score for one in several for score in one.correlations[name]) for name in CORRELATIONS},
        )

    def score(self, name: ErrorName | CorrelationName, repeats: float = 1) -> Score:
        """Return one score with its n and 95% interval.

        The correlation of several samples is their mean, weighted by n: pairs of several seeds have scores of several
        victims, which are not ranked against each other.

        Args:
            name: one of DEVIATIONS.
            repeats: how many victims scored each pair, as in `Tally.score`.
        """
        if name == "spearman_before" or name == "spearman_after":
            return pooled_spearman(self.correlations[name], repeats).model_copy(update={"name": name})
        sample = self.errors[name]
        low, high = sample.interval(repeats=repeats) or (None, None)
        return Score(name=name, value=sample.mean, n=sample.n, low=low, high=high, sd=sample.deviation)

    def scores(self) -> tuple[Score, ...]:
        """Return all scores, in the order of DEVIATIONS."""
        return tuple(self.score(name) for name in DEVIATIONS)


@dataclass(frozen=True)
class _Pair:
    gold: float
    before: float
    after: float
    attacked: bool


def _pair(outcome: Outcome) -> _Pair | None:
    """Return the scores of a pair that the victim scored; None for one that errored or was never scored."""
    gold, before = outcome.gold, outcome.original_score
    if outcome.status == "errored" or outcome.skip_reason is not None or gold is None or before is None:
        return None
    after = before if outcome.perturbed_score is None else outcome.perturbed_score
    return _Pair(gold, before, after, outcome.status in ("succeeded", "failed"))
