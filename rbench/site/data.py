"""Defines what the pages of a site get. Numbers come as tables show them."""

from __future__ import annotations

from typing import Literal

from rbench.report.data import Fact
from rbench.spec import Meaning, Strict


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
    missing: tuple[Fact, ...] = ()
    """What the page lacks, with the reason and what to do."""

    @property
    def day(self) -> str:
        """The date without the time of day."""
        return self.date[:10] or "undated"


class OnPaper(Strict):
    """What printed numbers say of a claim."""

    table: str
    sentence: str
    """The claim with the names of the printed table."""
    said: str
    """In how many cases it holds, and the two numbers that come nearest to failing."""


class Judgement(Strict):
    """What one RUN says of a claim."""

    suite: str
    id: str
    sentence: str
    """What is claimed, without numbers."""
    scope: str
    """What it is judged over: tasks, fine-tuning and attacks of the RUN."""
    source: str
    verdict: Literal["supported", "contradicted", "undecided"]
    numbers: str
    """The only number, or how many comparisons have which verdict."""
    paper: OnPaper | None = None
    """What the paper's own numbers say; None where no printed table has them."""
    run: RunPage


class ClaimRow(Strict):
    """A claim: the newest verdict, and those before it, newest first."""

    newest: Judgement
    earlier: tuple[Judgement, ...] = ()


class PaperTable(Strict):
    """A paper's table with our numbers beside the printed ones."""

    name: str
    title: str
    run: RunPage
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class Point(Strict):
    """One number of an encoder in one RUN."""

    metric: str
    about: Meaning
    encoder: str
    task: str
    attack: str = ""
    finetune: str = ""
    shown: str
    interval: str = ""
    value: float | None = None
    """In percent, or 100 times a correlation; None: there is no number."""
    low: float | None = None
    high: float | None = None
    n: int | None = None
    remark: str = ""
    """Health flags, and examples that errored."""
    run: RunPage


class History(Strict):
    """One cell of an encoder over the RUNs that have it, in order of time."""

    task: str
    attack: str
    finetune: str
    points: tuple[Point, ...]


class MetricHistory(Strict):
    """All cells of an encoder for one metric."""

    title: str
    definition: str
    unit: str
    better: str
    cells: tuple[History, ...]


class EncoderPage(Strict):
    """An encoder with its history."""

    label: str
    title: str
    href: str
    runs: tuple[RunPage, ...]
    """In order of time."""
    weights: dict[str, str]
    """The fingerprint of its weights by the RUN's page, as far as records say it."""
    metrics: tuple[MetricHistory, ...]


class Site(Strict):
    """All that the index shows."""

    runs: tuple[RunPage, ...]
    """Newest first."""
    claims: tuple[ClaimRow, ...] = ()
    papers: tuple[PaperTable, ...] = ()
    encoders: tuple[EncoderPage, ...] = ()
    left_out: tuple[Fact, ...] = ()
    """RUNs that cannot be read, each with the reason."""
