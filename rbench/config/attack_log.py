"""Reads the log of an attack that any tool made: TextAttack's CSV log, or a table with the columns original, perturbed
and label.

| column of TextAttack's log             | of the other form         |                                                 |
|----------------------------------------|---------------------------|-------------------------------------------------|
| `original_text`, `perturbed_text`      | `original`, `perturbed`   | a text; of pairs a list, or `{column: text}`    |
| `ground_truth_output`                  | `label`                   | a number in the order of the outputs, or a name |
| `result_type`                          | `status`                  | optional in the other form: a success           |
| the words between `[[` and `]]`        | `words_changed`           | optional                                        |
| `original_output`, `perturbed_output`, `original_score`, `perturbed_score`, `num_queries` |  | |

TextAttack marks words as `[[word]]` (`--csv-coloring-style` has HTML and no marks, too), and writes the columns of a
pair in one: `[[[[Premise]]]]: ...<SPLIT>[[[[Hypothesis]]]]: ...`. All of that is taken out again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rbench.config.tabular import FileTable, TableRow, open_place, text_of_label
from rbench.errors import ResourceError
from rbench.system.own_code import failing_in

TEXTATTACK = ("original_text", "perturbed_text", "result_type", "num_queries")
"""Columns by which a log of TextAttack is known."""
PLAIN = ("original", "perturbed", "label")
"""Columns of the other form."""
LoggedStatus = Literal["succeeded", "failed", "skipped", "errored"]
STATUSES: Mapping[str, LoggedStatus] = {
    "successful": "succeeded",
    "maximized": "succeeded",
    "success": "succeeded",
    "succeeded": "succeeded",
    "failed": "failed",
    "skipped": "skipped",
    "errored": "errored",
}
_NUMBERS = ("original_output", "perturbed_output", "original_score", "perturbed_score", "num_queries")
SPLIT = "<SPLIT>"
"""What TextAttack writes for the end of a line."""
_MARK = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_HTML = re.compile(r"<font color = \w+>|</font>")
_COLUMN = re.compile(r"(?:^|<SPLIT>)\[\[\[\[(\w+)\]\]\]\]: ")
_PLAIN_PAIR = re.compile(r"Premise: (?P<premise>.*)<SPLIT>Hypothesis: (?P<hypothesis>.*)", re.DOTALL)


class MarkedColumn(NamedTuple):
    """A column of a text, and where the log says that it was changed."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """First character of each mark, and one past its last."""


@dataclass(frozen=True)
class LoggedAttack:
    """One attacked text, as the log has it."""

    where: str
    """`file:line`, for people."""
    original: tuple[MarkedColumn, ...]
    perturbed: tuple[MarkedColumn, ...] | None
    """None where the log has no such text."""
    label: int | str | None
    """The number of the true label in the order of the outputs, or its name."""
    status: LoggedStatus
    original_output: float | None = None
    perturbed_output: float | None = None
    original_score: float | None = None
    perturbed_score: float | None = None
    num_queries: float | None = None
    words_changed: float | None = None

    @property
    def texts_before(self) -> tuple[str, ...]:
        """The columns of the original."""
        return tuple(column.text for column in self.original)

    @property
    def texts_after(self) -> tuple[str, ...] | None:
        """The columns of the perturbed text."""
        return None if self.perturbed is None else tuple(column.text for column in self.perturbed)


@dataclass(frozen=True)
class AttackLog:
    """The log of one attack, in its order."""

    path: Path
    columns: tuple[str, ...]
    """Names of the columns of a text."""
    attacks: tuple[LoggedAttack, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    """What was taken for granted, for the user to read."""

    @property
    def marked(self) -> bool:
        """Whether changed words are marked."""
        return any(column.marks for attack in self.attacks for column in attack.original)


def is_textattack_log(table: FileTable) -> bool:
    """Whether a table is a log of TextAttack, by its columns."""
    return all(column in table.columns for column in TEXTATTACK)


def read_attack_log(path: Path) -> AttackLog:
    """Read the log of an attack, in one of the forms above.

    Raises:
        ResourceError: the file cannot be read, has other columns or no rows, or a status or number is none; names
            `file:line`.
    """
    table = open_place(path).tables[0]
    if not table.rows:
        raise ResourceError(f"{path}: the log has no rows")
    if is_textattack_log(table):
        return of_textattack(table)
    if missing := [column for column in PLAIN if column not in table.columns]:
        raise ResourceError(
            f"{path}: a log has the columns of TextAttack's CSV log ({', '.join(TEXTATTACK)}, ...), or "
            f"{', '.join(PLAIN)} and optionally status; this one has {', '.join(table.columns)}, and lacks "
            f"{', '.join(missing)}"
        )
    return _of_plain(table)


def of_textattack(table: FileTable) -> AttackLog:
    """Return the log that a table with TextAttack's columns holds; see `read_attack_log`."""
    attacks: list[LoggedAttack] = []
    names: tuple[str, ...] = ("text",)
    for where, values in table.rows:
        names, original = _split_columns(str(values["original_text"]))
        after = str(values["perturbed_text"] or "")
        attacks.append(
            LoggedAttack(
                where,
                original,
                _split_columns(after)[1] if after else None,
                _label_of(values.get("ground_truth_output")),
                _status_of(values["result_type"], where),
                *(_number_of(values.get(name), where) for name in _NUMBERS),
            )
        )
    return AttackLog(table.path, names, tuple(attacks))


