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
from rbench.papers.beside import build_comparison_table
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
from rbench.verdicts.claims import JudgedClaim

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
    """A RUN whose plan and records are read."""

    results: Results
    stem: str
    """The name of its page's file, without the ending."""
    claims: Sequence[Claim] | None
    """The claims of a file of `--claims`; None: those of its suite."""


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
    old_files = _list_old_files(target)
    registry = Registry(include)
    open_runs, left_out = _open_runs(_find_runs(runs), claims, include)
    new_site, written = Site(left_out), list[str]()
    while open_runs:  # each RUN is dropped after its page, because its outcomes take memory
        written += _add_run(open_runs.pop(0), target, registry, new_site, texts=texts)
    new_site.boards = new_site.board_numbers.boards(partial(_count_parameters, registry))
    labels = list(new_site.runs_by_encoder)
    hrefs = [f"encoders/{stem}.html" for stem in unique_file_names(labels)]
    new_site.encoders = new_site.encoder_pages(dict(zip(labels, hrefs, strict=True)))
    for encoder_page in new_site.encoders:
        content = html.render_encoder_page(encoder_page, "../").encode()
        files.write(target / encoder_page.href, content, SafeFolder(target))
        written.append(encoder_page.href)
    files.write(target / INDEX, html.render_index(new_site).encode(), SafeFolder(target))
    written.append(INDEX)
    files.write(target / FILE_LIST, json.dumps({"made by": "rbench site", "files": written}, indent=1).encode())
    # Last, because until here an old index may link to them.
    for name in old_files - {*written}:
        SafeFolder(target).remove(target / name)
    return WrittenSite(target / INDEX, tuple(f"{run.name}: {run.value}" for run in left_out))


def _list_old_files(target: Path) -> set[str]:
    """Return the files of the site that a folder holds already, of those that its list names.

    Raises StoreError where the folder holds something else.
    """
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
    # Anybody can change the list, so entries that lead out of the folder are not followed.
    return {name for name in listed if not PurePosixPath(name).is_absolute() and ".." not in PurePosixPath(name).parts}


def _find_runs(runs: Runs) -> list[NamedRun]:
    """Return the RUNs that a call names, and those in folders that it names, each once.

    Raises StoreError where a path is not there, or has no RUN.
    """
    by_target: dict[Path, NamedRun] = {}
    for path, label in parse_runs(runs):
        is_run = path.is_file() or (path / "plan.json").is_file()  # a file is a packed RUN
        inside = [*path.glob("*.zip"), *(plan.parent for plan in path.glob("*/plan.json"))]
        found = [path] if is_run else sorted(inside)
        if not found:
            raise StoreError(f"{path} is not a RUN and has none in it. Name the folder that `rbench run` wrote")
        for run_path in found:
            by_target.setdefault(run_path.resolve(), NamedRun(run_path, label))
    return list(by_target.values())


def _open_runs(
    runs: Sequence[NamedRun], claims: Path | None, include: Sequence[Path]
) -> tuple[list[_OpenRun], list[PageFact]]:
    """Read the plans and records of RUNs, and the claims on them. Return also what cannot be read.

    Raises StoreError where no RUN can be read, or no file of `claims` is for one of them.
    """
    names = [f"{name_of_run(path)}-{label}" if label else name_of_run(path) for path, label in runs]
    stems = unique_file_names(names)
    read, left_out = [], []
    for run, stem in zip(runs, stems, strict=True):
        try:
            results = results_of(run, include)
        except StoreError as error:
            left_out.append(PageFact(name=run.path.name, value=str(error)))
            continue
        given_claims = None
        if claims is not None:
            claims_file = claims_file_of(run.path, claims)
            if claims_file.is_file():
                given_claims = read_claims(claims_file, RunCells(results).claim_scope)
        read.append(_OpenRun(results, stem, given_claims))
    if not read:
        raise StoreError("no RUN can be read:\n" + "\n".join(f"  {run.name}: {run.value}" for run in left_out))
    if claims is not None and all(run.claims is None for run in read):
        expected = ", ".join(f"{name_of_run(run.results.root)}.yaml" for run in read[:3])
        raise StoreError(f"--claims {claims} has no file for one of the RUNs: expected {expected} ...")
    return read, left_out


def _add_run(open_run: _OpenRun, target: Path, registry: Registry, new_site: Site, *, texts: bool) -> list[str]:
    """Write the page of a RUN, and keep what other pages show of it. Return the files, relative to the index."""
    results, href = open_run.results, f"runs/{open_run.stem}.html"
    SafeFolder(target).make_folder((target / href).parent)
    written = write_report(results, target / href, registry, texts=texts, claims=open_run.claims, home=f"../{INDEX}")
    run = _build_page(results, href, written.report)
    new_site.runs.append(run)
    # A title stays as the first RUN with the name has it.
    new_site.titles = collect_titles(results.plan, results.metrics) | new_site.titles
    new_site.weights |= {(label, href): weights for label, weights in contents.weights_by_encoder(results).items()}
    for label in results.plan.suite.lineup:
        new_site.runs_by_encoder.setdefault(label, []).append(run)
    new_site.points += contents.list_points(results, run)
    new_site.board_numbers.add(results, run)
    _compare_with_papers(results, run, written.judged, new_site)
    return [f"runs/{file.name}" for file in written.files]


def _compare_with_papers(results: Results, run: RunPage, judged_claims: Sequence[JudgedClaim], new_site: Site) -> None:
    """Keep each claim's verdict beside that of the paper's own numbers, and papers' tables beside the RUN's numbers.

    A claim is compared with the printed table that its source names, or else with the one that the suite reproduces.
    """
    reproduced = _find_reproduced_table(results)
    claim_scope = RunCells(results).claim_scope
    tables = [reproduced]
    for judged in judged_claims:
        named = find_printed_table(judged.claim.source)
        tables.append(named)
        table = named or reproduced
        paper = None if table is None else judge_run_claim(judged.claim, table, results, claim_scope)
        new_site.judgements.append(ClaimJudgement(judged, contents.claim_scope(results.plan.suite), paper, run))
    for table in dict.fromkeys(tables):
        if table is None:
            continue
        comparison = compare_with_paper(results, table, printed.load_printed_table(table))
        try:
            shown_table = build_comparison_table(comparison, results.plan, "paper")
        except StoreError:  # the RUN has none of the table's numbers
            continue
        older = new_site.paper_tables.get((table, run.suite))
        if older is None or older.run.date <= run.date:
            new_site.paper_tables[table, run.suite] = PaperComparisonTable(comparison.printed.title, run, shown_table)


def _count_parameters(registry: Registry, entry: EncoderSpec) -> int | None:
    """Return how many weights an encoder has; None where no file says it.

    An encoder of a plan may not state it, such as one with options or a training. Then its file in the registry is
    asked, and after it that of the base that it is trained from, and so on.
    """
    names, visited = registry.names("encoders"), set[str]()
    # With `layers` it keeps some of its base's layers, so the base does not say how many weights it has.
    while entry.parameters is None and entry.layers is None:
        own_file = remove_label(entry.name).partition("[")[0]
        name = own_file if own_file in names and own_file not in visited else remove_label(entry.base or "")
        if name not in names or name in visited:
            return None
        visited.add(name)
        try:
            entry = load_encoder(name, registry)
        except SuiteError:
            return None
    return entry.parameters


def _find_reproduced_table(results: Results) -> str | None:
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
