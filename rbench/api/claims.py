"""Judge the claims of a suite on its RUN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.errors import RbenchError, StoreError
from rbench.load.claims import file_of, read_claims
from rbench.load.ground import of_plan
from rbench.load.measures import find_measure
from rbench.load.metrics import Metrics
from rbench.load.registry import Registry
from rbench.spec import TableSpec

if TYPE_CHECKING:
    from rbench.tables import Results, Table
    from rbench.verdicts.cells import Cells
    from rbench.verdicts.claims import JudgedClaim


def claims(run: Path | str, file: Path | str | None = None, include: Sequence[Path] = ()) -> tuple[JudgedClaim, ...]:
    """Judge the claims of a RUN's suite, or of a file: each is supported, contradicted or undecided.

    Args:
        run: the RUN.
        file: a YAML file with claims under the key `claims`, or a folder that has NAME.yaml for the RUN in folder NAME;
            None: the claims with which the RUN was planned.
        include: folders with measures and metrics that the RUN's suite names.

    Raises:
        StoreError: the folder is not a RUN, its suite or the folder `file` has no claims, or outcomes are damaged.
        SuiteError: the file is no YAML, or one of its claims does not fit the RUN; with file, line and column.
    """
    from rbench.storage.runs import Store
    from rbench.storage.runs.folder import folder_path
    from rbench.tables import Results
    from rbench.verdicts.claims import judge_claims

    registry = Registry(include)
    results = Results.of(Store(folder_path(run)), Metrics(registry))
    ground = of_plan(results.plan, registry)
    asked = results.plan.suite.claims if file is None else read_claims(_file(folder_path(file), results), ground)
    if not asked:
        raise StoreError(
            f"{results.root}: its suite {results.plan.suite.name} had no claims when the RUN was made. Write `claims:` "
            "into the suite and run it again, which repeats no finished job; or name a file: --claims FILE"
        )
    return judge_claims(asked, ground, cells_of(results, registry))


def _file(given: Path, results: Results) -> Path:
    """Return the file of claims that a user names: the file itself, or that of a RUN in a folder."""
    if not given.is_dir():
        return given
    file = file_of(results.root, given)
    if not file.is_file():
        raise StoreError(f"--claims {given} has no file for this RUN: expected {file}. Write it, or name a file")
    return file


def cells_of(results: Results, registry: Registry) -> Cells:
    """Return the cells of a RUN; tables of measures are made when a claim asks for them."""
    from rbench.api.tables import made
    from rbench.verdicts.cells import Cells

    def table_of(metric: str) -> Table:
        of = (table for table in results.plan.suite.tables if table.metric == metric)
        # Not what the suite's table picks or how it is laid out: a claim is about every cell.
        wanted = next(of, TableSpec(metric=metric)).model_copy(update={"pick": None, "layout": "paper"})
        return made(results, wanted, find_measure(metric, registry))

    return Cells(results, table_of)


def claims_table(found: Sequence[JudgedClaim], fmt: str = "markdown") -> str:
    """Render verdicts on claims. Raises StoreError for an unknown format."""
    from rbench.tables.formats import render
    from rbench.verdicts.claims_table import table

    return render(table(found), fmt, intervals=False)


def contradicted(found: Sequence[JudgedClaim]) -> list[str]:
    """Return the ids of the claims that are contradicted."""
    return [one.claim.id for one in found if one.verdict == "contradicted"]


def summary(results: Results, registry: Registry) -> list[str]:
    """Return what a run says of its claims, a line each, and which differences it could have shown."""
    from rbench.verdicts.claims import judge_claims
    from rbench.verdicts.claims_table import lines
    from rbench.verdicts.detectable import detectable

    ground, cells = of_plan(results.plan, registry), cells_of(results, registry)
    try:
        found = lines(judge_claims(results.plan.suite.claims, ground, cells))
        could = detectable(ground, cells)
    except RbenchError as error:
        return [f"claims are not judged: {error}"]
    return [*found, *([could] if could is not None else [])]
