"""Tests the statistics of the data against the rows themselves."""

from __future__ import annotations

from rbench.measures import MeasureContext, data
from rbench.schema import Choice, Job, MeasureJob
from tests import tiny
from tests.measures.conftest import results


def test_rows_classes_and_mean_words(context: MeasureContext) -> None:
    rows = {
        row.names["split"]: row.numbers for row in data.DataStatistics().run(data.DataStatistics.Options(), context)
    }
    assert [rows[split]["rows"] for split in ("train", "validation", "test", "all")] == [12, 6, 4, 22]
    assert rows["test"] == {"rows": 4, "mean_words": 6, "classes": 2}
    spec = MeasureJob(what=Choice(name="data"), of="tasks", task=tiny.data(2, 2, 2).spec, data_fingerprint="d")
    made = data.DataStatistics().table(
        data.DataStatistics.Options(),
        results(
            [
                (
                    Job.make(spec, ("data", "tiny"), {}, 0),
                    data.DataStatistics().run(data.DataStatistics.Options(), context),
                )
            ]
        ),
    )
    (row,) = made.rows
    assert row[:2] == ("tiny", 2) and row[3:] == (12, 6, 4)
