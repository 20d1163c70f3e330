"""Show a check: as a table, as JUnit XML, as GitHub's workflow commands, and as a summary in markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from rbench.spec.claimed import computed
from rbench.tables import Table
from rbench.tables.formats import render
from rbench.tables.markdown import markdown_escape
from rbench.tables.table import MEANING, Entry, Meaning, Number, p_value
from rbench.verdicts.gate import Checked, CheckedCell, Gated

LEVELS = {"failed": "error", "warned": "warning", "undecided": "notice"}
"""GitHub's levels of annotations, by verdict. Cells that passed are not annotated."""
RISES: dict[Gated, str] = {"asr": "Rise", "any_attack": "Rise", "aua": "Fall"}
"""What is worse, by metric."""


def table(found: Checked) -> Table:
    """Lay out a check: a row for each cell of the baseline."""
    several = len({cell.key.finetune for cell in found.cells}) > 1
    header = ["Encoder", "Task", *(["Fine-tuning"] if several else []), "Attack"]
    header += ["n", "Baseline", "Now", RISES[found.rules.metric], "p", "Could show", "Verdict"]
    rows = [_row(cell, several) for cell in found.cells]
    groups = [i for i in range(1, len(rows)) if found.cells[i].key.encoder != found.cells[i - 1].key.encoder]
    meaning = MEANING[computed(found.rules.metric)]
    return Table(
        metric="check",
        layout="paper",
        header=tuple(header),
        rows=tuple(rows),
        groups=frozenset(groups),
        cells=(),
        notes=(*_notes(found), *found.notes),
        interval="",
        about=Meaning(f"{meaning.title} against the baseline", meaning.definition, meaning.best),
    )


def _row(cell: CheckedCell, several: bool) -> tuple[Entry, ...]:
    key, judged = cell.key, cell.judged
    names = (key.encoder, key.task, *([key.finetune] if several else []), key.attack)
    verdict = "; ".join((f"{cell.verdict}: {cell.because}", *cell.beside))
    if judged is None:
        return (*names, None, None, None, None, None, None, verdict)
    return (
        *names,
        judged.n,
        Number(cell.before, percent=True),
        Number(cell.after, percent=True),
        Number(judged.rise, True, judged.n, judged.low, judged.high),
        p_value(judged.p_holm),
        Number(judged.smallest, percent=True),
        verdict,
    )


def _notes(found: Checked) -> list[str]:
    rules = found.rules
    worse, name = RISES[rules.metric].lower(), computed(rules.metric).upper()
    cells = "cell" if len(found.cells) == 1 else "cells"
    counts = sorted({cell.runs for cell in found.cells})
    plural = "s" if counts != [1] else ""
    return [
        f"A cell fails if its {worse} in {name} is larger than {rules.tolerance:g} points and significant: its "
        f"one-sided p is below {rules.alpha:g}, corrected by Holm for {len(found.cells)} {cells}. It also fails if it "
        "is missing or failed.",
        f"Baseline: {' or '.join(map(str, counts))} run{plural}. The columns Baseline and Now are the values of "
        f"tables, each over its own examples. The {worse} is over the n pairs of example and seed that count in both.",
        "Could show: the smallest true change for the worse that such a sample shows with a power of 80%. A cell that "
        "passes may hide a smaller one.",
    ]


def as_text(found: Checked) -> str:
    """Return the table as markdown, and as its last line whether the check passed and why."""
    return f"{render(table(found), 'markdown', intervals=True)}\n\n{_line(found.said)}"


def summary(found: Checked) -> str:
    """Return the check as a section of markdown, for the summary page of a CI job."""
    title = "failed" if found.failed else "passed"
    body = render(table(found), "markdown", intervals=True)
    return f"## rbench check {title}\n\n{markdown_escape(found.said)}\n\n{body}\n"


def junit(found: Checked) -> str:
    """Return the check as JUnit XML, with a test case for each cell. Warnings are a passed case's output."""
    root = ElementTree.Element("testsuites")
    failed, skipped = len(found.failed), len(found.having("undecided"))
    counts = {"tests": str(len(found.cells)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}
    suite = ElementTree.SubElement(root, "testsuite", {"name": "rbench check", **counts})
    for cell in found.cells:
        key = cell.key
        names = {"classname": _xml(f"{key.encoder}.{key.task}"), "name": _xml(f"{key.finetune}/{key.attack}")}
        case = ElementTree.SubElement(suite, "testcase", names)
        if cell.verdict == "failed":
            ElementTree.SubElement(case, "failure", {"message": _xml(cell.because)}).text = _xml(_told(cell))
        elif cell.verdict == "undecided":
            ElementTree.SubElement(case, "skipped", {"message": _xml(cell.because)})
        else:
            ElementTree.SubElement(case, "system-out").text = _xml(f"{cell.verdict}: {cell.because}\n{_told(cell)}")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def github(found: Checked) -> Iterator[str]:
    """Yield a workflow command for each cell that did not pass, which GitHub shows as an annotation."""
    for cell in found.cells:
        if cell.verdict in LEVELS:
            title = _property(f"rbench: {cell.key} {cell.verdict}")
            yield f"::{LEVELS[cell.verdict]} title={title}::{_data(f'{cell.because}. {_told(cell)}'.strip())}"


def _told(cell: CheckedCell) -> str:
    """Write a cell's numbers in one line."""
    d = cell.judged
    beside = f" Beside: {', '.join(cell.beside)}." if cell.beside else ""
    if d is None or d.rise is None:
        return beside.strip()
    interval = f" [{100 * d.low:+.1f}, {100 * d.high:+.1f}]" if d.low is not None and d.high is not None else ""
    p = f", corrected p {p_value(d.p_holm)}" if d.p_holm is not None else ""
    before, after = (f"{100 * value:.1f}" if value is not None else "n/a" for value in (cell.before, cell.after))
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
