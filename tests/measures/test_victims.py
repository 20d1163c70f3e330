"""A measure of victims in a folder of one's own: planned, estimated, run and verified without a line elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from rbench.store.runs import RunStore
from rbench.store.verify import verify

EASY = '''
"""How many of the first test texts a victim gets right."""

from rbench.measures import Measure, Measured, MeasuredRow, measured
from rbench.schema import Score, Strict
from rbench.tables import Table
from rbench.tables.table import Meaning


class Options(Strict):
    split: str = "validation"
    most: int = 8


class Easy(Measure[Options]):
    reads = "victims"
    workload = "to look at: {:,} easy texts"

    def run(self, options, context):
        from rbench.encoders.classify import classify

        rows = context.rows(options.split)[: options.most]
        said = classify(context.victim, [one.texts for one in rows]).labels
        right = sum(int(label) == one.label for label, one in zip(said, rows))
        score = Score(name="easy", value=right / len(rows), n=len(rows))
        return Measured([MeasuredRow(names={}, numbers={"n": len(rows), "right": right})], (score,), {"n": len(rows)})

    def examples(self, prepared, job):
        return job.spec.what.options["most"]

    def table(self, options, results):
        rows = [(*one.job.parts[:3], one.rows[0].numbers["right"]) for one in measured(results, "easy", options)]
        about = Meaning("Easy texts", "right answers", percent=False)
        header = ("Encoder", "Task", "Fine-tuning", "Right")
        cells = tuple({"encoder": row[0], "value": row[3]} for row in rows)
        return Table(
            metric="easy", layout="paper", header=header, rows=tuple(rows), groups=frozenset(), cells=cells, notes=(),
            interval="", about=about,
        )
'''
SUITE = """
name: s
encoders: [mini-bert-packaged]
tasks: [mini-sentiment]
finetune: probe
seeds: [0, 1]
evaluate: [easy, test_accuracy: {max_rows: 20}]
training: {max_train: 40, max_validation: 20}
resources: mini
"""


def test_it_becomes_a_job_for_each_victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DIR" / "measures").mkdir(parents=True)
    (tmp_path / "DIR" / "measures" / "easy.py").write_text(EASY, encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    options = api.Options(include=(tmp_path / "DIR",), out=tmp_path / "RUN")
    planned = api.plan("suite.yaml", options)
    name = "measure/mini-bert-packaged/mini-sentiment/probe/easy/seed{}"
    measuring = {job.name: job for job in planned.jobs if job.what == "easy"}
    assert list(measuring) == [name.format(0), name.format(1)]
    assert {planned.estimates[job.key].examples for job in measuring.values()} == {8}
    result = api.run("suite.yaml", options)
    assert not result.failed
    store = RunStore(tmp_path / "RUN")
    for job in measuring.values():
        record = store.record(job)
        assert record is not None and record.provenance.weights_hash and record.counts == {"n": 8}
        (row,) = store.rows(job)
        assert record.scores[0].value == (row.numbers["right"] or 0) / 8
    assert not verify(tmp_path / "RUN").damaged
    assert "Easy texts" in api.table(tmp_path / "RUN", metric="easy", include=[tmp_path / "DIR"])
