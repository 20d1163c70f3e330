"""Write RUNs as static pages that need no server: an index, a report of each RUN, and a page of each encoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from rbench.api.reporting import write
from rbench.api.runs import Named, Runs, compared, named, of_suite, results_of
from rbench.config.claims import file_of, read_claims
from rbench.config.entries import load_encoder
from rbench.config.registry import Registry
from rbench.errors import StoreError, SuiteError
from rbench.leaderboard import html
from rbench.leaderboard import site as contents
from rbench.leaderboard.site import Judgement, PaperTable, RunPage, Site, unique
from rbench.papers import tables as printed
from rbench.papers.beside import table as beside_table
from rbench.papers.claims import on_paper, printed_in
from rbench.plan.labels import unlabelled
from rbench.report.data import Fact, Report
from rbench.schema import Claim, EncoderSpec
from rbench.store.runs import files
from rbench.store.runs.packed import name_of
from rbench.system.below import Below
from rbench.tables import Results
from rbench.tables.for_people import titles
from rbench.verdicts.cells import Cells

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
    before = _listed(target)
    registry = Registry(include)
    read, left_out = _opened(_folders(runs), claims, include)
    made, written = Site(left_out), list[str]()
    while read:  # a RUN that is done is let go, because its outcomes take memory
        written += _add_run(read.pop(0), target, registry, made, texts=texts)
    made.boards = made.readings.boards(partial(_size, registry))
    stems = zip(made.lineup, unique(made.lineup), strict=True)
    made.encoders = made.encoder_pages({label: f"encoders/{stem}.html" for label, stem in stems})
    for one in made.encoders:
        files.write(target / one.href, html.encoder(one, "../").encode(), Below(target))
    files.write(target / INDEX, html.index(made).encode(), Below(target))
    written += [*(one.href for one in made.encoders), INDEX]
    files.write(target / MARK, json.dumps({"made by": "rbench site", "files": written}, indent=1).encode())
    for name in before - {*written}:
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


def _folders(runs: Runs) -> list[Named]:
    """Return the folders of RUNs, each once. Raises StoreError where one is not there, or has no RUN."""
    found: dict[Path, Named] = {}
    for path, label in named(runs):
        if not path.exists():
            raise StoreError(f"{path} is not there. Name the folder that `rbench run` wrote, or one of such folders")
        single = path.is_file() or (path / "plan.json").is_file()  # a file is a packed RUN
        several = (
            [path] if single else sorted([*path.glob("*.zip"), *(plan.parent for plan in path.glob("*/plan.json"))])
        )
        if not several:
            raise StoreError(f"{path} is not a RUN and has none in it. Name the folder that `rbench run` wrote")
        for one in several:
            found.setdefault(one.resolve(), Named(one, label))
    return list(found.values())


def _opened(runs: Sequence[Named], claims: Path | None, include: Sequence[Path]) -> tuple[list[_Read], list[Fact]]:
    """Read the plans and records of RUNs, and the claims on them. Return also what cannot be read.

    Raises StoreError where no RUN can be read, or no file of `claims` is for one of them.
    """
    if claims is not None and not claims.is_dir():
        raise StoreError(f"--claims {claims} is no folder. Name one with a file NAME.yaml for the RUN in folder NAME")
    stems = unique(name_of(path) + f"-{label}" * bool(label) for path, label in runs)
    read, left_out = [], []
    for one, stem in zip(runs, stems, strict=True):
        folder = one.path
        try:
            results = results_of(one, include)
        except StoreError as error:
            left_out.append(Fact(name=folder.name, value=str(error)))
            continue
        file = file_of(folder, claims) if claims is not None else None
        own = read_claims(file, Cells(results).ground) if file is not None and file.is_file() else None
        read.append(_Read(results, stem, own))
    if not read:
        raise StoreError("no RUN can be read:\n" + "\n".join(f"  {one.name}: {one.value}" for one in left_out))
    if claims is not None and all(one.claims is None for one in read):
        named = ", ".join(f"{name_of(one.results.root)}.yaml" for one in read[:3])
        raise StoreError(f"--claims {claims} has no file for one of the RUNs: expected {named} ...")
    return read, left_out


def _add_run(one: _Read, target: Path, registry: Registry, made: Site, *, texts: bool) -> list[str]:
    """Write the page of a RUN, keep what other pages show of it, and return the files, seen from the index."""
    results, href = one.results, f"runs/{one.stem}.html"
    Below(target).make_folder((target / href).parent)
    written = write(results, target / href, registry, texts=texts, claims=one.claims, home=f"../{INDEX}")
    run = _page(results, href, written.report)
    made.runs.append(run)
    made.titles |= {
        name: title for name, title in titles(results.plan, results.metrics).items() if name not in made.titles
    }
    made.weights |= {(label, href): weights for label, weights in contents.weights(results).items()}
    for label in results.plan.suite.lineup:
        made.lineup.setdefault(label, []).append(run)
    made.points += contents.points_of(results, run)
    made.readings.add(results, run)
    reproduced = _reproduced(results)
    ground = Cells(results).ground
    for judged in written.judged:
        table = printed_in(judged.claim.source) or reproduced
        paper = None if table is None else on_paper(judged.claim, table, results, ground)
        made.judged.append(Judgement(judged, contents.scope(results.plan.suite), paper, run))
    named = (printed_in(judged.claim.source) for judged in written.judged)
    for table in dict.fromkeys((reproduced, *named)):
        if table is None:
            continue
        beside = compared(results, table, printed.load(table))
        try:
            laid = PaperTable(beside.printed.title, run, beside_table(beside, results.plan, "paper"))
        except StoreError:  # no number has a partner
            continue
        older = made.papers.get((table, run.suite))
        if older is None or older.run.date <= run.date:
            made.papers[table, run.suite] = laid
    return [f"runs/{file.name}" for file in written.files]


def _size(registry: Registry, entry: EncoderSpec) -> int | None:
    """Return how many weights an encoder has, by its file or that of the base that it is trained from."""
    names, seen = registry.names("encoders"), set[str]()
    while entry.parameters is None and entry.layers is None:
        own = unlabelled(entry.name).partition("[")[0]
        name = own if own in names and own not in seen else unlabelled(entry.base or "")
        if name not in names or name in seen:
            return None
        seen.add(name)
        try:
            entry = load_encoder(name, registry)
        except SuiteError:
            return None
    return entry.parameters


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
        name=name_of(results.root),
        href=href,
        title=report.title,
        suite=report.suite,
        date=max((record.provenance.started or "" for record in records), default=""),
        jobs=facts["jobs"],
        version=facts.get("rbench", ""),
        missing=report.missing,
    )
