"""Write RUNs as static pages that need no server: an index, a report of each RUN, and a page of each encoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from rbench.api.reporting import write_report
from rbench.api.runs import NamedRun, Runs, compare_with_paper, find_table_of_suite, parse_runs, results_of
from rbench.config.claims import claims_file_of, read_claims
from rbench.config.entries import load_encoder
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.leaderboard import html
from rbench.leaderboard import site as contents
from rbench.leaderboard.site import ClaimJudgement, PaperComparisonTable, Site, unique_file_names
from rbench.papers import tables as printed
from rbench.papers.beside import build_comparison_table as beside_table
from rbench.papers.claims import find_printed_table, judge_run_claim
from rbench.plan.labels import remove_label
from rbench.report.data import PageFact, RunPage, RunReport
from rbench.schema import Claim, EncoderSpec
from rbench.store.runs import files
from rbench.store.runs.packed import name_of_run
from rbench.system.below import SafeFolder
from rbench.tables import Results
from rbench.tables.for_people import collect_titles
from rbench.verdicts.cells import RunCells

INDEX, FILE_LIST = "index.html", "rbench-site.json"
"""The files of a site that are always there: where to begin, and the list of its files."""


@dataclass(frozen=True)
class WrittenSite:
    """A site that was written."""

    index: Path
    left_out: tuple[str, ...]
    """The RUNs that cannot be read, each with the reason."""


@dataclass(frozen=True)
class _OpenRun:
    """A RUN that is read already."""

    results: Results
    stem: str
    """The name of its page's file, without the ending."""
    claims: Sequence[Claim] | None
    """Those of a file; None: those of its suite."""


def site(
    runs: Runs, out: Path | str, *, claims: Path | None = None, texts: bool = True, include: Sequence[Path] = ()
) -> WrittenSite:
    """Write static pages of RUNs: an index, the report of each RUN, and the history of each encoder.

    Runs nothing. A RUN that cannot be read is left out and named in the index. What a RUN lacks is named in its page.

    Args:
        runs: folders that `rbench run` wrote, or folders of such folders.
        out: the folder of the pages: new, empty, or a site to make anew.
        claims: judge the claims of DIR/NAME.yaml on the RUN in folder NAME, in place of those of its suite.
        texts: whether the pages may hold texts.
        include: folders with measures and figures that suites name.

    Raises:
        StoreError: a folder is not there or has no RUN, none can be read, or `out` holds something else or cannot be
            written.
        SuiteError: a file of claims does not fit its RUN; with file, line and column.
    """
    target = Path(out)
    earlier_files = _listed_files(target)
    registry = Registry(include)
    open_runs, left_out = _open_runs(_find_runs(runs), claims, include)
    new_site, written = Site(left_out), list[str]()
    while open_runs:  # a RUN that is done is let go, because its outcomes take memory
        written += _add_run(open_runs.pop(0), target, registry, new_site, texts=texts)
    new_site.boards = new_site.board_numbers.boards(partial(_count_parameters, registry))
    stems = zip(new_site.runs_by_encoder, unique_file_names(new_site.runs_by_encoder), strict=True)
    new_site.encoders = new_site.encoder_pages({label: f"encoders/{stem}.html" for label, stem in stems})
    for entry in new_site.encoders:
        files.write(target / entry.href, html.render_encoder_page(entry, "../").encode(), SafeFolder(target))
    files.write(target / INDEX, html.render_index(new_site).encode(), SafeFolder(target))
    written += [*(entry.href for entry in new_site.encoders), INDEX]
    files.write(target / FILE_LIST, json.dumps({"made by": "rbench site", "files": written}, indent=1).encode())
    for name in earlier_files - {*written}:
        SafeFolder(target).remove(target / name)
    return WrittenSite(target / INDEX, tuple(f"{entry.name}: {entry.value}" for entry in left_out))


def _listed_files(target: Path) -> set[str]:
    """Return the files of the site that is in a folder. Raises StoreError where the folder holds something else."""
    if not target.exists():
        return set()
    try:
        names = json.loads(files.read(target / FILE_LIST) or b"{}")["files"]
        listed = {str(name) for name in names}
    except (ValueError, KeyError, TypeError):
        if any(target.iterdir()):
            remedy = "Name a new folder, or empty this one"
            raise StoreError(f"--out {target} holds files, and no site that rbench made. {remedy}") from None
        return set()
    # The list is a file that anybody can change: it names nothing outside of the folder.
    return {name for name in listed if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts}


def _find_runs(runs: Runs) -> list[NamedRun]:
    """Return the folders of RUNs, each once. Raises StoreError where one is not there, or has no RUN."""
    by_target: dict[Path, NamedRun] = {}
    for path, label in parse_runs(runs):
        single = path.is_file() or (path / "plan.json").is_file()  # a file is a packed RUN
        several = (
            [path] if single else sorted([*path.glob("*.zip"), *(plan.parent for plan in path.glob("*/plan.json"))])
        )
        if not several:
            raise StoreError(f"{path} is not a RUN and has none in it. Name the folder that `rbench run` wrote")
        for folder in several:
            by_target.setdefault(folder.resolve(), NamedRun(folder, label))
    return list(by_target.values())


