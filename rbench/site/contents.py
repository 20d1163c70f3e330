"""Finds the newest verdict on each claim over several RUNs, what the paper's own numbers say of it, and histories.

A history is of the numbers of an encoder, read off the tables of the RUNs, in order of time. For the paper's numbers,
the names of a claim are put into the printed table's: an encoder becomes the printed one beside which it
stands (`verdicts.beside`), an attack or a strategy the one of the same name. The claim is then judged on the tasks,
attacks, strategies and encoders that both have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rbench.errors import RbenchError, StoreError, SuiteError
from rbench.load import printed
from rbench.load.choices import of_label
from rbench.load.metrics import HEADLINE
from rbench.site.data import (
    ClaimRow,
    EncoderPage,
    History,
    Judgement,
    MetricHistory,
    OnPaper,
    PaperTable,
    Point,
    RunPage,
)
from rbench.spec import Claim, Suite
from rbench.spec.claimed import CellOf, Ground
from rbench.spec.claims import Axis, Subject
from rbench.spec.printed import PrintedTable
from rbench.tables import Results, Table, attack_table, build
from rbench.tables.formats import beside, number
from rbench.tables.table import Beside, Entry, Number
from rbench.verdicts.beside import Comparison, encoders_of, partners
from rbench.verdicts.beside import table as beside_table
from rbench.verdicts.claims import JudgedClaim, brief, sentence
from rbench.verdicts.printed import Judged, by, judge, numbers


def judgements(
    found: Sequence[JudgedClaim], run: RunPage, results: Results, ground: Ground, table: str | None
) -> Iterator[Judgement]:
    """Yield what one RUN says of its claims.

    Args:
        found: the claims, judged.
        run: the RUN's page.
        results: the RUN.
        ground: the cells of the RUN.
        table: the printed table that the RUN's suite reproduces; None: it reproduces none.
    """
    for one in found:
        name = printed_in(one.claim.source) or table
        yield Judgement(
            suite=run.suite,
            id=one.claim.id,
            sentence=sentence(one),
            scope=_scope(results.plan.suite),
            source=one.claim.source,
            verdict=one.verdict,
            numbers=brief(one),
            paper=None if name is None else _on_paper(one.claim, name, results, ground),
            run=run,
        )


def claim_rows(judged: Iterable[Judgement]) -> tuple[ClaimRow, ...]:
    """Return a row for each claim, in the order of their first RUN.

    One claim is what one suite says in the same words under the same id, over the same tasks, fine-tuning and attacks:
    profiles of a suite may ask the same of other victims.
    """
    found: dict[tuple[str, str, str, str], list[Judgement]] = {}
    for one in judged:
        found.setdefault((one.suite, one.id, one.sentence, one.scope), []).append(one)
    rows = []
    for several in found.values():
        newest, *earlier = sorted(several, key=lambda one: one.run.date, reverse=True)
        rows.append(ClaimRow(newest=newest, earlier=tuple(earlier)))
    return tuple(rows)


def _scope(suite: Suite) -> str:
    return "; ".join(", ".join(map(str, names)) for names in (suite.tasks, suite.finetune, suite.attacks))


def paper_table(compared: Comparison, results: Results, run: RunPage) -> PaperTable | None:
    """Return a paper's table with our numbers in its rows and columns; None where no number has a partner."""
    try:
        laid = beside_table(compared, results.plan, "paper")
    except StoreError:
        return None
    return PaperTable(
        name=compared.name,
        title=compared.printed.title,
        run=run,
        header=laid.header,
        rows=tuple(tuple(_text(entry) for entry in row) for row in laid.rows),
        notes=laid.brief,
    )


def printed_in(source: str) -> str | None:
    """Return the printed table that a claim's source names: `adcl-table1` for `ADCL, section 4.5, H1, Table 1`."""
    number = re.search(r"\bTable (\d+)\b", source)
    name = f"{source.partition(',')[0].strip().lower()}-table{number[1]}" if number else ""
    return name if name in printed.names() else None


