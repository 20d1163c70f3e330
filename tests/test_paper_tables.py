"""The papers' tables in results/paper: all there, their averages recomputed, and their names rbench's own."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from rbench import config as loading
from rbench.config.registry import Registry
from rbench.papers import tables as printed
from rbench.papers.tables import Coordinates, PrintedCell, PrintedNumber, find_failures

NUMBERS = {"robustsentembed": (1, 2, 3, 4, 5, 6), "vadvcse": (1, 2, 3, 4, 5, 6), "adcl": tuple(range(1, 9))}
NUMBERS["cline"] = (2, 4, 5, 6, 7)
NAMES = sorted(f"{paper}-table{number}" for paper, numbers in NUMBERS.items() for number in numbers)
TABLES = {name: printed.load_printed_table(name) for name in NAMES}
REGISTRY = Registry()
QUOTED = {"adcl-table2": ["adcl-table1"]}
"""Further tables whose numbers the notes of a table's suite quote."""


def test_every_table_that_is_named_is_there_and_no_other() -> None:
    assert printed.list_printed_tables() == NAMES


def last_digit(text: str) -> Decimal:
    return Decimal(1).scaleb(Decimal(text).as_tuple().exponent)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_lists_just_the_averages_that_fail(name: str) -> None:
    """An independent computation on the file's own JSON: bounds of each number, and what they allow."""
    data: dict[str, Any] = json.loads((printed.papers_folder() / f"{name}.json").read_text(encoding="utf-8"))
    place = {column["name"]: number for number, column in enumerate(data["columns"])}
    wrong = []
    for row in data["rows"]:
        texts = [cell if isinstance(cell, str) else cell["printed"] for cell in row["cells"]]
        for column in data["columns"]:
            if "computed" not in column:
                continue
            parts = [texts[place[other]] for other in column["computed"]["of"]]
            low = [Decimal(text) - last_digit(text) / 2 for text in parts]
            high = [Decimal(text) + last_digit(text) / 2 for text in parts]
            if column["computed"]["kind"] == "mean":
                bounds = sum(low) / len(low), sum(high) / len(high)
            else:
                bounds = low[0] - high[1], high[0] - low[1]
            value = texts[place[column["name"]]]
            half = last_digit(value) / 2
            if not bounds[0] - half <= Decimal(value) <= bounds[1] + half:
                middle = (bounds[0] + bounds[1]) / 2
                wrong.append((row["label"], column["name"], value, str(middle.quantize(last_digit(value)))))
    listed = [(one["row"], one["column"], one["printed"], one["recomputed"]) for one in data.get("fails", [])]
    assert listed == wrong


@pytest.mark.parametrize("name", NAMES)
def test_what_the_product_recomputes_is_what_the_file_lists(name: str) -> None:
    assert find_failures(TABLES[name]) == TABLES[name].fails


def test_three_printed_averages_fail() -> None:
    failed = {(name, one.printed, one.recomputed) for name in NAMES for one in TABLES[name].fails}
    assert failed == {
        ("robustsentembed-table1", "72.61", "73.32"),
        ("vadvcse-table2", "84.94", "84.95"),
        ("vadvcse-table3", "46.8", "46.9"),
    }


def test_names_and_options_are_those_of_rbench(tmp_path: Path) -> None:
    """A suite with everything that the tables name loads, so all of it exists and all options are right."""
    found = [cell.where for table in TABLES.values() for cell in table.found()]

    def choices(pairs: list[tuple[str | None, dict[str, Any]]]) -> list[Any]:
        named = [{name: options} if options else name for name, options in pairs if name is not None]
        return [choice for number, choice in enumerate(named) if choice not in named[:number]]

    for where in found:
        if where.task is not None:
            assert loading.load_task(where.task, REGISTRY).name == where.task
        if where.contrast is not None:
            assert where.contrast in REGISTRY.names("contrast")
            assert where.task is not None and where.contrast.startswith(f"contrast_{where.task}")
    suite = {
        "title": "All that printed tables name",
        "encoders": choices([(where.encoder, where.options) for where in found]),
        "tasks": ["ag_news"],
        "attacks": choices([(where.attack, {}) for where in found]),
        "finetune": choices([(where.strategy, where.strategy_options) for where in found]),
        "resources": "standard",
    }
    file = tmp_path / "everything.yaml"
    file.write_text(yaml.safe_dump(suite), encoding="utf-8")
    assert len(loading.load(str(file), registry=REGISTRY).suite.encoders) > 40
    made_against = {where.made_against for where in found} - {None}
    assert made_against <= {where.encoder for where in found}


