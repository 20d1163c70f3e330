"""Chooses the examples that the page holds, and packs them: their texts as pieces, the changed ones in pairs."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rbench.report.data import Key, Sampled
from rbench.schema import Outcome, Step
from rbench.system.changes import changes
from rbench.tables import Results
from rbench.tables.aggregate import attacked

MOST = 10_000
"""The most examples in one page."""
MOST_BYTES = 3_600_000
"""The most bytes that they take in the page, packed: the page has 5 MB in all."""
FIELDS = (
    *("cell", "seed", "training", "example", "status", "reason", "label", "before", "after"),
    *("queries", "words", "changed", "similarity", "oracle", "drop", "text", "steps"),
)
"""The columns of a packed example."""


@dataclass(frozen=True)
class One:
    """An attacked example."""

    key: Key
    seed: int
    training: int | None
    outcome: Outcome

    @property
    def unit(self) -> tuple[str, str, str, int, str]:
        """What encoders share: attack, strategy, task, seed, example."""
        return self.key[0], self.key[2], self.key[3], self.seed, self.outcome.example_id


@dataclass(frozen=True)
class Packed:
    """The examples of a page: base64 of a gzip of JSON, and what is among them."""

    content: str
    sampled: Sampled
    chosen: tuple[One, ...]


def packed(results: Results, *, texts: bool, most: int = MOST, most_bytes: int = MOST_BYTES) -> Packed:
    """Choose and pack the examples of a RUN; with fewer of them where they take too many bytes.

    Args:
        texts: whether the page may hold texts.

    Raises:
        StoreError: the RUN has no attacks.
    """
    every = read(results)
    there = texts and any(one.outcome.original is not None for one in every)
    while True:
        chosen, differing = sample(every, most)
        content = pack(chosen, texts=there)
        if len(content) <= most_bytes or len(chosen) < 2:
            break
        most = min(most, len(chosen)) * min(9, 10 * most_bytes // len(content)) // 10 or 1
    found = Sampled(shown=len(chosen), total=len(every), differing=differing, texts=there)
    return Packed(content, found.model_copy(update={"said": _said(found, wanted=texts)}), tuple(chosen))


def read(results: Results) -> list[One]:
    """Return all attacked examples of complete jobs. Those of the same text stand together, so that they pack well."""
    every = [
        One(sample.cell.key, sample.run.job.seed, sample.run.train_seed, outcome)
        for sample in attacked(results)
        for outcome in sample.outcomes
    ]
    return sorted(every, key=lambda one: (one.key[3], one.outcome.example_id))


def sample(every: Sequence[One], most: int) -> tuple[list[One], int]:
    """Return at most `most` examples in their order, and how many are there because encoders differ on them.

    First come the examples that fell with one encoder and not with another. The others are drawn from each cell and
    status in proportion, by a fixed seed.
    """
    if len(every) <= most:
        return list(every), 0
    statuses: dict[tuple[str, str, str, int, str], set[str]] = {}
    for one in every:
        statuses.setdefault(one.unit, set()).add(one.outcome.status)
    differ = [i for i, one in enumerate(every) if {"succeeded", "failed"} <= statuses[one.unit]]
    draw = random.Random(0)
    first = sorted(draw.sample(differ, most)) if len(differ) > most else differ
    taken = set(first)
    strata: dict[tuple[Key, str], list[int]] = {}
    for i, one in enumerate(every):
        if i not in taken:
            strata.setdefault((one.key, one.outcome.status), []).append(i)
    left, rest = most - len(first), len(every) - len(first)
    for stratum in strata.values():
        taken.update(draw.sample(stratum, left * len(stratum) // rest))
    return [every[i] for i in sorted(taken)], len(first)


def pack(chosen: Sequence[One], *, texts: bool) -> str:
    """Return examples as base64 of a gzip of JSON: `{"fields": [...], "cells": [...], "rows": [[...], ...]}`."""
    cells = {key: i for i, key in enumerate(dict.fromkeys(one.key for one in chosen))}
    rows = [_row(one, cells[one.key], texts=texts) for one in chosen]
    content = json.dumps(
        {"fields": FIELDS, "cells": list(cells), "rows": rows}, ensure_ascii=False, separators=(",", ":")
    )
    return base64.b64encode(gzip.compress(content.encode("utf-8", "surrogatepass"), 9, mtime=0)).decode("ascii")


def _row(one: One, cell: int, *, texts: bool) -> list[Any]:
    o = one.outcome if texts else one.outcome.without_texts()  # an error may quote a text
    scored = o.gold is not None or o.original_score is not None
    numbers = (
        (o.gold, o.original_score, o.perturbed_score)
        if scored
        else (o.label, o.original_prediction, o.perturbed_prediction)
    )
    return [
        *(cell, one.seed, one.training, o.example_id, o.status, o.skip_reason or o.error, *numbers),
        *(o.num_queries, o.num_words, o.num_words_changed),
        None if o.similarity is None else round(o.similarity, 4),
        o.oracle_label,
        _drop(o),
        [list(_pieces(*pair)) for pair in _columns(o)] if texts and o.original is not None else None,
        [_step(step) for step in o.steps] if texts and o.original is not None and o.steps is not None else None,
    ]


def _drop(o: Outcome) -> float | None:
    """Return how far an attack moved the victim's score: by how much less probable it holds the true label, how much
    larger the error of a similarity score is, or how much nDCG fell. None where the outcome does not say it."""
    if o.original_score is not None and o.perturbed_score is not None:
        if o.gold is not None:
            return round(abs(o.perturbed_score - o.gold) - abs(o.original_score - o.gold), 4)
        return round(o.original_score - o.perturbed_score, 4)
    return round(o.steps[0].score - o.steps[-1].score, 4) if o.steps else None


def _step(step: Step) -> tuple[Any, ...]:
    """Return the victim's answer and the changes as (column, start, length, new): words, not whole texts."""
    changes = [(one.column, one.start, one.end - one.start, one.new) for one in step.changes]
    return step.score, step.prediction, changes


def _columns(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield each column's text before and after."""
    before = outcome.original or ()
    yield from zip(before, outcome.perturbed or before, strict=True)


def _pieces(original: str, perturbed: str) -> Iterator[str | tuple[str, str]]:
    """Yield the pieces of a text in order: a text where nothing changed, else (old, new)."""
    if original == perturbed:
        yield original
        return
    for same, group in groupby(changes(original, perturbed), key=lambda pair: pair[0] == pair[1]):
        if same:
            yield "".join(old for old, _ in group)
        else:
            yield from group


def _said(found: Sampled, *, wanted: bool) -> str:
    said = []
    if found.shown < found.total:
        said.append(
            f"A sample of {found.shown:,} of {found.total:,} examples: {found.differing:,} on which encoders differ, "
            "and others in proportion to the number of each cell and status. All are in the parquet file beside the "
            "report."
        )
    if not found.texts and found.total:
        said.append(
            "Texts are left out (--no-texts)."
            if not wanted
            else "The RUN keeps no texts. A run without --no-texts keeps them."
        )
    return " ".join(said)
