"""Writes results as HTML for notebooks: frames, and texts in which changed words are marked. Everything is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_html
from typing import TYPE_CHECKING, Any

from rbench.system.changes import changes
from rbench.system.escaping import harmless

if TYPE_CHECKING:
    import pandas as pd

_OLD = "background: #ffd7d5; color: #82071e"
_NEW = "background: #ccffd8; color: #116329; text-decoration: none; font-weight: bold"
_PRE = "white-space: pre-wrap; text-align: left"


def escape(text: str) -> str:
    """Escape a text for HTML, and what would show its letters in another order."""
    return escape_html(harmless(text))


def frame(shown: pd.DataFrame) -> str:
    """Return a frame of texts as a table."""
    return table(list(shown.columns), ([escape(str(value)) for value in row] for row in shown.itertuples(index=False)))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The entries of `rows` are HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f'<td style="{_PRE}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(texts: Iterable[str]) -> str:
    """Return each text as a paragraph that keeps its line breaks."""
    return "".join(f'<p style="{_PRE}">{escape(text)}</p>' for text in texts if text)


def marked(original: str, perturbed: str) -> str:
    """Return a changed text: old words struck through on red, new ones bold on green."""
    parts = []
    for old, new in changes(original, perturbed):
        if old == new:
            parts.append(escape(old))
            continue
        parts.append(f'<del style="{_OLD}">{escape(old)}</del>' if old else "")
        parts.append(" " if old and new else "")
        parts.append(f'<ins style="{_NEW}">{escape(new)}</ins>' if new else "")
    return "".join(parts)


def examples(rows: pd.DataFrame, labels: Sequence[str] = ()) -> str:
    """Return attacked examples as a table: id, status, labels, queries, and the texts with their changes marked.

    Args:
        rows: rows of `rbench.load_results`. Of examples without texts, the text is left out.
        labels: the names of labels; without them their numbers are shown.
    """
    names = [name for name in ("encoder", "task", "attack") if name in rows and rows[name].nunique() > 1]
    header = [*names, "example", "status", "label", "predicted", "queries", "text"]
    return table(header, (_cells(row, names, labels) for row in rows.to_dict("records"))) if len(rows) else ""


def _cells(row: Mapping[Any, Any], names: Sequence[str], labels: Sequence[str]) -> list[str]:
    before, after = (_said(row[key], labels) for key in ("original_prediction", "perturbed_prediction"))
    said = [str(row[name]) for name in (*names, "example_id", "status")]
    said += [_said(row["label"], labels), f"{before} → {after}" if after else before, str(row["num_queries"])]
    return [*map(escape, said), _text(row)]


def _said(label: Any, labels: Sequence[str]) -> str:
    import pandas as pd

    if pd.isna(label):
        return ""
    return labels[label] if 0 <= label < len(labels) else str(label)


def _text(row: Mapping[Any, Any]) -> str:
    """Return the text of an example, column by column where it has several."""
    import pandas as pd

    if pd.isna(row["original_columns"]):
        return ""
    old = json.loads(row["original_columns"])
    new = old if pd.isna(row["perturbed_columns"]) else json.loads(row["perturbed_columns"])
    named = len(old) > 1
    return "<br>".join((f"<b>{escape(name)}:</b> " if named else "") + marked(old[name], new[name]) for name in old)
