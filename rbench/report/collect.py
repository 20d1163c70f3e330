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
from rbench.report.data import ClaimChip, FigureImage, PageFact, RunReport
from rbench.report.examples import PackedExamples, choose_and_pack
from rbench.tables import Results
from rbench.tables.aggregate import AttackGrid, attack_grid
from rbench.tables.for_people import collect_titles, replace_names_in_text

if TYPE_CHECKING:
    from rbench.verdicts.claims import JudgedClaim

T = TypeVar("T")
ClaimJudge = Callable[[], Sequence["JudgedClaim"]]
"""Judges the claims of the RUN; raises RbenchError where that cannot be done."""


def collect(
    results: Results, judge: ClaimJudge | None, *, texts: bool = True, figures: FigureMakers = ()
) -> tuple[RunReport, PackedExamples | None]:
    """Return all that a page shows, and its examples. A part that cannot be made is named in `RunReport.missing`.

    Args:
        judge: judges the claims of the RUN; None: it has none.
        texts: whether the page may hold texts.
        figures: makes each figure of the RUN's suite, by its label.
    """
    missing: list[PageFact] = []

    def collect_part(name: str, make: Callable[[], Iterable[T]]) -> tuple[T, ...]:
        try:
            return tuple(make())
        except RbenchError as error:
            missing.append(PageFact(name=name, value=str(error)))
            return ()

    plan = results.plan
    shows_attacks = bool(plan.attacks) or not _has_measure_tables(results)
    # `part` makes a list of one, so that a missing table of attacks is told like any other missing part.
    attack_cells = next(iter(collect_part("attacks", lambda: [attack_grid(results)])), None) if shows_attacks else None
    any_attack_done = attack_cells is not None and any(cell.present for cell in attack_cells.cells.values())
    if attack_cells is not None and not any_attack_done:
        missing.append(
            PageFact(name="attacks", value="no attack is done yet. Run the suite again; finished jobs are kept.")
        )
    if attack_cells is not None:
        missing += _not_compared(attack_cells)
    missing += _unfinished(results)
    examples = (
        next(iter(collect_part("examples", lambda: [choose_and_pack(results, texts=texts)])), None)
        if any_attack_done
        else None
    )
    if any_attack_done and examples is not None and not examples.sampled.total:
        remedy = "Its numbers are there. A run that keeps outcomes/ has the examples."
        missing.append(PageFact(name="examples", value=f"the RUN keeps no outcomes, only records. {remedy}"))
    report = RunReport(
        title=plan.suite.title or plan.suite.name,
        suite=plan.suite.name,
        facts=tuple(provenance.header_facts(results, attack_cells)),
        notes=results.notes,
        claims=collect_part("claims", lambda: [make_claim_chip(judged_claim, results) for judged_claim in judge()])
        if judge is not None
        else (),
        flags=tuple(results.flags.raised_notes(plan.jobs)),
        names=provenance.collect_names(results, attack_cells),
        attacked=shows_attacks,
        metrics=collect_part("heat table", lambda: numbers.collect_heat_metrics(results)) if any_attack_done else (),
        curves=collect_part("curves", lambda: numbers.collect_budget_curves(results)) if any_attack_done else (),
        series=collect_part("trainings", lambda: numbers.collect_series(results)) if _has_trainings(results) else (),
        quality=collect_part("similarity", lambda: numbers.collect_similarity(results))
        if plan.suite.evaluations
        else (),
        tables=collect_part("tables", lambda: numbers.collect_measure_tables(results)),
        figures=embed_figures(figures, missing),
        pairs=collect_part("comparisons", lambda: numbers.collect_comparisons(results)) if any_attack_done else (),
        sampled=examples.sampled if examples is not None else RunReport.model_fields["sampled"].default,
        provenance=tuple(provenance.provenance_facts(results)),
        packages=tuple(provenance.package_facts(results)),
        suite_json=json.dumps(plan.suite.model_dump(mode="json", exclude_defaults=True), indent=1, ensure_ascii=False),
        commands=tuple(provenance.rerun_commands(results)),
        bibtex=provenance.references_as_bibtex(results),
        licences=tuple(provenance.licence_facts(plan)),
        missing=tuple(missing),
    )
    return report, examples


