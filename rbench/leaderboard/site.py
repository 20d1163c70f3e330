"""Gathers what the pages of a site show: the newest verdict on each claim, papers' tables, and encoders' histories.

The history of an encoder is each of its numbers in one RUN after the other, in order of time, from the RUNs' tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from rbench.config.metrics import HEADLINE
from rbench.config.references import format_references
from rbench.errors import RbenchError
from rbench.leaderboard.board import Board, BoardNumbers, BoardRow
from rbench.report.data import PageFact, RunPage
from rbench.schema import EncoderSpec, Meaning, Suite, VictimSpec
from rbench.tables import Results, Table, build, build_attack_table
from rbench.tables.table import Number
from rbench.verdicts.claims import JudgedClaim, claim_sentence


class PrintedJudgement(Protocol):
    """A claim of a RUN, judged on the printed table of a paper."""

    @property
    def table(self) -> str: ...

    @property
    def sentence(self) -> str:
        """The claim as a sentence, with the names of the printed table."""

    @property
    def summary(self) -> str:
        """In how many combinations it holds, and both numbers of the closest one."""


class ClaimJudgement(NamedTuple):
    """The verdict of one RUN on a claim, and that of a paper's numbers beside it."""

    judged_claim: JudgedClaim
    scope: str
    """What it is judged over: tasks, fine-tuning and attacks of the RUN."""
    paper: PrintedJudgement | None
    """The verdict of the paper's own numbers; None where no printed table has them."""
    run: RunPage


class PaperComparisonTable(NamedTuple):
    """A paper's table with our numbers in its rows and columns."""

    title: str
    run: RunPage
    table: Table


class HistoryPoint(NamedTuple):
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
    """The fingerprint of its weights in each RUN, by the RUN's page. A RUN without it does not name the weights."""
    metrics: tuple[tuple[Meaning, dict[tuple[str, str, str], list[HistoryPoint]]], ...]
    """Each metric with its points, by (task, attack, strategy) in the order of the first RUN."""
    standings: tuple[tuple[Board, BoardRow], ...] = ()
    """The tables of the leaderboard that have it, each with its row."""
    facts: tuple[tuple[str, str], ...] = ()
    """What its file states: pairs of a name and a value."""


@dataclass
class Site:
    """What the index and the encoders' pages show, as it is gathered RUN by RUN."""

    left_out: list[PageFact] = field(default_factory=list)
    """RUNs that cannot be read, each with the reason."""
    runs: list[RunPage] = field(default_factory=list)
    judgements: list[ClaimJudgement] = field(default_factory=list)
    paper_tables: dict[tuple[str, str], PaperComparisonTable] = field(default_factory=dict)
    """The newest of each printed table and suite."""
    runs_by_encoder: dict[str, list[RunPage]] = field(default_factory=dict)
    """The RUNs that have an encoder, by its label."""
    points: list[HistoryPoint] = field(default_factory=list)
    """The numbers of all encoders in all RUNs."""
    titles: dict[str, str] = field(default_factory=dict)
    """The titles of encoders, by label."""
    weights: dict[tuple[str, str], str] = field(default_factory=dict)
    """Fingerprints of weights by encoder and page of the RUN. A RUN without one does not name the weights."""
    encoders: list[EncoderPage] = field(default_factory=list)
    board_numbers: BoardNumbers = field(default_factory=BoardNumbers)
    """The numbers of the leaderboard."""
    boards: list[Board] = field(default_factory=list)
    """The tables of the leaderboard."""

    @property
    def newest(self) -> list[RunPage]:
        """The RUNs, newest first."""
        return sorted(self.runs, key=lambda run: run.date, reverse=True)

    @property
    def claims(self) -> list[list[ClaimJudgement]]:
        """The verdicts on each claim, the newest first. Claims are in the order in which RUNs first have them.

        Judgements are of the same claim if suite, id, sentence and scope are the same. The scope counts because two
        profiles of a suite may have the same claim on other victims.
        """
        by_claim: dict[tuple[str, str, str, str], list[ClaimJudgement]] = {}
        for judgement in self.judgements:
            judged_claim = judgement.judged_claim
            key = (judgement.run.suite, judged_claim.claim.id, claim_sentence(judged_claim), judgement.scope)
            by_claim.setdefault(key, []).append(judgement)
        return [
            sorted(same_claim, key=lambda judgement: judgement.run.date, reverse=True)
            for same_claim in by_claim.values()
        ]

    def encoder_pages(self, hrefs: Mapping[str, str]) -> list[EncoderPage]:
        """Return a page for each encoder, given the address of each page by label, as seen from the index."""
        return [self._encoder_page(label, href=hrefs[label]) for label in self.runs_by_encoder]

    def _encoder_page(self, label: str, href: str) -> EncoderPage:
        runs = sorted(self.runs_by_encoder[label], key=lambda run: run.date)
        order_of_runs = {run.href: i for i, run in enumerate(runs)}
        points = [point for point in self.points if point.encoder == label and point.run.href in order_of_runs]
        points.sort(key=lambda point: order_of_runs[point.run.href])
        # One title may have several `Meaning` objects, one from each RUN. The first one describes the metric.
        meanings: dict[str, Meaning] = {}
        points_by_metric: dict[str, dict[tuple[str, str, str], list[HistoryPoint]]] = {}
        for point in points:
            meanings.setdefault(point.about.title, point.about)
            points_by_metric.setdefault(point.about.title, {}).setdefault(point.cell, []).append(point)
        standings = tuple((board, row) for board in self.boards for row in board.rows if row.who.label == label)
        num_weights = next((row.size for _, row in standings if row.size), None)
        specs = [spec for contestant, spec in self.board_numbers.entries.items() if contestant.label == label]
        return EncoderPage(
            label,
            title=self.titles.get(label, label),
            href=href,
            runs=tuple(runs),
            weights={run.href: self.weights[label, run.href] for run in runs if (label, run.href) in self.weights},
            metrics=tuple((meanings[title], cells) for title, cells in points_by_metric.items()),
            standings=standings,
            facts=_entry_facts(specs[0], num_weights) if specs else (),
        )


