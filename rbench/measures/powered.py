"""Valid ASR from people's answers on some successes, and what a proxy says of all (prediction-powered inference).

A cell of which people judged some successes, and a proxy all, has two rows: for the label alone, and for label and
meaning. The interval with the proxy holds however wrong the proxy is (`score.powered`), but a proxy alone says nothing.
So no other table has this interval. Here it stands beside that of people's answers alone, and beside the error of the
proxy on the texts that people judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbench.errors import StoreError
from rbench.measures import Measure
from rbench.schema.extension import NoOptions
from rbench.schema.judged import HumanJudgements, Proxy, ProxyAnswer
from rbench.score.people import accepted_limits, limits_of_product
from rbench.score.powered import (
    PoweredEstimate,
    ProxyError,
    added_reach,
    estimate_limits,
    estimate_with_proxy,
    measure_proxy_error,
)
from rbench.tables import Results, Table
from rbench.tables.aggregate import AXES, AttackCell, attack_grid
from rbench.tables.notes import PEOPLE_INTERVAL_NOTE, table_notes
from rbench.tables.table import Meaning, Number, TableEntry

TITLE = "Valid ASR from people's answers on some successes and a proxy's on all"
QUESTION_OF_METRIC = {"valid_asr": ("seen", "label"), "valid_asr_kept": ("kept", "label and meaning")}
"""By metric: the column of observations with the share of raters who accept a text, and what raters were asked."""
UNREADABLE_ANSWER = 0.5
"""Taken for an answer of a proxy that could not be read."""
_NOTES = (
    "People alone: ASR x the share of successes that raters accept, of the judged ones. With the proxy: the same, "
    "prediction-powered (Angelopoulos et al. 2023): the proxy's mean over all successes, corrected by how far it is "
    "off on the judged ones, with the weight that makes the variance least (PPI++). It holds for any proxy if the "
    "judged texts were drawn at random, as rbench judge export does.",
    "Off by, Bias and AUC are the proxy's error on judged texts: mean distance from the share of raters, mean "
    "excess over it, and how often it ranks a text that most raters accept above one that most do not (50 is chance). "
    "Weight 0: the proxy does not count, and both intervals are the same. Of a single text a proxy says nothing.",
)
FloatArray = NDArray[np.float64]


class _CellTexts(NamedTuple):
    """The answers of people and of a proxy on the successes of a cell, as `estimate_with_proxy` takes them.

    A text that falls in several seeds is as many successes.
    """

    shares: FloatArray
    """The share of raters who accept each judged success, 0..1."""
    proxies: FloatArray
    """The proxy's answers on the same successes, 0..1."""
    unjudged_proxies: FloatArray
    """The proxy's answers on the successes that nobody judged, 0..1."""


class PoweredValidity(Measure[NoOptions]):
    """Valid ASR from people's answers on some successes, and what a proxy says of all."""

    title = TITLE

    def table(self, options: NoOptions, results: Results) -> Table:
        """Make the table. Raises StoreError where nobody judged the RUN, or no proxy answered on all of an attack."""
        judgements = results.require_judged()
        if not judgements.proxies:
            raise StoreError(f"{results.root} has no proxy's answers: rbench judge proxy")
        grid = attack_grid(results)
        several_strategies = len(grid.finetunes) > 1
        rows: list[tuple[TableEntry, ...]] = []
        cells: list[dict[str, Any]] = []
        groups = set()
        cells_by_task = sorted(grid.cells.values(), key=lambda cell: grid.tasks.index(cell.task))
        for cell, proxy, metric in product(cells_by_task, judgements.proxies, QUESTION_OF_METRIC):
            texts = _collect_texts(results, cell, proxy, metric)
            people_alone = cell.number(metric)
            if texts is None or people_alone is None or people_alone.value is None:
                continue
            if rows and rows[-1][0] != cell.task:
                groups.add(len(rows))  # the next row begins a task
            estimate = estimate_with_proxy(*texts)
            error = measure_proxy_error(texts.shares, texts.proxies)
            with_proxy = results.flags.on(_build_number(cell, metric, texts, estimate, judgements), cell.jobs)
            strategy = [cell.finetune] if several_strategies else []
            names = [cell.task, cell.encoder, *strategy, cell.attack, QUESTION_OF_METRIC[metric][1], proxy.name]
            weight = Number(estimate.weight, percent=False, digits=2)
            rows.append((*names, error.n, people_alone, *_error_numbers(error), weight, with_proxy))
            plain_fields = _program_row(metric, proxy, texts, error, estimate, people_alone, with_proxy)
            cells.append({**cell.at(*AXES), **plain_fields})
        partial = tuple(_describe_partial(results, judgements))
        if partial and not rows:
            raise StoreError(" ".join(partial))
        header = [
            "Task",
            "Encoder",
            *(["Fine-tuning"] if several_strategies else []),
            "Attack",
            "Asked",
            "Proxy",
            "Judged",
        ]
        return Table(
            metric="powered",
            layout="paper",
            header=(*header, "People alone", "Off by", "Bias", "AUC", "Weight", "With the proxy"),
            rows=tuple(rows),
            groups=frozenset(groups),
            cells=tuple(cells),
            notes=table_notes(grid, grid.tasks, (*_NOTES, *partial)),
            interval=PEOPLE_INTERVAL_NOTE,
            flags=grid.flags.listed(run.job for run in grid.runs),
            brief=(
                "Off by, Bias and AUC: the proxy's error on judged texts; of a single text it says nothing.",
                *partial,
            ),
            about=Meaning(
                TITLE, "ASR x share of successes that people accept", undefined="all texts have the same label"
            ),
        )