def make_claim_chip(judged_claim: JudgedClaim, results: Results) -> ClaimChip:
    """Return the verdict on a claim, in words, with the rows that `rbench claims` prints."""
    from rbench.verdicts.claims import build_table, claim_lines, claim_sentence

    claim_table = build_table([judged_claim])
    # "ASR of simcse-mini ...": the metric gets its short title, the names after it get theirs.
    metric, preposition, claimed = claim_sentence(judged_claim).partition(" of ")
    claimed = replace_names_in_text(claimed, collect_titles(results.plan, results.metrics)).replace(
        "finetune ", "fine-tuning "
    )
    column = results.metrics[metric].about.column if metric in results.metrics else metric
    return ClaimChip(
        id=judged_claim.claim.id,
        verdict=judged_claim.verdict,
        said=f"{column}{preposition}{claimed}",
        text=claim_lines([judged_claim])[0].partition(": ")[2],
        header=claim_table.header[1:],
        rows=tuple(tuple(map(str, row[1:])) for row in claim_table.rows),
        notes=tuple(note for note in claim_table.notes if note.startswith(f"{judged_claim.claim.id}: ")),
    )


def _has_measure_tables(results: Results) -> bool:
    return any(table_spec.metric not in results.metrics for table_spec in results.plan.suite.tables)


def _has_trainings(results: Results) -> bool:
    return any(job.stage == "pretrain" for job in results.plan.jobs)


def _not_compared(attack_cells: AttackGrid) -> list[PageFact]:
    """Say which encoders or strategies the comparisons leave out."""
    kind_of_names, names = numbers.compared_names(attack_cells)
    left_out = names[numbers.MOST_COMPARED :]
    if not left_out:
        return []
    sentence = (
        f"the first {numbers.MOST_COMPARED} of {len(names)} {kind_of_names} are compared with each other here, without "
    )
    return [
        PageFact(
            name="comparisons",
            value=f"{sentence}{', '.join(left_out)}. rbench compare RUN --between A B compares any two.",
        )
    ]


def _unfinished(results: Results) -> list[PageFact]:
    """Say which jobs are damaged, failed or not done."""
    failed, damaged, not_done = results.standing.unfinished(results.plan.jobs)
    facts = [PageFact(name="damaged", value=results.standing.problems[job.key]) for job in damaged]
    for state, jobs in (("failed", failed), ("not done", not_done)):
        if names := [job.name for job in jobs]:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            remedy = "The same rbench run makes them; finished jobs are kept."
            facts.append(PageFact(name=state, value=f"{', '.join(names[:3])}{more}. {remedy}"))
    return facts


MOST_BYTES = 500_000
"""The most bytes that all figures of a page take in it: the page has 5 MB in all."""


class DrawnFigure(NamedTuple):
    """A figure that was drawn."""

    title: str
    content: bytes


FigureMakers = Sequence[tuple[str, Callable[[], DrawnFigure]]]
"""Figures by label, each with what draws it; this raises RbenchError where it cannot be drawn."""


def embed_figures(
    figures: FigureMakers, missing: list[PageFact], most_bytes: int = MOST_BYTES
) -> tuple[FigureImage, ...]:
    """Return the figures as images, and add to `missing` why one is not there."""
    images: list[FigureImage] = []
    bytes_left = most_bytes
    for label, draw in figures:
        try:
            title, content = draw()
        except RbenchError as error:
            missing.append(PageFact(name=f"figure {label}", value=str(error)))
            continue
        uri = f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
        if len(uri) > bytes_left:
            remedy = f"It takes {len(uri) // 1000} KB. rbench figure draws it into a file."
            missing.append(PageFact(name=f"figure {label}", value=f"the page has no room for it. {remedy}"))
            continue
        bytes_left -= len(uri)
        alt = f"Figure {label}: {title}. Its numbers are those of the tables and curves of this RUN."
        images.append(FigureImage(label=label, title=title, alt=alt, uri=uri))
    return tuple(images)
