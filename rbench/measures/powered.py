"""Valid ASR from people's answers on some successes, and what a proxy says of all (prediction-powered inference).

A row is a cell that people judged and a proxy was asked about, once for the label and once for label and meaning. The
interval with the proxy stands beside that of people's answers alone, and beside the proxy's error on the texts that
people judged, and nowhere else: it holds however wrong the proxy is (`score.powered`), and a proxy alone says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.schema.judged import Judged, Proxy, Said
from rbench.score.people import accepted_limits, product_limits
from rbench.score.powered import Error, Powered, error_of, powered, powered_limits, reach_added
from rbench.tables import Results, Table
from rbench.tables.aggregate import AXES, Cell, grid
from rbench.tables.notes import OF_PEOPLE, notes
from rbench.tables.table import Entry, Meaning, Number

TITLE = "Valid ASR from people's answers on some successes and a proxy's on all"
ASKED = {"valid_asr": ("seen", "label"), "valid_asr_kept": ("kept", "label and meaning")}
"""By metric: the column of what people said, and in words what was asked."""
UNREADABLE = 0.5
"""Stands for an answer of a proxy that could not be read."""
_NOTES = (
    "People alone: ASR x the share of successes that raters accept, of the judged ones. With the proxy: the same, "
    "prediction-powered (Angelopoulos et al. 2023): the proxy's mean over all successes, corrected by how far it is "
    "off on the judged ones, with the weight that makes the variance least (PPI++). It holds for any proxy if the "
    "judged texts were drawn at random, as rbench judge export does.",
    "Off by, Bias and AUC are the proxy's error on judged texts: mean distance from the share of raters, mean "
    "excess over it, and how often it ranks a text that most raters accept above one that most do not (50 is chance). "
    "Weight 0: the proxy does not count, and both intervals are the same. Of a single text a proxy says nothing.",
)
Values = NDArray[np.float64]


class _Texts(NamedTuple):
    """What is known of the successes of a cell, each text once however many seeds attacked it."""

    shares: Values
    """Of raters who accept a text that people judged."""
    proxies: Values
    """What the proxy says of the same texts."""
    rest: Values
    """What it says of the others."""


class PoweredValidity(Measure[NoOptions]):
    """Valid ASR from people's answers on some successes, and what a proxy says of all."""

    title = TITLE

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table. Raises StoreError where nobody judged the RUN, or no proxy was asked about it."""
        said, of = results.judged, grid(results)
        if said is None or not said.proxies:
            what = (
                "is not judged: rbench judge export" if said is None else "has no proxy's answers: rbench judge proxy"
            )
            raise StoreError(f"{results.root} {what}")
        several = len(of.finetunes) > 1
        rows: list[tuple[Entry, ...]] = []
        cells: list[dict[str, Any]] = []
        groups = set()
        for cell in sorted(of.cells.values(), key=lambda cell: of.tasks.index(cell.task)):
            for proxy in said.proxies:
                for metric, (_, what) in ASKED.items():
                    texts, alone = _texts(results, cell, proxy, metric), cell.number(metric)
                    if texts is None or alone is None or alone.value is None:
                        continue
                    groups |= {len(rows)} if rows and rows[-1][0] != cell.task else set()
                    found, error = powered(*texts), error_of(texts.shares, texts.proxies)
                    with_proxy = results.flags.on(_number(cell, metric, texts, found, said), cell.jobs)
                    names = (cell.task, cell.encoder, *([cell.finetune] if several else []), cell.attack)
                    told = (*_told(error), Number(found.weight, percent=False, digits=2))
                    rows.append((*names, what, proxy.name, error.n, alone, *told, with_proxy))
                    cells.append({**cell.at(*AXES), **_cell(metric, proxy, texts, error, found, alone, with_proxy)})
        partial = tuple(_partial(results, said))
        header = ["Task", "Encoder", *(["Fine-tuning"] if several else []), "Attack", "Asked", "Proxy", "Judged"]
        return Table(
            metric="powered",
            layout="paper",
            header=(*header, "People alone", "Off by", "Bias", "AUC", "Weight", "With the proxy"),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(cells),
            notes=notes(of, of.tasks, (*_NOTES, *partial)),
            interval=OF_PEOPLE,
            flags=of.flags.listed(run.job for run in of.runs),
            brief=(
                "Off by, Bias and AUC: the proxy's error on judged texts; of a single text it says nothing.",
                *partial,
            ),
            about=Meaning(
                TITLE, "ASR x share of successes that people accept", undefined="all texts have the same label"
            ),
        )


def _texts(results: Results, cell: Cell, proxy: Proxy, metric: str) -> _Texts | None:
    """Return what is known of a cell's successes; None where the proxy was not asked about all, or nobody judged one.

    A proxy that was asked about labels alone stands for label and meaning, too; its error says how well it does.
    """
    people: dict[str, list[float]] = {}
    machine: dict[str, list[float]] = {}
    for run in cell.done:
        of = results.observations(run.job)
        told = {one.example: _value(one, metric) for one in proxy.said.get(run.job.key, ())}
        shares = getattr(of, ASKED[metric][0])
        for place in np.flatnonzero(of.fell):
            unit = of.unit[place]
            if unit not in told:
                return None
            machine.setdefault(unit, []).append(told[unit])
            if not np.isnan(shares[place]):
                people.setdefault(unit, []).append(float(shares[place]))
    if not people:
        return None
    means = {unit: sum(own) / len(own) for unit, own in machine.items()}
    return _Texts(
        np.array([sum(own) / len(own) for own in people.values()]),
        np.array([means[unit] for unit in people]),
        np.array([mean for unit, mean in means.items() if unit not in people]),
    )


def _value(said: Said, metric: str) -> float:
    """Return what a proxy says of a success, as one number. It need not be right, so any number would do."""
    there = [one for one in (said.label, said.meaning if metric == "valid_asr_kept" else None) if one is not None]
    if not there:
        there = [one for one in (said.meaning,) if one is not None] or [UNREADABLE]
    return float(np.prod(there))


def _number(cell: Cell, metric: str, texts: _Texts, found: Powered, said: Judged) -> Number:
    """Return ASR times the mean with the proxy. Raters, and seeds, widen its interval as they do that of people.

    It is a part of ASR, so its interval ends where that of ASR does.
    """
    alone, raters = cell.score(metric), len(said.raters)
    assert alone.value is not None and alone.low is not None and alone.high is not None
    counts = cell.pooled.succeeded / cell.repeats, (cell.pooled.succeeded + cell.pooled.failed) / cell.repeats
    if not found.weight:
        return Number(alone.value, percent=True, n=alone.n, low=alone.low, high=alone.high)
    rate, people = counts[0] / counts[1], float(texts.shares.mean())
    mean = min(1.0, max(0.0, found.mean))
    own = product_limits(counts, mean, powered_limits(found, texts.shares, raters))
    without = product_limits(counts, people, accepted_limits(texts.shares, raters))
    down, up = reach_added((alone.low, alone.high), without, alone.value)
    value = rate * mean
    low, high = value - np.hypot(value - own[0], down), value + np.hypot(own[1] - value, up)
    most = cell.score("asr").high
    assert most is not None
    return Number(value, percent=True, n=alone.n, low=max(0.0, float(low)), high=max(value, min(most, float(high))))


def _told(error: Error) -> tuple[Number, ...]:
    return tuple(Number(one, percent=True) for one in (error.off, error.bias, error.auc))


def _cell(
    metric: str, proxy: Proxy, texts: _Texts, error: Error, found: Powered, alone: Number, with_proxy: Number
) -> Mapping[str, Any]:
    """Return the numbers of a row for programs, never one interval without the other and the error."""
    numbers = {"people": alone, "powered": with_proxy}
    ends = {f"{name}_{end}": getattr(one, end) for name, one in numbers.items() for end in ("value", "low", "high")}
    return {
        "metric": metric,
        "proxy": proxy.name,
        "judged": error.n,
        "successes": error.n + len(texts.rest),
        **ends,
        "flagged": alone.flagged,
        "off": error.off,
        "bias": error.bias,
        "auc": error.auc,
        "weight": found.weight,
    }


def _partial(results: Results, said: Judged) -> Iterator[str]:
    """Name the proxies that were not asked about all that people judged."""
    keys = {key for item in said.sheet.items if item.kind == "changed" for key, _ in item.uses}
    for proxy in said.proxies:
        open_ = [key for key in keys if not _whole(results, key, proxy)]
        if open_:
            yield (
                f"{proxy.name} was not asked about all successes of {len(open_)} of {len(keys)} attacks, which are not "
                f"shown: rbench judge proxy {results.root} --by {proxy.name}."
            )


def _whole(results: Results, key: str, proxy: Proxy) -> bool:
    record = results.standing.records.get(key)
    return record is None or len(proxy.said.get(key, ())) == record.counts["succeeded"]
