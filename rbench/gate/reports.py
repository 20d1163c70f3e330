"""Show a check: as a table, as JUnit XML, as GitHub's workflow commands, and as a summary in markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from rbench.gate.check import VERDICT_WORDS, CheckedRow, CheckResult
from rbench.gate.score import GRAVE_SHARE, texts_needed
from rbench.gate.vector_check import RANKED, VECTOR_WORDS, VectorCheck, VectorRow
from rbench.gate.watched_texts import DOCUMENTS, QUERIES
from rbench.tables import Table
from rbench.tables.formats import markdown_escape, render
from rbench.tables.table import Meaning, Number, TableEntry, format_p_value, group_starts


def build_check_table(check_result: CheckResult) -> Table:
    """Lay out a check: a line for each row."""
    several_strategies = len({row.key.finetune for row in check_result.rows}) > 1
    header = ["Encoder", "Task", *(["Fine-tuning"] if several_strategies else []), "Attack", "Metric"]
    header += ["n", "Baseline", "Now", "Worse by", "p", "Could show", "Verdict"]
    rows = tuple(_table_row(row, several_strategies) for row in check_result.rows)
    return Table(
        metric="check",
        header=tuple(header),
        rows=rows,
        groups=group_starts(rows, 2 + several_strategies),
        cells=(),
        notes=(*_table_notes(check_result), *check_result.notes),
        about=Meaning("Check against the baseline", _metric_titles(check_result), None),
    )


def _metric_titles(check_result: CheckResult) -> str:
    """Name the metrics: `accuracy under attack, clean accuracy and attack success rate`."""
    *others, last = [_lower_first(metric.about.title) for metric in check_result.rules.metrics]
    return f"{', '.join(others)} and {last}" if others else last


def _lower_first(title: str) -> str:
    return title[:1].lower() + title[1:]


def _table_row(row: CheckedRow, several_strategies: bool) -> tuple[TableEntry, ...]:
    key, judged = row.key, row.judged
    strategy = [key.finetune] if several_strategies else []
    names = (key.encoder, key.task, *strategy, key.attack, row.metric.about.column)
    verdict = "; ".join((f"{VERDICT_WORDS[row.verdict]}: {row.because}", *row.beside))
    if judged is None:
        return (*names, None, None, None, None, None, None, verdict)
    return (
        *names,
        judged.n,
        Number(row.before, percent=True),
        Number(row.after, percent=True),
        Number(judged.rise, True, judged.n, judged.low, judged.high),
        format_p_value(judged.p_holm),
        Number(judged.smallest, percent=True),
        verdict,
    )


def _table_notes(check_result: CheckResult) -> list[str]:
    rules, rows = check_result.rules, len(check_result.rows)
    tolerances = ", ".join(f"{metric.about.column} {rules.tolerance(metric):g}" for metric in rules.metrics)
    definitions = "; ".join(
        f"{metric.about.column}: {_lower_first(metric.about.title)}, {metric.about.definition}"
        for metric in rules.metrics
    )
    run_counts = sorted({row.runs for row in check_result.rows})
    plural = "s" if run_counts != [1] else ""
    allowed_undecided = " Here that is allowed (--allow-undecided)." if rules.allow_undecided else ""
    allowed_unexplained = " Here that is allowed (--allow-unexplained)." if rules.allow_unexplained else ""
    return [
        f"{definitions}.",
        f"A row fails if it is worse by more than its tolerance in points ({tolerances}) and significant: its "
        f"one-sided p is below {rules.alpha:g}, corrected by Holm for {rows} row{'s' * (rows > 1)}. It also fails if "
        "it is missing. So does one that is significantly worse than one or two baseline runs with other weights, "
        f"which is {VERDICT_WORDS['unexplained']}: the change or the training.{allowed_unexplained}",
        "Worse by: how far a number moved towards its worse end, over the n pairs of text and seed that count in both "
        "runs. Each limit is that of the same one-sided test, so the lower one is above 0 exactly where p is below "
        f"{rules.alpha:g}.",
        "A row is undecided, and the check does not pass, if its numbers cannot show that it is well: fewer than "
        f"{texts_needed(max(1, rows), rules.alpha)} texts, a victim near chance, or a fall of more than "
        f"{100 * GRAVE_SHARE:g} points that may be chance.{allowed_undecided}",
        f"Baseline: {' or '.join(map(str, run_counts))} run{plural}. The columns Baseline and Now are the values of "
        "tables, each over its own examples.",
        "Could show: the smallest true change for the worse that such a sample shows with a power of 80%. A row that "
        "passes may hide a smaller one.",
    ]


def build_vector_table(check_result: VectorCheck) -> Table:
    """Lay out a check of an encoder's vectors: a line for each group of texts."""
    rows: tuple[tuple[TableEntry, ...], ...] = tuple(
        (
            row.name,
            row.n,
            row.changed,
            "" if row.cosine is None else Number(row.cosine, percent=False, digits=5),
            format_p_value(row.p),
            VECTOR_WORDS[row.verdict],
        )
        for row in check_result.rows
    )
    notes = (
        "Changed: texts whose vector is farther from that of the baseline than the encoder's own answers were when the "
        f"baseline was made, and by more than {check_result.tolerance:g} in 1 - cosine. Cosine: the median.",
        "p: how likely as many are where nothing changed, corrected by Holm for all rows. A check of an encoder that "
        f"has not changed fails with a probability of {check_result.alpha:g} at most.",
        f"Of the first {RANKED} documents of a query, {check_result.replaced:.1f} are others now, on average over "
        f"{len(QUERIES)} queries on {len(DOCUMENTS)} documents.",
    )
    return Table(
        metric="watch",
        header=("Texts", "n", "Changed", "Cosine", "p", "Verdict"),
        rows=rows,
        groups=frozenset(),
        cells=(),
        notes=notes,
        about=Meaning("Check of an encoder's vectors", check_result.encoder, None, percent=False),
    )


