"""What a check is shown as. The escaping of GitHub's commands is compared with a decoder of the runner's rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.api import check, check_annotations, check_table, write_baseline, write_reports
from rbench.gate.check import CheckedRow, CheckResult, CheckRules
from rbench.gate.reports import as_junit, as_summary, list_github_commands
from rbench.gate.score import GateRow, GateVerdict
from rbench.metrics import MetricCatalogue
from rbench.verdicts.compare import CellName
from tests.gate import gated

NASTY = 'pwws[a="<b>", c=100%]\n::error::x\x1b'
METRICS = MetricCatalogue()
RULES = CheckRules()
JUDGED = GateRow(0.3, 0.2, 0.4, 0.001, 0.002, 100, None, "failed", "rose by 30.0 points", 0.1)


def checked(name: str = NASTY, because: str = "rose & fell <100%>\nat once", rules: CheckRules = RULES) -> CheckResult:
    verdicts: tuple[GateVerdict, ...] = ("passed", "failed", "undecided", "unexplained")
    key = CellName("minilm", "mr", "clean", name)
    rows = tuple(
        CheckedRow(METRICS["asr"], key, verdict, because, JUDGED, 0.5, 0.8, 1, ("near chance",)) for verdict in verdicts
    )
    gone = CheckedRow(METRICS["aua"], CellName("gone", "mr", "clean", "pwws"), "failed", "missing")
    return CheckResult("run", rules, (*rows, gone))


def decoded(line: str) -> tuple[str, str, str]:
    """Level, title and message of a workflow command, as GitHub's runner reads them."""
    level, title, message = line.removeprefix("::").replace("::", " title=", 1).split(" title=", 2)
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        title = title.replace(code, char)
        if code not in ("%3A", "%2C"):
            message = message.replace(code, char)
    return level, title, message


def test_annotations_are_one_line_each_and_say_what_was_meant() -> None:
    lines = list(list_github_commands(checked()))
    assert [decoded(line)[0] for line in lines] == ["notice", "error", "error", "error", "error"]
    assert decoded(lines[2])[1] == f"rbench: ASR, minilm/mr/clean/{NASTY} cannot be judged"
    assert decoded(lines[3])[1] == f"rbench: ASR, minilm/mr/clean/{NASTY} is worse, cause unknown"
    allowed = list(list_github_commands(checked(rules=CheckRules(allow_undecided=True))))
    assert [decoded(line)[0] for line in allowed] == ["notice", "error", "warning", "error", "error"]
    allowed = list(list_github_commands(checked(rules=CheckRules(allow_unexplained=True))))
    assert [decoded(line)[0] for line in allowed] == ["notice", "error", "error", "warning", "error"]
    assert not any("\n" in line or "\r" in line for line in lines)
    _, title, message = decoded(lines[1])
    assert title == f"rbench: ASR, minilm/mr/clean/{NASTY} failed"
    assert message.startswith("rose & fell <100%>\nat once. 50.0 became 80.0")
    assert "points for the worse, corrected p 0.002, n = 100" in message
    tiny = replace(JUDGED, p_holm=1e-9)
    (line,) = list_github_commands(CheckResult("run", CheckRules(), (replace(checked().rows[1], judged=tiny),)))
    assert "corrected p <0.001," in line, "as in tables: none is 0"
    head = lines[1].removeprefix("::error title=").partition("::")[0]
    assert ":" not in head and "," not in head and "%3A" in head and "100%25" in lines[1]


@given(name=st.text(), because=st.text())
def test_junit_is_well_formed_whatever_the_labels(name: str, because: str) -> None:
    root = ElementTree.fromstring(as_junit(checked(name, because)))
    assert len(root.findall(".//testcase")) == 5


def test_junit_has_a_case_for_each_row() -> None:
    root = ElementTree.fromstring(as_junit(checked()))
    (suite,) = root.findall("testsuite")
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "3",
        "errors": "1",
        "skipped": "0",
    }
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [
        ["system-out"],
        ["failure"],
        ["error"],
        ["failure"],
        ["failure"],
    ]
    allowed = ElementTree.fromstring(as_junit(checked(rules=CheckRules(allow_undecided=True))))
    assert [case[0].tag for case in allowed.findall(".//testcase")[2:4]] == ["skipped", "failure"]
    allowed = ElementTree.fromstring(as_junit(checked(rules=CheckRules(allow_unexplained=True))))
    assert [case[0].tag for case in allowed.findall(".//testcase")[2:4]] == ["error", "skipped"]
    failure = cases[1].find("failure")
    assert failure is not None and failure.get("message") == "rose & fell <100%>\nat once"
    assert cases[1].get("name") == "clean/" + NASTY.replace("\x1b", "U+001B") + "/asr"
    assert "near chance" in str(failure.text)


def test_the_summary_is_markdown_that_labels_cannot_break() -> None:
    text = as_summary(checked("a|b", "x <script> | *y*"))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "<script>" not in text and text.startswith("## rbench check failed")


def test_the_last_line_says_whether_it_passed_and_why(tmp_path: Path) -> None:
    write_baseline([gated.run(tmp_path / "before")], tmp_path / "b.json")
    found = check(gated.run(tmp_path / "now", gated.WORSE, "b"), tmp_path / "b.json", about_these_weights=True)
    text = check_table(found)
    last = text.splitlines()[-1]
    assert last.startswith("failed: 2 of 3 rows (accuracy under attack, minilm/mr/clean/pwws: fell by 30.0 points")
    for said in ("50.0", "80.0", "30.0 [", "Could show", "| 100 |"):
        assert said in text
    assert len(check_annotations(found)) == 2


def test_reports_go_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    write_reports(checked(), junit=tmp_path / "new" / "j.xml", summary=tmp_path / "s.md")
    assert ElementTree.parse(tmp_path / "new" / "j.xml").getroot().tag == "testsuites"
    assert page.read_text() == "before\n" and (tmp_path / "s.md").read_text() == as_summary(checked())
    write_reports(checked())
    assert page.read_text() == "before\n" + as_summary(checked())
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    write_reports(checked())


def test_a_check_that_could_not_be_made_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    write_reports("damaged: <x>\nat once", junit=tmp_path / "j.xml", summary=tmp_path / "s.md")
    (error,) = ElementTree.parse(tmp_path / "j.xml").findall("testsuite[@errors='1']/testcase/error")
    assert error.get("message") == "damaged: <x>\nat once"
    assert (tmp_path / "s.md").read_text().startswith("## rbench check could not be made")
    (line,) = check_annotations("damaged: <x>\nat once")
    assert decoded(line) == ("error", "rbench: the check could not be made", "damaged: <x>\nat once")
