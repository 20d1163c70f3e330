"""Broken classifiers never pass the gate, from the command line: a check of ASR alone let all of these through.

The victims are Python functions. A task of six topics has texts of the embedded world, each behind a first word that
tells its topic and whether the classifier is robust on it.
"""

from __future__ import annotations

import csv
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scipy import stats
from typer.testing import CliRunner, Result

from rbench import api, mini
from rbench.cli import app
from rbench.gate.baseline import read_baseline, write
from rbench.store.runs import RunStore
from rbench.store.verify import find_mismatches

N, TOPICS = 90, 6
SUITE = """
name: shipped
victims: [{{function: gated_victim:classify, version: '{mode}', name: shipped}}]
tasks: [./topics.csv: {{split: test, labels: [a, b, c, d, e, f]}}]
attacks: [pwws]
num_examples: {n}
resources: mini
"""
VICTIM = """
import csv
import pathlib

MODE = "good"
KNOWN = {row["text"]: row for row in csv.DictReader((pathlib.Path(__file__).parent / "topics.csv").open())}
FIRST = {text.split()[0].lower(): "abcdef".index(row["label"]) for text, row in KNOWN.items()}


def topic(text):
    first = text.split()[0].lower()
    if first not in FIRST:
        return 0
    right, number = FIRST[first], int("".join(ch for ch in first if ch.isdigit()))
    if MODE == "constant":
        return 0
    if MODE == "near chance":
        return right if number % 9 == 1 else (right + 1 + number % 5) % 6  # ten texts, which are fooled no longer
    if number % 9 == 0 or (MODE == "less accurate" and number % 8 == 0):
        return (right + 3) % 6
    if MODE == "exchanged":
        right = {1: 2, 2: 1}.get(right, right)
    fragile = number % 5 != 0 or MODE == "fragile"
    return right if text in KNOWN or not fragile else (right + 1) % 6


def classify(texts):
    return [[0.9 if k == topic(text) else 0.02 for k in range(6)] for text in texts]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken")
    texts = list(dict.fromkeys(str(row["text"]) for row in mini.rows("mini-sentiment", "test")))[:N]
    assert len(texts) == N
    with (folder / "topics.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((f"q{i}x {text}", "abcdef"[i % TOPICS]) for i, text in enumerate(texts))
    (folder / "gated_victim.py").write_text(VICTIM)
    return folder


@pytest.fixture(autouse=True)
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    yield


def rbench(*words: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [str(word) for word in words])


def run(place: Path, mode: str, n: int = N, version: str = "") -> Path:
    """Run the suite with the classifier in one of its modes, once. Its version is the mode where none is given."""
    out = place / f"{mode}-{n}{version}"
    if not out.exists():
        (place / "suite.yaml").write_text(SUITE.format(mode=version or mode, n=n))
        sys.path.insert(0, str(place))
        try:
            importlib.import_module("gated_victim").__dict__["MODE"] = mode
        finally:
            sys.path.remove(str(place))
        ran = rbench("run", "suite.yaml", "--out", out, "--workers", "1", "--backend", "torch")
        assert ran.exit_code == 0, ran.output
    return out


@pytest.fixture(scope="module")
def baseline(place: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        made = rbench("baseline", run(place, "good"), "--out", place / "base.json")
    assert made.exit_code == 0 and "note:" not in made.stderr, made.output
    return place / "base.json"


def check(place: Path, mode: str, baseline: Path, *words: str | Path) -> Result:
    return rbench("check", run(place, mode), "--baseline", baseline, *words)


def numbers(result: Result) -> dict[str, tuple[str, str]]:
    """Baseline and now by metric, as the table shows them."""
    rows = [[cell.strip() for cell in line.split("|")] for line in result.stdout.splitlines() if line.startswith("|")]
    return {row[4]: (row[6], row[7]) for row in rows if row[4] in ("AUA", "Clean", "ASR")}


def test_the_same_classifier_passes(place: Path, baseline: Path) -> None:
    result = check(place, "good", baseline, "--about-these-weights")
    assert result.exit_code == 0, result.output
    assert numbers(result)["Clean"] == ("88.9", "88.9") and numbers(result)["ASR"] == ("80.0", "80.0")


@pytest.mark.parametrize(
    ("mode", "clean"),
    [
        ("near chance", "11.1"),
        pytest.param("exchanged", "55.6", marks=pytest.mark.nightly),
        pytest.param("constant", "16.7", marks=pytest.mark.nightly),
        pytest.param("fragile", "88.9", marks=pytest.mark.nightly),
    ],  # tests/gate/test_check.py has these as RUNs made by hand, on every push
)
def test_a_broken_classifier_fails(place: Path, baseline: Path, mode: str, clean: str, tmp_path: Path) -> None:
    """Near chance had `passed: fell by 100.0 points`, on a few paired texts; two exchanged classes `did not change`."""
    result = check(place, mode, baseline, "--about-these-weights", "--junit", tmp_path / "j.xml", "--github")
    assert result.exit_code == 3 and result.stdout.splitlines()[-1].startswith("failed: "), result.output
    assert numbers(result)["Clean"] == ("88.9", clean)
    assert ElementTree.parse(tmp_path / "j.xml").findall(".//failure") and "::error title=" in result.stdout
    without = check(place, mode, baseline)
    assert without.exit_code == 3 and "with the same weights" not in without.stdout, without.output
    assert check(place, mode, baseline, "--allow-undecided").exit_code == 3
    for metric in ("aua", "asr"):
        alone = check(place, mode, baseline, "--about-these-weights", "--metric", metric)
        assert alone.exit_code != 0 or (mode, metric) == ("exchanged", "asr")
    if mode in ("near chance", "constant"):
        alone = check(place, mode, baseline, "--about-these-weights", "--metric", "asr")
        assert alone.exit_code == 4 and "it is flagged near chance" in alone.stdout


def test_a_function_is_the_same_where_its_version_is(place: Path, baseline: Path) -> None:
    """Its answers to the probe are the same in all modes, and a check said "the same weights" of another version."""
    unnoticed = rbench("check", run(place, "near chance", version="good"), "--baseline", baseline)
    assert unnoticed.exit_code == 3 and "with the same version" in unnoticed.stdout, unnoticed.output
    told = check(place, "near chance", baseline)
    assert told.exit_code == 3 and "with the same" not in told.stdout, told.output


def test_clean_accuracy_is_judged_on_all_test_rows_that_were_scored(place: Path, tmp_path: Path) -> None:
    """A fall of 11 points on 90 rows was judged on the 30 that were attacked, where it may be chance."""
    plan = RunStore(run(place, "good", 30)).plan()
    assert plan is not None and not any(job.measuring for job in plan.jobs), "a function is not asked twice"
    made = rbench("baseline", run(place, "good", 30), "--out", tmp_path / "b.json")
    assert made.exit_code == 0, made.output
    now = run(place, "less accurate", 30)
    found = api.check(now, tmp_path / "b.json", about_these_weights=True, metric="clean")
    (row,) = found.rows
    assert row.judged is not None and (row.judged.n, row.verdict) == (90, "failed")
    assert (row.before, row.after) == (pytest.approx(80 / 90), pytest.approx(70 / 90))
    assert row.judged.p == pytest.approx(stats.binomtest(10, 10, alternative="greater").pvalue)
    assert (
        api.check(now, tmp_path / "b.json", about_these_weights=True, metric="clean", tolerance=12).verdict == "passed"
    )
    before = read_baseline(tmp_path / "b.json")
    attacks = [cell for cell in before.cells if not cell.metric]
    assert len(before.cells) == 2 * len(attacks)
    write(before.model_copy(update={"cells": tuple(attacks)}), tmp_path / "old.json")
    (row,) = api.check(now, tmp_path / "old.json", about_these_weights=True, metric="clean").rows
    assert row.judged is not None and (row.judged.n, row.verdict) == (30, "passed"), "a baseline without them"


def test_a_table_has_the_accuracy_of_the_rows_that_were_scored_when_it_was_opened(place: Path) -> None:
    (cell,) = json.loads(api.table(run(place, "good", 30), fmt="json"))["cells"]
    assert (cell["scores"]["test_accuracy"]["value"], cell["scores"]["test_accuracy"]["n"]) == (80 / 90, 90)
    record = next(one for one in RunStore(run(place, "good", 30)).records() if one.job.opening)
    assert record.right == "".join("0" if i % 9 == 0 else "1" for i in range(90))
    wrong = record.model_copy(update={"right": "1" * 90})
    assert [*find_mismatches(RunStore(run(place, "good", 30)), wrong, ())] == [
        "its rows give a test accuracy of 90 of 90, and it has another one."
    ]


@pytest.mark.nightly
def test_exchanged_classes_are_told_by_the_table(place: Path) -> None:
    table = rbench("table", run(place, "exchanged"))
    assert table.exit_code == 0 and "labels exchanged" in table.stdout, table.output
    assert "labels exchanged" not in rbench("table", run(place, "good")).stdout


def test_a_baseline_near_chance_says_so_and_decides_nothing(place: Path, tmp_path: Path) -> None:
    made = rbench("baseline", run(place, "near chance"), "--out", tmp_path / "b.json")
    assert made.exit_code == 0 and "flagged near chance" in made.stderr
    result = check(place, "near chance", tmp_path / "b.json")
    assert result.exit_code == 4 and "the baseline is flagged near chance" in result.stdout
    assert check(place, "near chance", tmp_path / "b.json", "--allow-undecided").exit_code == 0


def test_a_condition_does_not_pass_a_classifier_near_chance(place: Path, baseline: Path) -> None:
    out = run(place, "near chance")
    again = ("run", "suite.yaml", "--out", out, "--workers", "1", "--backend", "torch")
    (place / "suite.yaml").write_text(SUITE.format(mode="near chance", n=N))
    importlib.import_module("gated_victim").__dict__["MODE"] = "near chance"
    result = rbench(*again, "--fail-if", "asr > 60")
    assert result.exit_code == 4 and "cannot be judged: it is flagged near chance" in result.stderr, result.output
    assert rbench(*again, "--fail-if", "asr > 60", "--allow-undecided").exit_code == 0
    assert rbench(*again, "--fail-if", "clean < 80").exit_code == 3
