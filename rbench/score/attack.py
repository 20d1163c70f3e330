"""What an attack did, in numbers: from outcomes to the metrics of the field.

| metric     | here                                                                              |
|------------|-----------------------------------------------------------------------------------|
| clean      | (total - skipped) / total                                                         |
| aua        | failed / total                                                                    |
| asr        | succeeded / (succeeded + failed)                                                  |
| oracle_asr | successes after which the true label still holds / (succeeded + failed)           |
| queries    | mean number of queries over succeeded and failed                                  |
| perturbed  | mean share of words changed over successes with more than 0 changes               |
| seconds    | mean seconds of one process over succeeded and failed; of the machine, not of the victim alone |

These are TextAttack's definitions (textattack/metrics/attack_metrics), on unrounded counts: aua = clean x (1 - asr)
holds exactly. An example on which the attack raised is `errored`; one in which TextAttack sees no word, so that nothing
can be replaced, is `wordless`, whatever the victim says of it. Both leave every denominator: `total` is without them.
A metric whose denominator is 0 has the value None (TextAttack says 0 or nan). Shares have Wilson 95% intervals, means
have Student's t 95% intervals. oracle_asr is None where the task has no oracle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from rbench.errors import StoreError
from rbench.score.statistics import Sample, wilson
from rbench.spec import AttackJob, AttackMetric, Outcome, Record, Score

METRICS: tuple[AttackMetric, ...] = get_args(AttackMetric)
SHARES: frozenset[AttackMetric] = frozenset({"asr", "aua", "clean", "oracle_asr"})
"""Metrics that are counts over counts; the others are means."""

_NONE = Sample(0)
_COUNTS = ("succeeded", "failed", "skipped", "errored", "truncated")


@dataclass(frozen=True)
class Tally:
    """The sufficient statistics of one or several attacked samples: all metrics and intervals follow from them."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    errored: int = 0
    wordless: int = 0
    """Examples in which TextAttack sees no word."""
    truncated: int = 0
    """Examples cut to the victim's maximal length, of any status."""
    oracle_valid: int | None = None
    """Successes after which the oracle still gives the example's label; None where there is no oracle."""
    queries: Sample = _NONE
    perturbed: Sample = _NONE
    seconds: Sample = _NONE

    @classmethod
    def of(cls, outcomes: Iterable[Outcome], oracle: bool | None = None) -> Tally:
        """Count outcomes, each example once.

        `oracle` says whether the task has an oracle; None finds out by looking whether any success has an oracle label
        (which cannot be seen where there is no success). A success whose text the oracle cannot read is not valid.
        """
        seen = list(outcomes)
        status = Counter(outcome.status for outcome in seen)
        wordless = sum(outcome.skip_reason == "no words" for outcome in seen)
        successes = [outcome for outcome in seen if outcome.status == "succeeded"]
        if oracle is None:
            oracle = any(outcome.oracle_label is not None for outcome in successes)
        return cls(
            succeeded=status["succeeded"],
            failed=status["failed"],
            skipped=status["skipped"] - wordless,
            errored=status["errored"],
            wordless=wordless,
            truncated=sum(outcome.truncated for outcome in seen),
            oracle_valid=sum(outcome.oracle_label == outcome.label for outcome in successes) if oracle else None,
            queries=Sample.of(o.num_queries for o in seen if o.status in ("succeeded", "failed")),
            perturbed=Sample.of(o.perturbed_share for o in successes if o.perturbed_share),
            seconds=Sample.of(o.seconds for o in seen if o.status in ("succeeded", "failed")),
        )

    @classmethod
    def of_record(cls, record: Record) -> Tally:
        """What `counts` and `scores` stored, so that tables need no outcomes; StoreError where they are missing."""
        scores = {score.name: score for score in record.scores}
        try:
            counts = {name: record.counts[name] for name in _COUNTS}
            means = {name: (scores[name].n, scores[name].value, scores[name].sd) for name in ("queries", "perturbed")}
            valid = _oracle_valid(record, scores["oracle_asr"])
        except KeyError as error:
            raise StoreError(f"the record of {record.job.name} has no {error}.") from None
        return cls(
            **counts,
            wordless=record.counts.get("wordless", 0),
            oracle_valid=valid,
            queries=Sample(*means["queries"]),
            perturbed=Sample(*means["perturbed"]),
            # Records made before this metric have no time.
            seconds=Sample(time.n, time.value, time.sd) if (time := scores.get("seconds")) is not None else _NONE,
        )

    @classmethod
    def pooled(cls, tallies: Sequence[Tally]) -> Tally:
        """All samples thrown together, for instance the seeds of a cell."""
        valid = [tally.oracle_valid for tally in tallies if tally.attacked]
        return cls(
            succeeded=sum(tally.succeeded for tally in tallies),
            failed=sum(tally.failed for tally in tallies),
            skipped=sum(tally.skipped for tally in tallies),
            errored=sum(tally.errored for tally in tallies),
            wordless=sum(tally.wordless for tally in tallies),
            truncated=sum(tally.truncated for tally in tallies),
            oracle_valid=None if None in valid or not valid else sum(count or 0 for count in valid),
            queries=Sample.pooled(tally.queries for tally in tallies),
            perturbed=Sample.pooled(tally.perturbed for tally in tallies),
            seconds=Sample.pooled(tally.seconds for tally in tallies),
        )

    @property
    def attacked(self) -> int:
        """Examples that the victim read rightly, so that there was something to attack."""
        return self.succeeded + self.failed

    @property
    def total(self) -> int:
        """All examples but the errored and the wordless ones."""
        return self.attacked + self.skipped

    def share(self, metric: AttackMetric) -> tuple[int, int]:
        """Numerator and denominator of a metric in SHARES; (0, 0) for oracle_asr without an oracle."""
        if metric == "oracle_asr":
            return (0, 0) if self.oracle_valid is None else (self.oracle_valid, self.attacked)
        return {
            "asr": (self.succeeded, self.attacked),
            "aua": (self.failed, self.total),
            "clean": (self.attacked, self.total),
        }[metric]

    def score(self, metric: AttackMetric) -> Score:
        """The metric with its n (the denominator) and its 95% interval; shares are in 0..1."""
        if metric in SHARES:
            count, n = self.share(metric)
            value, interval, sd = (count / n if n else None), wilson(count, n), None
        else:
            sample: Sample = getattr(self, metric)
            n, value, interval, sd = sample.n, sample.mean, sample.interval(), sample.deviation
        low, high = interval or (None, None)
        return Score(name=metric, value=value, n=n, low=low, high=high, sd=sd)

    def scores(self) -> dict[AttackMetric, Score]:
        """Every metric, in the order of `spec.AttackMetric`."""
        return {metric: self.score(metric) for metric in METRICS}

    def counts(self) -> dict[str, int]:
        """What a record keeps beside its scores; `wordless` only where there are any, as in records made before it."""
        return {name: getattr(self, name) for name in _COUNTS} | ({"wordless": self.wordless} if self.wordless else {})


def _oracle_valid(record: Record, score: Score) -> int | None:
    """The numerator of a stored oracle_asr. A generated task has an oracle, so there None means that none was valid."""
    if score.value is not None:
        return round(score.value * score.n)
    spec = record.job.spec
    return 0 if isinstance(spec, AttackJob) and spec.task.generator is not None else None


def attack_scores(outcomes: Iterable[Outcome], oracle: bool | None = None) -> dict[AttackMetric, Score]:
    """All metrics of one attacked sample; see the head of this module. For `oracle` see `Tally.of`."""
    return Tally.of(outcomes, oracle).scores()


def attack_counts(outcomes: Iterable[Outcome], oracle: bool | None = None) -> dict[str, int]:
    """How many examples succeeded, failed, were skipped, errored, truncated, wordless; see `Tally.counts`."""
    return Tally.of(outcomes, oracle).counts()
