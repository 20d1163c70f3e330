"""Tests the Parquet file of outcomes: what is written comes back, others read it, and no foreign file harms."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from rbench.schema import Outcome
from rbench.schema.results import Change, Step
from rbench.store.runs.outcomes import COLUMNS
from rbench.store.runs.parquet import OutcomesFile, build_schema, write_parquet
from tests.store.builders import make_outcome

A, B = "a" * 64, "b" * 64
STEPS = (Step(score=0.1 + 0.2, prediction=1, changes=(Change(column=0, start=0, end=3, new="ü\N{SNOWMAN}"),)),)


def outcomes_of(content: bytes) -> list[tuple[str, Outcome]]:
    file = OutcomesFile(content)
    groups = dict.fromkeys(file.groups.values())
    return [(key, Outcome.model_validate(dict(row))) for group in groups for key, row in file.outcomes(group)]


def made(n: int = 3) -> list[Outcome]:
    plain = [make_outcome(f"test:{i}").model_copy(update={"seconds": i / 3}) for i in range(n - 1)]
    changed = {"steps": STEPS, "gold": 2.5, "original_score": -1e-300, "original": None, "error": "a\0b"}
    return [*plain, make_outcome("last").model_copy(update=changed)]


def test_what_was_written_comes_back() -> None:
    jobs = [(A, made()), (B, made(2))]
    assert outcomes_of(write_parquet(jobs)) == [(key, outcome) for key, outcomes in jobs for outcome in outcomes]


def test_the_same_outcomes_give_the_same_file() -> None:
    assert write_parquet([(A, made())]) == write_parquet([(A, made())])


def test_a_job_is_in_one_row_group_and_small_ones_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rbench.store.runs.parquet.ROWS", 4)
    content = write_parquet([(letter * 64, made(n)) for letter, n in (("a", 2), ("b", 2), ("c", 9), ("d", 1))])
    assert OutcomesFile(content).groups == {"a" * 64: 0, "b" * 64: 0, "c" * 64: 1, "d" * 64: 2}
    assert len(outcomes_of(content)) == 14


def test_no_column_is_nested_and_types_are_those_of_the_typed_reader() -> None:
    file = parquet.ParquetFile(BytesIO(write_parquet([(A, made())])))
    assert file.schema_arrow.equals(build_schema()) and file.schema_arrow.metadata is None
    assert [name for name in build_schema().names if name != "job"] == [*COLUMNS]
    assert {str(field.type) for field in build_schema()} == {"string", "int64", "double", "bool"}


def test_others_read_the_same_numbers() -> None:
    frame = polars.read_parquet(BytesIO(write_parquet([(A, made()), (B, made(2))])))
    assert frame["job"].to_list() == [A, A, A, B, B]
    assert frame["seconds"].to_list() == [o.seconds for o in (*made(), *made(2))]
    assert frame["steps"].str.json_decode(pl_steps())[2][0]["changes"][0]["new"] == "ü\N{SNOWMAN}"


def pl_steps() -> Any:
    changes = polars.Struct({"column": polars.Int64, "start": polars.Int64, "end": polars.Int64, "new": polars.String})
    step = {"score": polars.Float64, "prediction": polars.Int64, "changes": polars.List(changes)}
    return polars.List(polars.Struct(step))


# --------------------------------------------------------------------------------------------- of somebody else


def table(n: int = 3, **columns: Any) -> pa.Table:
    """The table of `n` outcomes, in which some columns are others."""
    found = parquet.read_table(BytesIO(write_parquet([(A, made(n))])))
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array([values] * n)
        place = found.column_names.index(name) if name in found.column_names else found.num_columns
        field = pa.field(name, array.type, nullable=name != "job" and COLUMNS.get(name, COLUMNS["error"]).nullable)
        if place < found.num_columns:
            found = found.remove_column(place)
        found = found.add_column(place, field, array)
    return found


def stored(one: pa.Table, **options: Any) -> bytes:
    content = BytesIO()
    parquet.write_table(one, content, **{"compression": "none", "store_schema": False, **options})
    return content.getvalue()


Hostile = Callable[[], bytes]
REFUSED: dict[str, Hostile] = {
    "a compressed page": lambda: stored(table(), compression="zstd"),
    "a wrong type": lambda: stored(table(label=pa.array(["1", "2", "3"]))),
    "a nested column": lambda: stored(table(error=pa.array([["a"], [], None]))),
    "a column too many": lambda: stored(table(more=1)),
    "a column too few": lambda: stored(table().drop_columns(["label"])),
    "a job in two places": lambda: stored(table(job=pa.array([A, B, A]))),
    "an extension type": lambda: stored(
        table(original=pa.array(["[]"] * 3, pa.string()).cast(pa.large_string())), store_schema=True
    ),
    "no footer": lambda: b"PAR1" + bytes(100) + b"PAR1",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_rbench_does_not_write_is_refused(name: str) -> None:
    content = REFUSED[name]()
    with pytest.raises(ValueError):
        outcomes_of(content)


SPOIL = """
import random, sys
from rbench.store.runs.parquet import OutcomesFile
content = sys.stdin.buffer.read()
footer = int.from_bytes(content[-8:-4], "little") + 8
refused = 0
random.seed(int(sys.argv[1]))
for _ in range(300):
    place = len(content) - 1 - random.randrange(footer if sys.argv[2] == "footer" else len(content))
    spoiled = content[:place] + bytes([content[place] ^ random.choice([1, 2, 0x55, 0x80, 0xff])]) + content[place + 1 :]
    try:
        file = OutcomesFile(spoiled)
        for group in set(file.groups.values()):
            for key, row in file.outcomes(group): pass
    except ValueError:
        refused += 1