def _on_paper(claim: Claim, name: str, results: Results, ground: Ground) -> OnPaper | None:
    """Say what the printed numbers say of a claim; None where the paper does not print what it is about."""
    table = printed.load(name)
    try:
        theirs = partners(table, encoders_of(results))
        judged = judge_on_paper(claim, name, table, theirs, ground.cells.get(claim.metric, ()))
    except SuiteError:
        return None
    return OnPaper(table=name, sentence=str(judged.claim.model_copy(update={"where": {}})), said=_numbers(judged))


def _numbers(judged: Judged) -> str:
    """Say in how many cases a claim holds on printed numbers, with those that decide it."""
    closest, weighed = judged.closest, judged.closest.weighed
    value, limit = (Number(float(x), percent=False, digits=2) for x in (weighed.value, weighed.reference))
    pair = f"{number(value)} against {number(limit)}, {by(judged)}"
    if len(judged.combinations) == 1:
        return f"{'holds' if judged.holding else 'fails'}: {pair}"
    where = ", ".join(closest.at.values())
    return f"holds in {judged.holding} of {len(judged.combinations)}; closest, {where}: {pair}"


def _text(entry: Entry) -> str:
    if isinstance(entry, Beside):
        return beside(entry)
    if isinstance(entry, Number):
        return number(entry)
    return "" if entry is None else str(entry)


AXES: tuple[Axis, ...] = ("encoder", "task", "attack", "finetune")


def judge_on_paper(
    claim: Claim, name: str, table: PrintedTable, partners: Mapping[str, str], ours: tuple[CellOf, ...]
) -> Judged:
    """Judge a claim of a RUN on a printed table.

    Args:
        claim: the claim, with the RUN's names.
        name: the printed table's name.
        table: the printed table.
        partners: the RUN's encoder for each printed one.
        ours: the RUN's cells of the claim's metric.

    Raises:
        SuiteError: the table has no such metric, or none of what the claim compares.
    """
    printed = tuple(numbers(table).get(claim.metric, ()))
    if not printed:
        raise SuiteError(f"{name} prints no {claim.metric}")
    names = _Names(partners, Ground({claim.metric: ours}), Ground({claim.metric: printed}), claim.metric)
    return judge(_translated(claim, names), name, table, f"claim {claim.id}")


@dataclass(frozen=True)
class _Names:
    """The printed name for each name of ours."""

    partners: Mapping[str, str]
    ours: Ground
    printed: Ground
    metric: str

    def of(self, axis: Axis, said: str) -> str:
        """Return the printed name. Raises SuiteError where there is none."""
        label = self.ours.named(axis, said, self.metric) or said
        found = next((one for one in self.printed.names(axis, self.metric) if self._same(axis, label, one)), None)
        if found is None:
            raise SuiteError(f"the printed table has nothing for {axis} {said}")
        return found

    def common(self, axis: Axis, only: tuple[str, ...]) -> tuple[str, ...]:
        """Return the printed names of what both have, among `only` where it says any."""
        wanted = [self.ours.named(axis, one, self.metric) for one in only]
        labels = [one for one in self.ours.names(axis, self.metric) if not only or one in wanted]
        there = self.printed.names(axis, self.metric)
        return tuple(one for one in there if any(self._same(axis, label, one) for label in labels))

    def _same(self, axis: Axis, ours: str, printed: str) -> bool:
        if axis == "encoder":
            return self.partners.get(printed) == ours
        one, other = of_label(ours), of_label(printed)
        return one.name == other.name and other.options.items() <= one.options.items()


def _translated(claim: Claim, names: _Names) -> Claim:
    """Return the claim with the printed table's names, kept to what both have."""
    changes = {}
    for (field, *_), _subject in claim.subjects:
        value = getattr(claim, str(field))
        several = isinstance(value, tuple)
        changes[str(field)] = tuple(_subject_of(one, names) for one in value) if several else _subject_of(value, names)
    where: dict[Axis, tuple[str, ...]] = {}
    for axis in AXES:
        if not names.printed.names(axis, names.metric):
            continue
        where[axis] = names.common(axis, claim.where.get(axis, ()))
        if not where[axis]:
            raise SuiteError(f"the printed table and the RUN have no {axis} in common")
    return claim.model_copy(update={**changes, "where": where})


