"""Noise: rows against an independent count, numbers of texts, tables, claims, and mistakes in suites."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench import api
from rbench.config.code import find
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.classify import ClassifiedRows
from rbench.errors import SuiteError
from rbench.measures import VictimContext, _predicted
from rbench.measures._noise import NoiseRows, divide_sums, list_labels, list_spoken
from rbench.measures.noise import NoiseScores, Options
from rbench.noise import noised, normalise
from rbench.schema import MeasuredRow, Suite
from rbench.score.packed import pack_hits, unpack_hits
from rbench.store.runs import RunStore
from rbench.store.verify import verify
from tests import tiny
from tests.measures.builders import select_rows
from tests.measures.conftest import MEMBERS, said

check_task, run, unlike = NoiseScores().check_task, NoiseScores().run, NoiseScores().unlike

OPTIONS = Options(kinds=("typos", "upper"), degrees=(0.2, 0.1), draws=2, num_examples=20)


def opened(kind: str, name: str) -> Any:
    return find(kind, name).open()


@pytest.fixture
def given(victims: dict[Any, EncoderClassifier]) -> VictimContext:
    data = tiny.data(2, 2, 30)
    return VictimContext(
        task=data.spec,
        seed=0,
        victim=victims[MEMBERS[0]],
        set=None,
        rows=data.split,
        splits=("train", "validation", "test"),
        progress=lambda done, total, text: None,
        file=opened,
    )


def test_hits_are_those_of_texts_that_are_changed_one_by_one(given: VictimContext) -> None:
    made = run(OPTIONS, given)
    assert made.counts == {"n": 20, "texts_without_letters": 0, "texts_cut": 0}
    assert len(made.lines) == 1 + 2 * 2 * 2
    (none,) = select_rows(made.lines, kind="none")
    chosen = list(given.rows("test"))
    by_hits = unpack_hits(str(none.names["hits"]), 20)
    plain = [said(given.victim, one.texts[0]) == one.label for one in chosen]
    assert by_hits.sum() <= sum(plain)
    options = OPTIONS.model_copy(update={"num_examples": None})
    rows = run(options, given).lines
    for kind, degree, draw in (("typos", 0.1, 0), ("typos", 0.2, 1), ("upper", 0.2, 0)):
        (row,) = select_rows(rows, kind=kind, degree=f"{degree:g}", draw=str(draw))
        assert isinstance(row, MeasuredRow)
        seed = f"0/{draw}/{kind}/text"
        texts = [noised(opened("noise", kind), one.texts[0], degree, seed) for one in chosen]
        right = [said(given.victim, text.text) == one.label for text, one in zip(texts, chosen, strict=True)]
        assert unpack_hits(row.names["hits"], 30).tolist() == right
        tokens = sum(len(given.victim.tokenizer(text.text)["input_ids"]) for text in texts)
        assert row.numbers["tokens"] == tokens and row.numbers["changed"] == sum(text.changed for text in texts)
    for row in select_rows(rows, kind="upper"):
        assert row.numbers["undone"] == row.numbers["texts"] and row.numbers["tokens"] == row.numbers["plain"]


def test_all_victims_read_the_same_texts_whatever_their_seed(
    given: VictimContext, victims: dict[Any, EncoderClassifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[tuple[str, ...]]] = []

    def spy(context: VictimContext, texts: list[tuple[str, ...]]) -> Any:
        seen.append(list(texts))
        return _predicted.ask_victim(context, texts)

    monkeypatch.setattr("rbench.measures._answers.classification.ask_victim", spy)
    run(OPTIONS, given)
    run(OPTIONS, replace(given, victim=victims[MEMBERS[1]], seed=7))
    assert seen[0] == seen[1] and len(set(seen[0])) == len(seen[0])


def test_protected_columns_are_left_as_they_are(given: VictimContext, monkeypatch: pytest.MonkeyPatch) -> None:
    data, seen = tiny.data(2, 2, 6, pairs=True), list[tuple[str, ...]]()

    def spy(context: VictimContext, texts: list[tuple[str, ...]]) -> Any:
        seen.extend(texts)
        return _predicted.ask_victim(context, texts)

    monkeypatch.setattr("rbench.measures._answers.classification.ask_victim", spy)
    pairs = replace(given, task=data.spec, rows=data.split)
    run(Options(kinds=("drops",), degrees=(1.0,), protect=("premise",)), pairs)
    assert {premise for premise, _ in seen} == {"the film was a film"} and any(not other.strip() for _, other in seen)
    said = "protect names the column text; tiny has the columns premise, hypothesis"
    assert check_task(Options(protect=("text",)), data.spec) == said
    assert check_task(Options(protect=("premise",)), data.spec) is None


def test_a_defence_reads_normalised_texts_and_its_price_is_known(given: VictimContext) -> None:
    options = Options(kinds=("fullwidth",), degrees=(0.5,), num_examples=None, defence="normalise")
    rows = run(options, given).lines
    plain, after = (
        select_rows(rows, kind="fullwidth", defence=""),
        select_rows(rows, kind="fullwidth", defence="normalise"),
    )
    assert all(row.numbers["undone"] == 0 for row in plain)
    assert all(row.numbers["undone"] == row.numbers["texts"] == 30 for row in after)
    assert {row.names["hits"] for row in after} == {select_rows(rows, kind="none")[0].names["hits"]}
    assert normalise("ｆｉｌｍ") == "film"


def test_texts_without_letters_are_counted_and_left_as_they_are(given: VictimContext) -> None:
    rows = [one._replace(texts=("12 34 !",)) if i < 3 else one for i, one in enumerate(given.rows("test"))]
    options = Options(kinds=("typos", "homophones"), degrees=(1.0,), draws=1, num_examples=None)
    made = run(options, replace(given, rows=lambda split: rows))
    assert made.counts["texts_without_letters"] == 3
    (typos,) = select_rows(made.lines, kind="typos")
    assert typos.numbers["texts"] == 27


def row(kind: str, degree: str, draw: int, hits: list[int], defence: str = "") -> MeasuredRow:
    names = {"kind": kind, "degree": degree, "draw": str(draw), "defence": defence, "hits": pack_hits(hits)}  # type: ignore[arg-type]
    return MeasuredRow(names=names, numbers={"n": len(hits)})


ROWS = NoiseRows(
    (
        row("none", "0", 0, [1, 1, 1, 0]),
        row("typos", "0.1", 0, [1, 1, 0, 0]),
        row("typos", "0.1", 1, [1, 0, 0, 0]),
        row("typos", "0.4", 0, [1, 0, 0, 0]),
        row("typos", "0.4", 1, [0, 0, 0, 1]),
    )
)


@pytest.mark.parametrize(
    ("label", "name", "values"),
    [
        ("none", "noise", [1, 1, 1, 0]),
        ("typos@0.1", "noise", [1, 0.5, 0, 0]),
        ("typos@0.1", "noise_worst", [1, 0, 0, 0]),
        ("typos@0.4", "noise_worst", [0, 0, 0, 0]),
        ("typos@0.1", "noise_drop", [0, 0.5, 1, 0]),
        # of both degrees, without the texts as they are
        ("typos", "noise", [0.75, 0.25, 0, 0.25]),
        ("typos", "noise_worst", [0.5, 0, 0, 0]),
        ("typos", "noise_drop", [0.25, 0.75, 1, -0.25]),
    ],
)
def test_values_of_texts(label: str, name: str, values: list[float]) -> None:
    found = ROWS.values(label, name)
    assert found is not None and found.tolist() == pytest.approx(values)
    score = ROWS.score(label, name)
    assert score is not None and score.value == pytest.approx(np.mean(values)) and score.n == 4
    assert score.low is not None and score.high is not None and score.low <= (score.value or 0.0) <= score.high


def test_a_number_of_all_degrees_is_what_that_of_one_is_whatever_lies_between() -> None:
    """The share of texts with noise that are right, counted over all stored answers: 8 of 24 right; 2 of 4 where none
    has noise. The area under the curve has the point without noise and weights by the distance of degrees."""
    hits = {
        "0.1": [[1, 1, 0, 0], [1, 0, 0, 0]],
        "0.2": [[1, 0, 0, 1], [1, 0, 0, 0]],
        "0.8": [[1, 0, 0, 0], [0, 0, 1, 0]],
    }
    rows = [row("typos", degree, draw, own) for degree, draws in hits.items() for draw, own in enumerate(draws)]
    stored = NoiseRows((row("none", "0", 0, [1, 1, 0, 0]), *rows))
    every = np.array([own for draws in hits.values() for own in draws])
    score, lost = stored.score("typos", "noise"), stored.score("typos", "noise_drop")
    assert score is not None and score.value == pytest.approx(every.mean()) == pytest.approx(8 / 24)
    assert lost is not None and lost.value == pytest.approx(0.5 - 8 / 24)
    one = NoiseRows((row("none", "0", 0, [1, 1, 0, 0]), *rows[:2]))
    assert one.score("typos", "noise") == one.score("typos@0.1", "noise"), "of a single degree they are the same"


def test_labels_and_what_claims_call_them() -> None:
    options = {"kinds": ("typos",), "degrees": (0.1, 0.25), "defence": None}
    assert list_labels(options) == ["none", "typos", "typos@0.1", "typos@0.25"]
    assert list_labels(options | {"defence": "normalise"})[4:] == [f"{one}+normalise" for one in list_labels(options)]
    one, two = (Suite(name="s", encoders=("e",), tasks=tasks) for tasks in (("mr",), ("mr", "sst2")))
    assert list_spoken(options, "mr", one)[1] == "typos" and list_spoken(options, "mr", two)[1] == "mr/typos"
    assert ROWS.values("ocr", "noise") is None


LEET = '''
"""Digits."""
from rbench.noise import NoiseKind, matches
class Leet(NoiseKind):
    title, unit = "digits", "letters"
    places = matches("[aeio]")
    def put(self, found, rng):
        return "0"
'''
SUITE = """
name: s
encoders: [mini-bert-packaged, simcse-mini-packaged]
tasks: [mini-sentiment]
finetune: probe
seeds: [0, 1]
training: {max_train: 60, epochs: 1}
resources: mini
figures: [noise]
evaluate: [{noise: {kinds: [leet, upper], degrees: [0.1, 0.5], draws: 2, num_examples: 12, defence: normalise}},
  {test_accuracy: {max_rows: 20}}]
