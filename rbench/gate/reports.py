"""Show a check: as a table, as JUnit XML, as GitHub's workflow commands, and as a summary in markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from rbench.gate.check import WORDS, Checked, CheckedRow
from rbench.gate.score import GRAVE, needed
from rbench.tables import Table
from rbench.tables.formats import markdown_escape, render
from rbench.tables.table import Entry, Meaning, Number, groups_of, p_value


def table(found: Checked) -> Table:
    """Lay out a check: a line for each row."""
    several = len({row.key.finetune for row in found.rows}) > 1
    header = ["Encoder", "Task", *(["Fine-tuning"] if several else []), "Attack", "Metric"]
    header += ["n", "Baseline", "Now", "Worse by", "p", "Could show", "Verdict"]
    rows = tuple(_row(row, several) for row in found.rows)
    return Table(
        metric="check",
        header=tuple(header),
        rows=rows,
        groups=groups_of(rows, 2 + several),
        cells=(),
        notes=(*_notes(found), *found.notes),
        about=Meaning("Check against the baseline", _titles(found), None),
    )


def _titles(found: Checked) -> str:
    """Name the metrics: `accuracy under attack, clean accuracy and attack success rate`."""
    titles = [metric.about.title[:1].lower() + metric.about.title[1:] for metric in found.rules.metrics]
    return " and ".join(part for part in (", ".join(titles[:-1]), titles[-1]) if part)


def _row(row: CheckedRow, several: bool) -> tuple[Entry, ...]:
    key, judged = row.key, row.judged
    names = (key.encoder, key.task, *([key.finetune] if several else []), key.attack, row.metric.about.column)
    verdict = "; ".join((f"{WORDS[row.verdict]}: {row.because}", *row.beside))
    if judged is None:
        return (*names, None, None, None, None, None, None, verdict)
    return (
        *names,
        judged.n,
        Number(row.before, percent=True),
        Number(row.after, percent=True),
        Number(judged.rise, True, judged.n, judged.low, judged.high),
        p_value(judged.p_holm),
        Number(judged.smallest, percent=True),
        verdict,
    )


def _notes(found: Checked) -> list[str]:
    rules, rows = found.rules, len(found.rows)
    limits = ", ".join(f"{metric.about.column} {rules.tolerance(metric):g}" for metric in rules.metrics)
    meant = "; ".join(
        f"{metric.about.column}: {metric.about.title[:1].lower()}{metric.about.title[1:]}, {metric.about.definition}"
        for metric in rules.metrics
    )
    counts = sorted({row.runs for row in found.rows})
    plural = "s" if counts != [1] else ""
    allowed = " Here that is allowed (--allow-undecided)." if rules.allow_undecided else ""
    excused = " Here that is allowed (--allow-unexplained)." if rules.allow_unexplained else ""
    return [
        f"{meant}.",
        f"A row fails if it is worse by more than its tolerance in points ({limits}) and significant: its one-sided "
        f"p is below {rules.alpha:g}, corrected by Holm for {rows} row{'s' * (rows > 1)}. It also fails if it is "
        "missing. So does one that is significantly worse than one or two baseline runs with other weights, which is "
        f"{WORDS['unexplained']}: the change or the training.{excused}",
        "Worse by: how far a number moved towards its worse end, over the n pairs of text and seed that count in both "
        "runs. Each limit is that of the same one-sided test, so the lower one is above 0 exactly where p is below "
        f"{rules.alpha:g}.",
        "A row is undecided, and the check does not pass, if its numbers cannot show that it is well: fewer than "
        f"{needed(max(1, rows), rules.alpha)} texts, a victim near chance, or a fall of more than {100 * GRAVE:g} "
        f"points that may be chance.{allowed}",
        f"Baseline: {' or '.join(map(str, counts))} run{plural}. The columns Baseline and Now are the values of "
        "tables, each over its own examples.",
        "Could show: the smallest true change for the worse that such a sample shows with a power of 80%. A row that "
        "passes may hide a smaller one.",
    ]


def as_text(found: Checked) -> str:
    """Return the table as markdown, and as its last line whether the check passed and why."""
    return f"{render(table(found), 'markdown', intervals=True)}\n\n{_line(found.said)}"


def summary(found: Checked | str) -> str:
    """Return the check as a section of markdown, for the summary page of a CI job; or why it could not be made."""
    if isinstance(found, str):
        return f"## rbench check could not be made\n\n{markdown_escape(found)}\n"
    body = render(table(found), "markdown", intervals=True)
    return f"## rbench check {found.verdict}\n\n{markdown_escape(found.said)}\n\n{body}\n"


def junit(found: Checked | str) -> str:
    """Return the check as JUnit XML, with a test case for each row; or with one that says why it could not be made.

    A row that fails is a failure, and so is one that is worse with unknown cause. One that cannot be judged is an
    error. Where either is allowed, it is skipped.
    """
    if isinstance(found, str):
        return _junit([("rbench", "check", ElementTree.Element("error", {"message": _xml(found)}))])
    kinds = {
        "failed": "failure",
        "unexplained": "skipped" if found.rules.allow_unexplained else "failure",
        "undecided": "skipped" if found.rules.allow_undecided else "error",
    }
    cases = []
    for row in found.rows:
        key = row.key
        names = _xml(f"{key.encoder}.{key.task}"), _xml("/".join((*key[2:], row.metric.name)))
        if row.verdict == "passed":
            child = ElementTree.Element("system-out")
            child.text = _xml(f"{WORDS[row.verdict]}: {row.because}\n{_told(row)}")
        else:
            child = ElementTree.Element(kinds[row.verdict], {"message": _xml(row.because)})
            child.text = _xml(_told(row))
        cases.append((*names, child))
    return _junit(cases)


def _junit(cases: Sequence[tuple[str, str, ElementTree.Element]]) -> str:
    kinds = [child.tag for _, _, child in cases]
    counts = {name: str(kinds.count(tag)) for name, tag in _COUNTED.items()}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "rbench check", "tests": str(len(cases)), **counts})
    for classname, name, child in cases:
        ElementTree.SubElement(suite, "testcase", {"classname": classname, "name": name}).append(child)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def github(found: Checked | str) -> Iterator[str]:
    """Yield a workflow command for each row that GitHub shows as an annotation; or one for why there is no check.

    A row that fails, one that is worse with unknown cause and one that cannot be judged are errors, the latter two
    warnings where they are allowed. One that passes although it is worse by more than the tolerance, because that may
    be chance, is a notice.
    """
    if isinstance(found, str):
        yield f"::error title={_property('rbench: the check could not be made')}::{_data(found)}"
        return
    for row in found.rows:
        worse = row.judged is not None and (row.judged.rise or 0) > found.rules.tolerance(row.metric) / 100
        level = {
            "failed": "error",
            "unexplained": "warning" if found.rules.allow_unexplained else "error",
            "undecided": "warning" if found.rules.allow_undecided else "error",
            "passed": "notice" if worse else "",
        }[row.verdict]
        if level:
            what = {"undecided": "cannot be judged", "unexplained": f"is {WORDS['unexplained']}"}.get(
                row.verdict, "failed"
            )
            what = "passed" if row.verdict == "passed" else what
            title = _property(f"rbench: {row.name} {what}")
            yield f"::{level} title={title}::{_data(f'{row.because}. {_told(row)}'.strip())}"


def _told(row: CheckedRow) -> str:
    """Write a row's numbers in one line."""
    d = row.judged
    beside = f" Beside: {', '.join(row.beside)}." if row.beside else ""
    if d is None or d.rise is None:
        return beside.strip()
    interval = f" [{100 * d.low:+.1f}, {100 * d.high:+.1f}]" if d.low is not None and d.high is not None else ""
    p = f", corrected p {p_value(d.p_holm)}" if d.p_holm is not None else ""
    before, after = (f"{100 * value:.1f}" if value is not None else "n/a" for value in (row.before, row.after))
    return f"{before} became {after}; paired {100 * d.rise:+.1f}{interval} points for the worse{p}, n = {d.n}.{beside}"


def _data(text: str) -> str:
    """Escape a message as GitHub's toolkit does (`escapeData`)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property's value as GitHub's toolkit does (`escapeProperty`)."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _line(text: str) -> str:
    return " ".join(text.split())


def _xml(text: str) -> str:
    """Write characters that XML 1.0 cannot hold, such as control characters, as U+001B. ElementTree escapes others."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", lambda m: f"U+{ord(m[0]):04X}", text)
