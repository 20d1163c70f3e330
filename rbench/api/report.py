"""Write RUNs as HTML that needs no server and no network: one, or several as one, as a file; many as static pages."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rbench.api.figures import shown_figures
from rbench.api.judging import cells_of
from rbench.api.runs import Runs, compared, of_suite, paths, results_of
from rbench.errors import RbenchError, StoreError, SuiteError
from rbench.load import printed
from rbench.load.claims import file_of, read_claims
from rbench.load.ground import of_plan
from rbench.load.registry import Registry
from rbench.report import collect, page
from rbench.report.data import Fact, Report
from rbench.site import claims as on_claims
from rbench.site import history, pages
from rbench.site.data import Judgement, PaperTable, Point, RunPage, Site
from rbench.spec import Claim
from rbench.storage.runs import files
from rbench.system.below import Below
from rbench.system.folders import make_folder_of
from rbench.tables import Results, results_frame
from rbench.tables.titles import titles
from rbench.verdicts.claims import JudgedClaim, judge_claims

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
    asked = results.plan.suite.claims if claims is None else claims
    judged: list[JudgedClaim] = []

    def judge() -> list[JudgedClaim]:
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
    frame = results_frame(results.store)
    if not texts:
        frame = frame.drop(columns=list(_TEXTS))
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    files.write(path, buffer.getvalue())
    return path


_TEXTS = ("original", "perturbed", "original_columns", "perturbed_columns", "steps", "error")


INDEX, MARK = "index.html", "rbench-site.json"
"""The files of a site that are always there: where to begin, and the list of its files."""


@dataclass(frozen=True)
class WrittenSite:
    """A site that was written."""

    index: Path
    left_out: tuple[str, ...]
    """The RUNs that cannot be read, each with the reason."""


@dataclass(frozen=True)
class _Read:
    """A RUN that is read already."""

    results: Results
    stem: str
    """The name of its page's file, without the ending."""
    claims: Sequence[Claim] | None
    """Those of a file; None: those of its suite."""