claims:
  - {id: lost, metric: noise_drop, lower: {task: upper}, than: {task: leet}, for_each: encoder}
  - {id: first, metric: noise, higher: simcse-mini-packaged, than: mini-bert-packaged, where: {task: leet@0.5}}
  - {id: same, metric: noise.leet@0.5, higher: simcse-mini-packaged, than: mini-bert-packaged}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DIR" / "noise").mkdir(parents=True)
    (tmp_path / "DIR" / "noise" / "leet.py").write_text(LEET, encoding="utf-8")
    (tmp_path / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return tmp_path


def test_a_suite_with_a_kind_of_ones_own(folder: Path) -> None:
    """Planned, estimated, run, verified, shown, drawn, claimed; and its jobs run again once the kind is edited."""
    options = api.Options(include=(folder / "DIR",), out=folder / "RUN")
    planned = api.plan("suite.yaml", options)
    measuring = [job for job in planned.jobs if job.what == "noise"]
    assert len(measuring) == 4 and all(job.measuring and job.measuring.source for job in measuring)
    assert {planned.estimates[job.key].examples for job in measuring} == {12 * (1 + 2 * 2 * 2) * 2}
    result = api.run("suite.yaml", options)
    assert not result.failed
    assert not verify(folder / "RUN").damaged
    store = RunStore(folder / "RUN")
    record = store.record(measuring[0])
    assert record is not None and [one.name for one in record.scores][:4] == ["none", "leet", "leet@0.1", "leet@0.5"]
    lines = list(store.rows(measuring[0]))
    assert not list(unlike(record, lines))
    other = lines[1].model_copy(update={"names": lines[1].names | {"hits": "f" * 3}})
    assert list(unlike(record, [lines[0], other, *lines[2:]]))
    areas = tuple(one.model_copy(update={"value": 0.5} if one.name == "leet" else {}) for one in record.scores)
    assert record.job.measuring is not None
    assert list(unlike(record.model_copy(update={"scores": areas}), lines))
    first = record.job.measuring.model_copy(update={"versions": {}})
    before = record.model_copy(update={"scores": areas, "job": record.job.model_copy(update={"spec": first})})
    assert not list(unlike(before, lines)), "records of VERSION 1 have areas under curves, which nothing reads"
    table = api.table(folder / "RUN", metric="noise", include=[folder / "DIR"])
    assert "Normalised, " in table and "Accuracy under noise" in table
    said = "mean over draws at each of the degrees 0.1, 0.5 of the share of the texts with noise that are right"
    assert said in " ".join(table.split())
    full = api.table(folder / "RUN", metric="noise", layout="full", include=[folder / "DIR"])
    assert "leet@0.5" in full and "Read as before" in full
    rows = csv.DictReader(io.StringIO(api.table(folder / "RUN", metric="noise", layout="full", fmt="csv")))
    ends = [float(row[end]) for row in rows for end in ("low", "high") if row[end]]
    assert {0.0, 1.0} <= {*ends} and all(0 <= end <= 1 for end in ends), "where Student's t goes beyond"
    assert (folder / "RUN" / "figures" / "noise.svg").exists() and "noise" in (folder / "RUN/report.html").read_text()
    said = api.claims(folder / "RUN", include=[folder / "DIR"])
    assert {one.claim.id for one in said} == {"lost", "first", "same"}
    (folder / "DIR" / "noise" / "leet.py").write_text(LEET + "\n# edited\n", encoding="utf-8")
    again = api.plan("suite.yaml", options)
    assert not {job.key for job in again.jobs if job.what == "noise"} & {job.key for job in measuring}


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("0.5]", "1.5]", "suite.yaml:10:58: `degrees[1]`"),
        ("kinds: [leet, upper]", "kinds: []", "`kinds`"),
        ("leet, upper", "upper, typo", "typos"),
        ("}}]", "}}, noise]", "noise"),
        ("draws: 2", "protect: [premise]", "premise"),
        ("metric: noise.leet@0.5", "metric: noise.leet@0.7", "leet@0.7"),
    ],
)
def test_mistakes_in_a_suite_are_refused_with_their_place(folder: Path, old: str, new: str, named: str) -> None:
    (folder / "suite.yaml").write_text(SUITE.replace(old, new), encoding="utf-8")
    with pytest.raises(SuiteError) as caught:
        api.plan("suite.yaml", api.Options(include=(folder / "DIR",), out=folder / "RUN"))
    assert named in str(caught.value)


class Counts:
    """A function as a victim: it says whether a text has more than 30 characters, and shows no tokens."""

    def classified(self, rows: list[tuple[str, ...]], progress: Any = None) -> ClassifiedRows:
        progress(len(rows))
        return ClassifiedRows(
            np.array([len(row[0]) > 30 for row in rows], dtype=np.int64), np.zeros(len(rows), bool), []
        )


def test_a_victim_that_shows_no_tokens_has_no_number_of_them(given: VictimContext) -> None:
    made = run(Options(kinds=("after",), degrees=(1.0,), num_examples=None), replace(given, victim=Counts()))
    after = select_rows(made.lines, kind="after")
    assert all(
        unpack_hits(row.names["hits"], 30).sum() == 15 for row in after
    )  # all texts are long now, and half of them are good
    assert {row.numbers["tokens"] for row in made.lines} == {0} and divide_sums(made.lines, "tokens", "plain") is None
    assert {row.numbers["undone"] for row in after} == {0}
