"""Compare encoders of one RUN or two, example by example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rbench.errors import StoreError
from rbench.load.metrics import Metrics
from rbench.load.registry import Registry
from rbench.spec import Outcome, Plan
from rbench.spec.unlisted import known_as

if TYPE_CHECKING:
    from rbench.verdicts.compare import Comparison


class FellAlone(NamedTuple):
    """A text that fell to an attack with one of two encoders alone."""

    cell: str
    """Task, strategy and attack."""
    encoder: str
    """The encoder with which it fell."""
    outcome: Outcome
    columns: tuple[str, ...]
    labels: tuple[str, ...]


def compare(
    run: Path | str,
    other_run: Path | str | None = None,
    *,
    between: tuple[str, str],
    metric: str = "asr",
    common: bool = False,
    include: Sequence[Path] = (),
) -> Comparison:
    """Compare two encoders in every cell (task, strategy, attack) that both have.

    Args:
        run: the RUN of the first encoder, and of the second where `other_run` is None.
        other_run: the RUN of the second encoder.
        between: the two encoders, as the suites or tables name them (by name, folder, hub id or label); the same
            encoder twice compares two RUNs of it.
        metric: one of `rbench list metrics`.
        common: whether to compare the examples that both have where the RUNs attacked others too.
        include: folders with metrics of your own.

    Raises:
        SuiteError: there is no such metric.
        StoreError: a folder is not a RUN, an encoder is unknown, nothing is common, or the RUNs differ in more than the
            encoder.
    """
    from rbench.storage.runs import Store
    from rbench.storage.runs.folder import folder_path
    from rbench.tables import Results
    from rbench.verdicts.compare import compare_encoders

    metrics = Metrics(Registry(include))
    _ = metrics[metric]  # a wrong name is told before anything is read
    if isinstance(between, str) or not isinstance(between, Sequence) or [type(one) for one in between] != [str, str]:
        raise StoreError(f"between={between!r}: expected the names of two encoders")
    first = Results.of(Store(folder_path(run)), metrics)
    second = first if other_run is None else Results.of(Store(folder_path(other_run)), metrics)
    one, other = _label(between[0], first.plan), _label(between[1], second.plan)
    if one == other and other_run is None:
        raise StoreError(f"{one} cannot be compared with itself in one RUN; name a second RUN or encoder")
    return compare_encoders((first, one), (second, other), metric, common=common)


def _label(encoder: str, plan: Plan) -> str:
    """Return the label that an encoder has in a plan; a text that means none of them stays as it is."""
    attacked = {plan.draw(job.parts[0]).encoder for job in plan.jobs if job.attacking is not None}
    return known_as(encoder, {*plan.suite.encoders, *attacked})


def comparison_table(found: Comparison, fmt: str = "markdown") -> str:
    """Render a comparison, with intervals. Raises StoreError for an unknown format."""
    from rbench.tables.formats import render
    from rbench.verdicts.compare import table

    return render(table(found), fmt, intervals=True)


def fell_alone(found: Comparison, most: int) -> Iterator[FellAlone]:
    """Yield up to `most` texts of each cell that fell with one encoder alone, of metrics that count what fell."""
    for cell in found.cells:
        for fell, first in cell.fell_only[:most]:
            name = found.one if first else found.other
            yield FellAlone(str(cell.name), name, fell, cell.columns, cell.labels)
