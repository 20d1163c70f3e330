"""Tests of how a table is arranged so that it fits a column."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.tables.fitting import arranged
from rbench.tables.shapes import Cell, Grid, Shown, wide
from tests.tables.test_latex import cells


def texts(shown: Shown) -> list[list[str]]:
    return [[cell.text for cell in row] for row in shown.rows]


def heads(shown: Shown) -> list[str]:
    return [" ".join(head.lines) for head in shown.heads[-1]]


def same(attacks: int, encoders: int, values: int, name: str = "encoder") -> Grid:
    """Return a table in which each attack has the same encoders."""
    rows = [
        cells(f"attack {a}", f"{name} {e}", *(f"{a}{e}.{v}" for v in range(values)))
        for a in range(attacks)
        for e in range(encoders)
    ]
    header = ["Attack", "Encoder", *(f"task {v}" for v in range(values))]
    starts = [a * encoders for a in range(1, attacks)]
    return Grid(header, rows, starts, ["left", "left", *["right"] * values], 2, grouped=True)  # type: ignore[list-item]


def test_attacks_stand_beside_each_other_where_there_is_room() -> None:
    (one,) = arranged(same(3, 2, 1), [400]).blocks
    assert heads(one) == ["Encoder", "attack 0", "attack 1", "attack 2"]
    assert texts(one) == [["encoder 0", "00.0", "10.0", "20.0"], ["encoder 1", "01.0", "11.0", "21.0"]]


def test_attacks_with_several_columns_span_them() -> None:
    (one,) = arranged(same(2, 2, 2), [400]).blocks
    assert [(head.lines, head.span) for head in one.heads[0]] == [((), 1), (("attack 0",), 2), (("attack 1",), 2)]
    assert heads(one) == ["Encoder", "task 0", "task 1", "task 0", "task 1"]


def test_attacks_stand_above_their_rows_where_there_is_less() -> None:
    (one,) = arranged(same(5, 2, 2), [130]).blocks
    assert {at: title.text for at, title in one.titles.items()} == {2 * a: f"attack {a}" for a in range(5)}
    assert heads(one) == ["Encoder", "task 0", "task 1"]


def test_an_attack_keeps_the_letter_of_its_note_wherever_it_stands() -> None:
    of = same(3, 2, 1)
    rows = [
        [Cell("Geometry [variant=released,max_words=12]"), *row[1:]] if i < 2 else row for i, row in enumerate(of.rows)
    ]
    found = arranged(replace(of, rows=rows), [300])
    (beside,) = found.blocks
    assert found.notes == ("a: variant = released, max_words = 12.",)
    assert [(head.lines[0], head.letter) for head in beside.heads[-1]][1:3] == [("Geometry", "a"), ("attack 1", "")]
    (above,) = arranged(replace(of, rows=rows), [110]).blocks
    assert [(title.text, title.letter) for title in above.titles.values()][:2] == [("Geometry", "a"), ("attack 1", "")]


def test_smaller_letters_are_taken_before_the_table_is_divided() -> None:
    of = same(5, 2, 2, "a long name of an encoder")
    assert arranged(of, [400]).size == 0
    needs = arranged(of, [400]).blocks[0].wide
    found = arranged(of, [needs - 70, needs - 60, needs])
    assert len(found.blocks) == 1 and found.size > 0


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.floats(150, 500), st.integers(1, 30))
def test_whatever_the_table_it_fits_and_no_number_is_lost(
    attacks: int, encoders: int, values: int, room: float, letters: int
) -> None:
    of = same(attacks, encoders, values, " ".join("abc" for _ in range(letters)))
    found = arranged(of, [room])
    assert all(one.wide <= room + 0.1 for one in found.blocks)
    numbers = [text for one in found.blocks for row in texts(one) for text in row if re.fullmatch(r"[\d.]+", text)]
    assert sorted(numbers) == sorted(
        f"{a}{e}.{v}" for a in range(attacks) for e in range(encoders) for v in range(values)
    )


def test_rows_and_columns_change_places_where_columns_are_many() -> None:
    rows = [cells("one", *["1.0"] * 12), cells("two", *["2.0"] * 12)]
    of = Grid(["Noise", *(f"kind {i}" for i in range(12))], rows, [], ["left", *["right"] * 12], 1)  # type: ignore[list-item]
    found = arranged(of, [120])
    assert found.transposed
    assert heads(found.blocks[0]) == ["Noise", "one", "two"]
    assert texts(found.blocks[0])[3] == ["kind 3", "1.0", "2.0"]


def test_a_name_that_all_rows_share_is_said_once() -> None:
    of = same(3, 1, 2)
    found = arranged(of, [400])
    assert found.said == ("Encoder: encoder 0.",)
    assert heads(found.blocks[0]) == ["Attack", "task 0", "task 1"]
    assert found.blocks[0].groups == (), "no lines between single rows"


def named(*names: str) -> Grid:
    return Grid(["Encoder", "mr"], [cells(name, "1.0") for name in names], [], ["left", "right"], 1)


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
    found = arranged(named(*names), [400])
    assert [(row[0].text, row[0].letter) for row in found.blocks[0].rows] == shown
    assert found.notes == notes


@given(st.text(string.ascii_letters + " -", min_size=1, max_size=60), st.integers(0, 40))
def test_no_name_loses_a_letter_when_its_header_has_several_lines(name: str, digits: int) -> None:
    of = Grid(["Encoder", name], [cells("e", "1" * (1 + digits))], [], ["left", "right"], 1)
    for room in (30, 90, 300):
        (one,) = arranged(of, [room]).blocks
        assert "".join(one.heads[-1][1].lines).replace(" ", "") == name.replace(" ", "")
        assert len(one.heads[-1][1].lines) <= 3


def test_widths_are_those_of_the_font() -> None:
    # As TeX measures them in cmr10.
    measured = {"0123456789": 50.0, "TextFooler": 47.1, "minilm-mlm": 53.3, "SimCSE on minilm-mlm": 105.0}
    for text, points in measured.items():
        assert points <= wide(text) <= 1.15 * points
