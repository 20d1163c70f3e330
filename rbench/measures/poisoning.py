"""Corpus poisoning: how many queries find a passage that somebody wrote into the corpus (Zhong et al. 2023).

The queries of a task are halved at random. Those of the first half are put into clusters by k-means of their vectors,
and for the centre of each a passage is written by HotFlip (`rbench.encoders.hotflip`), from the first words of a
document that is drawn. The passages are put into the corpus together, and the other half of the queries is asked: a
query is *reached* if one of them is among its first k documents. ASR@k is the share of queries that are reached.

Controls have the same length and number, and see the same queries: words of the cluster's own queries, the nearest to
its centre first; random words; and the first document with random words at the places at which HotFlip replaced one.

Such passages are easy to see. How easy, two numbers say: the share of their words that are in a dictionary (the list of
the resource `word_vectors`), and how little a masked LM expects them (its pseudo-perplexity). Both stand there of real
documents, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rbench.errors import JobError
from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import EncoderGrid, collect_by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Count, Positive, ResourceKind, Score, Strict, TaskSpec
from rbench.score import make_score
from rbench.score.packed import pack_hits, pack_numbers, unpack_hits, unpack_numbers
from rbench.score.statistics import Proportion, Sample
from rbench.tables import Results, Table
from rbench.tables.table import Meaning, Number, TableEntry

if TYPE_CHECKING:
    from rbench.encoders.hotflip import HotFlip, Words
    from rbench.encoders.index import Vectors
    from rbench.tasks.ranking import DocumentCollection
    from rbench.words.resources import Resources

# Part of the key of every poisoning job (config/versions.py): raising it writes all passages anew, which takes long.
VERSION = 1
USES = ("encoders.sentence", "encoders.index", "encoders.hotflip")
NEEDS: tuple[ResourceKind, ...] = ("word_vectors", "masked_lm")
NAME = "poisoning"
PASSAGE_KINDS = {
    "hotflip": "HotFlip",
    "words": "the queries' own words (control)",
    "noise": "a document, words replaced at random (control)",
    "random": "random words (control)",
}
REAL_DOCUMENTS = "documents"
ABOUT = Meaning(
    "Corpus poisoning",
    "ASR@k: share of held-out queries that find a passage written into the corpus among their first k documents",
    "lowest",
    undefined="no held-out query",
    among="of each task",
)
DROP, FEWEST = "poison_drop", "poisoned_fewest"
METRICS = {
    "poisoned": replace(ABOUT, title="ASR@k of the most passages"),
    FEWEST: replace(ABOUT, title="ASR@k of the fewest passages"),
    **{f"poisoned_{kind}": replace(ABOUT, title=f"ASR@k, {kind}") for kind in PASSAGE_KINDS if kind != "hotflip"},
    DROP: Meaning("Drop of nDCG", "mean of nDCG@k without the passages minus nDCG@k with them", "lowest", digits=2),
}
"""All but one are about the largest number of `passages`; these without a control's name, about those of HotFlip."""


class Options(Strict):
    """Which corpora, and what is written into them."""

    tasks: tuple[str, ...] = ("mini-ranking",)
    """Tasks of the kind ranking."""
    k: Positive = 10
    """The documents of a ranking that count."""
    passages: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1, 10)
    """How many passages are written: the number of clusters. Each number is an attack of its own."""
    words: Positive = 20
    """The length of a passage."""
    steps: Positive = 60
    """How often HotFlip tries a place."""
    candidates: Positive = 20
    """How many words it tries there."""
    seed: Count = 0
    """Draws the halves of the queries, the clusters, the first documents and the controls."""
    perplexity: bool = True
    """Whether a masked LM reads the passages; it is the resource `masked_lm`."""


