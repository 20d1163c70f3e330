"""Logs of attacks: TextAttack's CSV in its three styles, and the form of anybody's own."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rbench.api.results import write_textattack_csv
from rbench.config.attack_log import LoggedAttack, MarkedColumn, read_attack_log
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from tests.api.builders import MIXED_RESULT, make_outcome, make_result


def write(path: Path, *rows: dict[str, Any]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(original: str, perturbed: str, kind: str = "Successful", **more: Any) -> dict[str, Any]:
    numbers = {"original_score": 0.25, "perturbed_score": 0.75, "original_output": 1, "perturbed_output": 0}
    texts = {"original_text": original, "perturbed_text": perturbed}
    return {**texts, **numbers, "ground_truth_output": 1, "num_queries": 12, "result_type": kind, **more}


def test_a_line_of_textattack_has_its_texts_marks_and_numbers(tmp_path: Path) -> None:
    log = read_attack_log(
        write(tmp_path / "log.csv", row("a [[good]] film<SPLIT>in all", "a [[fine]] film<SPLIT>in all"))
    )
    (attack,) = log.attacks
    assert attack == LoggedAttack(
        where=f"{tmp_path / 'log.csv'}:2",
        original=(MarkedColumn("a good film\nin all", ((2, 6),)),),
        perturbed=(MarkedColumn("a fine film\nin all", ((2, 6),)),),
        label=1,
        status="succeeded",
        original_output=1,
        perturbed_output=0,
        original_score=0.25,
        perturbed_score=0.75,
        num_queries=12,
    )
    assert log.columns == ("text",) and log.marked


@pytest.mark.parametrize(
    ("original", "perturbed", "marks"),
    [
        (
            "[[[[Premise]]]]: a man<SPLIT>[[[[Hypothesis]]]]: a [[boy]]",
            "[[[[Premise]]]]: a man<SPLIT>[[[[Hypothesis]]]]: a [[lad]]",
            1,
        ),
        (
            "<font color = bold><font color = underline>Premise</font></font>: a man<SPLIT>"
            "<font color = bold><font color = underline>Hypothesis</font></font>: a <font color = red>boy</font>",
            "<font color = bold><font color = underline>Premise</font></font>: a man<SPLIT>"
            "<font color = bold><font color = underline>Hypothesis</font></font>: a <font color = green>lad</font>",
            1,
        ),
        ("Premise: a man<SPLIT>Hypothesis: a boy", "Premise: a man<SPLIT>Hypothesis: a lad", 0),
    ],
    ids=["file", "html", "plain"],
)
def test_pairs_in_all_styles(tmp_path: Path, original: str, perturbed: str, marks: int) -> None:
    log = read_attack_log(write(tmp_path / "log.csv", row(original, perturbed)))
    (attack,) = log.attacks
    assert log.columns == ("premise", "hypothesis")
    assert (attack.texts_before, attack.texts_after) == (("a man", "a boy"), ("a man", "a lad"))
    assert [len(column.marks) for column in attack.original] == [0, marks]


def test_what_rbench_writes_is_read_back(tmp_path: Path) -> None:
    log = read_attack_log(write_textattack_csv(MIXED_RESULT, tmp_path / "log.csv"))
    assert [attack.status for attack in log.attacks] == ["succeeded", "failed", "skipped", "errored"]
    assert [attack.texts_before for attack in log.attacks] == [one.original for one in MIXED_RESULT.outcomes]
    assert log.attacks[0].texts_after == MIXED_RESULT.outcomes[0].perturbed and log.attacks[3].texts_after is None


def test_words_in_brackets_of_a_pair_are_no_names_of_columns(tmp_path: Path) -> None:
    task = TaskSpec(name="t", kind="pair", columns=("premise", "hypothesis"), labels=("negative", "positive"))
    made = make_result(make_outcome(0, "succeeded", original=("a b", "c d"), perturbed=("a b", "c e")), task=task)
    (attack,) = read_attack_log(write_textattack_csv(made, tmp_path / "log.csv")).attacks
    assert (attack.texts_before, attack.texts_after) == (("a b", "c d"), ("a b", "c e"))


def test_the_other_form_is_read_and_lines_without_a_status_are_successes(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {"original": {"premise": "a", "hypothesis": "b"}, "perturbed": ["a", "c"], "label": "no", "words_changed": 1},
        {"original": ["a", "b"], "perturbed": ["a", "d"], "label": 1.0, "status": "Failed"},
    ]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    log = read_attack_log(path)
    assert log.columns == ("premise", "hypothesis") and len(log.notes) == 1 and not log.marked
    assert [(one.status, one.label, one.words_changed) for one in log.attacks] == [
        ("succeeded", "no", 1),
        ("failed", 1, None),
    ]


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([row("a", "b", "Fooled")], "log.csv:2"),
        ([row("a", "b"), row("a", "b", original_score="high")], "log.csv:3"),
        ([{"text": "a", "label": 1}], "original, perturbed"),
    ],
    ids=["status", "number", "columns"],
)
def test_what_is_no_log_is_refused_with_its_place(tmp_path: Path, rows: list[dict[str, Any]], place: str) -> None:
    with pytest.raises(ResourceError) as caught:
        read_attack_log(write(tmp_path / "log.csv", *rows))
    assert place in str(caught.value)


def test_a_row_may_lack_what_others_have(tmp_path: Path) -> None:
    whole = {"original": "a good film", "perturbed": "a fine film", "label": 1}
    skipped = {"original": "a bad film", "label": 1, "status": "skipped"}
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, (whole, skipped))))
    first, second = read_attack_log(path).attacks
    assert (first.status, second.status, second.perturbed) == ("succeeded", "skipped", None)
    path.write_text("\n".join(map(json.dumps, (whole, {"perturbed": "x", "label": 1}))))
    with pytest.raises(ResourceError) as refused:
        read_attack_log(path)
    assert f"{path}:2" in str(refused.value)
