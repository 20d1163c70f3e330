"""Tests of how a table is arranged so that it fits a column."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.tables.fitting import ArrangedTable, FloatRoom, TextHeights, arrange
from rbench.tables.shapes import IntervalPlace, PaperCell, PaperGrid, TableBlock, count_lines, text_width
from tests.tables.builders import make_paper_cells

LINE = 13.6
"""Points from one line to the next."""


def fitted(
    of: PaperGrid, widths: Sequence[float], place: IntervalPlace = "behind", lines: float = 1000
) -> ArrangedTable:
    """Return the table in rooms of these widths and of so many lines, each in smaller letters than the one before."""
    return arrange(of, [FloatRoom(width, lines * LINE, LINE, size) for size, width in enumerate(widths)], place)


def texts(shown: TableBlock) -> list[list[str]]:
    return [[cell.text for cell in row] for row in shown.rows]


def heads(shown: TableBlock) -> list[str]:
    return [" ".join(head.lines) for head in shown.heads[-1]]


def same(attacks: int, encoders: int, values: int, name: str = "encoder") -> PaperGrid:
    """Return a table in which each attack has the same encoders."""
    rows = [
        make_paper_cells(f"attack {a}", f"{name} {e}", *(f"{a}{e}.{v}" for v in range(values)))
        for a in range(attacks)
        for e in range(encoders)
    ]
    header = ["Attack", "Encoder", *(f"task {v}" for v in range(values))]
    starts = [a * encoders for a in range(1, attacks)]
    return PaperGrid(header, rows, starts, ["left", "left", *["right"] * values], 2, grouped=True)  # type: ignore[list-item]


def test_attacks_stand_beside_each_other_where_there_is_room() -> None:
    (one,) = fitted(same(3, 2, 1), [400]).blocks
    assert heads(one) == ["Encoder", "attack 0", "attack 1", "attack 2"]
    assert texts(one) == [["encoder 0", "00.0", "10.0", "20.0"], ["encoder 1", "01.0", "11.0", "21.0"]]


def test_attacks_with_several_columns_span_them() -> None:
    (one,) = fitted(same(2, 2, 2), [400]).blocks
    assert [(head.lines, head.span) for head in one.heads[0]] == [((), 1), (("attack 0",), 2), (("attack 1",), 2)]
    assert heads(one) == ["Encoder", "task 0", "task 1", "task 0", "task 1"]


def test_attacks_stand_above_their_rows_where_there_is_less() -> None:
    (one,) = fitted(same(5, 2, 2), [130]).blocks
    assert {at: title.text for at, title in one.titles.items()} == {2 * a: f"attack {a}" for a in range(5)}
    assert heads(one) == ["Encoder", "task 0", "task 1"]


def test_an_attack_keeps_the_letter_of_its_note_wherever_it_stands() -> None:
    of = same(3, 2, 1)
    rows = [
        [PaperCell("Geometry [variant=released,max_words=12]"), *row[1:]] if i < 2 else row
        for i, row in enumerate(of.rows)
    ]
    found = fitted(replace(of, rows=rows), [300])
    (beside,) = found.blocks
    assert found.notes == ("a: variant = released, max_words = 12.",)
    assert [(head.lines[0], head.letter) for head in beside.heads[-1]][1:3] == [("Geometry", "a"), ("attack 1", "")]
    (above,) = fitted(replace(of, rows=rows), [110]).blocks
    assert [(title.text, title.letter) for title in above.titles.values()][:2] == [("Geometry", "a"), ("attack 1", "")]


def test_smaller_letters_are_taken_before_the_table_is_divided() -> None:
    of = same(5, 2, 2, "a long name of an encoder")
    assert fitted(of, [400]).room.size == 0
    needs = fitted(of, [400]).blocks[0].wide
    found = fitted(of, [60, 60, needs])
    assert len(found.blocks) == 1 and found.room.size == 2


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.floats(150, 500), st.integers(1, 30))
def test_whatever_the_table_it_fits_and_no_number_is_lost(
    attacks: int, encoders: int, values: int, room: float, letters: int
) -> None:
    of = same(attacks, encoders, values, " ".join("abc" for _ in range(letters)))
    found = fitted(of, [room])
    assert all(one.wide <= room + 0.1 for one in found.blocks)
    numbers = [text for one in found.blocks for row in texts(one) for text in row if re.fullmatch(r"[\d.]+", text)]
    assert sorted(numbers) == sorted(
        f"{a}{e}.{v}" for a in range(attacks) for e in range(encoders) for v in range(values)
    )


def test_rows_and_columns_change_places_where_columns_are_many() -> None:
    rows = [make_paper_cells("one", *["1.0"] * 12), make_paper_cells("two", *["2.0"] * 12)]
    of = PaperGrid(["Noise", *(f"kind {i}" for i in range(12))], rows, [], ["left", *["right"] * 12], 1)  # type: ignore[list-item]
    found = fitted(of, [120])
    assert found.transposed
    assert heads(found.blocks[0]) == ["Noise", "one", "two"]
    assert texts(found.blocks[0])[3] == ["kind 3", "1.0", "2.0"]


def test_a_name_that_all_rows_share_is_said_once() -> None:
    of = same(3, 1, 2)
    found = fitted(of, [400])
    assert found.said == ("Encoder: encoder 0.",)
    assert heads(found.blocks[0]) == ["Attack", "task 0", "task 1"]
    assert found.blocks[0].groups == (), "no lines between single rows"


def with_intervals(columns: int, rows: int = 5) -> PaperGrid:
    """Return a table of one group whose numbers have wide intervals."""
    number = PaperCell("51.2", "[45.0, 57.3]", rounded=("51", "[45, 57]"))
    header = ["Encoder", *(f"t{i}" for i in range(columns))]
    body = [[PaperCell(f"e{row}"), *[number] * columns] for row in range(rows)]
    return PaperGrid(header, body, [], ["left", *["right"] * columns], 1)  # type: ignore[list-item]


def test_intervals_give_way_before_the_letters_of_all() -> None:
    of = with_intervals(4)
    whole = fitted(of, [400, 500])
    assert (whole.place, whole.room.size) == ("behind", 0)
    width = whole.blocks[0].wide
    small = fitted(of, [width - 5, width])
    below = fitted(of, [small.blocks[0].wide - 5, width])
    assert (small.place, small.room.size) == ("small", 0)
    assert (below.place, below.room.size) == ("below", 0)
    letters = fitted(of, [below.blocks[0].wide - 5, width])
    assert (letters.place, letters.room.size) == ("below", 1)
    assert not any(found.rounded for found in (whole, small, below, letters))


def test_the_page_comes_after_small_letters_and_before_a_second_float() -> None:
    of = with_intervals(4)
    need = fitted(of, [500], "below").blocks[0].wide
    rooms = [FloatRoom(need - 5, 500), FloatRoom(need, 500, size=1), FloatRoom(1000, 500, page=True)]
    assert not arrange(of, rooms).room.page
    found = arrange(of, [rooms[0], FloatRoom(need - 3, 500, size=1), rooms[2]])
    assert found.room.page and found.place == "behind" and len(found.floats) == 1


def test_digits_go_only_where_that_saves_a_float_and_every_interval_is_wider() -> None:
    of = with_intervals(4)
    need = fitted(of, [500], "below").blocks[0].wide
    found = fitted(of, [need - 5], lines=12)
    assert found.rounded and texts(found.blocks[0])[0] == ["e0", "51", "51", "51", "51"]
    assert not fitted(of, [need], lines=12).rounded
    kept = replace(of, rows=[[*row[:1], replace(row[1], rounded=None), *row[2:]] for row in of.rows])
    mixed = fitted(kept, [need - 5], lines=12)
    assert texts(mixed.blocks[0])[0] == ["e0", "51.2", "51", "51", "51"]


def test_a_table_is_divided_into_as_few_floats_as_can_be() -> None:
    of = same(4, 10, 2)
    assert len(fitted(of, [130], lines=60).floats) == 1
    parts = fitted(of, [130], lines=30).floats
    assert len(parts) == 2
    shown = [row for one in parts for block in one for row in texts(block)]
    assert len(shown) == 40 and all(sum(block.height(LINE) for block in one) <= 30 * LINE for one in parts)


def test_equal_entries_above_the_header_are_one() -> None:
    of = PaperGrid(["Encoder", "a", "b", "a"], [make_paper_cells("e", "1", "2", "3")], [], ["left", *["right"] * 3], 1)  # type: ignore[list-item]
    (one,) = fitted(replace(of, above=["", "ASR", "ASR", "AUA"]), [400]).blocks
    assert [(head.lines, head.span) for head in one.heads[0]] == [((), 1), (("ASR",), 2), (("AUA",), 1)]


def named(*names: str) -> PaperGrid:
    return PaperGrid(["Encoder", "mr"], [make_paper_cells(name, "1.0") for name in names], [], ["left", "right"], 1)


@pytest.mark.parametrize(
    ("names", "shown", "notes"),
    [
        (
            ["SimCSE on a base [batch_size=32,steps=60]", "short"],
            [("SimCSE on a base", "a"), ("short", "")],
            ("a: batch_size = 32, steps = 60.",),
        ),
        (["short[a=1]", "b"], [("short[a=1]", ""), ("b", "")], ()),
        (
            ["a rather long name[beta=0.1,steps=60]", "a rather long name[beta=0.2,steps=60]"],
            [("a rather long name, beta=0.1", "a"), ("a rather long name, beta=0.2", "a")],
            ("a: steps = 60.",),
        ),
        (
            ["a rather long name[steps=60]", "a rather long name"],
            [("a rather long name[steps=60]", ""), ("a rather long name", "")],
            (),
        ),
    ],
)
def test_options_of_long_names_are_notes_unless_they_tell_names_apart(
    names: list[str], shown: list[tuple[str, str]], notes: tuple[str, ...]
) -> None:
    found = fitted(named(*names), [400])
    assert [(row[0].text, row[0].letter) for row in found.blocks[0].rows] == shown
    assert found.notes == notes


@given(st.text(string.ascii_letters + " -", min_size=1, max_size=60), st.integers(0, 40))
def test_no_name_loses_a_letter_when_its_header_has_several_lines(name: str, digits: int) -> None:
    of = PaperGrid(["Encoder", name], [make_paper_cells("e", "1" * (1 + digits))], [], ["left", "right"], 1)
    for room in (30, 90, 300):
        (one,) = fitted(of, [room]).blocks
        assert "".join(one.heads[-1][1].lines).replace(" ", "") == name.replace(" ", "")
        assert len(one.heads[-1][1].lines) <= 3


def test_widths_are_those_of_the_font() -> None:
    # As TeX measures them in cmr10.
    measured = {"0123456789": 50.0, "TextFooler": 47.1, "minilm-mlm": 53.3, "SimCSE on minilm-mlm": 105.0}
    for text, points in measured.items():
        assert points <= text_width(text) <= 1.15 * points


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 50, 1),
        ("one", 10, 1),
        ("one two three", 200, 1),
        ("one two three", 40, 2),
        # TeX rather begins a line with a word than to end one behind its hyphen, and breaks names behind signs.
        ("RobustSentEmbed on all-MiniLM-L6-v2 [variant=released]", 150, 3),
        ("all-MiniLM-L6-v2", 62, 2),
    ],
)
def test_lines_of_a_paragraph_are_broken_as_tex_breaks_them(text: str, width: float, lines: int) -> None:
    assert count_lines(text, width) == lines


def test_caption_and_notes_take_room_of_each_float_that_has_them() -> None:
    of, room = same(1, 30, 1), FloatRoom(400, 20 * LINE, LINE)
    plain = arrange(of, [room])
    texts = TextHeights(only=6 * LINE, first=5 * LINE, later=2 * LINE, last=3 * LINE)
    found = arrange(of, [room], measure_texts=lambda _: texts)
    heights = [sum(block.height(LINE) for block in one) for one in found.floats]
    assert len(plain.floats) == 2 and len(heights) == 3
    limits = [room.height - texts.first, room.height - texts.later, room.height - texts.last]
    assert all(height <= limit for height, limit in zip(heights, limits, strict=True))
    assert heights[0] > limits[0] - LINE, "as many rows as there is room for"
    # What fits with the caption alone, but not with the notes, has two parts.
    short = FloatRoom(400, plain.floats[0][0].height(LINE) + 5.5 * LINE, LINE)
    first_rows = replace(of, rows=of.rows[: len(plain.floats[0][0].rows)])
    assert len(arrange(first_rows, [short], measure_texts=lambda _: texts).floats) == 2


def test_a_row_whose_name_is_higher_than_number_and_interval_has_room_for_it() -> None:
    of = with_intervals(2, 2)
    names = ["a name of many words that needs some lines", "short"]
    of = replace(of, rows=[[PaperCell(name), *row[1:]] for name, row in zip(names, of.rows, strict=True)])
    (block,) = fitted(of, [160], "below").blocks
    assert block.name_lines(0) >= 3 and block.lines(0) == block.name_lines(0)
    assert block.lines(1) == pytest.approx(1.8)
