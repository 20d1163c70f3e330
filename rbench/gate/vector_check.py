"""Tell whether an encoder still gives the vectors that a baseline has, and what changed if it does not.

Where nothing has changed, the vector of a text is at most as likely to be farther from that of the baseline's first
round than all those of its later rounds, as each of these is: with ROUNDS rounds in one case of ROUNDS. So the number
of such texts is at most binomial, whatever the noise is like, as long as texts are answered independently of each
other. Each group of texts has this test, and so have all texts together, and the lengths of vectors. Holm's correction
makes one family of them, so that a check of an encoder that has not changed fails with the probability `alpha` at most.

Which texts changed tells what changed, as far as vectors can (`_explain`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np
from scipy.special import bdtrc

from rbench.gate.vector_baseline import ABSENT, Answers, Values, VectorBaseline, measure_distances, split_answers
from rbench.gate.watched_texts import DOCUMENTS, NOISED, QUERIES, SHORT, WORDS, build_texts
from rbench.score.paired import correct_by_holm

ALPHA = 0.001
"""How often a check of an encoder that has not changed may fail: a check each night fails once in three years."""
TOLERANCE = 1e-4
"""The change of a cosine that passes: what other hardware, batches and numbers of threads do is smaller, and so is what
bfloat16 does to small models. int8 does more."""
ALL, LENGTHS = "all texts", "lengths of vectors"
UNIT = 0.01
"""How far from 1 a length may be that counts as normalised."""
CLOSE = 0.999
"""From which median cosine with their vectors of before short texts have the same model in another precision."""
ALIKE = 0.9
"""From which correlation of the cosines of their pairs, before and now, it is a relative of the model."""
SHARED = 0.3
"""Which share of the squared moves of vectors is common to all where something is done to all texts alike. The three
are set by planted changes (`benchmarks/watch.py`)."""
RANKED = 10
"""How many documents of a ranking are compared."""
VECTOR_WORDS = {"passed": "as before", "failed": "changed"}
"""What a reader is told of a row."""


@dataclass(frozen=True)
class VectorRow:
    """A group of texts in a check."""

    name: str
    n: int
    changed: int
    """How many of them have another vector, or one of another length, than the baseline's variation explains."""
    p: float
    """Of the binomial test, corrected by Holm for all rows."""
    verdict: Literal["passed", "failed"]
    cosine: float | None
    """The median cosine of the vectors of now and of the baseline; None in the row of lengths, and of no vectors."""


@dataclass(frozen=True)
class VectorCheck:
    """The result of a check of an encoder against a baseline of vectors."""

    encoder: str
    rows: tuple[VectorRow, ...]
    changes: tuple[str, ...]
    """What changed, as far as vectors tell; empty where the check passed."""
    replaced: float
    """Of the first RANKED documents of a query of the small ranking, how many are others now, on average."""
    alpha: float
    tolerance: float

    @property
    def verdict(self) -> Literal["passed", "failed"]:
        return "failed" if any(row.verdict == "failed" for row in self.rows) else "passed"

    @property
    def said(self) -> str:
        """The last line: whether the check passed, and why."""
        total = next(row for row in self.rows if row.name == ALL)
        if self.verdict == "passed":
            return f"passed: {self.encoder} gives the vectors of the baseline ({total.n} texts)"
        return f"failed: {'; '.join(self.changes)}"


def describe_variation(baseline: VectorBaseline) -> str:
    """Say how much an encoder's answers varied while its baseline was made."""
    varied = [turn for turn in baseline.turns if turn > TOLERANCE]
    if not varied:
        return "the encoder gave the same vectors in each round"
    return (
        f"{len(varied)} of {len(baseline.turns)} texts had other vectors in other rounds (cosines down to "
        f"{1 - max(varied):.4f}); smaller changes are not seen"
    )