def _of_plain(table: FileTable) -> AttackLog:
    attacks = [_plain_attack(row) for row in table.rows]
    first = table.rows[0].values["original"]
    names = tuple(map(str, first)) if isinstance(first, Mapping) else _numbered(len(attacks[0].original))
    without = sum(not row.values.get("status") for row in table.rows)
    notes = [f"{without} lines have no status, and were taken for successes."] if without else []
    return AttackLog(table.path, names, tuple(attacks), tuple(notes))


def _plain_attack(row: TableRow) -> LoggedAttack:
    where, values = row
    if values.get("original") is None:
        raise ResourceError(f"{where}: it has no original text")
    after = values.get("perturbed")
    status = values.get("status") or "succeeded"
    return LoggedAttack(
        where,
        _plain_columns(values["original"]),
        None if after in (None, "") else _plain_columns(after),
        _label_of(values.get("label")),
        _status_of(status, where),
        words_changed=_number_of(values.get("words_changed"), where),
    )


def _plain_columns(text: Any) -> tuple[MarkedColumn, ...]:
    parts = text.values() if isinstance(text, Mapping) else text if isinstance(text, list) else [text]
    return tuple(MarkedColumn(str(part)) for part in parts)


def _numbered(columns: int) -> tuple[str, ...]:
    return ("text",) if columns == 1 else tuple(f"text_{i + 1}" for i in range(columns))


def _split_columns(text: str) -> tuple[tuple[str, ...], tuple[MarkedColumn, ...]]:
    """Return the names of the columns of a text of TextAttack's log, and the columns."""
    text = _HTML.sub(lambda tag: "]]" if tag[0] == "</font>" else "[[", text)
    heads = [*_COLUMN.finditer(text)]
    if heads:
        ends = [head.start() for head in heads[1:]] + [len(text)]
        parts = [text[head.end() : end] for head, end in zip(heads, ends, strict=True)]
        return tuple(head[1].lower() for head in heads), tuple(map(_without_marks, parts))
    if pair := _PLAIN_PAIR.fullmatch(text):  # a log without marks names the columns as they are
        return ("premise", "hypothesis"), tuple(map(_without_marks, pair.groups()))
    return ("text",), (_without_marks(text),)


def _without_marks(text: str) -> MarkedColumn:
    """Take the marks out of a column, and say where they were."""
    text, plain, marks, end = text.replace(SPLIT, "\n"), "", [], 0
    for mark in _MARK.finditer(text):
        plain += text[end : mark.start()]
        marks.append((len(plain), len(plain) + len(mark[1])))
        plain, end = plain + mark[1], mark.end()
    return MarkedColumn(plain + text[end:], tuple(marks))


def _status_of(value: Any, where: str) -> LoggedStatus:
    status = STATUSES.get(str(value).strip().lower())
    if status is None:
        raise ResourceError(f"{where}: the result is {str(value)[:40]!r}; expected Successful, Failed or Skipped")
    return status


def _label_of(value: Any) -> int | str | None:
    text = text_of_label(value)
    return int(text) if text.lstrip("-").isdigit() else text or None


def _number_of(value: Any, where: str) -> float | None:
    if value is None or str(value).strip() == "":
        return None
    with failing_in(where):
        return float(value)