class CorpusPoisoning(Measure[Options]):
    """Corpus poisoning: how many queries find a passage that somebody wrote into the corpus (Zhong et al. 2023)."""

    title = "Corpus poisoning: queries that find a passage written for them, beside random words and the queries' own"
    reads = "encoders"
    numbers = METRICS
    network = True
    resources = NEEDS
    options_by_task = ("tasks",)
    workload = "to poison: {:,} passages"

    def needs(self, options: Options) -> tuple[ResourceKind, ...]:
        """Return the resources that these options need."""
        return NEEDS if options.perplexity else ("word_vectors",)

    def tasks(self, options: Options) -> dict[str, Options]:
        """Return the tasks to load, each with the options that decide its numbers."""
        return {task: options.model_copy(update={"tasks": (task,)}) for task in options.tasks}

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return the split of the queries. Raises ValueError for a task without documents."""
        if not task.of_kind.has_documents:
            raise ValueError(f"task {task.name} has no corpus to poison (its kind is {task.kind})")
        return ("test",)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many passages a job writes."""
        return sum(job.spec.what.options["passages"])

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return a row for each number of passages and each of KINDS, and one for real documents.

        Raises:
            JobError: no document has so many words that are a token each, or vectors are not finite.
        """
        from rbench.encoders import index
        from rbench.encoders.hotflip import HotFlip
        from rbench.score.finite import check_finite

        assert context.data is not None and context.data.collection is not None and context.resources is not None
        if (similarity := context.encoder.settings.similarity) != "cosine":
            raise JobError(
                f"poisoning writes passages that raise a cosine, and {context.name} compares vectors by {similarity}; "
                "leave it out, or set `similarity: cosine` for it"
            )
        documents, sizes = context.data.collection, sorted({*options.passages})
        trained, held_out = _halve_queries(sizes[-1], context, np.random.default_rng(options.seed))
        corpus = index.load_document_vectors(context.encoder, documents.texts, lambda count: None)
        for vectors in (trained.vectors, held_out.vectors, corpus):
            check_finite(vectors, f"{context.name} on {context.task.name}")
        search, rows, done = HotFlip(context.encoder), [], 0
        starts = _draw_documents(search, documents, sizes[-1], options)

        def report_passage() -> None:
            nonlocal done
            done += 1
            context.progress(done, sum(sizes), f"{context.task.name}, passages written")

        for size in sizes:
            clusters = _cluster_queries(trained.vectors, size, options.seed)
            for kind, words in _write_passages(search, options, trained, clusters, starts, report_passage).items():
                vectors = index.to_unit_length(
                    search.encoder.encode([" ".join(passage) for passage in words], "fastest")
                )
                pairs = zip(vectors, clusters, strict=True)
                cosine = float(
                    np.mean(
                        [passage_vector @ _find_centre(trained.vectors[queries]) for passage_vector, queries in pairs]
                    )
                )
                effect = _measure_passages(vectors, (trained, held_out), documents, corpus, options.k)
                visibility = _measure_visibility(words, context.resources, options)
                numbers = {"passages": len(words), **effect.numbers, "cosine": cosine, **visibility}
                rows.append(MeasuredRow(names={"kind": kind, **effect.names}, numbers=numbers))
        return [
            *rows,
            MeasuredRow(
                names={"kind": REAL_DOCUMENTS}, numbers=_measure_visibility(starts, context.resources, options)
            ),
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make a row for each task, encoder, number of passages and kind of passage."""
        said = options.model_fields_set - {"tasks"}
        found = build_cells(
            results, Options.model_validate(options.model_dump(include=said)) if said else None, planned=False
        )
        shown = [task for task in found.tasks if "tasks" not in options.model_fields_set or task in options.tasks]
        done = [(task, row, one) for task in shown for row in found.rows for one in found.of(row, task)]
        rows: list[tuple[TableEntry, ...]] = []
        described: list[dict[str, Any]] = []
        groups = set()
        for task, row, one in done:
            groups.add(len(rows))
            for own in one.rows:
                numbers = {name: found.flags.on(number, [one.job]) for name, number in _build_numbers(own).items()}
                kind = own.names["kind"]
                names = (task, row[0], _to_int(own, "passages") or "", PASSAGE_KINDS.get(kind, "real documents"))
                rows.append((*names, *(numbers.get(name, "") for name in _HEADINGS)))
                values = {name: number.value for name, number in numbers.items()}
                sizes = {name: _to_int(own, name) for name in ("passages", "n")}
                told = {"flags": found.flags.told([one.job])}
                described.append(
                    {"task": task, "encoder": row[0], "evaluation": row[1], "kind": kind, **values, **sizes} | told
                )
        return Table(
            metric=NAME,
            layout="paper",
            header=("Task", "Encoder", "Passages", "Written as", *_HEADINGS.values()),
            rows=tuple(rows),
            groups=frozenset(groups - {0}),
            cells=tuple(described),
            notes=(*_build_notes([one for _, _, one in done]), *found.common_notes()),
            interval="Wilson 95% intervals of ASR@k, and Student's t of the drop, over held-out queries. They do not "
            "cover "
            "the choice of passages.",
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> EncoderGrid:
        return build_cells(results)


class QueryHalf(NamedTuple):
    """One half of the queries."""

    ids: list[str]
    texts: list[str]
    vectors: Vectors


def _halve_queries(passages: int, context: EncoderContext, rng: np.random.Generator) -> tuple[QueryHalf, QueryHalf]:
    from rbench.encoders import index

    rows = context.rows("test")
    order = rng.permutation(len(rows))
    half = len(rows) // 2

    def queries(places: NDArray[np.int64]) -> QueryHalf:
        drawn_rows = [rows[i] for i in sorted(places.tolist())]
        texts = [example.texts[0] for example in drawn_rows]
        return QueryHalf(
            [example.id for example in drawn_rows],
            texts,
            index.to_unit_length(context.encoder.encode(texts, "fastest")),
        )

    return queries(order[:half]), queries(order[half:])


def _cluster_queries(vectors: Vectors, n: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the places of the queries of each of n clusters, without empty ones."""
    from sklearn.cluster import KMeans

    cluster_of = KMeans(n, n_init=1, random_state=seed).fit_predict(vectors.astype(np.float64))
    return [members for i in range(n) if len(members := np.flatnonzero(cluster_of == i))]


def _find_centre(vectors: Vectors) -> Vectors:
    """Return the direction (dim,) with the largest mean cosine with vectors (n, dim) of length 1."""
    from rbench.encoders import index

    centre: Vectors = index.to_unit_length(vectors.astype(np.float64).mean(axis=0, keepdims=True))[0]
    return centre


def _draw_documents(search: HotFlip, documents: DocumentCollection, n: int, options: Options) -> list[Words]:
    """Return the first words of n documents, drawn among those that are long enough."""
    first_words = []
    for place in np.random.default_rng(options.seed).permutation(len(documents.texts)).tolist():
        words = search.words_of(documents.texts[place], options.words)
        if len(words) == options.words:
            first_words.append(words)
        if len(first_words) == n:
            return first_words
    raise JobError(
        f"{len(first_words)} documents have {options.words} words that are one token each, and {n} are needed; ask for "
        "fewer `words`"
    )


def _write_passages(
    search: HotFlip,
    options: Options,
    trained: QueryHalf,
    clusters: Sequence[NDArray[np.int64]],
    starts: Sequence[Words],
    report_passage: Callable[[], None],
) -> dict[str, list[Words]]:
    """Return the passages of each of KINDS, one for each cluster. `report_passage` is called after each that HotFlip
    wrote."""
    vocabulary, rng = [*search.vocabulary], np.random.default_rng(options.seed)

    def draw_words(n: int) -> list[str]:
        return [vocabulary[i] for i in rng.integers(len(vocabulary), size=n)]

    passages: dict[str, list[Words]] = {kind: [] for kind in PASSAGE_KINDS}
    for members, start in zip(clusters, starts, strict=False):
        centre = _find_centre(trained.vectors[members])
        flipped = search.write(start, centre, steps=options.steps, candidates=options.candidates)
        nearest_first = members[np.argsort(-(trained.vectors[members] @ centre), kind="stable")]
        places = sorted({*flipped.places})
        replaced = dict(zip(places, draw_words(len(places)), strict=True))
        passages["hotflip"].append(flipped.words)
        passages["words"].append(search.words_of(" ".join(trained.texts[i] for i in nearest_first), options.words))
        passages["noise"].append(tuple(replaced.get(i, word) for i, word in enumerate(start)))
        passages["random"].append(tuple(draw_words(options.words)))
        report_passage()
    return passages


def _measure_passages(
    passage_vectors: Vectors,
    halves: tuple[QueryHalf, QueryHalf],
    documents: DocumentCollection,
    corpus: Vectors,
    k: int,
) -> MeasuredRow:
    """Return what passages do to the queries that they were written for, and to the held-out ones."""
    (own_hits, _), (hits, drop) = (_ask_half(half, passage_vectors, documents, corpus, k) for half in halves)
    reached = hits.any(axis=1)
    return MeasuredRow(
        names={"reached": pack_hits(np.asarray(reached)), "drop": pack_numbers(drop)},
        numbers={
            "n": len(hits),
            "reached": int(reached.sum()),
            "own": float(own_hits.any(axis=1).mean()),
            "drop": float(drop.mean()),
            "needed": count_needed(own_hits, hits),
        },
    )


def _ask_half(
    half: QueryHalf, passage_vectors: Vectors, of: DocumentCollection, corpus: Vectors, k: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which passages each query finds among its first k, (queries, passages), and the nDCG@k that each loses.

    A passage is ranked behind documents with the same score.
    """
    from rbench.encoders import index

    step = max(1, index.MAX_SCORES // len(corpus))
    hits, drop = np.zeros((len(half.ids), len(passage_vectors)), dtype=bool), np.zeros(len(half.ids))
    for start in range(0, len(half.ids), step):
        step_slice = slice(start, start + step)
        document_scores = index.score_documents(
            half.vectors[step_slice], corpus, [of.find_left_out(document_id) for document_id in half.ids[step_slice]]
        )
        passage_scores = index.score_documents(half.vectors[step_slice], passage_vectors, [None] * len(document_scores))
        for i, (query, documents, passages) in enumerate(
            zip(half.ids[step_slice], document_scores, passage_scores, strict=True), start
        ):
            # Passages compete with each other too. Ties go to the document, so they never favour the attack.
            num_above = (documents >= passages[:, None]).sum(axis=1) + (passages > passages[:, None]).sum(axis=1)
            hits[i] = num_above < k
            grades = of.relevance[query]
            places = np.array([of.place[document_id] for document_id in grades])
            before = index.compute_ranks(documents[None], places)
            after = before + (passages > documents[places][:, None]).sum(axis=1)
            gains = np.array([*grades.values()], dtype=np.float64)
            drop[i] = (index.compute_ndcg(before, gains, k) - index.compute_ndcg(after, gains, k))[0]
    return hits, drop


def count_needed(own_hits: NDArray[np.bool_], held_hits: NDArray[np.bool_]) -> int | None:
    """Return the fewest passages that reach half of the held-out queries that all reach; None where none reaches any.

    They are taken one after the other, each time the one that reaches the most further queries of the other half, which
    is what somebody who writes them can count.

    Args:
        own_hits: which passages reach the queries that they were written for, (queries, passages).
        held_hits: the same of the held-out queries.
    """
    chosen: list[int] = []
    while held_hits.any() and 2 * held_hits[:, chosen].any(axis=1).sum() < held_hits.any(axis=1).sum():
        not_chosen = [i for i in range(held_hits.shape[1]) if i not in chosen]
        # By the queries that a writer knows: to choose by the held-out ones would make the attack look cheaper.
        chosen.append(max(not_chosen, key=lambda i: int(own_hits[:, [*chosen, i]].any(axis=1).sum())))
    return len(chosen) or None


def _measure_visibility(passages: Sequence[Words], resources: Resources, options: Options) -> dict[str, float | None]:
    """Return how easy passages are to see: `dictionary`, the share of words listed, and the mean `perplexity`."""
    words = [word.lower() for passage in passages for word in passage if word.isalpha()]
    share = sum(word in resources.word_vectors for word in words) / len(words) if words else None
    if not options.perplexity:
        return {"dictionary": share}
    perplexities = resources.masked_lm.perplexities([" ".join(passage) for passage in passages])
    return {"dictionary": share, "perplexity": float(np.exp(np.mean(np.log(perplexities))))}


def _row_of_metric(measured_job: MeasuredJob, name: str) -> MeasuredRow:
    """Return the row that one of the METRICS is about."""
    kind = name.partition("_")[2] if name not in ("poisoned", FEWEST, DROP) else "hotflip"
    rows = [row for row in measured_job.rows if row.names["kind"] == kind]
    return rows[0 if name == FEWEST else -1]


def _unpack_lost(row: MeasuredRow) -> list[float]:
    """Return what each held-out query lost of its nDCG."""
    return list(map(float, unpack_numbers(row.names["drop"], int(row.numbers["n"] or 0))))


def _unpack_values(measured_job: MeasuredJob, name: str) -> Iterable[float]:
    row = _row_of_metric(measured_job, name)
    return (
        _unpack_lost(row) if name == DROP else map(float, unpack_hits(row.names["reached"], int(row.numbers["n"] or 0)))
    )


def _score_of_job(measured_job: MeasuredJob, name: str) -> Score:
    row = _row_of_metric(measured_job, name)
    if name == DROP:
        return make_score(name, Sample.of(_unpack_lost(row)))
    return make_score(name, Proportion(int(row.numbers["reached"] or 0), int(row.numbers["n"] or 0)))


def build_cells(results: Results, options: Options | None = None, *, planned: bool = True) -> EncoderGrid:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return collect_by_encoder(results, NAME, options, (ABOUT, _score_of_job), units=_unpack_values, planned=planned)


_HEADINGS = {
    "asr": "ASR@k",
    "own": "Of queries written for",
    "drop": "Drop of nDCG",
    "cosine": "Cosine",
    "needed": "Needed",
    "dictionary": "In the dictionary",
    "perplexity": "Perplexity",
}


def _to_int(row: MeasuredRow, name: str) -> int | None:
    value = row.numbers.get(name)
    return None if value is None else int(value)


def _build_numbers(row: MeasuredRow) -> dict[str, Number]:
    """Return the entries of a row of the table that it has. Real documents have the last two."""
    digits = {"cosine": 3, "needed": 0, "perplexity": 0}
    entries = {
        name: Number(value, name not in digits, digits=digits.get(name, 1))
        for name in _HEADINGS
        if (value := row.numbers.get(name)) is not None and name != "drop"
    }
    if row.names["kind"] != REAL_DOCUMENTS:
        share = Proportion(int(row.numbers["reached"] or 0), int(row.numbers["n"] or 0))
        entries["asr"] = Number.of(make_score("asr", share), ABOUT)
        entries["drop"] = Number.of(make_score("drop", Sample.of(_unpack_lost(row))), METRICS[DROP])
    return entries


def _build_notes(measured_jobs: Sequence[MeasuredJob]) -> list[str]:
    def options_of(name: str) -> str:
        return ", ".join(dict.fromkeys(str(measured_job.options[name]) for measured_job in measured_jobs))

    return [
        "ASR@k: the share of the held-out half of the queries that find one of the passages among their first "
        f"{options_of('k')}. Passages have {options_of('words')} words; HotFlip tried {options_of('candidates')} words "
        f"at a place, {options_of('steps')} times. Needed: the fewest passages, taken by what they reach of the "
        "queries that they were written for, that reach half of what all reach.",
        "In the dictionary: of words of letters. Perplexity: how little a masked LM expects the words (geometric "
        "mean); real documents are the first words of those that HotFlip began with.",
    ]
