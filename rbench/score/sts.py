"""Semantic textual similarity: how well cosines of sentence vectors follow the scores that people gave.

| score    | here                                                          | 95% interval                          |
|----------|---------------------------------------------------------------|---------------------------------------|
| spearman | Spearman's rank correlation of cosines and gold scores, -1..1 | Fisher's z, Bonett and Wright's error |
| pearson  | Pearson's correlation of the same                             | Fisher's z                            |

The interval of Spearman's coefficient is tanh(atanh(r) +- 1.96 se) with se = sqrt((1 + r^2 / 2) / (n - 3)) (Bonett and
Wright 2000, Psychometrika 65, pages 23 to 28). Fieller's constant 1.06 in place of 1 + r^2 / 2 is too narrow for the
strong correlations of good encoders; a bootstrap says the same for these n (the tests hold the two together), takes
seconds, and moves with its seed. Either covers the choice of pairs and nothing else.

A correlation is not defined, and its score has no value, for fewer than 4 pairs (se needs n > 3) and where the cosines,
or the gold scores, are all equal: an encoder that says the same of all sentences. At -1 and 1 there is a value and no
interval: z is infinite there. Nothing is ever NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from rbench.errors import JobError
from rbench.score.statistics import CONFIDENCE
from rbench.spec import Score

VERSION = 1

FEWEST = 4
"""Pairs for which a correlation and its interval are defined."""
EQUAL = 1e-6
"""Cosines that differ by no more are equal: float32 vectors say no more than that."""


class Rated(Protocol):
    """A pair of texts with its gold score as `label`, such as an example of an STS task."""

    @property
    def texts(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> float | None: ...


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences with gold scores; `first`, `second` and `gold` are as long as each other."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    gold: tuple[float, ...]

    @classmethod
    def of(cls, examples: Iterable[Rated]) -> Self:
        """The pairs of an STS task. Raises ValueError where an example has no score or not two texts."""
        rows = [(*example.texts, example.label) for example in examples]
        if any(len(row) != 3 or row[2] is None for row in rows):
            raise ValueError("an STS example has two texts and a score")
        first, second, gold = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(first, second, gold)

    def __len__(self) -> int:
        return len(self.gold)

    @property
    def texts(self) -> list[str]:
        """Every text once, in order of first use."""
        return list(dict.fromkeys((*self.first, *self.second)))

    def scores(self, encode: Callable[[list[str]], NDArray[Any]]) -> tuple[Score, Score]:
        """`sts_scores` of an encoder, which is asked once for the vectors (len(texts), dim) of all `texts`."""
        texts = self.texts
        row, vectors = {text: i for i, text in enumerate(texts)}, encode(texts)
        first, second = (vectors[[row[text] for text in side]] for side in (self.first, self.second))
        return sts_scores(cosines(first, second), self.gold)


def cosines(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Cosine similarity (n,) of the rows of two arrays (n, dim), in -1..1, computed in float64.

    A vector of zeros has cosine 0 with any other, as scikit-learn has it. JobError where a number is not finite.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise JobError("the encoder gave vectors that are not finite numbers, so there are no cosines to score")
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: NDArray[np.float64] = (a * b).sum(axis=1)
    found: NDArray[np.float64] = np.zeros_like(products)
    np.divide(products, lengths, out=found, where=lengths > 0)
    return found.clip(-1.0, 1.0)


def sts_scores(predicted: ArrayLike, gold: ArrayLike) -> tuple[Score, Score]:
    """`spearman` and `pearson` of `predicted` cosines with `gold` scores, both (n,) and finite; see the module's head.

    Raises ValueError where the two are not as long as each other, or a number is not finite.
    """
    x, y = np.asarray(predicted, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"predicted {x.shape} and gold {y.shape} must be one number a pair")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("cosines and gold scores must be finite numbers")
    n = len(x)
    if n < FEWEST or np.ptp(x) <= EQUAL or np.ptp(y) == 0:
        return Score(name="spearman", value=None, n=n), Score(name="pearson", value=None, n=n)
    from scipy.stats import pearsonr, spearmanr  # takes most of a second to import, and tables need none of it

    rank, linear = float(spearmanr(x, y).statistic), float(pearsonr(x, y).statistic)
    return _score("spearman", rank, n, 1 + rank**2 / 2), _score("pearson", linear, n, 1.0)


def _score(name: str, r: float, n: int, variance: float) -> Score:
    """A correlation with the interval of Fisher's z whose variance is `variance` / (n - 3)."""
    if abs(r) >= 1 - 1e-12:  # of a perfect order rounding may leave so much
        return Score(name=name, value=math.copysign(1.0, r), n=n)
    half = float(ndtri((1 + CONFIDENCE) / 2)) * math.sqrt(variance / (n - 3))
    z = math.atanh(r)
    return Score(name=name, value=r, n=n, low=math.tanh(z - half), high=math.tanh(z + half))
