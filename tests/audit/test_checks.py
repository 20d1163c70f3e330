"""The checks of a log, each on an honest log and on one with its fault. The victim is a table of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbench.audit.checks import AuditCheck, all_checks, check_search
from rbench.audit.replay import Replay, margins
from rbench.audit.report import make_report
from rbench.config.attack_log import AttackLog, LoggedAttack, LoggedStatus, MarkedColumn
from rbench.score.statistics import wilson

NAMES = ("negative", "positive")
N = 40
"""Lines of the honest log: the first half successes, then failures and skipped ones in turn."""


def marked(text: str) -> MarkedColumn:
    """Read `a [[good]] film`."""
    start, end = text.find("[["), text.find("]]") - 2
    plain = text.replace("[[", "").replace("]]", "")
    return MarkedColumn(plain, ((start, end),) if start >= 0 else ())


def line(i: int, status: LoggedStatus, label: int) -> LoggedAttack:
    before, after = f"film {i} is [[good]] here", f"film {i} is [[fine]] here"
    right_before, right_after = status != "skipped", status == "failed"
    if status == "skipped":
        before = after = f"film {i} is good here"
    scores = (0.1 if right else 0.9 for right in (right_before, right_after))
    outputs = (label if right else 1 - label for right in (right_before, right_after))
    return LoggedAttack(f"log.csv:{i + 2}", (marked(before),), (marked(after),), label, status, *outputs, *scores, 10)


def honest() -> list[LoggedAttack]:
    statuses: list[LoggedStatus] = ["succeeded"] * (N // 2) + ["failed", "skipped"] * (N // 8)
    statuses += ["failed"] * (N - len(statuses))
    return [line(i, status, i % 2) for i, status in enumerate(statuses)]


ANSWERS = {
    text: np.array([[1 - p, p]])
    for one in honest()
    for text, score in ((one.texts_before, one.original_score), (one.texts_after, one.perturbed_score))
    if text is not None and score is not None
    for p in [1 - score if one.label == 1 else score]
}
"""What the victim says of each text of the honest log, as the log's scores have it."""


def replayed(lines: Sequence[LoggedAttack], columns: tuple[str, ...] = ("text",), **more: np.ndarray) -> Replay:
    labels = [int(one.label or 0) for one in lines]
    answers = ANSWERS | {(text,): answer for text, answer in more.items()}
    return Replay.of(AttackLog(Path("log.csv"), columns, tuple(lines)), NAMES, labels, answers)


def checked(lines: Sequence[LoggedAttack], rate: float | None = None, **more: np.ndarray) -> dict[str, AuditCheck]:
    return {check.name: check for check in all_checks(replayed(lines, **more), rate)}


def faults(lines: Sequence[LoggedAttack], rate: float | None = None) -> dict[str, list[str]]:
    found = checked(lines, rate).values()
    return {check.name: [one.where for one in check.lines] for check in found if check.verdict == "fault"}


def test_an_honest_log_has_no_fault_and_says_what_it_cannot_tell() -> None:
    verdicts = {name: check.verdict for name, check in checked(honest()).items()}
    assert {name for name, verdict in verdicts.items() if verdict == "not checkable"} == {
        "stated rate",
        "premises",
        "search",
    }
    assert "fault" not in verdicts.values() and len(verdicts) == 13


def with_line(i: int, **changes: object) -> list[LoggedAttack]:
    lines = honest()
    lines[i] = replace(lines[i], **changes)  # type: ignore[arg-type]
    return lines