print(refused)
"""


@pytest.mark.parametrize("part", ["footer", pytest.param("file", marks=pytest.mark.nightly)])
def test_a_changed_byte_is_refused_or_read_and_never_ends_the_process(part: str) -> None:
    """pyarrow itself aborts for some: so another process reads them."""
    content = write_parquet([(A, made()), (B, made(2))])
    done = subprocess.run([sys.executable, "-c", SPOIL, "1", part], input=content, capture_output=True, check=True)
    assert int(done.stdout) > 50


# Made by another process, which is killed where it takes more memory than refusing it may take.
BOMB = """
import os, re, sys
from io import BytesIO
from pathlib import Path
from rbench.store.runs import parquet
parquet.BATCH_BYTES = 32 << 20
content = sys.stdin.buffer.read()
import pyarrow.parquet
def peak():  # of this process: that of getrusage begins with its parent's
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
try:
    if sys.argv[1:]:
        pyarrow.parquet.read_table(BytesIO(content), use_threads=False)
    else:
        file = parquet.OutcomesFile(content)
        for group in set(file.groups.values()):
            for key, row in file.outcomes(group): pass
except ValueError as error:
    print("refused:", error)
print((peak() - before) // 1024, flush=True)
os._exit(0)  # pyarrow sometimes aborts a process that ends with so large a table
"""


def memory_of(content: bytes, *whole: str) -> tuple[str, int]:
    """What reading says, and the megabytes that it takes."""
    done = subprocess.run([sys.executable, "-c", BOMB, *whole], input=content, capture_output=True, check=True)
    *said, megabytes = done.stdout.decode().splitlines()
    return "\n".join(said), int(megabytes)


def bombs() -> Iterator[tuple[str, bytes]]:
    large = "x" * 100_000
    yield "a dictionary that repeats one value: 300 MB in 200 kB", stored(table(3000, error=pa.array([large] * 3000)))
    yield (
        "a value of which each next has the prefix: 300 MB in 200 kB",
        stored(
            table(3000, error=pa.array([large] * 3000)),
            use_dictionary=False,
            column_encoding={"error": "DELTA_BYTE_ARRAY"},
        ),
    )
    yield "a page of one value, compressed", stored(table(3000, error=pa.array([large] * 3000)), compression="zstd")


@pytest.mark.parametrize("which", [0, *(pytest.param(one, marks=pytest.mark.nightly) for one in (1, 2))])
def test_a_bomb_takes_little_memory(which: int) -> None:
    name, content = next(islice(bombs(), which, None))
    assert len(content) < 2_000_000, name
    _, megabytes = memory_of(content)
    assert megabytes < 150, name


@pytest.mark.nightly
def test_the_process_that_measures_would_notice() -> None:
    """The same file, read in one piece, takes what it decodes to."""
    _, content = next(bombs())
    assert memory_of(content, "whole")[1] > 250


def test_listing_and_the_status_of_a_folder_import_no_pyarrow(tmp_path: Path) -> None:
    """`tests/cli/test_verbs.py` has `--help`."""
    code = (
        "import sys\n"
        "from rbench.cli import main\n"
        f"for words in (['list'], ['status', {str(tmp_path)!r}]):\n"
        "    sys.argv = ['rbench', *words]\n"
        "    try: main()\n"
        "    except SystemExit: pass\n"
        "    assert 'pyarrow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
