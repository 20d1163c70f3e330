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
from rbench.measures._by_encoder import ByEncoder, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Count, Positive, ResourceKind, Score, Strict, TaskSpec
from rbench.score import scored
from rbench.score.packed import packed, packed_numbers, unpacked, unpacked_numbers
from rbench.score.statistics import Sample, Share
from rbench.tables import Results, Table
from rbench.tables.table import Entry, Meaning, Number

if TYPE_CHECKING:
    from rbench.encoders.hotflip import HotFlip, Words
    from rbench.encoders.index import Vectors
    from rbench.tasks.ranking import Collection
    from rbench.words.resources import Resources

VERSION = 1
USES = ("encoders.sentence", "encoders.index", "encoders.hotflip")
NEEDS: tuple[ResourceKind, ...] = ("word_vectors", "masked_lm")
NAME = "poisoning"
KINDS = {
    "hotflip": "HotFlip",
    "words": "the queries' own words (control)",
    "noise": "a document, words replaced at random (control)",
    "random": "random words (control)",
}
REAL = "documents"
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
    **{f"poisoned_{kind}": replace(ABOUT, title=f"ASR@k, {kind}") for kind in KINDS if kind != "hotflip"},
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


class Poisoning(Measure[Options]):
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
            JobError: there are too few queries for the clusters, no document has so many words that are a token each,
            or vectors are not finite.
        """
        from rbench.encoders import index
        from rbench.encoders.hotflip import HotFlip

        assert context.data is not None and context.data.collection is not None and context.resources is not None
        if (similarity := context.encoder.settings.similarity) != "cosine":
            raise JobError(
                f"poisoning writes passages that raise a cosine, and {context.name} compares vectors by {similarity}; "
                "leave it out, or set `similarity: cosine` for it"
            )
        of, sizes = context.data.collection, sorted({*options.passages})
        trained, held = _halves(sizes[-1], context, np.random.default_rng(options.seed))
        corpus = index.vectors_of(context.encoder, of.texts, lambda count: None)
        if not (np.isfinite(trained.vectors).all() and np.isfinite(held.vectors).all() and np.isfinite(corpus).all()):
            raise JobError(f"vectors of {context.name} on {context.task.name} are not finite; its weights are damaged")
        search, rows, done = HotFlip(context.encoder), [], 0
        starts = _documents(search, of, sizes[-1], options)

        def told() -> None:
            nonlocal done
            done += 1
            context.progress(done, sum(sizes), f"{context.task.name}, passages written")

        for size in sizes:
            clusters = _clusters(trained.vectors, size, options.seed)
            for kind, words in _written(search, options, trained, clusters, starts, told).items():
                vectors = index.unit(search.encoder.encode([" ".join(one) for one in words], "fastest"))
                pairs = zip(vectors, clusters, strict=True)
                cosine = float(np.mean([own @ _centre(trained.vectors[queries]) for own, queries in pairs]))
                made = _made(vectors, (trained, held), of, corpus, options.k)
                seen = _seen(words, context.resources, options)
                numbers = {"passages": len(words), **made.numbers, "cosine": cosine, **seen}
                rows.append(MeasuredRow(names={"kind": kind, **made.names}, numbers=numbers))
        return [*rows, MeasuredRow(names={"kind": REAL}, numbers=_seen(starts, context.resources, options))]

    def table(self, options: Options, results: Results) -> Table:
        """Make a row for each task, encoder, number of passages and kind of passage."""
        said = options.model_fields_set - {"tasks"}
        found = cells(
            results, Options.model_validate(options.model_dump(include=said)) if said else None, planned=False
        )
        shown = [task for task in found.tasks if "tasks" not in options.model_fields_set or task in options.tasks]
        done = [(task, row, one) for task in shown for row in found.rows for one in found.of(row, task)]
        rows: list[tuple[Entry, ...]] = []
        described: list[dict[str, Any]] = []
        groups = set()
        for task, row, one in done:
            groups.add(len(rows))
            for own in one.rows:
                numbers = {name: found.flags.on(number, [one.job]) for name, number in _numbers(own).items()}
                kind = own.names["kind"]
                names = (task, row[0], _whole(own, "passages") or "", KINDS.get(kind, "real documents"))
                rows.append((*names, *(numbers.get(name, "") for name in _HEADS)))
                values = {name: number.value for name, number in numbers.items()}
                sizes = {name: _whole(own, name) for name in ("passages", "n")}
                told = {"flags": found.flags.told([one.job])}
                described.append(
                    {"task": task, "encoder": row[0], "evaluation": row[1], "kind": kind, **values, **sizes} | told
                )
        return Table(
            metric=NAME,
            layout="paper",
            header=("Task", "Encoder", "Passages", "Written as", *_HEADS.values()),
            rows=tuple(rows),
            groups=frozenset(groups - {0}),
            cells=tuple(described),
            notes=(*_notes([one for _, _, one in done]), *found.common_notes()),
            interval="Wilson 95% intervals of ASR@k, and Student's t of the drop, over held-out queries. They do not "
            "cover "
            "the choice of passages.",
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> ByEncoder:
        return cells(results)


class Queries(NamedTuple):
    """One half of the queries."""

    ids: list[str]
    texts: list[str]
    vectors: Vectors


def _halves(passages: int, context: EncoderContext, rng: np.random.Generator) -> tuple[Queries, Queries]:
    from rbench.encoders import index

    rows = context.rows("test")
    order = rng.permutation(len(rows))
    half = len(rows) // 2
    if half < passages:
        raise JobError(
            f"{context.task.name} has {len(rows)} queries, and half of them are not enough for {passages} passages; "
            "ask for fewer `passages`"
        )

    def queries(places: NDArray[np.int64]) -> Queries:
        own = [rows[i] for i in sorted(places.tolist())]
        texts = [one.texts[0] for one in own]
        return Queries([one.id for one in own], texts, index.unit(context.encoder.encode(texts, "fastest")))

    return queries(order[:half]), queries(order[half:])


def _clusters(vectors: Vectors, n: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the places of the queries of each of n clusters, without empty ones."""
    from sklearn.cluster import KMeans

    found = KMeans(n, n_init=1, random_state=seed).fit_predict(vectors.astype(np.float64))
    return [own for i in range(n) if len(own := np.flatnonzero(found == i))]


