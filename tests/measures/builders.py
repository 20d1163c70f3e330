"""Jobs of measures, and rows of their results."""

from __future__ import annotations

from typing import Any

from rbench.schema import Choice, Job, MeasuredRow, MeasureJob
from tests import tiny


def select_rows(rows: Any, **names: str) -> list[MeasuredRow]:
    """The rows that have these names."""
    return [row for row in rows if names.items() <= row.names.items()]


STRATEGIES = (Choice(name="clean"), Choice(name="adversarial"))


def make_measure_job(name: str, seed: int = 0, attack: str = "swap", **options: Any) -> Job:
    """A job of a measure that reads all victims of an attack."""
    spec = MeasureJob(
        what=Choice(name=name, options=options),
        task=tiny.data(2, 2, 2).spec,
        data_fingerprint="d",
        attack=attack,
        encoders=("one", "two"),
        strategies=STRATEGIES,
    )
    return Job.make(spec, (name, "tiny", attack), {}, seed)