@dataclass
class _Made:
    """What the index and the encoders' pages show, as it is gathered RUN by RUN."""

    runs: list[RunPage] = field(default_factory=list)
    judged: list[Judgement] = field(default_factory=list)
    papers: dict[tuple[str, str], PaperTable] = field(default_factory=dict)
    """The newest by printed table and suite."""
    lineup: dict[str, list[RunPage]] = field(default_factory=dict)
    """The RUNs of each encoder."""
    points: list[Point] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    weights: dict[tuple[str, str], str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def site(
    runs: Runs, out: Path | str, *, claims: Path | None = None, texts: bool = True, include: Sequence[Path] = ()
) -> WrittenSite:
    """Write static pages of RUNs: an index, the report of each RUN, and the history of each encoder.

    Runs nothing. A RUN that cannot be read is left out and named in the index. What a RUN lacks is named in its page.

    Args:
        runs: folders that `rbench run` wrote, or folders of such folders.
        out: the folder of the pages: a new or empty one, or a site that is made anew.
        claims: a folder of YAML files with claims. NAME.yaml is judged on the RUN in folder NAME, in place of the
            claims of its suite.
        texts: whether the pages may hold texts.
        include: folders with measures and figures that suites name.

    Raises:
        StoreError: a folder is not there or has no RUN, none can be read, or `out` holds something else or cannot be
            written.
        SuiteError: a file of claims does not fit its RUN; with file, line and column.
    """
    target = Path(out)
    before = _listed(target)
    registry = Registry(include)
    read, left_out = _opened(_folders(runs), claims, registry, include)
    made = _Made()
    while read:  # a RUN that is done is let go, because its outcomes take memory
        _add_run(read.pop(0), target, registry, made, texts=texts)
    stems = zip(made.lineup, pages.unique(made.lineup), strict=True)
    hrefs = {label: f"encoders/{stem}.html" for label, stem in stems}
    encoders = history.encoder_pages(made.points, made.lineup, made.titles, hrefs, made.weights)
    for one in encoders:
        _write_page(target, one.href, pages.encoder(one, "../"), made)
    shown = Site(
        runs=tuple(sorted(made.runs, key=lambda run: run.date, reverse=True)),
        claims=on_claims.claim_rows(made.judged),
        papers=tuple(made.papers.values()),
        encoders=encoders,
        left_out=tuple(left_out),
    )
    _write_page(target, INDEX, pages.index(shown), made)
    files.write(target / MARK, json.dumps({"made by": "rbench site", "files": made.files}, indent=1).encode())
    for name in before - {*made.files}:
        Below(target).remove(target / name)
    return WrittenSite(target / INDEX, tuple(f"{one.name}: {one.value}" for one in left_out))


def _listed(target: Path) -> set[str]:
    """Return the files of the site that is in a folder. Raises StoreError where the folder holds something else."""
    if not target.exists():
        return set()
    if not target.is_dir():
        raise StoreError(f"--out {target} is a file; a site needs a folder. Name a new one")
    try:
        names = json.loads(files.read(target / MARK) or b"{}")["files"]
        listed = {str(name) for name in names}
    except (ValueError, KeyError, TypeError):
        if any(target.iterdir()):
            remedy = "Name a new folder, or empty this one"
            raise StoreError(f"--out {target} holds files, and no site that rbench made. {remedy}") from None
        return set()
    # The list is a file that anybody can change: it names nothing outside of the folder.
    return {name for name in listed if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts}


def _folders(runs: Runs) -> list[Path]:
    """Return the folders of RUNs, each once. Raises StoreError where one is not there, or has no RUN."""
    found: dict[Path, Path] = {}
    for path in paths(runs):
        if not path.is_dir():
            raise StoreError(f"{path} is not there. Name the folder that `rbench run` wrote, or one of such folders")
        inside = sorted(plan.parent for plan in path.glob("*/plan.json"))
        several = [path] if (path / "plan.json").is_file() or not inside else inside
        if several == [path] and not (path / "plan.json").is_file():
            raise StoreError(f"{path} is not a RUN and has none in it. Name the folder that `rbench run` wrote")
        for one in several:
            found.setdefault(one.resolve(), one)
    return list(found.values())


def _opened(
    folders: Sequence[Path], claims: Path | None, registry: Registry, include: Sequence[Path]
) -> tuple[list[_Read], list[Fact]]:
    """Read the plans and records of RUNs, and the claims on them. Return also what cannot be read.

    Raises StoreError where no RUN can be read, or no file of `claims` is for one of them.
    """
    if claims is not None and not claims.is_dir():
        raise StoreError(f"--claims {claims} is no folder. Name one with a file NAME.yaml for the RUN in folder NAME")
    stems = pages.unique(folder.resolve().name for folder in folders)
    read, left_out = [], []
    for folder, stem in zip(folders, stems, strict=True):
        try:
            results = results_of(folder, include)
        except StoreError as error:
            left_out.append(Fact(name=folder.name, value=str(error)))
            continue
        file = file_of(folder, claims) if claims is not None else None
        own = read_claims(file, of_plan(results.plan, registry)) if file is not None and file.is_file() else None
        read.append(_Read(results, stem, own))
    if not read:
        raise StoreError("no RUN can be read:\n" + "\n".join(f"  {one.name}: {one.value}" for one in left_out))
    if claims is not None and all(one.claims is None for one in read):
        named = ", ".join(f"{one.results.root.resolve().name}.yaml" for one in read[:3])
        raise StoreError(f"--claims {claims} has no file for one of the RUNs: expected {named} ...")
    return read, left_out


def _add_run(one: _Read, target: Path, registry: Registry, made: _Made, *, texts: bool) -> None:
    """Write the page of a RUN, and keep what other pages show of it."""
    results, href = one.results, f"runs/{one.stem}.html"
    Below(target).make_folder((target / href).parent)
    written = write(results, target / href, registry, texts=texts, claims=one.claims, home=f"../{INDEX}")
    made.files += [f"runs/{file.name}" for file in written.files]
    run = _page(results, href, written.report)
    made.runs.append(run)
    made.titles |= {name: title for name, title in titles(results.plan).items() if name not in made.titles}
    made.weights |= {(label, href): weights for label, weights in history.weights(results).items()}
    for label in results.plan.suite.lineup:
        made.lineup.setdefault(label, []).append(run)
    made.points += history.numbers(results, run)
    reproduced = _reproduced(results)
    ground = of_plan(results.plan, registry)
    made.judged += on_claims.judgements(written.judged, run, results, ground, reproduced)
    named = (on_claims.printed_in(judged.claim.source) for judged in written.judged)
    for table in dict.fromkeys((reproduced, *named)):
        if table is None:
            continue
        beside = compared(results, table, printed.load(table), registry)
        laid = on_claims.paper_table(beside, results, run)
        older = made.papers.get((table, run.suite))
        if laid is not None and (older is None or older.run.date <= run.date):
            made.papers[table, run.suite] = laid


def _reproduced(results: Results) -> str | None:
    """Return the printed table that a RUN's suite reproduces, if it does."""
    try:
        return of_suite(results.plan.suite.name)
    except SuiteError:
        return None


def _page(results: Results, href: str, report: Report) -> RunPage:
    records = results.standing.records.values()
    facts = {fact.name: fact.value for fact in report.facts}
    return RunPage(
        name=results.root.resolve().name,
        href=href,
        title=report.title,
        suite=report.suite,
        date=max((record.provenance.started or "" for record in records), default=""),
        jobs=facts["jobs"],
        version=facts.get("rbench", ""),
        missing=report.missing,
    )


def _write_page(target: Path, name: str, text: str, made: _Made) -> None:
    files.write(target / name, text.encode(), Below(target))
    made.files.append(name)
