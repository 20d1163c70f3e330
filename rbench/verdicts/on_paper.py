"""Judge a claim of a RUN on the printed table that the RUN reproduces.

The claim's names are those of the RUN. They are put into the table's: an encoder becomes the printed one beside which
it stands (`verdicts.systems`), an attack or a strategy the one of the same name. The claim is then judged on the tasks,
attacks, strategies and encoders that both have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rbench.errors import SuiteError
from rbench.load.choices import of_label
from rbench.spec.claimed import CellOf, Ground
from rbench.spec.claims import Axis, Claim, Subject
from rbench.spec.printed import PrintedTable
from rbench.verdicts.printed import Judged, judge, numbers

AXES: tuple[Axis, ...] = ("encoder", "task", "attack", "finetune")


def judge_on_paper(
    claim: Claim, name: str, table: PrintedTable, partners: Mapping[str, str], ours: tuple[CellOf, ...]
) -> Judged:
    """Judge a claim of a RUN on a printed table.

    Args:
        claim: the claim, with the RUN's names.
        name: the printed table's name.
        table: the printed table.
        partners: the RUN's encoder for each printed one.
        ours: the RUN's cells of the claim's metric.

    Raises:
        SuiteError: the table has no such metric, or none of what the claim compares.
    """
    printed = tuple(numbers(table).get(claim.metric, ()))
    if not printed:
        raise SuiteError(f"{name} prints no {claim.metric}")
    names = _Names(partners, Ground({claim.metric: ours}), Ground({claim.metric: printed}), claim.metric)
    return judge(_translated(claim, names), name, table, f"claim {claim.id}")


@dataclass(frozen=True)
class _Names:
    """The printed name for each name of ours."""

    partners: Mapping[str, str]
    ours: Ground
    printed: Ground
    metric: str

    def of(self, axis: Axis, said: str) -> str:
        """Return the printed name. Raises SuiteError where there is none."""
        label = self.ours.named(axis, said, self.metric) or said
        found = next((one for one in self.printed.names(axis, self.metric) if self._same(axis, label, one)), None)
        if found is None:
            raise SuiteError(f"the printed table has nothing for {axis} {said}")
        return found

    def common(self, axis: Axis, only: tuple[str, ...]) -> tuple[str, ...]:
        """Return the printed names of what both have, among `only` where it says any."""
        wanted = [self.ours.named(axis, one, self.metric) for one in only]
        labels = [one for one in self.ours.names(axis, self.metric) if not only or one in wanted]
        there = self.printed.names(axis, self.metric)
        return tuple(one for one in there if any(self._same(axis, label, one) for label in labels))

    def _same(self, axis: Axis, ours: str, printed: str) -> bool:
        if axis == "encoder":
            return self.partners.get(printed) == ours
        one, other = of_label(ours), of_label(printed)
        return one.name == other.name and other.options.items() <= one.options.items()


def _translated(claim: Claim, names: _Names) -> Claim:
    """Return the claim with the printed table's names, kept to what both have."""
    changes = {}
    for (field, *_), _subject in claim.subjects:
        value = getattr(claim, str(field))
        several = isinstance(value, tuple)
        changes[str(field)] = tuple(_subject_of(one, names) for one in value) if several else _subject_of(value, names)
    where: dict[Axis, tuple[str, ...]] = {}
    for axis in AXES:
        if not names.printed.names(axis, names.metric):
            continue
        where[axis] = names.common(axis, claim.where.get(axis, ()))
        if not where[axis]:
            raise SuiteError(f"the printed table and the RUN have no {axis} in common")
    return claim.model_copy(update={**changes, "where": where})


def _subject_of(subject: Subject, names: _Names) -> Subject:
    found: dict[str, str] = {
        axis: names.of(axis, said) for axis in AXES if (said := getattr(subject, axis)) is not None
    }
    return subject.model_copy(update=found)
