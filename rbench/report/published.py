"""The numbers of one model that are published beside its weights: with n, interval and protocol, and of which data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import rbench
from rbench.errors import StoreError
from rbench.metrics import MeasureNumber
from rbench.schema import AS_IS, Meaning, Origin, TableSpec, TaskSpec
from rbench.tables import Results
from rbench.tables.table import Number
from rbench.verdicts.cells import iterate_cells


@dataclass(frozen=True)
class PublishedNumber:
    """A number of a model on a task."""

    encoder: str
    task: TaskSpec
    metric: str
    """The name of the metric, or of the measure's number."""
    attack: str
    """The label of the attack; empty where texts are as they are."""
    finetune: str
    """The label of the strategy; empty where the encoder stays as it is."""
    number: Number
    meaning: Meaning
    seeds: int
    origin: Origin | None
    """The data set of the hub that the task's test rows were read from; None: they were read from elsewhere, or the
    number is of a contrast or adversarial set."""

    @property
    def value(self) -> float:
        """The number as tables show it, shares in percent, to four digits behind the point."""
        assert self.number.value is not None
        return self._scaled(self.number.value)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The 95% interval in the unit of `value`; None where it has none."""
        if self.number.low is None or self.number.high is None:
            return None
        return self._scaled(self.number.low), self._scaled(self.number.high)

    @property
    def title(self) -> str:
        """What it is: `Attack success rate, textfooler`."""
        return ", ".join(filter(None, [self.meaning.title, self.attack]))

    @property
    def protocol(self) -> str:
        """How it was measured, in one line."""
        unit = self.meaning.unit if self.meaning.percent else ""
        parts = [f"{self.title}{f' in {unit}' if unit else ''}"]
        parts += [f"{self.finetune} of the encoder"] if self.finetune not in ("", AS_IS) else []
        if self.limits is not None:
            low, high = (f"{limit:.{self.number.digits}f}" for limit in self.limits)
            parts.append(f"95% interval {low} to {high}")
        parts += [f"n {self.number.n}"] if self.number.n is not None else []
        parts += [f"{self.seeds} seeds"] if self.seeds > 1 else []
        return f"{'; '.join(parts)}; rbench {rbench.__version__}"

    def _scaled(self, value: float) -> float:
        return round(100 * value if self.meaning.percent else value, 4)


def list_published(results: Results, wanted: TableSpec) -> list[PublishedNumber]:
    """Return the numbers of one model, of a metric and those beside it, or of a measure.

    Raises StoreError where there is none, or where the RUN has several models: what is published beside weights is of
    these weights alone.
    """
    numbers = list(_iterate_numbers(results, wanted))
    models = list(dict.fromkeys(number.encoder for number in numbers))
    if not models:
        raise StoreError(f"{results.root} has no number of {wanted.metric} to publish yet")
    if len(models) > 1:
        names = ", ".join(models)
        raise StoreError(
            f"{results.root} has several models ({names}), and a model card is of one: --only /{models[0]}/ chooses"
        )
    return numbers


def _iterate_numbers(results: Results, wanted: TableSpec) -> Iterator[PublishedNumber]:
    specs = (getattr(job.spec, "task", None) for job in results.plan.jobs)
    tasks = {task.name: task for task in specs if task is not None}
    seen = set()
    for metric in _list_metrics(results, wanted):
        asked = results.metrics.asked(metric)
        for name, (cell, number_name) in iterate_cells(results, asked):
            number = cell.number(number_name)
            if number is None or number.value is None or name.task not in tasks:
                continue
            if asked.of == "victims":  # each attack on a victim has a cell with the same number
                victim = (metric, name.encoder, name.task, cell.finetune)
                if victim in seen:
                    continue
                seen.add(victim)
            task = tasks[name.task]
            of_set = any(job.measuring is not None and job.measuring.set is not None for job in cell.jobs)
            yield PublishedNumber(
                name.encoder,
                task,
                metric,
                "" if asked.of == "victims" else cell.attack,
                cell.finetune,
                number,
                asked.about if isinstance(asked, MeasureNumber) else cell.meaning(number_name),
                cell.seeds,
                None if of_set else task.origin,
            )


def _list_metrics(results: Results, wanted: TableSpec) -> Sequence[str]:
    if wanted.metric in results.metrics:
        return [wanted.metric, *wanted.beside]
    return [*results.metrics.numbers_of(wanted.metric)]