SUCCESS, FAILURE, SKIPPED = 0, N - 1, N // 2 + 1


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (with_line(FAILURE, status="succeeded", perturbed_output=0), {"successes": [FAILURE]}),
        (with_line(SUCCESS, status="failed", perturbed_output=0), {"failures": [SUCCESS]}),
        (with_line(SKIPPED, status="succeeded", original_output=1), {"skipped": [SKIPPED], "empty changes": [SKIPPED]}),
        (with_line(FAILURE, status="skipped", original_output=0), {"skipped": [FAILURE]}),
        (with_line(SUCCESS, perturbed_output=0), {"own outputs": [SUCCESS]}),
        (with_line(SUCCESS, original_score=0.3), {"scores": [SUCCESS]}),
        ([*honest(), replace(honest()[SUCCESS], where="log.csv:99")], {"duplicates": [97]}),
        (with_line(SUCCESS, perturbed=(marked("film  0 is [[GOOD]] here"),)), {"empty changes": [SUCCESS]}),
        (with_line(SUCCESS, original=(marked("film 0 is good here"),)), {"words changed": [SUCCESS]}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_each_fault_is_found_with_its_line(lines: list[LoggedAttack], expected: dict[str, list[int]]) -> None:
    assert faults(lines) == {name: [f"log.csv:{i + 2}" for i in places] for name, places in expected.items()}


def test_words_that_changed_beside_the_marks_are_found() -> None:
    lines = with_line(SUCCESS, perturbed=(marked("film 0 was [[fine]] there"),))
    found = checked(lines, **{"film 0 was fine there": ANSWERS[honest()[SUCCESS].texts_after or ()]})
    assert {name for name, check in found.items() if check.verdict == "fault"} == {"words changed"}
    split = with_line(
        SUCCESS, original=(marked("film 0 is [[good here]]"),), perturbed=(marked("film 0 is [[g ood here]]"),)
    )
    assert checked(split)["words changed"].verdict == "ok", "more marks than changed words, as TextAttack sets them"


def test_a_word_that_was_added_is_marked_in_the_perturbed_text_alone() -> None:
    lines = with_line(
        SUCCESS, original=(marked("film 0 is good here"),), perturbed=(marked("film 0 is [[not]] good here"),)
    )
    assert checked(lines)["words changed"].verdict == "ok"


@pytest.mark.parametrize(("stated", "verdict"), [(0, "fault"), (1, "ok"), (2, "ok")])
def test_a_stated_number_of_words_is_no_less_than_ours(stated: float, verdict: str) -> None:
    plain = (MarkedColumn("film 0 is good here"),), (MarkedColumn("film 0 is fine here"),)
    line_alone = replace(honest()[0], original=plain[0], perturbed=plain[1], words_changed=stated)
    assert checked([line_alone])["words changed"].verdict == verdict


def test_exchanged_labels_are_told_and_the_other_checks_read_through_them() -> None:
    lines = [replace(one, label=1 - int(one.label or 0)) for one in honest()]
    outputs = [
        replace(one, original_output=1 - (one.original_output or 0), perturbed_output=1 - (one.perturbed_output or 0))
        for one in lines
    ]
    assert faults(outputs) == {"labels": []}
    exchange = replayed(outputs).exchange
    assert exchange is not None and exchange.meanings == (1, 0)
    assert (exchange.right, exchange.right_exchanged) == (0, 1)


def test_labels_that_were_exchanged_during_the_attack_are_told_by_the_skipped_texts() -> None:
    """The victim's right answers counted as wrong, so that they were skipped. The log holds as it stands."""
    skipped = [
        replace(
            one,
            label=1 - int(one.label or 0),
            status="skipped",
            original_score=0.9,
            perturbed=one.original,
            perturbed_score=0.9,
            perturbed_output=one.original_output,
        )
        for one in honest()[: N - 2]
        if one.status != "skipped"
    ]
    lines = [*skipped, *honest()[-2:]]
    assert faults(lines).keys() == {"labels", "near chance"} and replayed(lines).exchange is None


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(57.1, "ok"), (57, "ok"), (50.0, "fault"), (62.5, "fault"), (59.1, "fault")],
    ids=["exact", "rounded", "over all texts", "skipped are successes", "too high"],
)
def test_a_stated_rate_is_of_attacked_texts(rate: float, verdict: str) -> None:
    assert checked(honest(), rate)["stated rate"].verdict == verdict


def test_a_premise_must_stay() -> None:
    def pair(premise: str) -> LoggedAttack:
        return replace(
            honest()[0],
            original=(MarkedColumn("a man"), MarkedColumn("a boy")),
            perturbed=(MarkedColumn(premise), MarkedColumn("a lad")),
        )

    for premise, verdict in (("a man", "ok"), ("a person", "fault")):
        found = all_checks(replayed([pair(premise)], ("premise", "hypothesis")))
        assert next(check for check in found if check.name == "premises").verdict == verdict


