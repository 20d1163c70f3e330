"""Compute what the record of an attack stores from its outcomes.

| score      | definition                                                                        |
|------------|-----------------------------------------------------------------------------------|
| clean      | (total - skipped) / total                                                         |
| aua        | failed / total                                                                    |
| asr        | succeeded / (succeeded + failed)                                                  |
| oracle_asr | successes after which the true label still holds / (succeeded + failed)           |
| queries    | mean number of queries over succeeded and failed                                  |
| perturbed  | mean share of words changed (`system.changes`) over successes with more than 0    |
| seconds    | mean seconds of one process over succeeded and failed; they depend on the machine |

The definitions are TextAttack's (textattack/metrics/attack_metrics), on unrounded counts, so aua = clean x (1 - asr)
holds exactly. One departs: TextAttack tells changed words by position, so that its share is higher than `perturbed`
where words were split or deleted.

`total` counts all examples except three sorts, which enter no denominator. An example is `errored` if the attack raised
an exception or took longer than --max-seconds. It is `wordless` if TextAttack finds no word to replace in it, whatever
the victim predicts. A pair of an STS task is `unusable` if a sentence is empty or its gold score lies outside the
scale.

For STS pairs `clean` is the share whose error is below the threshold before the attack, and `aua` the share that is not
skipped and that the attack could not move by the threshold. `StsDeviations` has their errors and correlations.

A metric whose denominator is 0 has the value None (TextAttack gives 0 or nan). Shares have Wilson 95% intervals, means
have Student's t 95% intervals. oracle_asr is None if the task has no oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.schema import Outcome, Record, Score
from rbench.score.statistics import Proportion, Sample, make_score
from rbench.score.sts import pooled_spearman, sts_scores

STORED = ("asr", "queries", "aua", "clean", "perturbed", "oracle_asr", "seconds")
"""The scores in the record of an attack. What a RUN shows of them, and what else, is said in `rbench.metrics`."""

_EMPTY_SAMPLE = Sample(0)
_COUNTS = ("succeeded", "failed", "skipped", "errored", "truncated")
_RARE_COUNTS = ("timed_out", "wordless", "unusable")
"""Counts that records leave out where they are 0."""


@dataclass(frozen=True)
class Tally:
    """Counts and samples of one or several attacked samples, from which all metrics and intervals are computed."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    errored: int = 0
    timed_out: int = 0
    """How many of the errored ones took longer than --max-seconds."""
    wordless: int = 0
    """Examples in which TextAttack finds no word."""
    unusable: int = 0
    """STS pairs with an empty sentence, or with a gold score outside the scale."""
    truncated: int = 0
    """Examples of any status that were cut to the victim's maximum length."""
    oracle_valid: int | None = None
    """Successes for which the oracle still gives the example's label; None if the task has no oracle."""
    queries: Sample = _EMPTY_SAMPLE
    perturbed: Sample = _EMPTY_SAMPLE
    seconds: Sample = _EMPTY_SAMPLE

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], oracle: bool | None = None) -> Tally:
        """Count outcomes, one for each example.

        Args:
            outcomes: of one attacked sample.
            oracle: whether the task has an oracle. None: it has one if any success has an oracle label, so without a
                success it counts as having none.

        A success whose text the oracle cannot read does not count as valid.
        """
        all_outcomes = list(outcomes)
        status = Counter(outcome.status for outcome in all_outcomes)
        wordless = sum(outcome.skip_reason == "no words" for outcome in all_outcomes)
        unusable = sum(outcome.skip_reason is not None for outcome in all_outcomes) - wordless
        successes = [outcome for outcome in all_outcomes if outcome.status == "succeeded"]
        # Stored outcomes do not say whether their task has an oracle; one valid or invalid label shows it.
        if oracle is None:
            oracle = any(outcome.oracle_label is not None for outcome in successes)
        return cls(
            succeeded=status["succeeded"],
            failed=status["failed"],
            # Both have the status "skipped" but enter no denominator, unlike those that the victim had wrong.
            skipped=status["skipped"] - wordless - unusable,
            errored=status["errored"],
            timed_out=sum(outcome.timed_out for outcome in all_outcomes),
            wordless=wordless,
            unusable=unusable,
            truncated=sum(outcome.truncated for outcome in all_outcomes),
            oracle_valid=sum(outcome.oracle_label == outcome.label for outcome in successes) if oracle else None,
            queries=Sample.of(
                attacked.num_queries for attacked in all_outcomes if attacked.status in ("succeeded", "failed")
            ),
            perturbed=Sample.of(attacked.perturbed_share for attacked in successes if attacked.perturbed_share),
            seconds=Sample.of(
                attacked.seconds for attacked in all_outcomes if attacked.status in ("succeeded", "failed")
            ),
        )

    @classmethod
    def of_record(cls, record: Record) -> Tally:
        """Read the tally from a record's `counts` and `scores`, so that tables need no outcomes.

        Raises:
            StoreError: the record lacks one of the numbers.
        """
        scores = {score.name: score for score in record.scores}
        try:
            counts = {name: record.counts[name] for name in _COUNTS}
            means = [_stored_sample(scores[name]) for name in ("queries", "perturbed", "seconds")]
            valid = _oracle_valid(record, scores["oracle_asr"])
        except KeyError as error:
            raise StoreError(f"the record of {record.job.name} has no {error}.") from None
        counts |= {name: record.counts.get(name, 0) for name in _RARE_COUNTS}
        return cls(**counts, oracle_valid=valid, queries=means[0], perturbed=means[1], seconds=means[2])

    @classmethod
    def pooled(cls, tallies: Sequence[Tally]) -> Tally:
        """Pool several samples into one, for example those of several seeds."""
        valid = [tally.oracle_valid for tally in tallies if tally.attacked]
        counts = {name: sum(getattr(tally, name) for tally in tallies) for name in (*_COUNTS, *_RARE_COUNTS)}
        return cls(
            **counts,
            oracle_valid=None if None in valid or not valid else sum(count or 0 for count in valid),
            queries=Sample.pooled(tally.queries for tally in tallies),
            perturbed=Sample.pooled(tally.perturbed for tally in tallies),
            seconds=Sample.pooled(tally.seconds for tally in tallies),
        )

    @property
    def attacked(self) -> int:
        """Number of examples that the victim classified correctly and that were attacked."""
        return self.succeeded + self.failed

    @property
    def total(self) -> int:
        """Number of examples without the errored, the wordless and the unusable ones."""
        return self.attacked + self.skipped

    @property
    def asr(self) -> Proportion:
        return Proportion(self.succeeded, self.attacked)

    @property
    def aua(self) -> Proportion:
        return Proportion(self.failed, self.total)

    @property
    def clean(self) -> Proportion:
        return Proportion(self.attacked, self.total)

    @property
    def oracle_asr(self) -> Proportion:
        """Share(0, 0) if the task has no oracle."""
        return Proportion(0, 0) if self.oracle_valid is None else Proportion(self.oracle_valid, self.attacked)

    def score(self, name: str, repeats: float = 1) -> Score:
        """Return one of STORED with its n (the denominator) and its 95% interval; for `repeats` see `scored`."""
        return make_score(name, getattr(self, name), repeats)

    def scores(self) -> dict[str, Score]:
        """Return what a record stores, in the order of STORED."""
        return {name: self.score(name) for name in STORED}

    def counts(self) -> dict[str, int]:
        """Return the counts that a record stores beside its scores. Those that are rare are left out if 0."""
        rare = {name: getattr(self, name) for name in _RARE_COUNTS}
        return {name: getattr(self, name) for name in _COUNTS} | {name: n for name, n in rare.items() if n}


