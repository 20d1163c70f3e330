"""Write a RUN, or several as one, as one HTML file that needs no server and no network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.api.claims import cells_of
from rbench.api.figures import shown_figures
from rbench.api.runs import Runs, paths, results_of
from rbench.errors import RbenchError, StoreError
from rbench.load.ground import of_plan
from rbench.load.registry import Registry
from rbench.spec import Claim
from rbench.storage.runs import files
from rbench.system.folders import make_folder_of
from rbench.tables import Results
from rbench.verdicts.claims import JudgedClaim

if TYPE_CHECKING:
    from rbench.report import Report

FILE = "report.html"
"""The name of a RUN's report, in its folder."""


def report(run: Runs, out: Path | None = None, *, texts: bool = True, include: Sequence[Path] = ()) -> list[Path]:
    """Write a report and return its files: the page, and a parquet file beside it where the page has only a sample.

    Runs nothing. What the RUN lacks is named in the page, with the reason and the remedy.

    Args:
        run: the folder that `rbench run` wrote, or several that are read as one.
        out: the file; None: `report.html` in the RUN. Several RUNs need one.
        texts: whether the page may hold texts. Without them all else works.
        include: folders with measures that the RUN's suite names.

    Raises:
        StoreError: a folder is not a RUN, several do not fit together, or the file cannot be written.
    """
    folders = paths(run)
    if out is None and len(folders) > 1:
        raise StoreError("several RUNs have no folder for a report: name a file with --out")
    target = out if out is not None else folders[0] / FILE
    if target.suffix.lower() not in (".html", ".htm"):
        raise StoreError(f"--out {target}: a report is one HTML file; let its name end in .html")
    if out is not None:
        make_folder_of(target)
    return write(results_of(run, include), target, Registry(include), texts=texts).files


@dataclass(frozen=True)
class Written:
    """A report that was written."""

    files: list[Path]
    report: Report
    judged: tuple[JudgedClaim, ...]
    """The claims of the RUN; none where they cannot be judged, which the report says."""


def write(
    results: Results,
    target: Path,
    registry: Registry,
    *,
    texts: bool = True,
    claims: Sequence[Claim] | None = None,
    home: str = "",
) -> Written:
    """Write the report of results that are read already; see `report`.

    Args:
        claims: those that are judged; None: those of the RUN's suite.
        home: the address of the index of the site to which the page belongs; empty: it stands alone.
    """
    from rbench.report import collect, page

    asked = results.plan.suite.claims if claims is None else claims
    judged: list[JudgedClaim] = []

    def judge() -> list[JudgedClaim]:
        from rbench.verdicts.claims import judge_claims

        judged.extend(judge_claims(asked, of_plan(results.plan, registry), cells_of(results, registry)))
        return judged

    drawn = shown_figures(results, registry, texts=texts)
    found, examples = collect(results, judge if asked else None, texts=texts, figures=drawn)
    written = [target]
    files.write(target, page(found, examples.content if examples is not None else "", home).encode())
    if examples is not None and examples.sampled.shown < examples.sampled.total:
        written.append(_write_all(results, target.with_suffix(".parquet"), texts=texts))
    return Written(written, found, tuple(judged))


def write_beside(results: Results, registry: Registry, *, texts: bool) -> tuple[Path | None, str]:
    """Write a finished run's report into its folder; return it, or None and why there is none. Raises nothing."""
    try:
        return write(results, results.root / FILE, registry, texts=texts).files[0], ""
    except RbenchError as error:
        return None, f"no report: {error}"
    except Exception as error:  # a mistake in the report must not fail a run whose results are there
        return None, f"no report: {type(error).__name__}: {' '.join(str(error).split())}"


def _write_all(results: Results, path: Path, *, texts: bool) -> Path:
    """Write all examples as parquet. Without texts, errors are left out too, because a traceback may quote one."""
    from rbench.tables import results_frame

    frame = results_frame(results.store)
    if not texts:
        frame = frame.drop(columns=list(_TEXTS))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    files.write(path, buffer.getvalue())
    return path


_TEXTS = ("original", "perturbed", "original_columns", "perturbed_columns", "steps", "error")