def _centre(vectors: Vectors) -> Vectors:
    """Return the direction (dim,) with the largest mean cosine with vectors (n, dim) of length 1."""
    from rbench.encoders import index

    found: Vectors = index.unit(vectors.astype(np.float64).mean(axis=0, keepdims=True))[0]
    return found


def _documents(search: HotFlip, of: Collection, n: int, options: Options) -> list[Words]:
    """Return the first words of n documents, drawn among those that are long enough."""
    found = []
    for place in np.random.default_rng(options.seed).permutation(len(of.texts)).tolist():
        words = search.words_of(of.texts[place], options.words)
        if len(words) == options.words:
            found.append(words)
        if len(found) == n:
            return found
    raise JobError(
        f"{len(found)} documents have {options.words} words that are one token each, and {n} are needed; ask for fewer "
        "`words`"
    )


def _written(
    search: HotFlip,
    options: Options,
    trained: Queries,
    clusters: Sequence[NDArray[np.int64]],
    starts: Sequence[Words],
    told: Callable[[], None],
) -> dict[str, list[Words]]:
    """Return the passages of each of KINDS, one for each cluster. `told` is called after each that HotFlip wrote."""
    known, rng = [*search.vocabulary], np.random.default_rng(options.seed)

    def drawn(n: int) -> list[str]:
        return [known[i] for i in rng.integers(len(known), size=n)]

    made: dict[str, list[Words]] = {kind: [] for kind in KINDS}
    for own, start in zip(clusters, starts, strict=False):
        centre = _centre(trained.vectors[own])
        found = search.write(start, centre, steps=options.steps, candidates=options.candidates)
        near = own[np.argsort(-(trained.vectors[own] @ centre), kind="stable")]
        places = sorted({*found.places})
        moved = dict(zip(places, drawn(len(places)), strict=True))
        made["hotflip"].append(found.words)
        made["words"].append(search.words_of(" ".join(trained.texts[i] for i in near), options.words))
        made["noise"].append(tuple(moved.get(i, word) for i, word in enumerate(start)))
        made["random"].append(tuple(drawn(options.words)))
        told()
    return made


def _made(poison: Vectors, halves: tuple[Queries, Queries], of: Collection, corpus: Vectors, k: int) -> MeasuredRow:
    """Return what passages do to the queries that they were written for, and to the held-out ones."""
    (own, _), (hits, drop) = (_asked(half, poison, of, corpus, k) for half in halves)
    reached = hits.any(axis=1)
    return MeasuredRow(
        names={"reached": packed(np.asarray(reached)), "drop": packed_numbers(drop)},
        numbers={
            "n": len(hits),
            "reached": int(reached.sum()),
            "own": float(own.any(axis=1).mean()),
            "drop": float(drop.mean()),
            "needed": passages_needed(own, hits),
        },
    )