def _open_runs(
    runs: Sequence[NamedRun], claims: Path | None, include: Sequence[Path]
) -> tuple[list[_OpenRun], list[PageFact]]:
    """Read the plans and records of RUNs, and the claims on them. Return also what cannot be read.

    Raises StoreError where no RUN can be read, or no file of `claims` is for one of them.
    """
    stems = unique_file_names(name_of_run(path) + f"-{label}" * bool(label) for path, label in runs)
    read, left_out = [], []
    for run, stem in zip(runs, stems, strict=True):
        folder = run.path
        try:
            results = results_of(run, include)
        except StoreError as error:
            left_out.append(PageFact(name=folder.name, value=str(error)))
            continue
        file = claims_file_of(folder, claims) if claims is not None else None
        own_claims = read_claims(file, RunCells(results).claim_scope) if file is not None and file.is_file() else None
        read.append(_OpenRun(results, stem, own_claims))
    if not read:
        raise StoreError("no RUN can be read:\n" + "\n".join(f"  {run.name}: {run.value}" for run in left_out))
    if claims is not None and all(run.claims is None for run in read):
        expected = ", ".join(f"{name_of_run(run.results.root)}.yaml" for run in read[:3])
        raise StoreError(f"--claims {claims} has no file for one of the RUNs: expected {expected} ...")
    return read, left_out


def _add_run(open_run: _OpenRun, target: Path, registry: Registry, new_site: Site, *, texts: bool) -> list[str]:
    """Write the page of a RUN, keep what other pages show of it, and return the files, seen from the index."""
    results, href = open_run.results, f"runs/{open_run.stem}.html"
    SafeFolder(target).make_folder((target / href).parent)
    written = write_report(results, target / href, registry, texts=texts, claims=open_run.claims, home=f"../{INDEX}")
    run = _build_page(results, href, written.report)
    new_site.runs.append(run)
    new_site.titles |= {
        name: title
        for name, title in collect_titles(results.plan, results.metrics).items()
        if name not in new_site.titles
    }
    new_site.weights |= {(label, href): weights for label, weights in contents.weights_by_encoder(results).items()}
    for label in results.plan.suite.lineup:
        new_site.runs_by_encoder.setdefault(label, []).append(run)
    new_site.points += contents.list_points(results, run)
    new_site.board_numbers.add(results, run)
    reproduced = _reproduced_table(results)
    ground = RunCells(results).claim_scope
    for judged in written.judged:
        table = find_printed_table(judged.claim.source) or reproduced
        paper = None if table is None else judge_run_claim(judged.claim, table, results, ground)
        new_site.judgements.append(ClaimJudgement(judged, contents.claim_scope(results.plan.suite), paper, run))
    claimed_tables = (find_printed_table(judged.claim.source) for judged in written.judged)
    for table in dict.fromkeys((reproduced, *claimed_tables)):
        if table is None:
            continue
        beside = compare_with_paper(results, table, printed.load_printed_table(table))
        try:
            paper_table = PaperComparisonTable(beside.printed.title, run, beside_table(beside, results.plan, "paper"))
        except StoreError:  # no number has a partner
            continue
        older = new_site.paper_tables.get((table, run.suite))
        if older is None or older.run.date <= run.date:
            new_site.paper_tables[table, run.suite] = paper_table
    return [f"runs/{file.name}" for file in written.files]


def _count_parameters(registry: Registry, entry: EncoderSpec) -> int | None:
    """Return how many weights an encoder has, by its file or that of the base that it is trained from."""
    names, visited = registry.names("encoders"), set[str]()
    while entry.parameters is None and entry.layers is None:
        short_name = remove_label(entry.name).partition("[")[0]
        name = short_name if short_name in names and short_name not in visited else remove_label(entry.base or "")
        if name not in names or name in visited:
            return None
        visited.add(name)
        try:
            entry = load_encoder(name, registry)
        except SuiteError:
            return None
    return entry.parameters


def _reproduced_table(results: Results) -> str | None:
    """Return the printed table that a RUN's suite reproduces, if it does."""
    try:
        return find_table_of_suite(results.plan.suite.name)
    except SuiteError:
        return None


def _build_page(results: Results, href: str, report: RunReport) -> RunPage:
    records = results.standing.records.values()
    facts = {fact.name: fact.value for fact in report.facts}
    return RunPage(
        name=name_of_run(results.root),
        href=href,
        title=report.title,
        suite=report.suite,
        date=max((record.provenance.started or "" for record in records), default=""),
        jobs=facts["jobs"],
        version=facts.get("rbench", ""),
        missing=report.missing,
    )