def check_vectors(
    baseline: VectorBaseline,
    answers: Answers,
    *,
    encoder: str = "",
    alpha: float = ALPHA,
    tolerance: float = TOLERANCE,
) -> VectorCheck:
    """Compare the answers of an encoder to the texts of `watched_texts` with a baseline.

    Args:
        baseline: what the encoder was.
        answers: for each text its vector; None where it was refused.
        encoder: its name; empty: that in the baseline.
        alpha: the largest probability with which a check of an unchanged encoder fails.
        tolerance: a vector whose cosine with the baseline's is closer to 1 is no other one. Of lengths a ratio passes
            that differs from 1 by less than sqrt(2 * tolerance), which is a change of a vector as large.
    """
    directions, lengths = baseline.read_directions(), np.array(baseline.lengths)
    distances = measure_distances(directions, lengths, answers)
    turned = distances.turns > np.maximum(baseline.turns, tolerance)
    stretched = distances.stretches > np.maximum(baseline.stretches, math.sqrt(2 * tolerance))
    groups = np.array([text.group for text in build_texts()])
    members = {group: groups == group for group in dict.fromkeys(groups.tolist())}
    members[ALL] = np.ones(len(groups), bool)
    counts = {name: (int(turned[of].sum()), int(of.sum())) for name, of in members.items()}
    counts[LENGTHS] = int(stretched.sum()), len(stretched)
    # Of `changed` texts or more, where each is one with the probability 1 / rounds.
    tails = [float(bdtrc(changed - 1, n, 1 / baseline.rounds)) if changed else 1.0 for changed, n in counts.values()]
    rows = []
    for (name, (changed, n)), p in zip(counts.items(), correct_by_holm(tails), strict=True):
        assert p is not None
        cosines = 1 - distances.turns[members[name]] if name in members else np.array([])
        cosines = cosines[cosines > 1 - ABSENT]
        median = float(np.median(cosines)) if len(cosines) else None
        rows.append(VectorRow(name, n, changed, p, "failed" if p < alpha else "passed", median))
    before, now = _Round(directions, lengths), _Round(*split_answers(answers, baseline.dim))
    failed = {row.name for row in rows if row.verdict == "failed"}
    widths = {len(answer) for answer in answers if answer is not None}
    noise = np.maximum(baseline.turns, tolerance)
    changes = tuple(_explain(before, now, widths, failed, noise)) if failed else ()
    replaced = _count_replaced(directions, now.directions)
    return VectorCheck(encoder or baseline.encoder, tuple(rows), changes, replaced, alpha, tolerance)


def _count_replaced(before: Values, now: Values) -> float:
    """Return how many of the first RANKED documents of a query are others now, on average."""
    documents, queries = slice(len(DOCUMENTS)), slice(len(DOCUMENTS), len(DOCUMENTS) + len(QUERIES))
    first = [
        np.argsort(-(directions[queries] @ directions[documents].T), axis=1, kind="stable")[:, :RANKED]
        for directions in (before, now)
    ]
    return float(np.mean([RANKED - len({*old} & {*new}) for old, new in zip(*first, strict=True)]))


@dataclass(frozen=True)
class _Round:
    """The vectors of all texts at one time."""

    directions: Values
    """(texts, dim), each of length 1, or 0 where a text has none."""
    lengths: Values


def _explain(before: _Round, now: _Round, widths: set[int], failed: set[str], noise: Values) -> Iterator[str]:
    """Say what changed, as far as vectors tell.

    Args:
        widths: of all vectors of now.
        failed: the names of the rows that failed.
        noise: for each text, the distance that is no change.
    """
    dim = before.directions.shape[1]
    if widths != {dim}:
        yield f"vectors have {' or '.join(map(str, sorted(widths))) or 'no'} numbers, and had {dim}: another model"
        return
    if lost := int(((before.lengths > 0) & (now.lengths == 0)).sum()):
        yield f"{lost} of {len(now.lengths)} texts are refused or have no vector, and had one"
    # Where servers differ, beginnings of one text come from several of them, and say nothing of how much is read.
    changed = _find_apart(1 - (before.directions * now.directions).sum(axis=1), noise)
    if changed:
        yield f"{changed} of {len(noise)} texts have other vectors, others the same: perhaps one of several servers"
    if SHORT in failed:
        yield _explain_short(before, now, noise)
    elif noised := [group for group in NOISED if group in failed]:
        yield f"of short texts only those with {' and '.join(noised)} changed: texts are cleaned in another way"
    if LENGTHS in failed:
        yield _explain_lengths(before.lengths, now.lengths)
    if changed:
        return
    read_before, read_now = (_measure_reading(directions, noise) for directions in (before.directions, now.directions))
    if read_before and read_now and (read_before[1] <= read_now[0] or read_now[1] <= read_before[0]):
        yield f"it reads {_format_reading(read_now)}, and read {_format_reading(read_before)}: another maximum length"
    elif SHORT not in failed and (long := [group for group in WORDS if group in failed]):
        yield f"of texts without noise only those of {' and '.join(long)} changed: long texts are cut in another way"