def everything(paper: str) -> list[tuple[str, PrintedNumber]]:
    return [(name, cell) for name in NAMES if name.startswith(f"{paper}-") for cell in TABLES[name].found()]


@pytest.mark.parametrize("paper", NUMBERS)
def test_numbers_that_a_paper_prints_twice_are_the_same(paper: str) -> None:
    """Except one, which the file has a note on. Cells that say nothing of an encoder or strategy are left out."""
    seen: dict[str, tuple[str, PrintedNumber]] = {}
    twice, differ = 0, []
    for name, cell in everything(paper):
        if cell.computed or cell.where.encoder is None or cell.where.task is None:
            continue
        where: Coordinates = cell.where
        key = f"{cell.metric} {where.model_dump_json()}"
        if key in seen:
            twice += 1
            if seen[key][1].cell.printed != cell.cell.printed:
                differ.append((seen[key][0], name, seen[key][1].cell.printed, cell.cell.printed))
                assert cell.cell.note is not None
        seen.setdefault(key, (name, cell))
    assert differ == ([("adcl-table1", "adcl-table2", "76.5", "76.9")] if paper == "adcl" else [])
    # ADCL: six rows of Table 1 stand in Table 2, one in Tables 6 and 8. CLINE: Tables 2 and 4, 2 and 5, 4 and 6.
    assert twice == {"robustsentembed": 0, "vadvcse": 0, "adcl": 6 * 9 + 3 + 8, "cline": 4 + 8 + 12}[paper]


def test_consistency_lies_between_its_bounds_but_once() -> None:
    """With one edit an original, both are right at most as often as either, and at least as often as the errors of the
    two leave room. One printed number breaks the lower bound, and its cell says so."""
    groups: dict[str, list[PrintedCell]] = {}
    for name in ("cline-table4", "cline-table6"):
        for found in TABLES[name].found():
            assert found.metric in ("ori", "rev", "con")
            groups.setdefault(f"{name} {found.where.model_dump_json()}", []).append(found.cell)
    assert len(groups) == 12 + 24
    for cells in groups.values():
        ori, rev, con = (Decimal(cell.printed or "nan") for cell in cells)
        assert con <= min(ori, rev)
        assert (con < ori + rev - 100 - Decimal("0.15")) == (cells[2].note is not None)
    assert [cells[2].printed for cells in groups.values() if cells[2].note] == ["38.2"]


SUITES = {"robustsentembed-table1": "table1", **{name: name for name in NAMES if name in REGISTRY.names("suites")}}


@pytest.mark.parametrize("name", SUITES)
def test_numbers_that_a_suite_quotes_are_those_of_its_table(name: str) -> None:
    """Suites have notes "Printed, ...", which were transcribed at other times. Values of rho are no results."""
    known = {cell.cell.printed for other in (name, *QUOTED.get(name, ())) for cell in TABLES[other].found()}
    known |= {one.recomputed for one in TABLES[name].fails}
    notes = loading.load(SUITES[name], registry=REGISTRY).suite.notes
    text = " ".join(re.sub(r"0\.\d+ (?=7\d\.)", "", note) for note in notes if note.startswith("Printed"))
    quoted = set(re.findall(r"\d+\.\d+(?![\dK])", text))  # with a K it is a number of texts
    assert quoted and quoted <= known


def test_the_later_version_alone_has_robustembed() -> None:
    for number in (1, 2, 3, 4):
        table = TABLES[f"robustsentembed-table{number}"]
        assert table.source.version == "001" and table.source.compared == ("000",)
        for row in table.rows:
            assert row.absent_in == (("000",) if row.label["encoder"].startswith("RobustEmbed-") else ())
        assert not any(cell.elsewhere for row in table.rows for cell in row.cells)
