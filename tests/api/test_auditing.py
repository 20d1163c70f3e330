"""`rbench audit`: a log, a victim, a page and an exit code."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rbench
from rbench.cli import app
from rbench.errors import PlanError, ResourceError
from tests.victims.made import write_classifier

GOOD = {"good", "fine", "great"}
RULE = """
GOOD = {"good", "fine", "great"}


def predict(texts):
    return [[0.1, 0.9] if GOOD & set(text.split()) else [0.8, 0.2] for text in texts]
"""
LABELS = ("negative", "positive")


def predict(texts: list[str]) -> list[list[float]]:
    return [[0.1, 0.9] if GOOD & {*text.split()} else [0.8, 0.2] for text in texts]


def rows() -> list[dict[str, Any]]:
    """An honest log of a victim that knows three words."""
    made = []
    for i in range(24):
        label = i % 2
        before, after, kind = f"film {i} is [[dull]]", f"film {i} is [[great]]", "Successful"
        if label == 1:
            before, after = f"film {i} is [[good]]", f"film {i} is [[decent]]"
        if i % 6 == 5:  # the victim knows no `superb`
            before = after = f"film {i} is superb"
            kind = "Skipped"
        if i % 8 == 2:
            after, kind = f"film {i} is [[poor]]", "Failed"
        texts = [text.replace("[[", "").replace("]]", "") for text in (before, after)]
        answers = np.array(predict(texts))
        made.append(
            {
                "original_text": before,
                "perturbed_text": after,
                **dict(zip(("original_score", "perturbed_score"), 1 - answers[:, label], strict=True)),
                **dict(zip(("original_output", "perturbed_output"), answers.argmax(axis=1), strict=True)),
                "ground_truth_output": label,
                "num_queries": 5,
                "result_type": kind,
            }
        )
    return made


def write(path: Path, log: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(log[0]))
        writer.writeheader()
        writer.writerows(log)
    return path


def test_an_honest_log_passes_and_has_the_same_rate(tmp_path: Path) -> None:
    report = rbench.audit_log(write(tmp_path / "log.csv", rows()), predict, label_names=LABELS, progress=False)
    assert report.faults == () and report.lines == 24
    assert report.logged_rate.value == report.replayed_rate.value == 17 / 20
    assert len(report.notes) == 1, "each text was asked twice"


def test_a_function_is_asked_for_each_text_twice(tmp_path: Path) -> None:
    asked: list[str] = []

    def counting(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return predict(texts)

    rbench.audit_log(write(tmp_path / "log.csv", rows()), counting, label_names=LABELS, progress=False)
    assert {asked.count(text) for text in asked if text.startswith("film 3 ")} == {2}


def test_a_victim_whose_answers_vary_is_not_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)

    def varying(texts: list[str]) -> Any:
        shares = np.array(predict(texts))[:, 1]
        odds = np.log(shares / (1 - shares)) + random.normal(0, 0.2, len(texts))
        return np.stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], axis=1)

    log = write(tmp_path / "log.csv", rows())
    assert rbench.audit_log(log, varying, label_names=LABELS, progress=False).faults == ()


def test_the_verb_prints_a_page_and_ends_with_3_where_there_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("audited_rule.py").write_text(RULE)
    log = rows()
    write(Path("honest.csv"), log)
    log[2]["result_type"] = "Successful"
    write(Path("log.csv"), log)
    words = ["--victim", "audited_rule:predict", "--labels", "negative,positive", "--quiet"]
    honest = CliRunner().invoke(app, ["audit", "honest.csv", *words])
    assert honest.exit_code == 0, honest.output
    faulty = CliRunner().invoke(app, ["audit", "log.csv", *words, "--out", "page.md"])
    assert faulty.exit_code == 3
    assert Path("page.md").read_text().strip() == faulty.stdout.strip() and "log.csv:4" in faulty.stdout
    as_json = CliRunner().invoke(app, ["audit", "log.csv", "-m", *words[1:], "--format", "json", "--stated-rate", "85"])
    found = {check["name"]: check["verdict"] for check in json.loads(as_json.stdout)["checks"]}
    assert {name for name, verdict in found.items() if verdict == "fault"} == {
        "successes",
        "own outputs",
        "stated rate",
    }


def test_a_model_in_a_folder_is_replayed_with_its_own_labels(tmp_path: Path) -> None:
    """Lines with its labels by name, made of its own answers."""
    folder = write_classifier(tmp_path / "model")
    texts = ["the film was good", "the film was bad", "a fine story", "a dull plot", "good", "bad"]
    wrapper = rbench.textattack_wrapper(str(folder))
    answers = ["POSITIVE" if logits[0] > logits[1] else "NEGATIVE" for logits in wrapper(texts)]
    lines = [
        {
            "original": one,
            "perturbed": other,
            "label": label,
            "status": "succeeded" if label != next_label else "failed",
        }
        for one, other, label, next_label in zip(
            texts, [*texts[1:], texts[0]], answers, [*answers[1:], answers[0]], strict=True
        )
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    report = rbench.audit_log(log, str(folder), progress=False)
    assert len({*answers}) == 2 and report.faults == ()
    lines[0]["status"] = "failed" if lines[0]["status"] == "succeeded" else "succeeded"
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    (fault,) = rbench.audit_log(log, str(folder), progress=False).faults
    assert [one.where for one in fault.lines] == [f"{log}:1"]


def test_further_attacks_say_what_one_word_and_an_ensemble_find(tmp_path: Path) -> None:
    texts = ["the film was good", "the film was great", "the story was fine"]
    log = tmp_path / "log.jsonl"
    lines = [{"original": text, "perturbed": text, "label": 1, "status": "failed"} for text in texts]
    log.write_text("".join(json.dumps(one) + "\n" for one in lines))
    notes: list[str] = []

    class Noting:
        """A receiver of progress that keeps its notes."""

        def start(self, name: str, index: int, count: int) -> None: ...
        def update(self, done: int, total: int, text: str = "") -> None: ...
        def finish(self, status: str) -> None: ...

        def note(self, text: str) -> None:
            notes.append(text)

    report = rbench.audit_log(log, predict, label_names=LABELS, search=True, resources="mini", progress=Noting())
    search = report.check("search")
    assert search.verdict == "ok", "three texts show nothing, whatever a search finds"
    assert len(notes) == 1 and "3 originals" in notes[0]


def test_what_cannot_be_audited_is_refused(tmp_path: Path) -> None:
    unlabelled = [{**row, "ground_truth_output": ""} for row in rows()]
    with pytest.raises(ResourceError) as caught:
        rbench.audit_log(write(tmp_path / "log.csv", unlabelled), predict, progress=False)
    assert "log.csv:2" in str(caught.value)
    with pytest.raises(PlanError):
        rbench.audit_log(write(tmp_path / "log.csv", rows()), predict, limit=3)
