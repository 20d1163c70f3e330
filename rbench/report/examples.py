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

from rbench.report.data import ExampleSample, HeatKey
from rbench.schema import Outcome, Step
from rbench.system.changes import iter_changes
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
class AttackedExample:
    """An attacked example."""

    key: HeatKey
    seed: int
    training: int | None
    outcome: Outcome

    @property
    def unit(self) -> tuple[str, str, str, int, str]:
        """What encoders share: attack, strategy, task, seed, example."""
        return self.key[0], self.key[2], self.key[3], self.seed, self.outcome.example_id


@dataclass(frozen=True)
class PackedExamples:
    """The examples of a page: base64 of a gzip of JSON, and what is among them."""

    content: str
    sampled: ExampleSample
    chosen: tuple[AttackedExample, ...]


def choose_and_pack(
    results: Results, *, texts: bool, most_examples: int = MOST, most_bytes: int = MOST_BYTES
) -> PackedExamples:
    """Choose and pack the examples of a RUN; with fewer of them where they take too many bytes.

    Args:
        texts: whether the page may hold texts.

    Raises:
        StoreError: the RUN has no attacks.
    """
    examples = read_examples(results)
    has_texts = texts and any(example.outcome.original is not None for example in examples)
    while True:
        chosen, differing = sample_examples(examples, most_examples)
        content = pack_examples(chosen, texts=has_texts)
        if len(content) <= most_bytes or len(chosen) < 2:
            break
        # The next try has the share that should fit, in tenths rounded down, and nine tenths at most.
        most_examples = min(most_examples, len(chosen)) * min(9, 10 * most_bytes // len(content)) // 10 or 1
    sampled = ExampleSample(shown=len(chosen), total=len(examples), differing=differing, texts=has_texts)
    return PackedExamples(
        content, sampled.model_copy(update={"said": _sample_note(sampled, texts_wanted=texts)}), tuple(chosen)
    )


def read_examples(results: Results) -> list[AttackedExample]:
    """Return all attacked examples of complete jobs. Those of the same text stand together, so that they pack well."""
    examples = [
        AttackedExample(sample.cell.key, sample.run.job.seed, sample.run.train_seed, outcome)
        for sample in attacked(results)
        for outcome in sample.outcomes
    ]
    return sorted(examples, key=lambda example: (example.key[3], example.outcome.example_id))


def sample_examples(examples: Sequence[AttackedExample], most_examples: int) -> tuple[list[AttackedExample], int]:
    """Return at most `most_examples` examples in their order, and how many are there because encoders differ on them.

    First come the examples that fell with one encoder and not with another. The others are drawn from each cell and
    status in proportion, by a fixed seed.
    """
    if len(examples) <= most_examples:
        return list(examples), 0
    statuses: dict[tuple[str, str, str, int, str], set[str]] = {}
    for example in examples:
        statuses.setdefault(example.unit, set()).add(example.outcome.status)
    differing = [i for i, example in enumerate(examples) if {"succeeded", "failed"} <= statuses[example.unit]]
    # A fixed seed, so that the page of an unchanged RUN has the same bytes.
    draw = random.Random(0)
    first = sorted(draw.sample(differing, most_examples)) if len(differing) > most_examples else differing
    taken = set(first)
    strata: dict[tuple[HeatKey, str], list[int]] = {}
    for i, example in enumerate(examples):
        if i not in taken:
            strata.setdefault((example.key, example.outcome.status), []).append(i)
    room, others = most_examples - len(first), len(examples) - len(first)
    for stratum in strata.values():
        # Rounded down in each stratum: never more than `most_examples` are chosen, but perhaps a few fewer.
        taken.update(draw.sample(stratum, room * len(stratum) // others))
    return [examples[i] for i in sorted(taken)], len(first)


def pack_examples(chosen: Sequence[AttackedExample], *, texts: bool) -> str:
    """Return examples as base64 of a gzip of JSON: `{"fields": [...], "cells": [...], "rows": [[...], ...]}`."""
    cells = {key: i for i, key in enumerate(dict.fromkeys(example.key for example in chosen))}
    rows = [_packed_row(example, cells[example.key], texts=texts) for example in chosen]
    content = json.dumps(
        {"fields": FIELDS, "cells": list(cells), "rows": rows}, ensure_ascii=False, separators=(",", ":")
    )
    return base64.b64encode(gzip.compress(content.encode("utf-8", "surrogatepass"), 9, mtime=0)).decode("ascii")


def _packed_row(example: AttackedExample, cell: int, *, texts: bool) -> list[Any]:
    outcome = example.outcome if texts else example.outcome.without_texts()  # an error may quote a text
    is_scored = outcome.gold is not None or outcome.original_score is not None
    numbers: tuple[float | None, ...] = (outcome.label, outcome.original_prediction, outcome.perturbed_prediction)
    if is_scored:
        numbers = (outcome.gold, outcome.original_score, outcome.perturbed_score)
    return [
        *(
            cell,
            example.seed,
            example.training,
            outcome.example_id,
            outcome.status,
            outcome.skip_reason or outcome.error,
            *numbers,
        ),
        *(outcome.num_queries, outcome.num_words, outcome.num_words_changed),
        None if outcome.similarity is None else round(outcome.similarity, 4),
        outcome.oracle_label,
        _score_drop(outcome),
        [list(_text_pieces(*pair)) for pair in _column_texts(outcome)]
        if texts and outcome.original is not None
        else None,
        [_packed_step(step) for step in outcome.steps]
        if texts and outcome.original is not None and outcome.steps is not None
        else None,
    ]


def _score_drop(outcome: Outcome) -> float | None:
    """Return how far an attack moved the victim's score: by how much less probable it holds the true label, how much
    larger the error of a similarity score is, or how much nDCG fell. None where the outcome does not say it."""
    if outcome.original_score is not None and outcome.perturbed_score is not None:
        if outcome.gold is not None:
            return round(abs(outcome.perturbed_score - outcome.gold) - abs(outcome.original_score - outcome.gold), 4)
        return round(outcome.original_score - outcome.perturbed_score, 4)
    return round(outcome.steps[0].score - outcome.steps[-1].score, 4) if outcome.steps else None


def _packed_step(step: Step) -> tuple[Any, ...]:
    """Return the victim's answer and the changes as (column, start, length, new): words, not whole texts."""
    packed_changes = [(change.column, change.start, change.end - change.start, change.new) for change in step.changes]
    return step.score, step.prediction, packed_changes


def _column_texts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield each column's text before and after."""
    before = outcome.original or ()
    yield from zip(before, outcome.perturbed or before, strict=True)


def _text_pieces(original: str, perturbed: str) -> Iterator[str | tuple[str, str]]:
    """Yield the pieces of a text in order: a text where nothing changed, else (old, new)."""
    if original == perturbed:
        yield original
        return
    for same, group in groupby(iter_changes(original, perturbed), key=lambda pair: pair[0] == pair[1]):
        if same:
            yield "".join(old for old, _ in group)
        else:
            yield from group


def _sample_note(sampled: ExampleSample, *, texts_wanted: bool) -> str:
    sentences = []
    if sampled.shown < sampled.total:
        sentences.append(
            f"A sample of {sampled.shown:,} of {sampled.total:,} examples: {sampled.differing:,} on which encoders "
            "differ, and others in proportion to the number of each cell and status. All are in the parquet file "
            "beside the report."
        )
    if not sampled.texts and sampled.total:
        kept = "The RUN keeps no texts. A run without --no-texts keeps them."
        sentences.append(kept if texts_wanted else "Texts are left out (--no-texts).")
    return " ".join(sentences)