def _entry_facts(entry: EncoderSpec | VictimSpec, num_weights: int | None) -> tuple[tuple[str, str], ...]:
    """Return what a file states of an encoder or classifier: names and values, both for people."""
    if isinstance(entry, VictimSpec):
        facts = {"model": entry.model, "reference": format_references(entry.reference), "licence": entry.licence}
    else:
        facts = {
            "base": entry.base,
            "revision": entry.revision,
            "training": entry.train.objective if entry.train is not None else None,
            "pooling": f"{entry.pooling}{', normalised' if entry.normalize else ''}",
            "longest text": f"{entry.max_length:,} tokens" if entry.max_length else None,
            "prompt": _format_prompts(entry.prompt),
            "weights": f"{num_weights:,}" if num_weights else None,
            "licence": entry.licence,
            "reference": format_references(entry.reference),
            "role": "control" if entry.control else None,
        }
    return tuple((name, str(value)) for name, value in facts.items() if value)


def _format_prompts(prompt: str | Mapping[Any, str]) -> str:
    """Return the prompt of an encoder, or each of its prompts with the kinds of texts that it is for."""
    if isinstance(prompt, str):
        return f"“{prompt}”" if prompt else ""
    kinds_by_prompt: dict[str, list[str]] = {}
    for kind, text in prompt.items():
        kinds_by_prompt.setdefault(text, []).append(kind)
    return "; ".join(f"“{text}” ({', '.join(kinds)})" for text, kinds in kinds_by_prompt.items() if text)


def claim_scope(suite: Suite) -> str:
    """Return what the claims of a suite are judged over: its tasks, fine-tuning and attacks."""
    parts = (suite.tasks, suite.finetune, suite.attacks)
    return "; ".join(", ".join(map(str, names)) for names in parts)


AVERAGE_TASK = "average"
"""Stands in place of a task where a number is the average over several STS tasks."""


def list_points(results: Results, run: RunPage) -> Iterator[HistoryPoint]:
    """Yield the numbers of all encoders of a RUN: attack success rate, metrics of victims, and STS correlations.

    A RUN may lack some of these tables.
    """
    for metric in (HEADLINE, *(victim_metric.name for victim_metric in results.metrics.all("victims")), "sts"):
        try:
            table = build(results, "sts") if metric == "sts" else build_attack_table(results, metric)
        except RbenchError:
            continue  # the RUN has no such table; its own page says what is missing
        yielded = set()
        for row in table.cells:
            if row["value"] is None and not row["n"] and not row.get("errored"):
                continue  # its jobs are not done; the run's page names them
            task = (row["evaluation"] or AVERAGE_TASK) if metric == "sts" else row["task"]
            # A metric of victims has a row for each attack with the same number: only the first is yielded.
            attack = row["attack"] if metric == HEADLINE else ""
            cell = (task, attack, row.get("finetune") or "")
            if (row["encoder"], cell) not in yielded:
                yielded.add((row["encoder"], cell))
                yield _history_point(row, cell, run, table)


def _history_point(row: Mapping[str, Any], cell: tuple[str, str, str], run: RunPage, table: Table) -> HistoryPoint:
    meaning = table.meaning
    entry = Number(row["value"], meaning.percent, row["n"], row["low"], row["high"], digits=meaning.digits)
    entry = replace(entry, flagged=row["flagged"])
    remarks = [*(row.get("flags") or ())]
    if row.get("errored"):
        remarks.append(f"{row['errored']} errored")
    return HistoryPoint(meaning, row["encoder"], cell, entry, ", ".join(remarks), run)


def weights_by_encoder(results: Results) -> dict[str, str]:
    """Return the fingerprints of the weights of each encoder; an encoder whose weights no record names is left out."""
    hashes_by_encoder: dict[str, dict[str, None]] = {}
    for record in results.standing.records.values():
        # In other records the hash is that of a victim's weights, after fine-tuning.
        if record.provenance.weights_hash and (record.job.pretraining or record.job.untuned):
            encoder = results.plan.draw(record.job.parts[0]).encoder
            hashes_by_encoder.setdefault(encoder, {})[record.provenance.weights_hash[:12]] = None
    return {encoder: ", ".join(hashes) for encoder, hashes in hashes_by_encoder.items()}


def unique_file_names(names: Iterable[str]) -> list[str]:
    """Return a file name for each name, without an extension. All are different, also for a file system without case.

    They have only letters, digits and `._-`, which need no quoting in an address.

    >>> unique_file_names(["adcl[steps=20]", "adcl-steps-20", "run", "Run"])
    ['adcl-steps-20', 'adcl-steps-20-2', 'run', 'Run-2']
    """
    file_names: list[str] = []
    taken_lower: set[str] = set()
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")[:100] or "unnamed"
        free_name, number = stem, 2
        while free_name.lower() in taken_lower:
            free_name, number = f"{stem}-{number}", number + 1
        taken_lower.add(free_name.lower())
        file_names.append(free_name)
    return file_names
