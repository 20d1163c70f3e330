"""Gathers what the pages of a site show: the newest verdict on each claim, papers' tables, and encoders' histories.

A history is of the numbers of an encoder, read off the tables of the RUNs, in order of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from rbench.config.metrics import HEADLINE
from rbench.config.references import cited
from rbench.errors import RbenchError
from rbench.leaderboard.board import Board, Readings, Row
from rbench.report.data import Fact
from rbench.report.data import RunPage as RunPage
from rbench.schema import EncoderSpec, Meaning, Suite, VictimSpec
from rbench.tables import Results, Table, attack_table, build
from rbench.tables.table import Number
from rbench.verdicts.claims import JudgedClaim, sentence


class OnPaper(Protocol):
    """A claim of a RUN, judged on the printed table of a paper."""

    @property
    def table(self) -> str: ...

    @property
    def sentence(self) -> str:
        """The claim as a sentence, with the names of the printed table."""

    @property
    def said(self) -> str:
        """In how many combinations it holds, and both numbers of the closest one."""


class Judgement(NamedTuple):
    """What one RUN says of a claim."""

    found: JudgedClaim
    scope: str
    """What it is judged over: tasks, fine-tuning and attacks of the RUN."""
    paper: OnPaper | None
    """What the paper's own numbers say; None where no printed table has them."""
    run: RunPage


class PaperTable(NamedTuple):
    """A paper's table with our numbers in its rows and columns."""

    title: str
    run: RunPage
    laid: Table


class Point(NamedTuple):
    """One number of an encoder in one RUN."""

    about: Meaning
    encoder: str
    cell: tuple[str, str, str]
    """Task, attack and strategy; the last two may be empty."""
    entry: Number
    remark: str
    """Health flags, and examples that errored."""
    run: RunPage


class EncoderPage(NamedTuple):
    """An encoder with its history."""

    label: str
    title: str
    href: str
    runs: tuple[RunPage, ...]
    """In order of time."""
    weights: dict[str, str]
    """The fingerprint of its weights by the RUN's page, as far as records say it."""
    metrics: tuple[tuple[Meaning, dict[tuple[str, str, str], list[Point]]], ...]
    """Each metric with what the encoder has of it: the points of each cell, in the order of the first RUN."""
    standings: tuple[tuple[Board, Row], ...] = ()
    """The tables of the leaderboard that have it, each with its row."""
    facts: tuple[tuple[str, str], ...] = ()
    """What its file says of it."""


@dataclass
class Site:
    """What the index and the encoders' pages show, as it is gathered RUN by RUN."""

    left_out: list[Fact] = field(default_factory=list)
    """RUNs that cannot be read, each with the reason."""
    runs: list[RunPage] = field(default_factory=list)
    judged: list[Judgement] = field(default_factory=list)
    papers: dict[tuple[str, str], PaperTable] = field(default_factory=dict)
    """The newest by printed table and suite."""
    lineup: dict[str, list[RunPage]] = field(default_factory=dict)
    """The RUNs of each encoder."""
    points: list[Point] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    weights: dict[tuple[str, str], str] = field(default_factory=dict)
    """Fingerprints by encoder and RUN, as far as records say them."""
    encoders: list[EncoderPage] = field(default_factory=list)
    readings: Readings = field(default_factory=Readings)
    """The numbers of the leaderboard."""
    boards: list[Board] = field(default_factory=list)
    """The tables of the leaderboard."""

    @property
    def newest(self) -> list[RunPage]:
        """The RUNs, newest first."""
        return sorted(self.runs, key=lambda run: run.date, reverse=True)

    @property
    def claims(self) -> list[list[Judgement]]:
        """The verdicts on each claim, newest first, in the order of their first RUN.

        One claim is what one suite says in the same words under the same id, over the same tasks, fine-tuning and
        attacks: profiles of a suite may ask the same of other victims.
        """
        found: dict[tuple[str, str, str, str], list[Judgement]] = {}
        for one in self.judged:
            key = (one.run.suite, one.found.claim.id, sentence(one.found), one.scope)
            found.setdefault(key, []).append(one)
        return [sorted(several, key=lambda one: one.run.date, reverse=True) for several in found.values()]

    def encoder_pages(self, hrefs: Mapping[str, str]) -> list[EncoderPage]:
        """Return a page for each encoder, whose place, seen from the index, is in `hrefs`."""
        pages = []
        for label, several in self.lineup.items():
            runs = sorted(several, key=lambda run: run.date)
            own = [one for run in runs for one in self.points if one.encoder == label and one.run.href == run.href]
            found: dict[str, dict[tuple[str, str, str], list[Point]]] = {}
            for one in own:
                found.setdefault(one.about.title, {}).setdefault(one.cell, []).append(one)
            metrics = tuple((next(iter(cells.values()))[0].about, cells) for cells in found.values())
            weights = {run.href: self.weights[label, run.href] for run in runs if (label, run.href) in self.weights}
            title = self.titles.get(label, label)
            standings = tuple((board, row) for board in self.boards for row in board.rows if row.who.label == label)
            size = next((row.size for _, row in standings if row.size), None)
            specs = (entry for who, entry in self.readings.entries.items() if who.label == label)
            facts = next((_facts(entry, size) for entry in specs), ())
            pages.append(EncoderPage(label, title, hrefs[label], tuple(runs), weights, metrics, standings, facts))
        return pages


