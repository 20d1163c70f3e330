"""Defines what a report's page gets. Numbers come as tables show them, and at full precision beside that."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rbench.schema import Strict

HeatKey = tuple[str, str, str, str]
"""Attack, encoder, strategy and task of a cell. What a victim is before attacks has an empty attack, and an average an
empty task."""


class PageFact(Strict):
    """A line of the header or of the provenance: what it is called, and what it is."""

    name: str
    value: str


class ClaimChip(Strict):
    """The verdict on a claim, with its numbers as `rbench claims` prints them."""

    id: str
    verdict: Literal["supported", "contradicted", "undecided"]
    said: str
    """What is claimed, in words."""
    text: str
    """What is claimed, and the numbers, in one line."""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class HeatCell(Strict):
    """One number of a table of attacks."""

    key: HeatKey
    value: float | None
    """At full precision; shares are in 0..1."""
    shown: str
    """As the table prints it."""
    interval: str = ""
    low: float | None = None
    high: float | None = None
    n: int | None = None
    best: bool = False
    """Whether it shares the mark: it is the best of its column, or not significantly worse."""
    skipped: int = 0
    errored: int = 0
    seeds: int = 0
    flags: tuple[str, ...] | None = ()
    """None: unknown, since a record behind it is missing or has no health."""


class HeatMetric(Strict):
    """The table of one metric. An average over tasks has the task "" in its key."""

    name: str
    title: str
    short: str
    """The title where there is little room."""
    definition: str
    percent: bool
    best: Literal["lowest", "highest"] | None
    bold: str
    """What is marked: the best entries and who shares the mark, as the table's caption says it; or that nothing is."""
    of: str
    """What the numbers are of: these weights, or these methods."""
    signs: tuple[str, ...] = ()
    """What the signs behind its numbers say."""
    cells: tuple[HeatCell, ...]


class RenderedTable(Strict):
    """The table of a measure, as `rbench table` lays it out."""

    label: str
    tab: str
    """What the choice of tables calls it."""
    title: str
    """What the numbers are, in a line."""
    header: tuple[str, ...]
    rows: tuple[tuple[tuple[str, bool], ...], ...]
    """Each entry as text, and whether it shares the mark of the best."""
    named: tuple[bool, ...]
    """Whether a column has names, not numbers."""
    groups: tuple[int, ...]
    """Where groups of rows begin."""
    notes: tuple[str, ...]


class CurvePoint(Strict):
    """The success rate within a budget, in 0..1, with its 95% interval."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None


class BudgetCurve(Strict):
    """The success rate of one cell by what an attack may spend."""

    by: Literal["queries", "words"]
    key: HeatKey
    n: int
    flagged: bool = False
    points: tuple[CurvePoint, ...]


class SeriesLine(Strict):
    """One series that a training measured, by step."""

    training: str
    group: str
    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


class FigureImage(Strict):
    """A figure of the RUN's suite, as an image that the page holds."""

    label: str
    """Its name with its options, as the suite has it."""
    title: str
    alt: str
    """What a screen reader says."""
    uri: str
    """The SVG as a data URI."""


class SimilarityScore(Strict):
    """The score of an encoder on similarity, as the table `sts` prints it: the average, or the only task's."""

    encoder: str
    value: float
    shown: str
    low: float | None = None
    high: float | None = None


class PairCell(Strict):
    """Two encoders or strategies in one cell, as `rbench compare` says it, and the fourfold table behind it."""

    task: str
    finetune: str
    """Empty where strategies are compared."""
    attack: str
    n: int
    fourfold: tuple[int, int, int, int] | None
    """Fell with both, with the first alone, with the second alone, with neither. None: not paired by example."""
    one: str
    other: str
    """Both values as the table prints them, each over its own examples."""
    difference: str
    interval: str
    p: str
    test: str
    verdict: str
    smallest: str


class ComparedPair(Strict):
    """A comparison of two encoders, or of two strategies of the only one; or why there is none."""

    one: str
    other: str
    cells: tuple[PairCell, ...] = ()
    notes: tuple[str, ...] = ()
    missing: str = ""


class PageNames(Strict):
    """The names of the RUN in the order of tables, and the titles that stand for some of them."""

    encoders: tuple[str, ...] = ()
    finetunes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    titles: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The text columns of a task."""
    labels: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The names of a task's labels."""


class ExampleSample(Strict):
    """Which examples the page holds."""

    shown: int = 0
    total: int = 0
    differing: int = 0
    """How many are there because encoders differ on them."""
    texts: bool = True
    said: str = ""
    """What a reader must know of it; empty: all examples are there, with their texts."""


class RunReport(Strict):
    """All that the page shows, but the examples, which are packed apart."""

    title: str
    suite: str
    facts: tuple[PageFact, ...] = ()
    claims: tuple[ClaimChip, ...] = ()
    notes: tuple[str, ...] = ()
    """Of several RUNs: where they differ, and what is left out."""
    flags: tuple[str, ...] = ()
    names: PageNames = PageNames()
    attacked: bool = True
    """Whether the suite has attacks. Without them the page has no parts for their numbers."""
    metrics: tuple[HeatMetric, ...] = ()
    curves: tuple[BudgetCurve, ...] = ()
    series: tuple[SeriesLine, ...] = ()
    quality: tuple[SimilarityScore, ...] = ()
    tables: tuple[RenderedTable, ...] = ()
    figures: tuple[FigureImage, ...] = ()
    pairs: tuple[ComparedPair, ...] = ()
    sampled: ExampleSample = ExampleSample()
    provenance: tuple[PageFact, ...] = ()
    packages: tuple[PageFact, ...] = ()
    suite_json: str = ""
    """The suite as the plan holds it, as JSON."""
    commands: tuple[str, ...] = ()
    """By RUN, what makes it again."""
    bibtex: str = ""
    licences: tuple[PageFact, ...] = ()
    missing: tuple[PageFact, ...] = ()
    """The parts that are not there, each with the reason and what to do."""


class RunPage(Strict):
    """A RUN that has a page."""

    name: str
    """The name of its folder."""
    href: str
    """The page, seen from the index."""
    title: str
    suite: str
    date: str
    """When its last job started: `2026-11-20T14:13:19+00:00`; empty where no record says it."""
    jobs: str
    """How many jobs are done, of how many."""
    version: str
    """The versions of rbench that made its records."""
    missing: tuple[PageFact, ...] = ()
    """What the page lacks, with the reason and what to do."""

    @property
    def day(self) -> str:
        """The date without the time of day."""
        return self.date[:10] or "undated"