def _subject_of(subject: Subject, names: _Names) -> Subject:
    found: dict[str, str] = {
        axis: names.of(axis, said) for axis in AXES if (said := getattr(subject, axis)) is not None
    }
    return subject.model_copy(update=found)


BETTER = {"lowest": "lower", "highest": "higher"}
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
                yield _point(metric, row, task, attack, run, table)


def _point(metric: str, row: Mapping[str, Any], task: str, attack: str, run: RunPage, table: Table) -> Point:
    entry = Number(row["value"], table.meaning.percent, row["n"], row["low"], row["high"], digits=table.meaning.digits)
    flags = row.get("flags")
    errored = row.get("errored") or 0
    said = [*(flags or ()), *([f"{errored} errored"] if errored else [])]
    scale = 100 if entry.percent else 1
    scaled = {
        name: None if x is None else scale * x
        for name, x in (("value", entry.value), ("low", entry.low), ("high", entry.high))
    }
    return Point(
        metric=metric,
        about=table.meaning,
        encoder=row["encoder"],
        task=task,
        attack=attack,
        finetune=row.get("finetune") or "",
        shown=number(entry),
        interval=entry.span,
        n=row["n"],
        remark=", ".join(said),
        run=run,
        **scaled,
    )


def weights(results: Results) -> dict[str, str]:
    """Return the fingerprints of the weights of encoders, as far as records of trainings and evaluations say them."""
    found: dict[str, dict[str, None]] = {}
    for record in results.standing.records.values():
        if record.provenance.weights_hash and (record.job.pretraining or record.job.untuned):
            encoder = results.plan.draw(record.job.parts[0]).encoder
            found.setdefault(encoder, {})[record.provenance.weights_hash[:12]] = None
    return {encoder: ", ".join(several) for encoder, several in found.items()}


def encoder_pages(
    points: Sequence[Point],
    lineup: Mapping[str, Sequence[RunPage]],
    titles: Mapping[str, str],
    hrefs: Mapping[str, str],
    weights: Mapping[tuple[str, str], str],
) -> tuple[EncoderPage, ...]:
    """Return a page for each encoder.

    Args:
        points: the numbers of all RUNs.
        lineup: the RUNs that have an encoder, by its label.
        titles: the titles that stand for names in tables.
        hrefs: the pages by encoder, seen from the index.
        weights: fingerprints by encoder and RUN, as far as records say them.
    """
    pages = []
    for label, several in lineup.items():
        runs = sorted(several, key=lambda run: run.date)
        own = [point for run in runs for point in points if point.encoder == label and point.run.href == run.href]
        pages.append(
            EncoderPage(
                label=label,
                title=titles.get(label, label),
                href=hrefs[label],
                runs=tuple(runs),
                weights={run.href: weights[label, run.href] for run in runs if (label, run.href) in weights},
                metrics=tuple(_histories(own)),
            )
        )
    return tuple(pages)


def _histories(points: Iterable[Point]) -> Iterator[MetricHistory]:
    """Yield what an encoder has of each metric. Its cells keep the order of the first RUN."""
    found: dict[str, dict[tuple[str, str, str], list[Point]]] = {}
    for one in points:
        found.setdefault(one.metric, {}).setdefault((one.task, one.attack, one.finetune), []).append(one)
    for cells in found.values():
        meaning = next(iter(cells.values()))[0].about
        yield MetricHistory(
            title=meaning.title,
            definition=meaning.definition,
            unit="in percent" if meaning.unit == "%" else meaning.unit,
            better=f"{BETTER[meaning.best]} is {meaning.good}" if meaning.best else "",
            cells=tuple(
                History(task=task, attack=attack, finetune=finetune, points=tuple(several))
                for (task, attack, finetune), several in cells.items()
            ),
        )