def _asked(
    half: Queries, poison: Vectors, of: Collection, corpus: Vectors, k: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which passages each query finds among its first k, (queries, passages), and the nDCG@k that each loses.

    A passage is ranked behind documents with the same score.
    """
    from rbench.encoders import index

    step = max(1, index.SCORES // len(corpus))
    hits, drop = np.zeros((len(half.ids), len(poison)), dtype=bool), np.zeros(len(half.ids))
    for start in range(0, len(half.ids), step):
        part = slice(start, start + step)
        found = index.scores(half.vectors[part], corpus, [of.own(one) for one in half.ids[part]])
        own = index.scores(half.vectors[part], poison, [None] * len(found))
        for i, (query, documents, passages) in enumerate(zip(half.ids[part], found, own, strict=True), start):
            # Passages compete with each other too. Ties go to the document, so they never favour the attack.
            above = (documents >= passages[:, None]).sum(axis=1) + (passages > passages[:, None]).sum(axis=1)
            hits[i] = above < k
            grades = of.relevance[query]
            places = np.array([of.place[one] for one in grades])
            before = index.ranks(documents[None], places)
            after = before + (passages > documents[places][:, None]).sum(axis=1)
            gains = np.array([*grades.values()], dtype=np.float64)
            drop[i] = (index.ndcg(before, gains, k) - index.ndcg(after, gains, k))[0]
    return hits, drop


def passages_needed(known: NDArray[np.bool_], held: NDArray[np.bool_]) -> int | None:
    """Return the fewest passages that reach half of the held-out queries that all reach; None where none reaches any.

    They are taken one after the other, each time the one that reaches the most further queries of the other half, which
    is what somebody who writes them can count.

    Args:
        known: which passages reach the queries that they were written for, (queries, passages).
        held: the same of the held-out queries.
    """
    chosen: list[int] = []
    while held.any() and 2 * held[:, chosen].any(axis=1).sum() < held.any(axis=1).sum():
        left = [i for i in range(held.shape[1]) if i not in chosen]
        chosen.append(max(left, key=lambda i: int(known[:, [*chosen, i]].any(axis=1).sum())))
    return len(chosen) or None


def _seen(passages: Sequence[Words], resources: Resources, options: Options) -> dict[str, float | None]:
    """Return how easy passages are to see: `dictionary`, the share of words listed, and the mean `perplexity`."""
    words = [word.lower() for passage in passages for word in passage if word.isalpha()]
    share = sum(word in resources.word_vectors for word in words) / len(words) if words else None
    if not options.perplexity:
        return {"dictionary": share}
    found = resources.masked_lm.perplexities([" ".join(passage) for passage in passages])
    return {"dictionary": share, "perplexity": float(np.exp(np.mean(np.log(found))))}


def _of(one: MeasuredJob, name: str) -> MeasuredRow:
    """Return the row that one of the METRICS is about."""
    kind = name.partition("_")[2] if name not in ("poisoned", FEWEST, DROP) else "hotflip"
    rows = [row for row in one.rows if row.names["kind"] == kind]
    return rows[0 if name == FEWEST else -1]


def _lost(row: MeasuredRow) -> list[float]:
    """Return what each held-out query lost of its nDCG."""
    return list(map(float, unpacked_numbers(row.names["drop"], int(row.numbers["n"] or 0))))


def _values(one: MeasuredJob, name: str) -> Iterable[float]:
    row = _of(one, name)
    return _lost(row) if name == DROP else map(float, unpacked(row.names["reached"], int(row.numbers["n"] or 0)))


def _score(one: MeasuredJob, name: str) -> Score:
    row = _of(one, name)
    if name == DROP:
        return scored(name, Sample.of(_lost(row)))
    return scored(name, Share(int(row.numbers["reached"] or 0), int(row.numbers["n"] or 0)))


def cells(results: Results, options: Options | None = None, *, planned: bool = True) -> ByEncoder:
    """Return the METRICS of all encoders and tasks. Raises StoreError as `by_encoder` does."""
    return by_encoder(results, NAME, options, (ABOUT, _score), units=_values, planned=planned)


_HEADS = {
    "asr": "ASR@k",
    "own": "Of queries written for",
    "drop": "Drop of nDCG",
    "cosine": "Cosine",
    "needed": "Needed",
    "dictionary": "In the dictionary",
    "perplexity": "Perplexity",
}


def _whole(row: MeasuredRow, name: str) -> int | None:
    value = row.numbers.get(name)
    return None if value is None else int(value)


def _numbers(row: MeasuredRow) -> dict[str, Number]:
    """Return the entries of a row of the table that it has. Real documents have the last two."""
    digits = {"cosine": 3, "needed": 0, "perplexity": 0}
    found = {
        name: Number(value, name not in digits, digits=digits.get(name, 1))
        for name in _HEADS
        if (value := row.numbers.get(name)) is not None and name != "drop"
    }
    if row.names["kind"] != REAL:
        share = Share(int(row.numbers["reached"] or 0), int(row.numbers["n"] or 0))
        found["asr"] = Number.of(scored("asr", share), ABOUT)
        found["drop"] = Number.of(scored("drop", Sample.of(_lost(row))), METRICS[DROP])
    return found


def _notes(done: Sequence[MeasuredJob]) -> list[str]:
    def said(name: str) -> str:
        return ", ".join(dict.fromkeys(str(one.options[name]) for one in done))

    return [
        f"ASR@k: the share of the held-out half of the queries that find one of the passages among their first "
        f"{said('k')}. Passages have {said('words')} words; HotFlip tried {said('candidates')} words at a place, "
        f"{said('steps')} times. Needed: the fewest passages, taken by what they reach of the queries that they were "
        "written for, that reach half of what all reach.",
        "In the dictionary: of words of letters. Perplexity: how little a masked LM expects the words (geometric "
        "mean); real documents are the first words of those that HotFlip began with.",
    ]