def _stored_sample(score: Score) -> Sample:
    return Sample(score.n, score.value, score.sd)


def _oracle_valid(record: Record, score: Score) -> int | None:
    """Return the numerator of a stored oracle_asr; None if the task has no oracle.

    A score without a value does not say whether there is an oracle. Generated tasks have one, so for them the numerator
    is 0.
    """
    if score.value is not None:
        return round(score.value * score.n)
    spec = record.job.attacking
    return 0 if spec is not None and spec.task.has_oracle else None


def attack_scores(outcomes: Iterable[Outcome], oracle: bool | None = None) -> dict[str, Score]:
    """Return the scores of one attacked sample, defined at the head of this module. For `oracle` see `Tally.of`."""
    return Tally.of(outcomes, oracle).scores()


def count_outcomes(outcomes: Iterable[Outcome], oracle: bool | None = None) -> dict[str, int]:
    """Return how many examples succeeded, failed, were skipped, errored, truncated and so on; see `Tally.counts`."""
    return Tally.of(outcomes, oracle).counts()


def record_problem(record: Record) -> str | None:
    """Return why a complete record of an attack cannot enter a table, or None if it can, or if it is of another job.

    The reason is a number that it lacks, or numbers that contradict each other.
    """
    return _tally_problem(record) if record.status == "complete" and record.job.attacking is not None else None


def _tally_problem(record: Record) -> str | None:
    impossible = f"the numbers in the record of {record.job.name} are impossible."
    if min(record.counts.values(), default=0) < 0:
        return impossible
    try:
        tally = Tally.of_record(record)
        tally.scores()
        if record.job.attacking is not None and record.job.attacking.task.of_kind.has_scores:
            StsDeviations.of_record(record).scores()
    except StoreError as error:
        return str(error)
    except (ValueError, ArithmeticError, TypeError):
        return impossible
    n = tally.total + tally.errored + tally.wordless + tally.unusable
    if record.outcomes is not None and record.outcomes.n != n:
        return f"the record of {record.job.name} counts {n} examples, but its file has {record.outcomes.n} outcomes."
    return None