def test_a_pair_that_lost_a_column_is_a_fault_and_not_an_error() -> None:
    pair = (MarkedColumn("a man"), MarkedColumn("a boy", ((2, 5),)))
    cut = replace(honest()[0], original=pair, perturbed=(MarkedColumn("a m"),))
    found = {check.name: check for check in all_checks(replayed([cut], ("premise", "hypothesis")))}
    assert [one.where for one in found["words changed"].lines] == [cut.where]


def test_a_victim_that_always_says_the_same_is_near_chance() -> None:
    constant = {text: np.array([[0.4, 0.6]]) for text in ANSWERS}
    lines = honest()
    labels = [int(one.label or 0) for one in lines]
    replay = Replay.of(AttackLog(Path("log.csv"), ("text",), tuple(lines)), NAMES, labels, constant)
    found = {check.name: check for check in all_checks(replay)}
    assert found["near chance"].verdict == "fault"
    assert checked([one for one in honest() if one.status != "skipped"])["near chance"].verdict == "not checkable"


def test_where_answers_vary_only_those_far_from_a_tie_decide() -> None:
    """A text whose label changes between two questions is undecided, and a wrong line far from a tie is found."""
    random = np.random.default_rng(0)
    noisy = {}
    for text, answer in ANSWERS.items():
        odds = np.log(answer[0, 1] / answer[0, 0]) + random.normal(0, 0.1, 2)
        noisy[text] = np.stack([1 / (1 + np.exp(odds)), 1 / (1 + np.exp(-odds))], axis=1)
    lines = with_line(FAILURE, status="succeeded", perturbed_output=0)
    lines[1] = replace(lines[1], perturbed_score=0.5)
    near_tie = lines[1].texts_after or ()
    noisy[near_tie] = np.array([[0.52, 0.48], [0.47, 0.53]])
    labels = [int(one.label or 0) for one in lines]
    replay = Replay.of(AttackLog(Path("log.csv"), ("text",), tuple(lines)), NAMES, labels, noisy)
    assert 0.3 < replay.slack < 0.7, "five standard deviations"
    assert replay.is_right(noisy[near_tie], 1) is None
    found = {check.name: check for check in all_checks(replay)}
    assert [one.where for one in found["successes"].lines] == [f"log.csv:{FAILURE + 2}"]
    assert {name for name, check in found.items() if check.verdict == "fault"} == {"successes"}


def test_margins_are_log_odds_against_the_strongest_other_label() -> None:
    odds = margins(np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), 1)
    assert odds == pytest.approx([np.log(0.3 / 0.5), np.log(0.2 / 0.7)])


def test_a_search_with_one_word_that_finds_more_than_the_log_is_a_fault() -> None:
    lines = [one for one in honest() if one.status != "skipped"]
    replay = replayed(lines)

    def fell(hits: set[int]) -> dict[str, dict[str, bool]]:
        by_line = {one.where: i in hits for i, one in enumerate(lines)}
        return {"one word": by_line, "ensemble": by_line}

    assert check_search(replay, fell({*range(10)})).verdict == "ok"
    strong = check_search(replay, fell({*range(len(lines))}))
    assert strong.verdict == "fault" and len(strong.lines) == len(lines) - N // 2
    assert check_search(replay, {}).verdict == "not checkable"


def test_the_report_has_both_rates_over_the_right_texts() -> None:
    lines = [
        *with_line(FAILURE, status="succeeded", perturbed_output=0),
        replace(honest()[SUCCESS], where="log.csv:99"),
    ]
    replay = replayed(lines)
    report = make_report(replay, "victim", all_checks(replay), ())
    successes, attacked = N // 2, N - N // 8
    assert (report.logged_rate.value, report.logged_rate.n) == ((successes + 2) / (attacked + 1), attacked + 1)
    assert (report.replayed_rate.value, report.replayed_rate.n) == (successes / attacked, attacked)
    assert (report.replayed_rate.low, report.replayed_rate.high) == wilson(successes, attacked)
    assert report.replayed_accuracy.value == attacked / N
    assert report.words_changed.value == pytest.approx(0.2)
    assert [check.name for check in report.faults] == ["successes", "duplicates"]
    assert report.check("duplicates").lines[0].where == "log.csv:99"
    assert type(report).model_validate_json(report.rendered("json")) == report
