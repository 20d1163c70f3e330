"""Rankings: how well an encoder finds the documents that are relevant to a query.

A query is compared with every document by the cosine of their vectors. Prompts for queries and documents are the
encoder's. trec_eval computes the scores (`rbench.score.ranking`), query by query, so that encoders are compared query
by query. BM25 (Robertson and Zaragoza 2009) stands beside the encoders as a control that knows no meanings: k1 1.2 and
b 0.75, the words of `rbench.system.words` without case and without 33 English stop words. In scripts without spaces
between words it knows letters and pairs of neighbouring letters only, which finds less than words would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rbench.errors import JobError
from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Positive, Score, Strict, TaskSpec
from rbench.score import scored
from rbench.score.packed import packed_numbers, unpacked_numbers
from rbench.score.statistics import Sample, Share
from rbench.system.progress import counting
from rbench.system.words import terms
from rbench.tables import Results, Table
from rbench.tables.cells import Measured
from rbench.tables.table import Entry, Meaning, Number, best_of

if TYPE_CHECKING:
    from rbench.encoders.index import Top
    from rbench.tasks.ranking import Collection

VERSION = 2
USES = ("encoders.sentence", "encoders.index", "score.ranking", "system.words")
NAME = "ranking"
SYSTEMS = ENCODER, BM25 = "encoder", "bm25"
ABOUT = Meaning(
    "Rankings",
    "scores of rankings of all documents by the cosine of their vectors with the query's",
    "highest",
    digits=2,
    undefined="no query",
    good="better",
    among="of each column and task",
)
METRICS = {
    "ndcg": replace(ABOUT, title="nDCG"),
    "recall": replace(ABOUT, title="Recall"),
    "mrr": replace(ABOUT, title="MRR"),
    "map": replace(ABOUT, title="MAP"),
    "success": replace(ABOUT, title="Success"),
}


class Options(Strict):
    """Which tasks, and how many documents count."""

    tasks: tuple[str, ...] = ("mini-ranking",)
    """Tasks of the kind ranking."""
    k: Positive = 10
    """The documents that nDCG, recall, MRR and success look at."""


class Ranking(Measure[Options]):
    """Rankings: how well an encoder finds the documents that are relevant to a query."""

    title = "Rankings: nDCG and other scores of retrieval, beside BM25"
    reads = "encoders"
    numbers = METRICS
    options_by_task = ("tasks",)
    workload = "to rank: {:,} queries"

    def tasks(self, options: Options) -> dict[str, Options]:
        """Return the tasks to load, each with the options that decide its scores."""
        return {task: options.model_copy(update={"tasks": (task,)}) for task in options.tasks}

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return the split of the queries. Raises ValueError for a task without documents."""
        if not task.of_kind.has_documents:
            raise ValueError(f"task {task.name} has no documents to rank (its kind is {task.kind})")
        return ("test",)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many queries a job ranks documents for."""
        return int(prepared.data[job.spec.task.name].sizes["test"])

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return a row for the encoder, and one for BM25."""
        import numpy as np

        from rbench.encoders import index
        from rbench.score.ranking import DEPTH

        assert context.data is not None and context.data.collection is not None
        of, queries = context.data.collection, context.rows("test")
        texts, total = [one.texts[0] for one in queries], len(of.ids) + len(queries)
        encoded = counting(context.progress, total, f"{context.task.name}, documents and queries encoded")
        corpus = index.vectors_of(context.encoder, of.texts, encoded)
        similarity = context.encoder.settings.similarity
        vectors = index.compared(context.encoder.encode(texts, "fastest", encoded), similarity)
        if not (np.isfinite(vectors).all() and np.isfinite(corpus).all()):
            raise JobError(
                f"vectors of {context.name} on {context.task.name} have numbers that are not finite (NaN or "
                "infinity); its weights are damaged, or its training diverged"
            )
        ids = [one.id for one in queries]
        found = index.top(vectors, corpus, DEPTH, list(map(of.own, ids)), similarity)
        return [
            _row(system, top, of, ids, options.k) for system, top in ((ENCODER, found), (BM25, _bm25(texts, of, ids)))
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder, and one for BM25 below those of each task."""
        said = options.model_fields_set
        chosen = Options.model_validate(options.model_dump(include={"k"} & said))
        found = cells(results, chosen if chosen.model_fields_set else None, planned=False)
        shown = [task for task in found.tasks if "tasks" not in said or task in options.tasks]
        rows: list[tuple[Entry, ...]] = []
        groups, described = [], []
        for task in shown:
            groups.append(len(rows))
            there = [row for row in found.rows if found.cell(row, task) is not None]
            best = [best_of([found.number(row, task, name) for row in there], "highest") for name in METRICS]
            for i, row in enumerate(there):
                numbers = [column[i] for column in best]
                n = next((number.n for number in numbers if number is not None), None)
                rows.append((task, *found.names(row), n, *numbers))
                described.append(_cell(found, row, task))
            lexical = next((one for row in there for one in found.of(row, task) if _of(one, BM25) is not None), None)
            if lexical is not None:
                scores = {name: _score(lexical, name, BM25) for name in METRICS}
                entries = [Number.of(score, ABOUT) for score in scores.values()]
                rows.append((task, *("BM25 (control)", "")[: len(found.named)], scores["ndcg"].n, *entries))
                told = {name: score.value for name, score in scores.items()}
                described.append({"encoder": None, "task": task, "system": BM25, "n": scores["ndcg"].n, **told})
        return Table(
            metric=NAME,
            layout="paper",
            header=("Task", *found.named, "n", *_titles(found)),
            rows=tuple(rows),
            groups=frozenset(groups[1:]),
            cells=tuple(described),
            notes=(*_notes(found, shown), *found.common_notes()),
            interval=found.interval(
                "95% intervals: Student's t of the mean over queries; of success, which is a rate, Wilson's."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> ByEncoder:
        return cells(results)


def _row(system: str, found: Top, of: Collection, ids: Sequence[str], k: int) -> MeasuredRow:
    import numpy as np

    from rbench.score.ranking import ranking_scores

    run = {
        query: {of.ids[place]: float(score) for place, score in zip(places, scores, strict=True) if np.isfinite(score)}
        for query, places, scores in zip(ids, found.places.tolist(), found.scores, strict=True)
    }
    values = ranking_scores(run, of.relevance, ids, k)
    return MeasuredRow(
        names={"system": system, **{name: packed_numbers(own) for name, own in values.items()}},
        numbers={"n": len(ids), "documents": len(of.ids), **{name: float(own.mean()) for name, own in values.items()}},
    )


def _bm25(queries: Sequence[str], of: Collection, ids: Sequence[str]) -> Top:
    """Return the ranking of BM25. A query without a known word finds nothing."""
    import bm25s
    import numpy as np

    from rbench.encoders.index import Top
    from rbench.score.ranking import DEPTH

    known, depth = bm25s.BM25(k1=1.2, b=0.75), min(DEPTH, len(of.ids))
    known.index([_terms(text) for text in of.texts], show_progress=False)
    asked = [_terms(query) for query in queries]
    places, best = np.empty((len(ids), depth), np.int64), np.empty((len(ids), depth), np.float32)
    for i, (query, words) in enumerate(zip(ids, asked, strict=True)):
        scores = np.asarray(known.get_scores(words) if words else np.zeros(len(of.ids)), dtype=np.float32)
        scores[scores <= 0] = -np.inf
        if (own := of.own(query)) is not None:
            scores[own] = -np.inf
        places[i] = np.argsort(-scores, kind="stable")[:depth]
        best[i] = scores[places[i]]
    return Top(places, best)


def _terms(text: str) -> list[str]:
    from bm25s.stopwords import STOPWORDS_EN

    return [term for term in terms(text) if term not in STOPWORDS_EN]


def _of(one: MeasuredJob, system: str = ENCODER) -> MeasuredRow | None:
    return next((row for row in one.rows if row.names["system"] == system), None)


def _values(one: MeasuredJob, name: str, system: str = ENCODER) -> Iterable[float] | None:
    row = _of(one, system)
    return None if row is None else unpacked_numbers(row.names[name], int(row.numbers["n"] or 0)).tolist()


def _score(one: MeasuredJob, name: str, system: str = ENCODER) -> Score:
    values = [*(_values(one, name, system) or ())]
    # Success is 0 or 1 for each query, so it is a rate, with Wilson's interval.
    return scored(name, Share(round(sum(values)), len(values)) if name == "success" else Sample.of(values))


def cells(results: Results, options: Options | None = None, *, planned: bool = True) -> ByEncoder:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return by_encoder(results, NAME, options, (ABOUT, _score), units=_values, planned=planned)


def _done(found: ByEncoder, tasks: Iterable[str]) -> list[MeasuredJob]:
    return [one for task in tasks for row in found.rows for one in found.of(row, task)]


def _titles(found: ByEncoder) -> list[str]:
    """Return the heads of the columns, with k where all rows have the same."""
    ks = {int(one.options["k"]) for one in _done(found, found.tasks)}
    at = f"@{ks.pop()}" if len(ks) == 1 else "@k"
    return [f"{about.title}{'' if name == 'map' else at}" for name, about in METRICS.items()]


def _cell(found: ByEncoder, row: Row, task: str) -> dict[str, Any]:
    cell: Measured = found.cells[row[1], row[0], task]
    return {
        "encoder": row[0],
        "task": task,
        "evaluation": row[1],
        "system": ENCODER,
        **cell.told("ndcg"),
        **{name: number.value for name in METRICS if (number := cell.number(name)) is not None},
        "flags": found.flags.told(run.job for run in cell.done),
    }


def _notes(found: ByEncoder, shown: Sequence[str]) -> list[str]:
    done = _done(found, shown)
    sizes: Mapping[str, float | None] = {one.spec.task.name: one.rows[0].numbers["documents"] for one in done}
    note = (
        f"{', '.join(f'{task}: {int(size or 0):,} documents' for task, size in sizes.items())}. n: queries with a "
        "relevant document. MAP is of the first 1,000 documents. Of equal scores the document with the largest id "
        "comes first, as in trec_eval. The search is exact. BM25 leaves out English stop words alone, and in scripts "
        "without spaces between words it knows letters and pairs of letters."
    )
    named = {one.spec.task.name: one.spec.task for one in done}
    return [note, *(f"{name}: {more}" for name, task in named.items() for more in task.notes)]