def _facts(entry: EncoderSpec | VictimSpec, size: int | None) -> tuple[tuple[str, str], ...]:
    """Return what a file says of an encoder or classifier, in words."""
    if isinstance(entry, VictimSpec):
        told = {"model": entry.model, "reference": cited(entry.reference), "licence": entry.licence}
    else:
        by_prompt: dict[str, list[str]] = {}
        for kind, text in ({"": entry.prompt} if isinstance(entry.prompt, str) else entry.prompt).items():
            by_prompt.setdefault(text, []).append(kind)
        prompts = (f"“{text}”" + f" ({', '.join(kinds)})" * any(kinds) for text, kinds in by_prompt.items() if text)
        told = {
            "base": entry.base,
            "revision": entry.revision,
            "training": entry.train.objective if entry.train is not None else None,
            "pooling": f"{entry.pooling}{', normalised' if entry.normalize else ''}",
            "longest text": f"{entry.max_length:,} tokens" if entry.max_length else None,
            "prompt": "; ".join(prompts),
            "weights": f"{size:,}" if size else None,
            "licence": entry.licence,
            "reference": cited(entry.reference),
            "role": "control" if entry.control else None,
        }
    return tuple((name, str(value)) for name, value in told.items() if value)


def scope(suite: Suite) -> str:
    """Return what the claims of a suite are judged over: its tasks, fine-tuning and attacks."""
    return "; ".join(", ".join(map(str, names)) for names in (suite.tasks, suite.finetune, suite.attacks))


AVERAGE = "average"
"""What stands for the task of an average over several sets of pairs."""


def points_of(results: Results, run: RunPage) -> Iterator[Point]:
    """Yield the numbers of all encoders of a RUN, as far as it has them: the headline, what victims are, similarity."""
    for metric in (HEADLINE, *(one.name for one in results.metrics.all("victims")), "sts"):
        try:
            table = build(results, "sts") if metric == "sts" else attack_table(results, metric)
        except RbenchError:
            continue  # the RUN has no such table; its own page says what is missing
        seen = set()
        for row in table.cells:
            task = row["evaluation"] or AVERAGE if metric == "sts" else row["task"]
            # All attacks on a victim see the same examples, so what it is before them stands there once.
            attack = row["attack"] if metric == HEADLINE else ""
            key = (row["encoder"], row.get("finetune"), task, attack)
            if row["value"] is None and not row["n"] and not row.get("errored"):
                continue  # its jobs are not done; the run's page names them
            if key not in seen:
                seen.add(key)
                yield _point(row, (task, attack, row.get("finetune") or ""), run, table)


def _point(row: Mapping[str, Any], cell: tuple[str, str, str], run: RunPage, table: Table) -> Point:
    about, errored = table.meaning, row.get("errored") or 0
    entry = Number(row["value"], about.percent, row["n"], row["low"], row["high"], digits=about.digits)
    entry = replace(entry, flagged=row["flagged"])
    said = [*(row.get("flags") or ()), *([f"{errored} errored"] if errored else [])]
    return Point(about, row["encoder"], cell, entry, ", ".join(said), run)


def weights(results: Results) -> dict[str, str]:
    """Return the fingerprints of the weights of encoders, as far as records of trainings and evaluations say them."""
    found: dict[str, dict[str, None]] = {}
    for record in results.standing.records.values():
        if record.provenance.weights_hash and (record.job.pretraining or record.job.untuned):
            encoder = results.plan.draw(record.job.parts[0]).encoder
            found.setdefault(encoder, {})[record.provenance.weights_hash[:12]] = None
    return {encoder: ", ".join(several) for encoder, several in found.items()}


def unique(names: Iterable[str]) -> list[str]:
    """Return a file name for each name, without its ending: letters, digits and `._-`, which no address must quote.

    >>> unique(["adcl[steps=20]", "adcl-steps-20", "run", "Run"])
    ['adcl-steps-20', 'adcl-steps-20-2', 'run', 'Run-2']
    """
    found: list[str] = []
    taken: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100] or "unnamed"
        free, number = stem, 2
        while free.lower() in taken:  # some file systems do not tell capitals apart
            free, number = f"{stem}-{number}", number + 1
        taken.add(free.lower())
        found.append(free)
    return found
