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
skipped and that the attack could not move by the threshold. `rbench.score.advsts` has their errors and correlations.

A metric whose denominator is 0 has the value None (TextAttack gives 0 or nan). Shares have Wilson 95% intervals, means
have Student's t 95% intervals. oracle_asr is None if the task has no oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rbench.errors import StoreError
from rbench.score.statistics import Sample, Share, scored
from rbench.spec import Outcome, Record, Score

STORED = ("asr", "queries", "aua", "clean", "perturbed", "oracle_asr", "seconds")
"""The scores in the record of an attack. What a RUN shows of them, and what else, is said in `rbench.metrics`."""

_NONE = Sample(0)
_COUNTS = ("succeeded", "failed", "skipped", "errored", "truncated")


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
    queries: Sample = _NONE
    perturbed: Sample = _NONE
    seconds: Sample = _NONE

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], oracle: bool | None = None) -> Tally:
        """Count outcomes, one for each example.

        Args:
            outcomes: of one attacked sample.
            oracle: whether the task has an oracle. None: it has one if any success has an oracle label, so without a
                success it counts as having none.

        A success whose text the oracle cannot read does not count as valid.
        """
        seen = list(outcomes)
        status = Counter(outcome.status for outcome in seen)
        wordless = sum(outcome.skip_reason == "no words" for outcome in seen)
        unusable = sum(outcome.skip_reason is not None for outcome in seen) - wordless
        successes = [outcome for outcome in seen if outcome.status == "succeeded"]
        if oracle is None:
            oracle = any(outcome.oracle_label is not None for outcome in successes)
        return cls(
            succeeded=status["succeeded"],
            failed=status["failed"],
            skipped=status["skipped"] - wordless - unusable,
            errored=status["errored"],
            timed_out=sum(outcome.timed_out for outcome in seen),
            wordless=wordless,
            unusable=unusable,
            truncated=sum(outcome.truncated for outcome in seen),
            oracle_valid=sum(outcome.oracle_label == outcome.label for outcome in successes) if oracle else None,
            queries=Sample.of(o.num_queries for o in seen if o.status in ("succeeded", "failed")),
            perturbed=Sample.of(o.perturbed_share for o in successes if o.perturbed_share),
            seconds=Sample.of(o.seconds for o in seen if o.status in ("succeeded", "failed")),
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
            means = {
                name: (scores[name].n, scores[name].value, scores[name].sd)
                for name in ("queries", "perturbed", "seconds")
            }
            valid = _oracle_valid(record, scores["oracle_asr"])
        except KeyError as error:
            raise StoreError(f"the record of {record.job.name} has no {error}.") from None
        return cls(
            **counts,
            timed_out=record.counts.get("timed_out", 0),
            wordless=record.counts.get("wordless", 0),
            unusable=record.counts.get("unusable", 0),
            oracle_valid=valid,
            queries=Sample(*means["queries"]),
            perturbed=Sample(*means["perturbed"]),
            seconds=Sample(*means["seconds"]),
        )

    @classmethod
    def pooled(cls, tallies: Sequence[Tally]) -> Tally:
        """Pool several samples into one, for example those of several seeds."""
        valid = [tally.oracle_valid for tally in tallies if tally.attacked]
        return cls(
            succeeded=sum(tally.succeeded for tally in tallies),
            failed=sum(tally.failed for tally in tallies),
            skipped=sum(tally.skipped for tally in tallies),
            errored=sum(tally.errored for tally in tallies),
            timed_out=sum(tally.timed_out for tally in tallies),
            wordless=sum(tally.wordless for tally in tallies),
            unusable=sum(tally.unusable for tally in tallies),
            truncated=sum(tally.truncated for tally in tallies),
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
    def asr(self) -> Share:
        return Share(self.succeeded, self.attacked)

    @property
    def aua(self) -> Share:
        return Share(self.failed, self.total)

    @property
    def clean(self) -> Share:
        return Share(self.attacked, self.total)

    @property
    def oracle_asr(self) -> Share:
        """Share(0, 0) if the task has no oracle."""
        return Share(0, 0) if self.oracle_valid is None else Share(self.oracle_valid, self.attacked)

    def score(self, name: str, repeats: float = 1) -> Score:
        """Return one of STORED with its n (the denominator) and its 95% interval; for `repeats` see `scored`."""
        if name not in STORED:
            raise ValueError(f"a record of an attack has no {name}; it has {', '.join(STORED)}")
        return scored(name, getattr(self, name), repeats)

    def scores(self) -> dict[str, Score]:
        """Return what a record stores, in the order of STORED."""
        return {name: self.score(name) for name in STORED}

    def counts(self) -> dict[str, int]:
        """Return the counts that a record stores beside its scores. Those that are rare are left out if 0."""
        rare = {name: getattr(self, name) for name in ("timed_out", "wordless", "unusable")}
        return {name: getattr(self, name) for name in _COUNTS} | {name: n for name, n in rare.items() if n}


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


def attack_counts(outcomes: Iterable[Outcome], oracle: bool | None = None) -> dict[str, int]:
    """Return how many examples succeeded, failed, were skipped, errored, truncated and so on; see `Tally.counts`."""
    return Tally.of(outcomes, oracle).counts()
