"""Scores of rankings, query by query, by trec_eval (the package pytrec_eval-terrier).

| score   | definition                                                                                             |
|---------|--------------------------------------------------------------------------------------------------------|
| ndcg    | nDCG@k: the gain of a document is its grade, divided by the logarithm to base 2 of its rank plus 1      |
| recall  | share of the relevant documents that are among the first k                                             |
| mrr     | MRR@k: 1 divided by the rank of the first relevant document; 0 where it lies below rank k              |
| map     | average precision of the first DEPTH documents                                                         |
| success | 1 where a relevant document is among the first k, else 0                                               |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

# Part of the key of ranking jobs (config/versions.py): raising it computes them anew. tests/golden holds the values.
VERSION = 1

DEPTH = 1000
"""How many documents of each ranking are scored, as in BEIR. MAP depends on it in large corpora."""
SCORES = ("ndcg", "recall", "mrr", "map", "success")

RankedScores = Mapping[str, Mapping[str, float]]
"""By query, the scores of its first documents. trec_eval rounds scores to 32 bits, and of equal ones ranks the document
first whose id is the largest."""


def ranking_scores(
    run: RankedScores, relevance: Mapping[str, Mapping[str, int]], queries: Sequence[str], k: int
) -> dict[str, NDArray[np.float64]]:
    """Return the SCORES of each query, (queries,), in 0..1.

    Args:
        relevance: by query, the grades of the documents that are relevant to it; at least one.
    """
    import pytrec_eval

    wanted = {f"ndcg_cut.{k}", f"recall.{k}", "recip_rank", f"map_cut.{DEPTH}", f"success.{k}"}
    judged = {query: dict(relevance[query]) for query in queries}
    evaluated = pytrec_eval.RelevanceEvaluator(judged, wanted).evaluate({query: dict(run[query]) for query in queries})
    measure_names = {
        "ndcg": f"ndcg_cut_{k}",
        "recall": f"recall_{k}",
        "map": f"map_cut_{DEPTH}",
        "success": f"success_{k}",
    }
    values = {
        name: np.array([evaluated[query][measure] for query in queries]) for name, measure in measure_names.items()
    }
    reciprocal = np.array([evaluated[query]["recip_rank"] for query in queries])
    # trec_eval's recip_rank has no cut-off; MRR@k is 0 if the first relevant document lies below rank k.
    values["mrr"] = np.where(values["success"] > 0, reciprocal, 0.0)
    return {name: np.asarray(values[name], dtype=np.float64) for name in SCORES}
