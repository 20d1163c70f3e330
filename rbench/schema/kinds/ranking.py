"""Rankings: queries, and documents that victims rank for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rbench.schema.common import Checked, Positive, Strict
from rbench.schema.kinds.base import AttackFields, TaskFields, TaskKind


class RankingPairs(Strict):
    """A file of pairs below a data folder. The document of each pair is relevant to its query, and no other is."""

    source: str
    """`<folder>/<file stem>`."""
    query: str
    document: str
    """`query` and `document` are the columns of the two texts. Rows with the same text share one query or document."""


class RankingHub(Strict):
    """Queries, documents and relevance on the hub. Each is `CONFIG/SPLIT`, `CONFIG` for its only split, or a `.jsonl`
    file of the repository."""

    id: str
    revision: str
    corpus: str = "corpus"
    queries: str = "queries"
    qrels: str = "default/test"


class RankingData(Checked):
    """Where the queries, documents and relevance of a ranking task are. A local copy comes before the hub's."""

    folder: str | None = None
    """A folder in BEIR's layout: a path, or a name below a data folder. It has `corpus.jsonl` (`_id`, `title`, `text`),
    `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv` (`query-id`, `corpus-id`, `score`)."""
    split: str = "test"
    """The file of `qrels` in the folder."""
    pairs: RankingPairs | None = None
    hub: RankingHub | None = None
    without_own: bool = False
    """Whether the document with a query's own id is left out of the query's ranking."""

    def wrong(self) -> Iterator[str]:
        if self.pairs is not None and (self.folder is not None or self.hub is not None):
            yield "`pairs` stand alone; leave `folder` and `hub` out"


class RankingGoalSpec(Strict):
    """When an attack on a query has succeeded."""

    OPTIONAL = frozenset({"target"})
    k: Positive = 10
    """The attack pushes every relevant document out of the first `k`, so that their reciprocal ranks are below 1/k."""
    target: str | None = None
    """The id of a document. If it is given, the attack pushes this document among the first `k` instead."""


_RULE = (
    "An attack on a query succeeds where no relevant document is among the first k of all documents. A query that "
    "found none before is skipped. Whether a changed query asks for the same is known in the embedded world alone:"
)


@dataclass(frozen=True, kw_only=True)
class RankingKind(TaskKind):
    """A task in which victims find documents for queries, and an attack succeeds when no relevant one is among the
    first k."""

    def misfits(self, task: TaskFields) -> Iterator[str]:
        if (task.ranking is None) == (task.generator is None):
            yield "a task of the kind ranking has either a `generator`, or says under `ranking` where its documents are"
        if task.ranking is not None and (task.hub is not None or task.local is not None):
            yield "`ranking` takes the place of `hub` and `local`"
        if len(task.columns) != 1 or task.labels:
            yield "a task of the kind ranking has one column, the query's, and no labels"

    def beyond_data(self, task: str, options: Mapping[str, Any], held: Any) -> Iterator[str]:
        k, target, num_documents = options.get("k", 0), options.get("target"), len(held.ids)
        if k >= num_documents:
            yield f"`k` is {k}, and the corpus of {task} has {num_documents} documents; give a smaller k"
        if target is not None and target not in held.place:
            yield f"`target` is {target!r}, which is no id of the corpus of {task}; name one of its documents"

    def goal_notes(self, attacks: Sequence[AttackFields]) -> list[str]:
        """Return a note on the rule of success, with k and target of each task."""
        described = []
        for task_name, goal in dict.fromkeys((attack.task.name, attack.attack.ranking) for attack in attacks):
            target = f", target {goal.target}" if goal.target else ""
            described.append(f"{task_name} k = {goal.k}{target}")
        return [f"{_RULE} {'; '.join(described)}."]


RANKING = RankingKind(
    name="ranking",
    family="ranking",
    tasks="rankings",
    has="a ranking",
    has_documents=True,
    own_fields={"ranking": "`ranking` says where queries and documents are"},
    default_strategy="retriever",
    victim="retriever",
    quality="ndcg@10",
    quality_split="test",
    score="nDCG@10",
    goal="ranking",
    gradients=False,
    attack_code=("attacked.ranking", "recipes.ranking_goal", "encoders.retriever", "encoders.index"),
    board_metrics=("ndcg_after", "ndcg_before"),
    board_score="nDCG",
    prompts={"corpus": "document", "passage": "document", "document": "document", "query": "ranking"},
)
