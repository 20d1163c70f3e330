"""Texts in words: where the words lie, and texts put together again with other words in their places."""

from __future__ import annotations

import re
from collections.abc import Sequence

VERSION = 1

Columns = tuple[str, ...]
"""A text: its columns, two for a pair of sentences."""
WordSpan = tuple[int, int, int]
"""Where a word lies: the number of its column, its first character, one past its last."""

_WORD_RUN = re.compile(r"[\w'\-*@`×˗]+")
_CUT_AT_ENDS = "'-_*@"


def find_words(columns: Sequence[str]) -> list[WordSpan]:
    """Say where the words of a text lie, in order. They are TextAttack's words: training sees what attacks see.

    A word is a run of letters, digits and the signs `_ ' - * @`, with these signs cut off at both ends. TextAttack
    segments Chinese with a package of its own; here languages without spaces get no segmentation.
    """
    spans = []
    for column, text in enumerate(columns):
        for run in _WORD_RUN.finditer(text):
            start = run.end() - len(run[0].lstrip(_CUT_AT_ENDS))
            end = run.start() + len(run[0].rstrip(_CUT_AT_ENDS))
            if start < end:
                spans.append((column, start, end))
    return spans


def span_in_joined(columns: Sequence[str], span: WordSpan) -> tuple[str, int, int]:
    """Return the columns joined with a line break, and the start and the end (exclusive) of a word in that text."""
    column, start, end = span
    offset = sum(len(text) + 1 for text in columns[:column])
    return "\n".join(columns), offset + start, offset + end


def words_of(columns: Sequence[str]) -> list[list[str]]:
    """Return the words of each column of a text."""
    return [[text[start:end] for _, start, end in find_words([text])] for text in columns]


class SegmentedTexts:
    """Texts taken apart into words and what stands between them, and put together with other words.

    Args:
        texts: n texts, each a tuple of columns.

    Attributes:
        spans: for each text where its words lie, in order.
        words: for each text its words, those of all columns in one tuple.
    """

    def __init__(self, texts: Sequence[Columns]) -> None:
        self.spans: list[list[WordSpan]] = []
        self.words: list[tuple[str, ...]] = []
        self._gaps: list[list[list[str]]] = []
        for columns in texts:
            spans = find_words(columns)
            self.spans.append(spans)
            self.words.append(tuple(columns[column][start:end] for column, start, end in spans))
            spans_by_column: list[list[WordSpan]] = [[] for _ in columns]
            for span in spans:
                spans_by_column[span[0]].append(span)
            self._gaps.append([_split_gaps(text, own) for text, own in zip(columns, spans_by_column, strict=True)])

    def columns(self, row: int, words: tuple[str, ...]) -> Columns:
        """Return the columns of text number `row` with `words`, as many as it has, in place of its own."""
        remaining = iter(words)
        columns = []
        for gaps in self._gaps[row]:
            # A column has one gap more than words: before, between and after them.
            parts = [gaps[0]]
            for gap in gaps[1:]:
                parts += [next(remaining), gap]
            columns.append("".join(parts))
        return tuple(columns)

    def spans_with(self, row: int, words: tuple[str, ...]) -> list[WordSpan]:
        """Return where each of `words` lies in `columns(row, words)`."""
        remaining, spans = iter(words), []
        for column, gaps in enumerate(self._gaps[row]):
            end = 0
            for gap in gaps[:-1]:
                start = end + len(gap)
                end = start + len(next(remaining))
                spans.append((column, start, end))
        return spans


def _split_gaps(text: str, spans: list[WordSpan]) -> list[str]:
    """Return what stands before, between and after the words of one column: one piece more than it has words."""
    starts = [0, *(end for _, _, end in spans)]
    ends = [*(start for _, start, _ in spans), len(text)]
    return [text[a:b] for a, b in zip(starts, ends, strict=True)]


def copy_case(original: str, word: str) -> str:
    """Return `word` in the case of `original`: lower, UPPER (of two letters or more) or Capitalised; else as it is."""
    if original.islower():
        return word.lower()
    if original.isupper() and len(original) > 1:
        return word.upper()
    return word.capitalize() if original.istitle() else word