def _build_table(check_result: CheckResult | VectorCheck) -> Table:
    if isinstance(check_result, VectorCheck):
        return build_vector_table(check_result)
    return build_check_table(check_result)


def as_text(check_result: CheckResult | VectorCheck) -> str:
    """Return the table as markdown, and as its last line whether the check passed and why."""
    return f"{render(_build_table(check_result), 'markdown', intervals=True)}\n\n{_in_one_line(check_result.said)}"


def as_summary(check: CheckResult | VectorCheck | str) -> str:
    """Return the check as a section of markdown, for the summary page of a CI job; or why it could not be made."""
    if isinstance(check, str):
        return f"## rbench check could not be made\n\n{markdown_escape(check)}\n"
    body = render(_build_table(check), "markdown", intervals=True)
    return f"## rbench check {check.verdict}\n\n{markdown_escape(check.said)}\n\n{body}\n"


def as_junit(check: CheckResult | VectorCheck | str) -> str:
    """Return the check as JUnit XML: a test case for each row, or a single one that says why there is no check.

    A row that fails is a failure, and so is one that is worse with unknown cause. One that cannot be judged is an
    error. Where one of the latter two is allowed, it is skipped.
    """
    if isinstance(check, str):
        error = ElementTree.Element("error", {"message": _xml_text(check)})
        return _junit_document([("rbench", "check", error)])
    if isinstance(check, VectorCheck):
        return _junit_document([_vector_case(check, row) for row in check.rows])
    element_by_verdict = {
        "failed": "failure",
        "unexplained": "skipped" if check.rules.allow_unexplained else "failure",
        "undecided": "skipped" if check.rules.allow_undecided else "error",
    }
    cases = []
    for row in check.rows:
        encoder, task, *strategy_and_attack = row.key
        class_name = _xml_text(f"{encoder}.{task}")
        case_name = _xml_text("/".join((*strategy_and_attack, row.metric.name)))
        if row.verdict == "passed":
            child = ElementTree.Element("system-out")
            child.text = _xml_text(f"{VERDICT_WORDS[row.verdict]}: {row.because}\n{_numbers_line(row)}")
        else:
            child = ElementTree.Element(element_by_verdict[row.verdict], {"message": _xml_text(row.because)})
            child.text = _xml_text(_numbers_line(row))
        cases.append((class_name, case_name, child))
    return _junit_document(cases)


