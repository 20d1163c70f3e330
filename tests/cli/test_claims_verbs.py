"""`rbench claims`: what it prints and how it exits."""

from __future__ import annotations

import csv
import io
import re
import shutil
from pathlib import Path

import pytest

from tests import reference
from tests.cli.conftest import Shell
from tests.refusals import nearest


def test_verdicts_of_a_table_are_printed(shell: Shell) -> None:
    result = shell("claims", "--paper", "table1")
    assert result.exit_code == 0
    assert "| rse-half-of-simcse " in result.stdout and "| 21 of 35 " in result.stdout
    assert re.search(r"Sentences: 8\. .*: 5, .*: 2, .*: 1\.", result.stdout)


@pytest.mark.parametrize(("name", "code"), [("adcl-table3", 0), ("robustsentembed-table1", 3)])
def test_strict_exits_with_3_where_a_claim_fails(shell: Shell, name: str, code: int) -> None:
    assert shell("claims", "--paper", name, "--strict").exit_code == code


def test_csv_has_a_line_for_each_combination(shell: Shell) -> None:
    rows = list(csv.DictReader(io.StringIO(shell("claims", "--paper", "adcl-table3", "--format", "csv").stdout)))
    assert len(rows) == 16 and {row["verdict"] for row in rows} == {"holds"}
    first = rows[0]
    assert (first["task"], first["attack"], first["value"], first["against_value"]) == (
        "ag_news",
        "geometry",
        "62.3",
        "30.2",
    )


def test_an_unknown_name_exits_with_2(shell: Shell) -> None:
    result = shell("claims", "--paper", "tabel1")
    assert result.exit_code == 2 and nearest("table1") in result.stderr


def test_a_folder_of_claims_has_those_of_each_run_by_its_name(shell: Shell, tmp_path: Path) -> None:
    of_file = shell("claims", reference.run("sts"), "--claims", reference.REFERENCE / "claims" / "sts.yaml")
    of_folder = shell("claims", reference.run("sts"), "--claims", reference.REFERENCE / "claims")
    assert of_folder.exit_code == 0 and of_folder.stdout == of_file.stdout
    assert of_folder.stdout == reference.verdicts("sts")


def test_a_folder_without_claims_for_the_run_is_refused_with_the_name_that_it_lacks(
    shell: Shell, tmp_path: Path
) -> None:
    shutil.copy(reference.REFERENCE / "claims" / "sts.yaml", tmp_path / "other.yaml")
    result = shell("claims", reference.run("sts"), "--claims", tmp_path)
    said = " ".join(result.stderr.split())
    assert result.exit_code == 2 and str(tmp_path / "sts.yaml") in said


def test_a_file_of_claims_that_is_not_there_is_refused(shell: Shell, tmp_path: Path) -> None:
    result = shell("claims", reference.run("sts"), "--claims", tmp_path / "none.yaml")
    assert result.exit_code == 2 and "none.yaml" in result.stderr and "Traceback" not in result.stderr