@dataclass(frozen=True)
class AttackOverlap:
    """How many texts fell to which attacks, of those that every attack attacked."""

    n: int
    """Texts that the victim classified correctly and that errored in no attack."""
    fell_to: tuple[int, ...]
    """For each attack the texts that fell to it."""
    only: tuple[int, ...]
    """For each attack the texts that fell to it and to no other."""
    any: int
    """Texts that fell to at least one attack."""
    all: int
    """Texts that fell to every attack."""

    @classmethod
    def of(cls, fell: NDArray[np.bool_]) -> AttackOverlap:
        """Count.

        Args:
            fell: texts x attacks: whether a text fell to an attack.
        """
        only = fell & (fell.sum(axis=1, keepdims=True) == 1)
        return cls(
            n=len(fell),
            fell_to=tuple(fell.sum(axis=0).tolist()),
            only=tuple(only.sum(axis=0).tolist()),
            any=int(fell.any(axis=1).sum()),
            all=int(fell.all(axis=1).sum()),
        )


ERRORS: tuple[str, ...] = ("error_before", "error_after", "attacked_error_before", "attacked_error_after")
CORRELATIONS: tuple[str, ...] = ("spearman_before", "spearman_after")
DEVIATIONS: tuple[str, ...] = (*ERRORS, *CORRELATIONS)
"""The names of the scores, as records have them."""


@dataclass(frozen=True)
class StsDeviations:
    """Errors and correlations of attacked STS pairs, before and after (AdvSTS: RobustSentEmbed, section 4.2).

    | score                                       | definition                                                      |
    |---------------------------------------------|-----------------------------------------------------------------|
    | error_before, error_after                   | mean of abs(score - gold) over all pairs, on the task's scale   |
    | attacked_error_before, attacked_error_after | the same over the attacked pairs (succeeded and failed)         |
    | spearman_before, spearman_after             | Spearman's correlation of scores and gold scores over all pairs |

    `after` is the score of the final texts, which are those of a success or the farthest that a failed attack came. A
    pair that was skipped because its error was past the threshold before any change keeps its score. So `before` and
    `after` are of the same pairs, and these are the same for every encoder. Errors of attacked pairs alone are of other
    pairs for each encoder. Left out are pairs that errored and pairs that the victim never scored (no words, an empty
    sentence, a gold score outside the scale). The paper prints success rates only; the other numbers are ours.

    Means have Student's t 95% intervals. Correlations have those of `rbench.score.sts`.
    """

    errors: Mapping[str, Sample]
    correlations: Mapping[str, tuple[Score, ...]]
    """For each sample one correlation."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self:
        """Compute the errors and correlations of one attacked sample."""
        candidates = [_scored_pair(outcome) for outcome in outcomes]
        pairs = [pair for pair in candidates if pair is not None]
        gold = [pair.gold for pair in pairs]
        attacked = [pair for pair in pairs if pair.attacked]
        errors: dict[str, Sample] = {
            "error_before": Sample.of(abs(pair.before - pair.gold) for pair in pairs),
            "error_after": Sample.of(abs(pair.after - pair.gold) for pair in pairs),
            "attacked_error_before": Sample.of(abs(pair.before - pair.gold) for pair in attacked),
            "attacked_error_after": Sample.of(abs(pair.after - pair.gold) for pair in attacked),
        }
        correlations: dict[str, tuple[Score, ...]] = {
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
            {name: _stored_sample(scores[name]) for name in ERRORS},
            {name: (scores[name],) for name in CORRELATIONS},
        )

    @classmethod
    def pooled(cls, several: Sequence[Self]) -> Self:
        """Pool several samples, for example those of several seeds."""
        return cls(
            {name: Sample.pooled(deviations.errors[name] for deviations in several) for name in ERRORS},
            {
                name: tuple(score for deviations in several for score in deviations.correlations[name])
                for name in CORRELATIONS
            },
        )

    def score(self, name: str, repeats: float = 1) -> Score:
        """Return one score with its n and 95% interval.

        The correlation of several samples is their mean, weighted by n: pairs of several seeds have scores of several
        victims, which are not ranked against each other.

        Args:
            name: one of DEVIATIONS.
            repeats: how many victims scored each pair, as in `Tally.score`.
        """
        if name in CORRELATIONS:
            return pooled_spearman(self.correlations[name], repeats).model_copy(update={"name": name})
        return make_score(name, self.errors[name], repeats)

    def scores(self) -> tuple[Score, ...]:
        """Return all scores, in the order of DEVIATIONS."""
        return tuple(self.score(name) for name in DEVIATIONS)


@dataclass(frozen=True)
class _ScoredPair:
    gold: float
    before: float
    after: float
    attacked: bool


def _scored_pair(outcome: Outcome) -> _ScoredPair | None:
    """Return the scores of a pair that the victim scored; None for one that errored or was never scored."""
    gold, before = outcome.gold, outcome.original_score
    if outcome.status == "errored" or outcome.skip_reason is not None or gold is None or before is None:
        return None
    after = before if outcome.perturbed_score is None else outcome.perturbed_score
    return _ScoredPair(gold, before, after, outcome.status in ("succeeded", "failed"))