def _explain_lengths(before: Values, now: Values) -> str:
    both = (before > 0) & (now > 0)
    was, is_now = (bool((abs(lengths[both] - 1) < UNIT).all()) for lengths in (before, now))
    ranges = [f"{lengths[both].min():.3g} to {lengths[both].max():.3g}" for lengths in (before, now)]
    if was != is_now:
        return (
            f"vectors have lengths from {ranges[1]}, and had length 1: they are no longer normalised"
            if was
            else f"vectors have length 1, and had lengths from {ranges[0]}: they are normalised now"
        )
    return f"vectors have lengths from {ranges[1]}, and had lengths from {ranges[0]}"


def _explain_short(before: _Round, now: _Round, noise: Values) -> str:
    short = [i for i, text in enumerate(build_texts()) if text.group == SHORT and now.lengths[i] and before.lengths[i]]
    first, second = before.directions[short], now.directions[short]
    cosines = (first * second).sum(axis=1)
    changed = 1 - cosines > noise[short]
    cosine = float(np.median(cosines[changed])) if changed.any() else 1.0
    pairs = np.triu_indices(len(short), 1)
    alike = float(np.corrcoef((first @ first.T)[pairs], (second @ second.T)[pairs])[0, 1])
    moves = second - first
    shared = float((moves.mean(axis=0) ** 2).sum() / (moves**2).sum(axis=1).mean())
    if cosine >= CLOSE:
        what = "another precision of the same model"
    elif alike < ALIKE:
        what = "another model or another pooling"
    elif shared >= SHARED:
        what = "all of them moved alike, as with a prompt before texts"
    else:
        what = "int8 weights of the same model, or a model that was trained further"
    return f"short texts have other vectors (median cosine {cosine:.4f} with those of before): {what}"


def _find_apart(turns: Values, noise: Values) -> int:
    """Return how many texts changed where some short texts changed much and others not at all; else 0."""
    short = np.array([text.group == SHORT for text in build_texts()])
    moved, still = turns[short & (turns > noise)], turns[short & (turns <= noise)]
    # Where all of them changed a little, those that seem not to have changed are near the limit.
    is_apart = len(moved) and len(still) and 10 * np.median(still) < np.median(moved)
    return int((turns > noise).sum()) if is_apart else 0


def _measure_reading(directions: Values, noise: Values) -> tuple[float, float] | None:
    """Return between how many words an encoder stops to read: vectors of beginnings of a text are the same from there.

    None where a text has no vector.
    """
    lows, highs = [], []
    for _, story in groupby(
        ((i, text) for i, text in enumerate(build_texts()) if text.story is not None), lambda item: item[1].story
    ):
        places, texts = zip(*story, strict=True)
        vectors = directions[list(places)]
        if not vectors.any(axis=1).all():
            return None
        # Two answers that each vary by some distance are up to four times as far from each other.
        same = 1 - vectors @ vectors[-1] <= 4 * noise[list(places)].max()
        first = len(same) - int(np.argmin(same[::-1])) if not same.all() else 0
        lows.append(float(texts[first - 1].words) if first else 0.0)
        highs.append(float(texts[first].words) if first < len(same) - 1 else math.inf)
    return min(lows), max(highs)


def _format_reading(words: tuple[float, float]) -> str:
    low, high = words
    return f"more than {low:.0f} words" if math.isinf(high) else f"up to {low:.0f} to {high:.0f} words"
