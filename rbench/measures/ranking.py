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

from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import EncoderGrid, EncoderRow, collect_by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Positive, Score, Strict, TaskSpec
from rbench.score import make_score
from rbench.score.packed import pack_numbers, unpack_numbers
from rbench.score.statistics import Proportion, Sample
from rbench.system.progress import count_steps
from rbench.system.words import index_terms
from rbench.tables import Results, Table
from rbench.tables.cells import MeasuredCell
from rbench.tables.table import Meaning, Number, TableEntry, mark_best_of_column

if TYPE_CHECKING:
    from rbench.encoders.index import RankedDocuments
    from rbench.tasks.ranking import DocumentCollection

# Part of the key of every ranking job (config/versions.py): raising it encodes and ranks all corpora anew.
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


class RetrievalScores(Measure[Options]):
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
        from rbench.encoders import index
        from rbench.score.finite import check_finite
        from rbench.score.ranking import DEPTH

        assert context.data is not None and context.data.collection is not None
        documents, queries = context.data.collection, context.rows("test")
        texts, total = [query.texts[0] for query in queries], len(documents.ids) + len(queries)
        encoded = count_steps(context.progress, total, f"{context.task.name}, documents and queries encoded")
        corpus = index.load_document_vectors(context.encoder, documents.texts, encoded)
        similarity = context.encoder.settings.similarity
        vectors = index.prepare_vectors(context.encoder.encode(texts, "fastest", encoded), similarity)
        for encoded_texts in (vectors, corpus):
            check_finite(encoded_texts, f"{context.name} on {context.task.name}")
        ids = [query.id for query in queries]
        by_vectors = index.rank_documents(vectors, corpus, DEPTH, list(map(documents.find_left_out, ids)), similarity)
        return [
            _build_row(system, ranked, documents, ids, options.k)
            for system, ranked in ((ENCODER, by_vectors), (BM25, _rank_by_bm25(texts, documents, ids)))
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder, and one for BM25 below those of each task."""
        said = options.model_fields_set
        chosen = Options.model_validate(options.model_dump(include={"k"} & said))
        found = build_cells(results, chosen if chosen.model_fields_set else None, planned=False)
        shown = [task for task in found.tasks if "tasks" not in said or task in options.tasks]
        rows: list[tuple[TableEntry, ...]] = []
        groups, described = [], []
        for task in shown:
            groups.append(len(rows))
            there = [row for row in found.rows if found.cell(row, task) is not None]
            best = [
                mark_best_of_column([found.number(row, task, name) for row in there], "highest") for name in METRICS
            ]
            for i, row in enumerate(there):
                numbers = [column[i] for column in best]
                n = next((number.n for number in numbers if number is not None), None)
                rows.append((task, *found.names(row), n, *numbers))
                described.append(_program_row(found, row, task))
            lexical = next(
                (one for row in there for one in found.of(row, task) if _row_of_system(one, BM25) is not None), None
            )
            if lexical is not None:
                scores = {name: _score_of_job(lexical, name, BM25) for name in METRICS}
                entries = [Number.of(score, ABOUT) for score in scores.values()]
                rows.append((task, *("BM25 (control)", "")[: len(found.named)], scores["ndcg"].n, *entries))
                told = {name: score.value for name, score in scores.items()}
                described.append({"encoder": None, "task": task, "system": BM25, "n": scores["ndcg"].n, **told})
        return Table(
            metric=NAME,
            layout="paper",
            header=("Task", *found.named, "n", *_column_titles(found)),
            rows=tuple(rows),
            groups=frozenset(groups[1:]),
            cells=tuple(described),
            notes=(*_build_notes(found, shown), *found.common_notes()),
            interval=found.interval(
                "95% intervals: Student's t of the mean over queries; of success, which is a rate, Wilson's."
            ),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> EncoderGrid:
        return build_cells(results)


def _build_row(
    system: str, ranked: RankedDocuments, documents: DocumentCollection, ids: Sequence[str], k: int
) -> MeasuredRow:
    import numpy as np

    from rbench.score.ranking import ranking_scores

    run = {
        query: {
            documents.ids[place]: float(score)
            for place, score in zip(places, scores, strict=True)
            if np.isfinite(score)
        }
        for query, places, scores in zip(ids, ranked.places.tolist(), ranked.scores, strict=True)
    }
    values = ranking_scores(run, documents.relevance, ids, k)
    return MeasuredRow(
        names={"system": system, **{name: pack_numbers(query_values) for name, query_values in values.items()}},
        numbers={
            "n": len(ids),
            "documents": len(documents.ids),
            **{name: float(query_values.mean()) for name, query_values in values.items()},
        },
    )


def _rank_by_bm25(queries: Sequence[str], documents: DocumentCollection, ids: Sequence[str]) -> RankedDocuments:
    """Return the ranking of BM25. A query without a known word finds nothing."""
    import bm25s
    import numpy as np

    from rbench.encoders.index import RankedDocuments
    from rbench.score.ranking import DEPTH

    bm25, depth = bm25s.BM25(k1=1.2, b=0.75), min(DEPTH, len(documents.ids))
    bm25.index([_split_terms(text) for text in documents.texts], show_progress=False)
    query_terms = [_split_terms(query) for query in queries]
    places, best_scores = np.empty((len(ids), depth), np.int64), np.empty((len(ids), depth), np.float32)
    for i, (query, words) in enumerate(zip(ids, query_terms, strict=True)):
        scores = np.asarray(bm25.get_scores(words) if words else np.zeros(len(documents.ids)), dtype=np.float32)
        # A document without a word of the query is not found; as a score of 0 it would fill the ranking.
        scores[scores <= 0] = -np.inf
        if (left_out := documents.find_left_out(query)) is not None:
            scores[left_out] = -np.inf
        places[i] = np.argsort(-scores, kind="stable")[:depth]
        best_scores[i] = scores[places[i]]
    return RankedDocuments(places, best_scores)


def _split_terms(text: str) -> list[str]:
    from bm25s.stopwords import STOPWORDS_EN

    return [term for term in index_terms(text) if term not in STOPWORDS_EN]


def _row_of_system(measured_job: MeasuredJob, system: str = ENCODER) -> MeasuredRow | None:
    return next((row for row in measured_job.rows if row.names["system"] == system), None)


def _unpack_values(measured_job: MeasuredJob, name: str, system: str = ENCODER) -> Iterable[float] | None:
    row = _row_of_system(measured_job, system)
    return None if row is None else unpack_numbers(row.names[name], int(row.numbers["n"] or 0)).tolist()


def _score_of_job(measured_job: MeasuredJob, name: str, system: str = ENCODER) -> Score:
    values = [*(_unpack_values(measured_job, name, system) or ())]
    # Success is 0 or 1 for each query, so it is a rate, with Wilson's interval.
    return make_score(name, Proportion(round(sum(values)), len(values)) if name == "success" else Sample.of(values))


def build_cells(results: Results, options: Options | None = None, *, planned: bool = True) -> EncoderGrid:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return collect_by_encoder(results, NAME, options, (ABOUT, _score_of_job), units=_unpack_values, planned=planned)


def _complete_jobs(encoder_grid: EncoderGrid, tasks: Iterable[str]) -> list[MeasuredJob]:
    return [measured_job for task in tasks for row in encoder_grid.rows for measured_job in encoder_grid.of(row, task)]


def _column_titles(encoder_grid: EncoderGrid) -> list[str]:
    """Return the heads of the columns, with k where all rows have the same."""
    depths = {int(measured_job.options["k"]) for measured_job in _complete_jobs(encoder_grid, encoder_grid.tasks)}
    at_depth = f"@{depths.pop()}" if len(depths) == 1 else "@k"
    return [f"{about.title}{'' if name == 'map' else at_depth}" for name, about in METRICS.items()]


def _program_row(encoder_grid: EncoderGrid, row: EncoderRow, task: str) -> dict[str, Any]:
    cell: MeasuredCell = encoder_grid.cells[row[1], row[0], task]
    return {
        "encoder": row[0],
        "task": task,
        "evaluation": row[1],
        "system": ENCODER,
        **cell.told("ndcg"),
        **{name: number.value for name in METRICS if (number := cell.number(name)) is not None},
        "flags": encoder_grid.flags.told(run.job for run in cell.done),
    }


def _build_notes(encoder_grid: EncoderGrid, shown: Sequence[str]) -> list[str]:
    measured_jobs = _complete_jobs(encoder_grid, shown)
    sizes: Mapping[str, float | None] = {
        measured_job.spec.task.name: measured_job.rows[0].numbers["documents"] for measured_job in measured_jobs
    }
    note = (
        f"{', '.join(f'{task}: {int(size or 0):,} documents' for task, size in sizes.items())}. n: queries with a "
        "relevant document. MAP is of the first 1,000 documents. Of equal scores the document with the largest id "
        "comes first, as in trec_eval. The search is exact. BM25 leaves out English stop words alone, and in scripts "
        "without spaces between words it knows letters and pairs of letters."
    )
    task_specs = {measured_job.spec.task.name: measured_job.spec.task for measured_job in measured_jobs}
    return [note, *(f"{name}: {task_note}" for name, task in task_specs.items() for task_note in task.notes)]
