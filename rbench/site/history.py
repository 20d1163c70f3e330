"""Reads the numbers of encoders off the tables of several RUNs, and puts them in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rbench.errors import RbenchError
from rbench.load.metrics import HEADLINE
from rbench.site.data import EncoderPage, History, MetricHistory, Point, RunPage
from rbench.tables import Results, Table, attack_table, build
from rbench.tables.formats import number
from rbench.tables.table import Number

BETTER = {"lowest": "lower", "highest": "higher"}
AVERAGE = "average"
"""What stands for the task of an average over several sets of pairs."""


def numbers(results: Results, run: RunPage) -> Iterator[Point]:
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
    low, high = entry.low, entry.high
    between = f"{entry.shown(low)} to {entry.shown(high)}" if low is not None and high is not None else ""
    flags = row.get("flags")
    errored = row.get("errored") or 0
    said = [*(flags or ()), *([f"{errored} errored"] if errored else [])]
    scale = 100 if entry.percent else 1
    scaled = {
        name: None if x is None else scale * x for name, x in (("value", entry.value), ("low", low), ("high", high))
    }
    return Point(
        metric=metric,
        about=table.meaning,
        encoder=row["encoder"],
        task=task,
        attack=attack,
        finetune=row.get("finetune") or "",
        shown=number(entry),
        interval=between,
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
