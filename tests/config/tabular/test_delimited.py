from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rbench.config.tabular import FileTable, open_place
from rbench.errors import ResourceError

FIELD = st.text(st.one_of(st.sampled_from(list('",;\t\n\r ')), st.characters(exclude_categories=["Cs"])), max_size=12)
ROWS = st.lists(st.tuples(FIELD, FIELD, FIELD), max_size=6)


def read(path: Path) -> FileTable:
    whole = open_place(path).whole
    assert whole is not None
    return whole


def written(
    rows: list[tuple[str, ...]], delimiter: str = ",", ends: str = "\n", quoting: int = csv.QUOTE_MINIMAL
) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=ends, quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return text.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@given(
    rows=ROWS,
    delimiter=st.sampled_from(",;\t"),
    ends=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    packed=st.booleans(),
)
@example([("a, b", 'he said "no"', "two\nlines")], ",", "\r\n", True, csv.QUOTE_MINIMAL, False)
@example([("tab\there", '"', "\r\n")], "\t", "\n", True, csv.QUOTE_ALL, True)
def test_what_pythons_writer_wrote_is_read_again(
    place: Path, rows: list[tuple[str, ...]], delimiter: str, ends: str, mark: bool, quoting: int, packed: bool
) -> None:
    within = set("".join(field for row in rows for field in row))
    assume(delimiter != "\t" or not ("\t" in within and within & {"\n", "\r"}))  # see the test of what is refused
    quoting = csv.QUOTE_ALL if "\r" in within else quoting  # Python's writer forgets to quote it
    text = written([("x", "y", "z"), *rows], delimiter, ends, quoting)
    content = text.encode("utf-8-sig" if mark else "utf-8")
    ending = "tsv" if delimiter == "\t" else "csv"
    path = place / f"t.{ending}{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(content) if packed else content)
    table = read(path)
    assert table.columns == ("x", "y", "z")
    assert [tuple(row.values.values()) for row in table.rows] == rows


@given(ROWS.filter(bool), st.integers(0, 5), st.booleans())
def test_a_row_with_a_field_too_few_or_too_many_is_refused_with_its_line(
    place: Path, rows: list[tuple[str, ...]], at: int, more: bool
) -> None:
    at %= len(rows)
    plain = [tuple(field.replace("\n", " ").replace("\r", " ") for field in row) for row in rows]
    uneven = [*plain[:at], (*plain[at], "more") if more else plain[at][:2], *plain[at + 1 :]]
    path = place / "ragged.csv"
    path.write_text(written([("x", "y", "z"), *uneven]), encoding="utf-8")
    with pytest.raises(ResourceError) as caught:
        read(path)
    assert f"ragged.csv:{at + 2}" in str(caught.value)


def test_rows_know_their_lines_below_texts_of_several_lines_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('text,label\n"one\ntwo",a\n\n   \nthree,b\n', encoding="utf-8")
    assert [row.where for row in read(path).rows] == [f"{path}:2", f"{path}:6"]


def test_a_header_with_semicolons_and_no_comma_says_what_separates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text;label\na, b;1\n", encoding="utf-8")
    assert [row.values for row in read(path).rows] == [{"text": "a, b", "label": "1"}]


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("t.csv", 'text,label\ngood,1\n"bad,0\nfine,1\n', "t.csv:3"),
        ("t.csv", 'text,label\n"good" film,1\n', "t.csv:2"),
        ("t.csv", "text,text\na,b\n", "t.csv:1"),
        ("t.csv", "text;label\na; b;1\n", "t.csv:2"),
        ("t.tsv", 'text\tlabel\nfine\t1\n"one\t1\ntwo"\t0\n', "t.tsv:3"),
        ("t.tsv", "text\tlabel\ngood\t1\nbad\n", "t.tsv:3"),
    ],
)
def test_what_could_be_read_in_a_wrong_way_is_refused(tmp_path: Path, name: str, text: str, place: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ResourceError) as caught:
        read(tmp_path / name)
    assert place in str(caught.value)


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("text,label\ngood,1\ncafé,0\n".encode("latin-1"))
    with pytest.raises(ResourceError):
        read(tmp_path / "t.csv")
    (tmp_path / "t.csv.gz").write_bytes(b"text,label\n")
    with pytest.raises(OSError):
        read(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # As GLUE has TSV: quotes are characters. The first field would else swallow the line below it.
        (['" a good film\t1', 'so "bad\t0', 'the "end"\t0'], ['" a good film', 'so "bad', 'the "end"']),
        # As pandas writes it: the quotes are around a field.
        (['"he said ""no"""\t1', "plain\t0"], ['he said "no"', "plain"]),
        (['"a\ttab"\t1', "plain\t0"], ["a\ttab", "plain"]),
    ],
)
def test_quotes_in_tsv_are_read_as_they_were_meant(tmp_path: Path, lines: list[str], expected: list[str]) -> None:
    (tmp_path / "t.tsv").write_text("\n".join(["text\tlabel", *lines, ""]), encoding="utf-8")
    assert [row.values["text"] for row in read(tmp_path / "t.tsv").rows] == expected


def test_long_texts_are_read(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"text,label\n{'x' * 200_000},1\n", encoding="utf-8")
    assert len(read(tmp_path / "t.csv").rows[0].values["text"]) == 200_000
