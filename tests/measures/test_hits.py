"""Tests the measure `hits`: its rows on a tiny network, its table, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rbench.measures import EncoderContext, MeasuredRow, hits
from rbench.measures._layers import SynonymTriplet
from rbench.measures._layers import find_hits as counted
from rbench.measures.hits import Options
from rbench.schema import Choice, EncoderSpec, Job, MeasureJob, TaskSpec
from rbench.score import wilson
from rbench.score.packed import pack_hits, unpack_hits
from rbench.tables.table import Number
from rbench.words.resources.thesaurus import RelatedWords
from tests import tiny
from tests.measures.conftest import results

SPEC = tiny.data(2, 2, 2).spec


def context(folder: Path, known: bool = True) -> EncoderContext:
    """A tiny encoder, and a thesaurus in which `good` is `fine` and the opposite of `bad`."""
    related = RelatedWords(synonyms=("fine",), antonyms=("bad",))
    resources: Any = SimpleNamespace(
        pos_tags=lambda words: [(word, "ADJ") for word in words],
        thesaurus=lambda word, tag: related if known and word == "good" else RelatedWords(),
    )
    data = tiny.data(40, 10, 10)
    return EncoderContext(
        SPEC, data.split, tuple(data.sizes), lambda *at: None, "one", tiny.encoder(tiny.write_bert(folder)), resources
    )


def test_rows_hold_the_hits_of_each_part_and_layer(tmp_path: Path) -> None:
    of = context(tmp_path)
    rows = hits.SynonymHits().run(Options(task="tiny"), of)
    texts = [one for split in ("train", "validation", "test") for one in of.rows(split) if "good" in one.texts[0]]
    made = [
        SynonymTriplet(one.id, one.texts[0], one.texts[0].replace("good", "fine"), one.texts[0].replace("good", "bad"))
        for one in texts
    ]
    own = counted(of.encoder, made, lambda *at: None)
    found = {(row.names["part"], int(row.names["layer"])): row for row in rows}
    assert {*found} == {*own} and len(made) > 5
    for key, expected in own.items():
        assert unpack_hits(found[key].names["hits"], len(made)).tolist() == expected.tolist()
        assert found[key].numbers == {"n": len(made), "hits": expected.sum()}
    few = hits.SynonymHits().run(Options(task="tiny", max_triplets=3), of)
    assert {row.numbers["n"] for row in few} == {3}


def test_pairs_are_refused() -> None:
    pairs = TaskSpec(name="snli", kind="nli", columns=("premise", "hypothesis"), labels=("a", "b"))
    with pytest.raises(ValueError):
        hits.SynonymHits().splits(Options(), pairs)


def stored(encoder: str, counts: dict[str, list[int]]) -> tuple[Job, list[MeasuredRow]]:
    spec = MeasureJob(
        what=Choice(name="hits", options=Options().model_dump(mode="json")),
        task=SPEC,
        of="encoders",
        data_fingerprint="d",
        encoder=EncoderSpec(name=encoder, base="b"),
        encoder_fingerprint="f",
    )
    rows = [
        MeasuredRow(
            names={"part": part, "layer": str(layer), "hits": pack_hits(np.arange(50) < n)},
            numbers={"n": 50, "hits": n},
        )
        for part, own in counts.items()
        for layer, n in enumerate(own, start=1)
    ]
    return Job.make(spec, (encoder, "hits", "tiny"), {}, 0), rows


def test_the_table_shows_the_best_layer_and_the_first_among_equals() -> None:
    jobs = [
        stored("one", {"cls": [20, 30, 30], "mean": [25, 20, 10], "bertscore": [5, 6, 7]}),
        stored("two", {"mean": [40], "bertscore": [1]}),
    ]
    made = hits.SynonymHits().table(
        Options(), results(jobs, tasks=(), evaluate=(Choice(name="hits"),), measured=("hits",))
    )
    assert made.header == ("Task", "Encoder", "n", "CLS", "layer", "MEAN", "layer", "BS", "layer")
    one, two = made.rows
    assert [one[i] for i in (2, 4, 6, 8)] == [50, "2", "1", "3"]
    cls, mean = one[3], two[5]
    assert isinstance(cls, Number) and (cls.value, cls.low, cls.high) == (0.6, *(wilson(30, 50) or ()))
    assert isinstance(mean, Number) and mean.best and mean.value == 0.8
    assert isinstance(two[3], Number) and two[3].value is None, "word vectors have no first token"
    told = [(cell["part"], cell["layer"], cell["value"]) for cell in made.cells[:2]]
    assert told == [("cls", "2", 0.6), ("mean", "1", 0.5)]


def test_of_layers_with_as_many_hits_the_lowest_is_the_best() -> None:
    counts = {"3": 7, "2": 9, "12": 9, "1": 8}
    rows = [
        MeasuredRow(names={"part": "cls", "layer": layer, "hits": ""}, numbers={"n": 10, "hits": n})
        for layer, n in counts.items()
    ]
    for ordered in (rows, rows[::-1]):
        one: Any = SimpleNamespace(rows=ordered)
        found = hits.best_layer("cls", one)
        assert found is not None and found.names["layer"] == "2" and hits.best_layer("mean", one) is None
