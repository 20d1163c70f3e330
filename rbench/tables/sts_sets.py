"""The field's seven sets of STS: which of them a table has, with which pairs, and what that means for its average.

Papers since SentEval print Spearman's correlation on the test pairs of STS12 to STS16, STS-B and SICK-R, and the plain
mean of the seven. An average of other sets, or of sets with other pairs, must not be read beside those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rbench.schema import STS, Evaluation, Job, Record, Score
from rbench.score.subsets import MISSING, of_subset

SEVEN: Mapping[str, int] = {
    "sts12": 3108,
    "sts13": 1500,
    "sts14": 3750,
    "sts15": 3000,
    "sts16": 1186,
    "stsb": 1379,
    "sickr": 4927,
}
"""The seven sets, by the name of the task, with the number of test pairs that SentEval and the papers score."""
SHARED = (
    "Avg.: most test pairs of STS-B are also in STS12 to STS16 (887 of 1,377), but the interval takes the sets as "
    "independent. So it is some 7% too narrow."
)
MARK = " ‡"
"""Stands behind the head of a column whose numbers compare with no printed one."""


@dataclass(frozen=True)
class Sets:
    """The sets of a table, with a record of each that is done."""

    evaluations: Sequence[Evaluation]
    records: Mapping[str, Record]
    """By the label of the evaluation: any complete record, since all encoders are scored on the same pairs."""

    @property
    def unlike(self) -> dict[str, str]:
        """Return, for each of the seven sets whose pairs are not the field's, what is different about them."""
        found = {}
        for one in self.evaluations:
            record, wanted = self.records.get(one.label), SEVEN.get(one.task)
            if record is None or wanted is None or one.split != "test" or (n := record.scores[0].n) == wanted:
                continue
            gone = [name.removeprefix(MISSING) for name in record.counts if name.startswith(MISSING)]
            lacks = f", without {_counted(gone, record)}" if gone else ""
            found[one.label] = f"{n:,} pairs{lacks}; the field's set has {wanted:,}"
        return found

    @property
    def absent(self) -> list[str]:
        """Return which of the seven sets the table does not have."""
        there = {one.task for one in self.evaluations if one.split == "test"}
        return [name for name in SEVEN if name not in there]

    @property
    def others(self) -> list[str]:
        """Return the columns beside the seven sets."""
        return [one.label for one in self.evaluations if one.split != "test" or one.task not in SEVEN]

    @property
    def comparable(self) -> bool:
        """Whether the average is that of the seven sets, as far as they are done."""
        return not (self.unlike or self.absent or self.others)

    @property
    def ours_alone(self) -> bool:
        """Whether none of the seven sets is there, so that nobody would look for a printed average."""
        return len(self.others) == len(self.evaluations)

    def notes(self) -> list[str]:
        """Return the notes on missing subsets and sets, and on the average."""
        said = [f"{label}{MARK}: {what}." for label, what in self.unlike.items()]
        if self.ours_alone or len(self.evaluations) < 2:
            return said
        shared = [SHARED] if {*self.absent} <= {"sickr"} else []
        if self.comparable:
            return [*said, "Avg.: the mean of the field's seven sets.", *shared]
        parts = [f"it lacks {', '.join(self.absent)}"] if self.absent else []
        parts += [f"it also has {', '.join(self.others)}"] if self.others else []
        parts += [f"the pairs of {', '.join(self.unlike)} are others"] if self.unlike else []
        return [
            *said,
            f"Avg.{MARK}: comparable to no printed average of the field's seven sets: {'; '.join(parts)}.",
            *shared,
        ]

    def brief(self) -> list[str]:
        """Return the same in a sentence or two."""
        return [note for note in self.notes() if MARK in note]


def has_subsets(job: Job) -> bool:
    """Return whether an evaluation's split was published in subsets, as those of STS12 to STS16 were."""
    spec = job.measuring
    return job.what == STS and spec is not None and spec.split is not None and bool(spec.task.subsets.get(spec.split))


def subset_scores(record: Record, name: str) -> dict[str, Score]:
    """Return a correlation of each subset that is there. There is none where rows name no subsets."""
    prefix = of_subset(name, "")
    return {one.name.removeprefix(prefix): one for one in record.scores if one.name.startswith(prefix)}


def left_out(records: Mapping[str, Record]) -> list[str]:
    """Return a note on the pairs of each evaluation that could not be used, by reason."""
    return [
        f"{label}: {n:,} pairs {name}."
        for label, record in records.items()
        for name, n in record.counts.items()
        if name.startswith("left out: ")
    ]


def _counted(names: Sequence[str], record: Record) -> str:
    return ", ".join(f"{name} ({record.counts[MISSING + name]:,} pairs)" for name in names)