def _vector_case(check_result: VectorCheck, row: VectorRow) -> tuple[str, str, ElementTree.Element]:
    passed = row.verdict == "passed"
    child = ElementTree.Element("system-out" if passed else "failure")
    if not passed:
        child.set("message", _xml_text(check_result.said))
    child.text = f"{row.changed} of {row.n} changed"
    return _xml_text(check_result.encoder), row.name, child


def _junit_document(cases: Sequence[tuple[str, str, ElementTree.Element]]) -> str:
    """Return a document of test cases, each with its class, its name and the element that says how it ended."""
    tags = [child.tag for _, _, child in cases]
    counts = {attribute: str(tags.count(tag)) for attribute, tag in _TAG_BY_COUNT.items()}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "rbench check", "tests": str(len(cases)), **counts})
    for classname, name, child in cases:
        ElementTree.SubElement(suite, "testcase", {"classname": classname, "name": name}).append(child)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_TAG_BY_COUNT = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attributes of a suite that count its cases, each with the tag of the cases that it counts."""


def list_github_commands(check: CheckResult | VectorCheck | str) -> Iterator[str]:
    """Yield the workflow commands that GitHub shows as annotations.

    Without a check it is one, which says why. A check of an encoder's vectors has one if it failed. Any other check has
    one for each of these rows: one that fails is an error; so is one that is worse with unknown cause or cannot be
    judged, but where that is allowed, it is a warning. One that passes although it is worse by more than the tolerance,
    because that may be chance, is a notice.
    """
    if isinstance(check, str):
        yield f"::error title={_escape_property('rbench: the check could not be made')}::{_escape_data(check)}"
        return
    if isinstance(check, VectorCheck):
        if check.verdict == "failed":
            title = _escape_property(f"rbench: {check.encoder} has changed")
            yield f"::error title={title}::{_escape_data(check.said)}"
        return
    rules = check.rules
    levels = {
        "failed": "error",
        "unexplained": "warning" if rules.allow_unexplained else "error",
        "undecided": "warning" if rules.allow_undecided else "error",
    }
    for row in check.rows:
        if row.verdict == "passed" and not _exceeds_tolerance(row, rules.tolerance(row.metric)):
            continue
        level = levels.get(row.verdict, "notice")  # a row that passed has no level
        title = _escape_property(f"rbench: {row.name} {_VERDICTS_IN_TITLES[row.verdict]}")
        yield f"::{level} title={title}::{_escape_data(f'{row.because}. {_numbers_line(row)}'.strip())}"


_VERDICTS_IN_TITLES = {
    "passed": "passed",
    "failed": "failed",
    "unexplained": f"is {VERDICT_WORDS['unexplained']}",
    "undecided": "cannot be judged",
}


def _exceeds_tolerance(row: CheckedRow, points: float) -> bool:
    """Return whether a row is worse by more than these points, significantly or not."""
    return row.judged is not None and (row.judged.rise or 0) > points / 100


def _numbers_line(row: CheckedRow) -> str:
    """Write a row's numbers in one line."""
    judged = row.judged
    beside = f" Beside: {', '.join(row.beside)}." if row.beside else ""
    if judged is None or judged.rise is None:
        return beside.strip()
    interval = ""
    if judged.low is not None and judged.high is not None:
        interval = f" [{100 * judged.low:+.1f}, {100 * judged.high:+.1f}]"
    p = f", corrected p {format_p_value(judged.p_holm)}" if judged.p_holm is not None else ""
    before, after = (f"{100 * value:.1f}" if value is not None else "n/a" for value in (row.before, row.after))
    change = f"paired {100 * judged.rise:+.1f}{interval} points for the worse"
    return f"{before} became {after}; {change}{p}, n = {judged.n}.{beside}"


def _escape_data(text: str) -> str:
    """Escape a message as GitHub's toolkit does (`escapeData`)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Escape a property's value as GitHub's toolkit does (`escapeProperty`)."""
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _xml_text(text: str) -> str:
    """Replace each character that XML 1.0 cannot hold by its number, such as `U+001B`. ElementTree escapes the rest."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda m: f"U+{ord(m[0]):04X}", text)
