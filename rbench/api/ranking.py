"""Rank documents with an encoder that Python has at hand, and attack the queries (`rbench.rank`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rbench.api.attacking import AttackRequest, check_victim, locate_resources, plain_choice
from rbench.api.call_options import resolve_options
from rbench.api.results import AttackResult
from rbench.api.training import load_encoder
from rbench.config.entries import ChosenAttack, chosen_attack
from rbench.config.registry import Registry
from rbench.execution.given import GivenVictim
from rbench.execution.run import check_device
from rbench.plan.prepare import Options
from rbench.schema import ResourceSet, TaskSpec
from rbench.score import make_score
from rbench.score.statistics import Proportion, Sample
from rbench.system.progress import Progress
from rbench.tasks import Example
from rbench.tasks.ranking import DocumentCollection, RankingRows, gather_rows

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

EncodeFunction = Callable[[list[str]], Any]
"""From texts to vectors (n, dim): a list, an array or a tensor."""


@dataclass(frozen=True, repr=False)
class RankResult:
    """What an encoder found. A notebook and a terminal show the means with their 95% intervals."""

    encoder: str
    k: int
    queries: tuple[Example, ...]
    """Those that have a relevant document, in the order in which they were given."""
    found: tuple[tuple[str, ...], ...]
    """Of each query, the ids of the first k documents, best first."""
    scores: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """`ndcg`, `recall`, `mrr`, `map` and `success`, each with a value for each query, (queries,)."""
    attacked: AttackResult | None = None
    """What an attack made of the queries, or of a sample of them; None: there was none."""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each query: its id and text, what was found, and its scores.

        With an attack `status`, `perturbed` (the changed query) and `ndcg_after` come with it, empty where the query
        was not drawn.
        """
        import pandas as pd

        rows = {"query": [one.id for one in self.queries], "text": [one.texts[0] for one in self.queries]}
        frame = pd.DataFrame({**rows, "found": list(map(list, self.found)), **self.scores})
        if self.attacked is None:
            return frame
        outcomes = {one.example_id: one for one in self.attacked.outcomes}
        more: dict[str, list[Any]] = {"status": [], "perturbed": [], "ndcg_after": []}
        for query in self.queries:
            one = outcomes.get(query.id)
            more["status"].append(None if one is None else one.status)
            more["perturbed"].append(None if one is None or one.perturbed is None else one.perturbed[0])
            more["ndcg_after"].append(None if one is None else _ndcg_after(one))
        return frame.assign(**more)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each score: `score`, `value`, `low`, `high` and `n`, in 0..1.

        The 95% intervals are Wilson's for the rates `success` and `asr`, and Student's t for the other scores.

        With an attack `ndcg_before` and `ndcg_after` are those of the queries that it was asked to attack. After it a
        query counts at the worst text that was found, also where the attack failed. `asr` is the share that fell of
        those that had found something.
        """
        import pandas as pd

        values: dict[str, list[float]] = {name: query_scores.tolist() for name, query_scores in self.scores.items()}
        if self.attacked is not None:
            done = [one for one in self.attacked.outcomes if one.original_score is not None]
            values["ndcg_before"] = [float(one.original_score or 0.0) for one in done]
            values["ndcg_after"] = [_ndcg_after(one) for one in done]
            values["asr"] = [float(one.status == "succeeded") for one in done if one.status != "skipped"]
        estimates = [
            make_score(
                name,
                Proportion(round(sum(query_scores)), len(query_scores))
                if name in ("success", "asr")
                else Sample.of(query_scores),
            )
            for name, query_scores in values.items()
        ]
        return pd.DataFrame(
            [{"score": s.name, "value": s.value, "low": s.low, "high": s.high, "n": s.n} for s in estimates]
        )

    def __repr__(self) -> str:
        lines = [f"{self.encoder}: {len(self.queries)} queries, k = {self.k}"]
        for name, value, low, high, n in self.summary.itertuples(index=False):
            shown = [f"{100 * number:.1f}" for number in (value, low, high) if number is not None]
            lines.append(f"{name:12} {shown[0] if shown else '':>5} [{', '.join(shown[1:])}]  n {n}")
        return "\n".join(lines)


def rank(
    encoder: str | EncodeFunction | tuple[EncodeFunction, EncodeFunction],
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    relevance: Mapping[str, Mapping[str, int] | Iterable[str]],
    *,
    k: int = 10,
    attack: str | Mapping[str, Any] | None = None,
    num_examples: int | None = 200,
    without_own: bool = False,
    resources: str | Mapping[str, Any] = "standard",
    seed: int = 0,
    progress: Progress | bool = True,
    **settings: Any,
) -> RankResult:
    """Rank documents for queries, score the rankings, and attack the queries. No RUN is written.

    >>> rbench.rank(model.encode, {"q1": "how do i return it"}, {"d1": "Send it back.", "d2": "We sell shoes."},
    ...     {"q1": ["d1"]}, k=1)

    Args:
        encoder: a function from texts to vectors (n, dim); two of them, for queries and for documents; or the name of
            an encoder, its folder or its hub id.
        queries: their texts by id.
        documents: their texts by id, more than `k`.
        relevance: by query, the ids of its relevant documents, or their grades: whole numbers, 0 for not relevant. A
            query that has none is left out.
        k: the documents of a ranking that count.
        attack: what changes words of queries until no relevant document is among the first `k`: a name of `rbench list
            attacks`, or {name: {option: value}}. None: nothing is attacked.
        num_examples: how many queries are attacked, drawn by `seed`; None: all.
        without_own: whether the document that has a query's own id is left out of its ranking.
        resources: what stands behind the attack, as in `rbench.attack`.
        progress: as in `rbench.run`.
        settings: device, backend, pooled, max_seconds, models and include, as in `Options`.

    Raises:
        RbenchError: an id is unknown, a grade or a text is none, `k` is not smaller than the corpus, or the encoder, an
            option, the attack or a resource is wrong.
        JobError: the encoder gave vectors that are not finite, or the attack failed on every query.
    """
    options = resolve_options(None, settings, also=("k", "attack", "num_examples", "without_own", "resources", "seed"))
    check_device(options.device)
    rows = _check_rows(queries, documents, relevance, without_own)
    # Checked before anything is encoded: a wrong attack or resource should cost no time.
    prepared = None if attack is None else _prepare_attack(encoder, attack, k, resources, options)
    retriever = _open_retriever(encoder, rows.collection, settings)
    top_places, scores = _rank_documents(retriever, rows, k)
    ids = tuple(tuple(rows.collection.ids[i] for i in places) for places in top_places)
    result = RankResult(_encoder_name(encoder), k, tuple(rows.queries), ids, scores)
    if prepared is None:
        return result
    drawn = rows.queries
    if num_examples is not None and num_examples < len(drawn):
        drawn = [drawn[i] for i in sorted(random.Random(seed).sample(range(len(drawn)), num_examples))]
    victim = GivenVictim(_encoder_name(encoder), opened=lambda task, backend: retriever, gradients=False)
    return replace(
        result, attacked=AttackRequest(victim, prepared[0], _TASK, seed, *prepared[1:], options).result(drawn, progress)
    )


def _prepare_attack(
    encoder: Any, attack: str | Mapping[str, Any], k: int, resources: str | Mapping[str, Any], options: Options
) -> tuple[ChosenAttack, ResourceSet, dict[Any, Any]]:
    """Return an attack that pushes documents out of the first k, its resources, and where they are."""
    registry = Registry(options.include)
    chosen = chosen_attack(plain_choice(attack), registry)
    goal = chosen.spec.ranking.model_copy(update={"k": k})
    chosen = replace(chosen, spec=chosen.spec.model_copy(update={"ranking": goal}))
    check_victim(GivenVictim(_encoder_name(encoder), gradients=False), chosen, options)
    return chosen, *locate_resources(resources, chosen.spec, registry, options)


_TASK = TaskSpec.model_validate(
    {"name": "given", "kind": "ranking", "columns": ("query",), "ranking": {"folder": "given"}}
)


def _encoder_name(encoder: Any) -> str:
    if isinstance(encoder, str):
        return encoder
    first = encoder[0] if isinstance(encoder, tuple) else encoder
    return str(getattr(first, "__qualname__", type(first).__name__))


def _check_rows(
    queries: Mapping[str, str],
    documents: Mapping[str, str],
    relevance: Mapping[str, Mapping[str, int] | Iterable[str]],
    without_own: bool,
) -> RankingRows:
    """Check queries, documents and relevance. Raises PlanError, with the place, where something is wrong."""
    grades = []
    for query, relevant in relevance.items():
        grade_by_document = relevant if isinstance(relevant, Mapping) else dict.fromkeys(relevant, 1)
        for document, grade in grade_by_document.items():
            row = {"query-id": query, "corpus-id": document, "score": grade}
            grades.append((f"relevance[{query!r}][{document!r}]", row))
    spec = _TASK
    if without_own and spec.ranking is not None:
        spec = spec.model_copy(update={"ranking": spec.ranking.model_copy(update={"without_own": True})})

    def placed(name: str, texts: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
        return [(f"{name}[{text_id!r}]", {"_id": text_id, "text": text}) for text_id, text in texts.items()]

    return gather_rows(spec, "the queries given", placed("documents", documents), placed("queries", queries), grades)


def _open_retriever(encoder: Any, collection: DocumentCollection, settings: Mapping[str, Any]) -> Any:
    """Return a retriever that gives vectors of queries, with the documents' vectors."""
    from rbench.encoders import index
    from rbench.encoders.retriever import Retriever
    from rbench.recipes.attacked.ranking import FunctionRetriever, RetrieverVictim

    if isinstance(encoder, str):
        known = {name: value for name, value in settings.items() if name in ("device", "models", "include")}
        network = load_encoder(encoder, kind="ranking", **known)
        corpus = index.load_document_vectors(network, collection.texts, lambda count: None)
        network_retriever = Retriever(
            network,
            corpus,
            collection.ids,
            {q: dict(relevant_grades) for q, relevant_grades in collection.relevance.items()},
            collection.without_own,
        )
        backend = str(settings.get("backend", "auto"))
        return RetrieverVictim(network_retriever.eval(), encoder, device=str(network.device), backend=backend)
    queries, documents = encoder if isinstance(encoder, tuple) else (encoder, encoder)
    return FunctionRetriever(_encoder_name(encoder), queries, documents, collection)


def _rank_documents(
    retriever: Any, rows: RankingRows, k: int
) -> tuple[list[list[int]], Mapping[str, NDArray[np.float64]]]:
    """Return the places of the first k documents of each query, and the scores."""
    import numpy as np

    from rbench.encoders import index
    from rbench.score.ranking import DEPTH, ranking_scores

    collection, ids = rows.collection, [example.id for example in rows.queries]
    vectors = np.asarray(retriever([example.texts[0] for example in rows.queries]).numpy(), dtype=np.float32)
    top = index.rank_documents(
        vectors,
        retriever.retriever.corpus,
        DEPTH,
        list(map(collection.find_left_out, ids)),
        retriever.retriever.similarity,
    )
    run = {
        query: {collection.ids[i]: float(score) for i, score in zip(places, scores, strict=True) if np.isfinite(score)}
        for query, places, scores in zip(ids, top.places.tolist(), top.scores, strict=True)
    }
    return top.places[:, :k].tolist(), ranking_scores(run, collection.relevance, ids, k)


def _ndcg_after(outcome: Any) -> float:
    """Return nDCG@k of a query as the attack left it."""
    score = outcome.original_score if outcome.perturbed_score is None else outcome.perturbed_score
    return float("nan") if score is None else float(score)
