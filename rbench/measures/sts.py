"""Semantic textual similarity: the cosine and gold score of each pair of an STS task, and their correlations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from rbench import score
from rbench.measures._context import EncoderContext, Measured
from rbench.schema import EvaluationOptions, MeasuredRow, Record, Score, Split, TableSpec, TaskSpec
from rbench.score.subsets import MISSING
from rbench.store.verify import unequal
from rbench.tables import Results, Table
from rbench.tables.evaluations import ABOUT as ABOUT
from rbench.tables.evaluations import evaluated, full, paper

TITLE = "Similarity: correlation of cosines with human scores of sentence pairs"
VERSION = 1
OF = "encoders"
UNSCALED = True
USES = ("score.sts", "score.subsets", "encoders.sentence")
REQUIRED = ("spearman", "pearson")
"""The scores of every complete record."""
TOLD = "to evaluate: {:,} pairs"
"""What `rbench plan` says of the jobs that are left, and how much there is to read."""
ROUNDED = 2e-4
"""Absolute tolerance of correlations that are computed again. Rows keep cosines and gold scores with 32 bits, so gold
scores that differ by less than these hold become ties."""

Options, cells = EvaluationOptions, evaluated
LAYOUTS: dict[str, Callable[[Results, TableSpec], Table]] = {
    "paper": lambda results, wanted: paper(evaluated(results, wanted.aggregation)),
    "full": lambda results, wanted: full(evaluated(results, wanted.aggregation)),
}


def run(options: EvaluationOptions, context: EncoderContext) -> Measured:
    """Score an encoder on sentence pairs. The row has the cosine and gold score of each pair."""
    import numpy as np

    assert context.data is not None and context.remembered is not None
    data, vectors = context.data, context.remembered
    examples = data.split(options.split)
    pairs = score.Pairs.of(examples)
    done, total = 0, len(pairs.texts)

    def encoded(count: int) -> None:
        nonlocal done
        done += count
        context.progress(done, total, "")

    # The scores are those of the numbers that are stored: of untrained encoders, cosines differ in later digits alone.
    found = np.asarray(pairs.cosines(lambda texts: vectors.encode(texts, "fastest", encoded)), dtype=np.float32)
    gold = np.asarray(pairs.gold, dtype=np.float32)
    subset = data.subsets.get(options.split, {})
    of = [subset[example.id] for example in examples] if subset else []
    scores = score.set_scores(found, gold, of)
    context.progress(total, total, f"{_told(scores[0])}, {len(pairs)} pairs")
    series = {"cosines": score.packed_numbers(found), "gold": score.packed_numbers(gold)}
    counts = _absent(context.task, options.split, of) | _unusable(data.dropped, options.split)
    return Measured([MeasuredRow(names=series, numbers={"n": len(pairs)})], scores, {"n": len(pairs)} | counts)


def _told(spearman: Score) -> str:
    return "Spearman is not defined" if spearman.value is None else f"Spearman {spearman.value:.4f}"


def _absent(task: TaskSpec, split: Split, of: Sequence[str]) -> dict[str, int]:
    """Count the pairs of each published subset that are not there, where rows name their subsets."""
    there = Counter(of)
    published = task.subsets.get(split, {}) if of else {}
    return {f"{MISSING}{name}": n - there[name] for name, n in published.items() if there[name] < n}


def _unusable(dropped: Mapping[str, int], split: str) -> dict[str, int]:
    """Count the pairs that were left out when the rows were read, by reason: `left out: score outside the scale`."""
    return {
        f"left out: {reason.removeprefix(f'{split}: ')}": n
        for reason, n in dropped.items()
        if n and reason.startswith(f"{split}: ")
    }


def examples(prepared: Any, job: Any) -> int:
    """Return how many pairs a job scores."""
    return int(prepared.data[job.spec.task.name].sizes[job.spec.split])


def unlike(record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
    """Compare the correlations of all pairs. Rows do not say of which subset a pair is, so of subsets only their n."""
    (row,) = lines
    n = int(row.numbers["n"] or 0)
    cosines, gold = (score.unpacked_numbers(row.names[name], n).tolist() for name in ("cosines", "gold"))
    whole = score.set_scores(cosines, gold, ())
    subsets = {one.name: [s for s in record.scores if s.name.startswith(f"{one.name}:")] for one in whole}
    yield from unequal(record, (*whole, *chain(*subsets.values())), {"n": n}, absolute=ROUNDED)
    for name, found in subsets.items():
        if found and (pairs := sum(one.n for one in found)) != n:
            yield f"the subsets of {name} have {pairs} pairs, but there are {n}."
