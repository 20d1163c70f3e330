"""Tables of the field's seven sets: subsets put together, averages with intervals, marks where something is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench import api
from rbench.errors import SuiteError
from rbench.measures.sts import FIELD_SETS, SHARED_PAIRS_NOTE, StsSets
from rbench.schema import EncoderSpec, Job, Plan, Provenance, Record, Score, Suite, TaskSpec
from rbench.score.subsets import average_correlations, set_scores
from rbench.store.runs import RunStore
from rbench.tables import build
from rbench.tables.for_people import add_short_notes
from rbench.tables.results import Results
from tests.specs import of_sts

SUBSETS = {"MSRpar": 9, "OnWN": 12, "MSRvid": 8}
TASKS = {name: TaskSpec(name=name, kind="sts", columns=("a", "b")) for name in FIELD_SETS}
TASKS["sts12"] = TASKS["sts12"].model_copy(update={"subsets": {"test": SUBSETS}})


def scores(seed: int, subsets: tuple[str, ...] = ()) -> tuple[Score, ...]:
    generator = np.random.default_rng(seed)
    names = [name for name in subsets for _ in range(SUBSETS[name])]
    gold = generator.normal(size=len(names) or 20)
    return set_scores(gold + generator.normal(size=len(gold)), gold, names)


def job_of(encoder: str, task: str, split: Any = "test") -> Job:
    spec = of_sts(EncoderSpec(name=encoder, base="org/x"), TASKS[task], split)
    return Job.make(spec, (encoder, task if split == "test" else f"{task}[split={split}]"), {}, 0)


def record(job: Job, found: tuple[Score, ...], **counts: int) -> Record:
    return Record(job=job, status="complete", scores=found, counts=counts, provenance=Provenance(rbench="0"))


PARTS = scores(1, ("MSRpar", "OnWN"))
OTHER = scores(2)


def make_run(folder: Path, parts: tuple[Score, ...] = PARTS, **suite: Any) -> RunStore:
    store = RunStore(folder)
    jobs = (job_of("minilm", "sts12"), job_of("minilm", "sickr"))
    given = {"name": "s", "encoders": ("minilm",), "evaluate": ("sts12", "sickr"), **suite}
    store.write_plan(Plan(suite=Suite.model_validate(given), jobs=jobs))
    more = {"missing: MSRvid": 8, "left out: score outside the scale": 3}
    store.write_record(record(jobs[0], parts, n=21, **more))
    store.write_record(record(jobs[1], OTHER, n=20))
    return store


def values(table: Any) -> list[Any]:
    return [entry.value for entry in table.rows[0][1:]]


def test_subsets_are_put_together_as_the_table_asks(tmp_path: Path) -> None:
    store = make_run(tmp_path)
    found = {score.name: score.value or 0 for score in PARTS}
    first, second = found["spearman:MSRpar"], found["spearman:OnWN"]
    wanted = {"all": found["spearman"], "mean": (first + second) / 2, "wmean": (9 * first + 12 * second) / 21}
    assert len({round(value, 6) for value in wanted.values()}) == 3
    for how, value in wanted.items():
        table = build(store, "sts", aggregation=how)  # type: ignore[arg-type]
        other = OTHER[0].value or 0
        assert values(table) == pytest.approx([value, other, (value + other) / 2])
        assert any(note.startswith(f"Aggregation {how}") for note in table.notes) == (how != "all")


def test_the_average_has_the_interval_of_independent_sets(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts")
    wanted = average_correlations([PARTS[0], OTHER[0]])
    shown = table.rows[0][3]
    assert (shown.value, shown.low, shown.high, shown.n) == (wanted.value, wanted.low, wanted.high, 41)  # type: ignore[union-attr]
    assert table.cells[2] == {
        "encoder": "minilm",
        "evaluation": None,
        "flagged": False,
        "sets": "sts12 sickr",
        "value": wanted.value,
        "low": wanted.low,
        "high": wanted.high,
        "n": 41,
    }
    assert "independent" in table.interval
    results = Results.of(make_run(tmp_path))
    (said,) = [text for text in add_short_notes(table, results).basis if " cell: " in text]
    assert said.endswith(" cell: 20 to 21."), "the average is no cell"


def test_what_is_missing_is_marked_and_named(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts")
    assert table.header == ("Encoder", "sts12 ‡", "sickr ‡", "Avg. ‡")
    absent = "sts13, sts14, sts15, sts16, stsb"
    for note in (
        "sts12 ‡: 21 pairs, without MSRvid (8 pairs); the field's set has 3,108.",
        "sickr ‡: 20 pairs; the field's set has 4,927.",
        f"Avg. ‡: comparable to no printed average of the field's seven sets: it lacks {absent}; the pairs of sts12, "
        "sickr are others.",
        "sts12: 3 pairs left out: score outside the scale.",
    ):
        assert note in table.notes
    assert sum("‡:" in sentence for sentence in table.brief) == 3


def test_the_full_layout_has_a_row_for_each_subset(tmp_path: Path) -> None:
    table = build(make_run(tmp_path), "sts", layout="full")
    assert table.header == ("Encoder", "Evaluation", "Subset", "n", "Spearman", "Pearson")
    assert [row[1:4] for row in table.rows] == [
        ("sts12", "all", 21),
        ("sts12", "MSRpar", 9),
        ("sts12", "OnWN", 12),
        ("sickr", "all", 20),
    ]
    stored = {score.name: score.value for score in PARTS}
    assert [entry.value for entry in table.rows[2][4:]] == [stored["spearman:OnWN"], stored["pearson:OnWN"]]  # type: ignore[union-attr]
    assert [cell["subset"] for cell in table.cells] == ["all", "MSRpar", "OnWN", "all"]


def test_records_without_subsets_have_no_aggregated_value_and_no_interval(tmp_path: Path) -> None:
    plain = tuple(score.model_copy(update={"sd": None}) for score in PARTS[:2])
    store = make_run(tmp_path, plain)
    assert values(build(store, "sts"))[2] is not None
    assert build(store, "sts").rows[0][3].low is None  # type: ignore[union-attr]
    assert any("Some averages have no interval" in note for note in build(store, "sts").notes)
    table = build(store, "sts", aggregation="mean")
    assert values(table) == [None, OTHER[0].value, None], "not the value of all pairs under another name"
    assert any("No value: sts12, whose records have no correlations of subsets" in note for note in table.notes)


def test_an_undefined_correlation_says_why(tmp_path: Path) -> None:
    store = make_run(tmp_path, set_scores([0.5] * 20, list(range(20))))
    table = build(store, "sts")
    assert values(table) == [None, OTHER[0].value, None]
    why = "minilm/sts12: the correlation is not defined, because all cosines, or all gold scores, are equal."
    assert why in table.notes
    few = build(make_run(tmp_path, set_scores([0.5, 0.1], [1, 2])), "sts")
    assert "minilm/sts12: the correlation is not defined, because it has 2 pairs, and 4 are needed." in few.notes


def complete(**changed: int) -> StsSets:
    suite = Suite.model_validate({"name": "s", "encoders": ("minilm",), "evaluate": tuple(FIELD_SETS)})
    sizes = {**FIELD_SETS, **changed}
    found = {
        name: record(job_of("minilm", name), (Score(name="spearman", value=0.5, n=sizes[name]),)) for name in FIELD_SETS
    }
    return StsSets(suite.evaluations, found)


def test_the_seven_sets_with_the_fields_pairs_are_comparable() -> None:
    assert complete().comparable and complete().notes() == [
        "Avg.: the mean of the field's seven sets.",
        SHARED_PAIRS_NOTE,
    ]
    assert complete().brief() == []
    hub = complete(sickr=9927)
    assert not hub.comparable and hub.differences == {"sickr": "9,927 pairs; the field's set has 4,927"}


def test_other_sets_beside_the_seven_are_named_and_other_sets_alone_are_not_marked() -> None:
    asked = {"name": "s", "encoders": ("minilm",), "evaluate": (*FIELD_SETS, {"stsb": {"split": "validation"}})}
    more = StsSets(Suite.model_validate(asked).evaluations, complete().records)
    assert not more.comparable and "it also has stsb[split=validation]" in more.notes()[0]
    mine = Suite.model_validate({"name": "s", "encoders": ("minilm",), "evaluate": ("mine", "yours")})
    assert StsSets(mine.evaluations, {}).has_no_field_set and StsSets(mine.evaluations, {}).notes() == []


def test_an_aggregation_goes_with_sts_alone(tmp_path: Path) -> None:
    make_run(tmp_path)
    with pytest.raises(SuiteError):
        api.table(tmp_path, metric="contrast", aggregation="mean")
    text = api.table(tmp_path, metric="sts", aggregation="wmean", intervals=True, names=True)
    assert "Aggregation wmean" in text
    stored = Suite.model_validate({"name": "s", "encoders": "x", "tables": [{"metric": "sts", "aggregation": "mean"}]})
    assert [table.label for table in stored.tables] == ["sts-mean"]
