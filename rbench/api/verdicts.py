"""Compare encoders of one RUN or two, example by example."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

from rbench.errors import StoreError
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
) -> Comparison:
    """Compare two encoders in every cell (task, strategy, attack) that both have.

    Args:
        run: the RUN of the first encoder, and of the second where `other_run` is None.
        other_run: the RUN of the second encoder.
        between: the two encoders, as the suites or tables name them (by name, folder, hub id or label); the same
            encoder twice compares two RUNs of it.
        metric: `asr`, `aua`, `clean`, `queries`, `perturbed` (the share of words changed), `seconds` an example, or
            `any_attack` (at least one of all attacks on a victim).
        common: whether to compare the examples that both have where the RUNs attacked others too.

    Raises:
        StoreError: a folder is not a RUN, an encoder is unknown, nothing is common, or the RUNs differ in more than the
            encoder.
    """
    from rbench.storage.runs import Store
    from rbench.storage.runs.folder import folder_path
    from rbench.tables import Results
    from rbench.verdicts.compare import compare_encoders
    from rbench.verdicts.pairing import METRICS, Compared

    if metric not in get_args(Compared):
        raise StoreError(f"unknown metric {metric!r}; encoders are compared by {', '.join(METRICS)}")
    if isinstance(between, str) or not isinstance(between, Sequence) or [type(one) for one in between] != [str, str]:
        raise StoreError(f"between={between!r}: expected the names of two encoders")
    first = Results.of(Store(folder_path(run)))
    second = first if other_run is None else Results.of(Store(folder_path(other_run)))
    one, other = _label(between[0], first.plan), _label(between[1], second.plan)
    if one == other and other_run is None:
        raise StoreError(f"{one} cannot be compared with itself in one RUN; name a second RUN or encoder")
    return compare_encoders((first, one), (second, other), cast(Compared, metric), common=common)


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
    """Yield up to `most` texts of each cell that fell with one encoder alone. Only comparisons of ASR have such."""
    for cell in found.cells:
        for one, other in cell.fell_only[:most]:
            fell, name = (one, found.one) if one.status == "succeeded" else (other, found.other)
            yield FellAlone(str(cell.name), name, fell, cell.columns, cell.labels)