def _collect_texts(results: Results, cell: AttackCell, proxy: Proxy, metric: str) -> _CellTexts | None:
    """Return the answers on a cell's successes; None if the proxy has not answered on all, or people on none of them.

    A proxy that was asked about the label alone has rows for label and meaning, too. Its error then says how well the
    label predicts both.
    """
    judged: list[tuple[float, float]] = []
    unjudged_proxies: list[float] = []
    for run in cell.done:
        observed = results.observations(run.job)
        proxy_answers = {
            answer.example: _answer_as_number(answer, metric) for answer in proxy.said.get(run.job.key, ())
        }
        shares = getattr(observed, QUESTION_OF_METRIC[metric][0])
        for i in np.flatnonzero(observed.fell):  # a text that falls in several seeds is as many successes, as in ASR
            example = observed.unit[i]
            if example not in proxy_answers:
                return None
            if np.isnan(shares[i]):
                unjudged_proxies.append(proxy_answers[example])
            else:
                judged.append((float(shares[i]), proxy_answers[example]))
    if not judged:
        return None
    people_shares, proxies = np.array(judged).T
    return _CellTexts(people_shares, proxies, np.array(unjudged_proxies))


def _answer_as_number(proxy_answer: ProxyAnswer, metric: str) -> float:
    """Return how far a proxy accepts a success: its answer on the label, times that on the meaning if both are asked.

    Where one answer is missing, the other one stands for both. The estimate is unbiased whatever number is returned
    here: a bad one only gives the proxy less weight.
    """
    label, meaning = proxy_answer.label, proxy_answer.meaning
    if label is None:
        return UNREADABLE_ANSWER if meaning is None else float(meaning)
    if metric == "valid_asr_kept" and meaning is not None:
        return float(label * meaning)
    return float(label)


def _build_number(
    cell: AttackCell, metric: str, texts: _CellTexts, estimate: PoweredEstimate, judgements: HumanJudgements
) -> Number:
    """Return ASR times the mean with the proxy, with its interval.

    The number of people alone has an interval in which raters and seeds are levels. This interval is made wider by as
    much as these levels make that one wider. The number is a part of ASR, so its interval ends where that of ASR does.
    """
    people_alone, raters = cell.score(metric), len(judgements.raters)
    assert people_alone.value is not None and people_alone.low is not None and people_alone.high is not None
    # Weight 0 means that the proxy does not count, so the number is that of people alone, to the last bit.
    if not estimate.weight:
        return Number(people_alone.value, percent=True, n=people_alone.n, low=people_alone.low, high=people_alone.high)
    succeeded = cell.pooled.succeeded / cell.repeats
    attacked = (cell.pooled.succeeded + cell.pooled.failed) / cell.repeats
    mean = min(1.0, max(0.0, estimate.mean))
    value = succeeded / attacked * mean
    # Both pairs of limits are of texts alone, without raters and seeds as levels.
    low, high = limits_of_product(
        (succeeded, attacked), mean, estimate_limits(estimate, texts.shares, raters, cell.repeats)
    )
    people_limits = limits_of_product(
        (succeeded, attacked), float(texts.shares.mean()), accepted_limits(texts.shares, raters, cell.repeats)
    )
    levels_down, levels_up = added_reach((people_alone.low, people_alone.high), people_limits, people_alone.value)
    # Distances to the limits of independent sources of error add up as squares.
    low = value - float(np.hypot(value - low, levels_down))
    high = value + float(np.hypot(high - value, levels_up))
    asr_high = cell.score("asr").high
    assert asr_high is not None
    return Number(value, percent=True, n=people_alone.n, low=max(0.0, low), high=max(value, min(asr_high, high)))


def _error_numbers(error: ProxyError) -> tuple[Number, ...]:
    return tuple(Number(error_number, percent=True) for error_number in (error.distance, error.bias, error.auc))


def _program_row(
    metric: str,
    proxy: Proxy,
    texts: _CellTexts,
    error: ProxyError,
    estimate: PoweredEstimate,
    people_alone: Number,
    with_proxy: Number,
) -> Mapping[str, Any]:
    """Return the numbers of a row for programs: both intervals, and the error of the proxy."""
    numbers = {"people": people_alone, "powered": with_proxy}
    interval_fields = {
        f"{name}_{end}": getattr(number, end) for name, number in numbers.items() for end in ("value", "low", "high")
    }
    return {
        "metric": metric,
        "proxy": proxy.name,
        "judged": error.n,
        "successes": error.n + len(texts.unjudged_proxies),
        **interval_fields,
        "flagged": people_alone.flagged,
        "off": error.distance,
        "bias": error.bias,
        "auc": error.auc,
        "weight": estimate.weight,
    }


def _describe_partial(results: Results, judgements: HumanJudgements) -> Iterator[str]:
    """Name the proxies that have not answered on all successes of each attack of which people judged some."""
    changed_texts = [item for item in judgements.sheet.items if item.kind == "changed"]
    keys = {key for item in changed_texts for key, _ in item.uses}
    for proxy in judgements.proxies:
        not_asked = [key for key in keys if not _has_answered_all(results, key, proxy)]
        if not_asked:
            yield (
                f"{proxy.name} was not asked about all successes of {len(not_asked)} of {len(keys)} attacks, which are "
                f"not shown: rbench judge proxy {results.root} --by {proxy.name}."
            )


def _has_answered_all(results: Results, key: str, proxy: Proxy) -> bool:
    record = results.standing.records.get(key)
    # An attack without a record is not done, and the table's other notes say so.
    return record is None or len(proxy.said.get(key, ())) == record.counts["succeeded"]
