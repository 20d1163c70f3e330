"""Puts the parts of a report together, and says of each part that is missing why, and how to get it.

A figure stands in an `img` with a data URI, and not inline: a browser runs no script of an image and loads nothing for
it, so a figure of the user's own can do no harm, and the page's policy stays as strict as it is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rbench.errors import RbenchError
from rbench.report import numbers, provenance
from rbench.report.data import ClaimChip, Drawing, Fact, Report
from rbench.report.examples import Packed, packed
from rbench.tables import Results
from rbench.tables.aggregate import Grid, grid
from rbench.tables.for_people import in_words, titles

if TYPE_CHECKING:
    from rbench.verdicts.claims import JudgedClaim

T = TypeVar("T")
Judge = Callable[[], Sequence["JudgedClaim"]]
"""Judges the claims of the RUN; raises RbenchError where that cannot be done."""


def collect(
    results: Results, judge: Judge | None, *, texts: bool = True, figures: Drawings = ()
) -> tuple[Report, Packed | None]:
    """Return all that a page shows, and its examples. A part that cannot be made is named in `Report.missing`.

    Args:
        judge: judges the claims of the RUN; None: it has none.
        texts: whether the page may hold texts.
        figures: makes each figure of the RUN's suite, by its label.
    """
    missing: list[Fact] = []

    def part(name: str, make: Callable[[], Iterable[T]]) -> tuple[T, ...]:
        try:
            return tuple(make())
        except RbenchError as error:
            missing.append(Fact(name=name, value=str(error)))
            return ()

    plan = results.plan
    attacked = bool(plan.attacks) or not _measured(results)
    of = next(iter(part("attacks", lambda: [grid(results)])), None) if attacked else None
    attacks = of is not None and any(cell.present for cell in of.cells.values())
    if of is not None and not attacks:
        missing.append(
            Fact(name="attacks", value="no attack is done yet. Run the suite again; finished jobs are kept.")
        )
    if of is not None:
        missing += _not_compared(of)
    missing += _unfinished(results)
    examples = next(iter(part("examples", lambda: [packed(results, texts=texts)])), None) if attacks else None
    if attacks and examples is not None and not examples.sampled.total:
        remedy = "Its numbers are there. A run that keeps outcomes/ has the examples."
        missing.append(Fact(name="examples", value=f"the RUN keeps no outcomes, only records. {remedy}"))
    report = Report(
        title=plan.suite.title or plan.suite.name,
        suite=plan.suite.name,
        facts=tuple(provenance.header(results, of)),
        notes=results.notes,
        claims=part("claims", lambda: [chip(one, results) for one in judge()]) if judge is not None else (),
        flags=tuple(results.flags.raised_notes(plan.jobs)),
        names=provenance.names_of(results, of),
        attacked=attacked,
        metrics=part("heat table", lambda: numbers.heat(results)) if attacks else (),
        curves=part("curves", lambda: numbers.budgets(results)) if attacks else (),
        series=part("trainings", lambda: numbers.series(results)) if _trains(results) else (),
        quality=part("similarity", lambda: numbers.quality(results)) if plan.suite.evaluations else (),
        tables=part("tables", lambda: numbers.measured(results)),
        figures=embedded(figures, missing),
        pairs=part("comparisons", lambda: numbers.pairs(results)) if attacks else (),
        sampled=examples.sampled if examples is not None else Report.model_fields["sampled"].default,
        provenance=tuple(provenance.facts(results)),
        packages=tuple(provenance.packages(results)),
        suite_json=json.dumps(plan.suite.model_dump(mode="json", exclude_defaults=True), indent=1, ensure_ascii=False),
        commands=tuple(provenance.commands(results)),
        bibtex=provenance.references(results),
        licences=tuple(provenance.licences(plan)),
        missing=tuple(missing),
    )
    return report, examples


def chip(found: JudgedClaim, results: Results) -> ClaimChip:
    """Return the verdict on a claim, in words, with the rows that `rbench claims` prints."""
    from rbench.verdicts.claims import lines, sentence, table

    laid = table([found])
    metric, of, rest = sentence(found).partition(" of ")
    rest = in_words(rest, titles(results.plan, results.metrics)).replace("finetune ", "fine-tuning ")
    column = results.metrics[metric].about.column if metric in results.metrics else metric
    return ClaimChip(
        id=found.claim.id,
        verdict=found.verdict,
        said=f"{column}{of}{rest}",
        text=lines([found])[0].partition(": ")[2],
        header=laid.header[1:],
        rows=tuple(tuple(map(str, row[1:])) for row in laid.rows),
        notes=tuple(note for note in laid.notes if note.startswith(f"{found.claim.id}: ")),
    )


def _measured(results: Results) -> bool:
    return any(wanted.metric not in results.metrics for wanted in results.plan.suite.tables)


def _trains(results: Results) -> bool:
    return any(job.stage == "pretrain" for job in results.plan.jobs)


def _not_compared(of: Grid) -> list[Fact]:
    """Say which encoders or strategies the comparisons leave out."""
    what, names = numbers.compared(of)
    if not (left := names[numbers.MOST_COMPARED :]):
        return []
    said = f"the first {numbers.MOST_COMPARED} of {len(names)} {what} are compared with each other here, without "
    return [
        Fact(name="comparisons", value=f"{said}{', '.join(left)}. rbench compare RUN --between A B compares any two.")
    ]


def _unfinished(results: Results) -> list[Fact]:
    """Say which jobs are damaged, failed or not done."""
    failed, damaged, left = results.standing.unfinished(results.plan.jobs)
    said = [Fact(name="damaged", value=results.standing.problems[job.key]) for job in damaged]
    for what, jobs in (("failed", failed), ("not done", left)):
        if names := [job.name for job in jobs]:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            remedy = "The same rbench run makes them; finished jobs are kept."
            said.append(Fact(name=what, value=f"{', '.join(names[:3])}{more}. {remedy}"))
    return said


MOST_BYTES = 500_000
"""The most bytes that all figures of a page take in it: the page has 5 MB in all."""


class Svg(NamedTuple):
    """A figure that was drawn."""

    title: str
    content: bytes


Drawings = Sequence[tuple[str, Callable[[], Svg]]]
"""Figures by label, each with what draws it; this raises RbenchError where it cannot be drawn."""


def embedded(figures: Drawings, missing: list[Fact], most_bytes: int = MOST_BYTES) -> tuple[Drawing, ...]:
    """Return the figures as images, and add to `missing` why one is not there."""
    found: list[Drawing] = []
    left = most_bytes
    for label, draw in figures:
        try:
            title, content = draw()
        except RbenchError as error:
            missing.append(Fact(name=f"figure {label}", value=str(error)))
            continue
        uri = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        if len(uri) > left:
            remedy = f"It takes {len(uri) // 1000} KB. rbench figure draws it into a file."
            missing.append(Fact(name=f"figure {label}", value=f"the page has no room for it. {remedy}"))
            continue
        left -= len(uri)
        alt = f"Figure {label}: {title}. Its numbers are those of the tables and curves of this RUN."
        found.append(Drawing(label=label, title=title, alt=alt, uri=uri))
    return tuple(found)
