"""Read tasks of the kind `ranking`: queries, the documents that are ranked for them, and which of these are relevant.

    FOLDER/corpus.jsonl        {"_id": "d1", "title": "...", "text": "..."}, the title may be left out
    FOLDER/queries.jsonl       {"_id": "q1", "text": "..."}
    FOLDER/qrels/SPLIT.tsv     query-id <tab> corpus-id <tab> score, below a line with these three names

This is the layout of BEIR (Thakur et al. 2021). A title stands before the text of its document, with a space between,
as in BEIR's own evaluation. A grade above 0 says how relevant a document is; others say that it is not. A query without
a relevant document is left out, as in BEIR, and counted. Ids that are unknown or stand twice are errors.

Documents are kept in the order in which trec_eval breaks ties: by id, descending, byte by byte.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rbench.config.tabular import check_unicode, lines_of
from rbench.errors import ResourceError
from rbench.schema import HubData, RankingHub, RankingPairs, TaskSpec, is_text_file
from rbench.tasks import lines, local, online
from rbench.tasks.clean import EMPTY, Dropped, Example, Row
from rbench.tasks.data import TaskData, content_hash

logger = logging.getLogger("rbench")

UNANSWERED = "no relevant document"
"""The reason for a query that is left out."""
QRELS = ("query-id", "corpus-id", "score")
Place = tuple[str, Mapping[str, Any]]
"""A row: where it stands, for messages, and its values by column."""


@dataclass(frozen=True)
class Collection:
    """The documents of a ranking task, and which of them are relevant to which query."""

    ids: tuple[str, ...]
    """Descending, byte by byte."""
    texts: tuple[str, ...] = field(repr=False)
    relevance: Mapping[str, Mapping[str, int]] = field(repr=False)
    """By the id of a query, the grades (at least 1) of the documents that are relevant to it."""
    without_own: bool = False
    """Whether the document with a query's own id is left out of the query's ranking."""

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each document in `ids`."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def digest(self) -> str:
        """A hash (64 hex digits) of documents and relevance."""
        digest = hashlib.sha256(f"{self.without_own}".encode())
        grades = (f"{query} {sorted(own.items())}" for query, own in sorted(self.relevance.items()))
        for part in (*self.ids, *self.texts, *grades):
            digest.update(f"{len(part)}:{part}".encode())
        return digest.hexdigest()

    def own(self, query: str) -> int | None:
        """Return the place of the document that is left out of a query's ranking; None where none is."""
        return self.place.get(query) if self.without_own else None


@dataclass(frozen=True)
class RankingRows:
    """What was read of a ranking task."""

    origin: str
    queries: list[Example]
    collection: Collection
    dropped: Dropped
    read: int
    """Number of queries before any was left out."""


@dataclass(frozen=True)
class Source:
    """Where the rows of a ranking task are. They are read, and the hub is asked, when a field is called."""

    locate: Callable[[], str]
    files: Callable[[], list[Path]]
    read: Callable[[], RankingRows]


def source(spec: TaskSpec, data_path: Sequence[Path]) -> Source:
    """Return where the rows of a task are: generated, in a folder, in a file of pairs, or on the hub.

    Raises ResourceError where there are none; says where it looked.
    """
    if spec.generator is not None:
        told = f"generated ({spec.generator})"
        return Source(lambda: told, list, lambda: _generated(spec, told))
    of = spec.ranking
    assert of is not None  # TaskSpec has checked it
    if of.pairs is not None:
        path, pairs = _find(spec, local.file_of(of.pairs.source), data_path, of.hub), of.pairs
        assert path is not None
        return Source(lambda: f"pairs {path}", lambda: [path], lambda: _of_pairs(spec, pairs, path))
    folder = _find(spec, of.folder, data_path, of.hub) if of.folder is not None else None
    if folder is None:
        hub = of.hub
        assert hub is not None
        return Source(lambda: f"hub {hub.id}@{hub.revision}", list, lambda: _of_hub(spec, hub))
    files = [folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / f"{of.split}.tsv"]
    if missing := [str(path) for path in files if not path.is_file()]:
        raise ResourceError(
            f"task `{spec.name}`: {', '.join(missing)} is missing. A folder of a ranking task has corpus.jsonl, "
            f"queries.jsonl and qrels/{of.split}.tsv"
        )
    return Source(lambda: f"folder {folder}", lambda: files, lambda: _of_folder(spec, folder, files))


def open_task(spec: TaskSpec, data_path: Sequence[Path]) -> TaskData:
    """Open a ranking task. All its queries are of the split `test`. Raises ResourceError as `source` does."""
    read = source(spec, data_path).read()
    examples, dropped, of = {"test": read.queries}, read.dropped, read.collection
    for reason, count in dropped.counts.items():
        logger.info("task %s: %d queries left out, %s", spec.name, count, reason)
    whole = hashlib.sha256(f"{content_hash(examples)} {of.digest}".encode()).hexdigest()
    sizes = {"test": read.read}
    return TaskData(spec, read.origin, whole, dict(dropped.counts), dropped.places, {}, examples, sizes, collection=of)


def _find(spec: TaskSpec, name: str, data_path: Sequence[Path], hub: RankingHub | None) -> Path | None:
    """Return a file or folder: a path, or one below a data folder. None where the hub has it, too."""
    _, _, places = lines.places_of(name, data_path)
    found = next((place for place in places if place.exists()), None)
    if found is None and hub is None:
        looked = ", ".join(str(place) for place in places)
        raise ResourceError(
            f"task `{spec.name}`: there is no {looked}. Put it there, or pass --data DIR or set RBENCH_DATA=DIR with a "
            f"folder DIR that has {name}"
        )
    return found


# ----------------------------------------------------------------------------------------------------- sources


def _of_folder(spec: TaskSpec, folder: Path, files: Sequence[Path]) -> RankingRows:
    corpus, queries = map(_placed, files[:2])
    return gathered(spec, f"folder {folder}", corpus, queries, _qrels(files[2]))


def _placed(path: Path) -> Iterator[Place]:
    for number, values in lines.read(path):
        yield f"{path}:{number}", values


def _qrels(path: Path) -> Iterator[Place]:
    for number, line in lines_of(path):
        values = line.rstrip("\r\n").split("\t")
        if number == 1 and tuple(values) == QRELS:
            continue
        if len(values) != len(QRELS):
            raise ResourceError(
                f"{path}:{number}: expected query-id, corpus-id and score with tabs between; there are {len(values)} "
                "values"
            )
        yield f"{path}:{number}", dict(zip(QRELS, values, strict=True))


def _of_pairs(spec: TaskSpec, pairs: RankingPairs, path: Path) -> RankingRows:
    """Read pairs. Ids are numbers in the order in which texts first appear: `q0`, `d0`."""
    ids: dict[str, dict[str, str]] = {"q": {}, "d": {}}
    rows: dict[str, list[Place]] = {"q": [], "d": [], "qrels": []}
    for where, values in _placed(path):
        named = []
        for kind, column in (("q", pairs.query), ("d", pairs.document)):
            text = _text(spec, (where, values), column)
            if text not in ids[kind]:
                ids[kind][text] = f"{kind}{len(ids[kind])}"
                rows[kind].append((where, {"_id": ids[kind][text], "text": text}))
            named.append(ids[kind][text])
        rows["qrels"].append((where, dict(zip(QRELS, (*named, 1), strict=True))))
    return gathered(spec, f"pairs {path}", rows["d"], rows["q"], rows["qrels"], repeated=True)


def _of_hub(spec: TaskSpec, hub: RankingHub) -> RankingRows:
    def read(name: str) -> tuple[str, list[Row]]:
        config, _, split = (None, "", name) if is_text_file(name) else name.partition("/")
        wanted = HubData(
            id=hub.id, revision=hub.revision, config=config, columns={}, splits={"test": split or online.ONLY}
        )
        try:
            origin, rows = online.read(wanted)
        except ResourceError as error:
            raise ResourceError(
                f"task `{spec.name}`: {error}. Put corpus.jsonl, queries.jsonl and qrels/test.tsv into a folder DIR, "
                "and write `ranking: {folder: DIR}` into a task file"
            ) from error
        return origin, rows["test"]

    found = {name: read(name) for name in dict.fromkeys((hub.corpus, hub.queries, hub.qrels))}
    places = ([(row.where, row.values) for row in found[name][1]] for name in (hub.corpus, hub.queries, hub.qrels))
    return gathered(spec, found[hub.corpus][0], *places)


def _generated(spec: TaskSpec, told: str) -> RankingRows:
    from rbench import mini

    read = {split: mini.rows(str(spec.generator), split) for split in mini.splits(str(spec.generator))}
    corpus, queries, qrels = (
        [(f"{told} {split} row {i}", row) for i, row in enumerate(read[split])] for split in ("corpus", "test", "qrels")
    )
    return gathered(spec, told, corpus, queries, qrels)


# ------------------------------------------------------------------------------------------------ rows to queries


def gathered(
    spec: TaskSpec,
    origin: str,
    corpus: Iterable[Place],
    queries: Iterable[Place],
    qrels: Iterable[Place],
    *,
    repeated: bool = False,
) -> RankingRows:
    """Check rows, and return queries with their documents.

    Args:
        repeated: whether a pair of query and document may stand in `qrels` more than once.

    Raises:
        ResourceError: an id is missing, stands twice or is unknown, a text is none, a grade is no whole number, a
            pair has two grades, or no query is left; names the place and the remedy.
    """
    documents = _texts(spec, corpus, partial(_document, spec))
    asked = _texts(spec, queries, lambda row: _text(spec, row, "text"))
    grades: dict[str, dict[str, int]] = {}
    for where, values in qrels:
        query, document, grade = (values.get(name) for name in QRELS)
        for name, known, what in ((query, asked, "queries"), (document, documents, "corpus")):
            if str(name) not in known:
                raise ResourceError(
                    f"{where}: task `{spec.name}`: {name!r} is no id of the {what}; take the line out, or add the id"
                )
        number, own = _grade(spec, where, grade), grades.setdefault(str(query), {})
        if str(document) in own and not repeated:
            raise ResourceError(
                f"{where}: task `{spec.name}`: {query!r} and {document!r} have a grade above; leave one of the lines"
            )
        own[str(document)] = number
    dropped, kept, relevance = Dropped(), [], {}
    without_own = spec.ranking is not None and spec.ranking.without_own
    for name, (where, text) in asked.items():
        own = {d: n for d, n in grades.get(name, {}).items() if n > 0 and not (without_own and d == name)}
        if not text or not own:
            dropped.add(f"test: {UNANSWERED if text else EMPTY}", where)
            continue
        relevance[name] = own
        kept.append(Example(name, (text,), 1))
    if not kept:
        raise ResourceError(
            f"task `{spec.name}`: no query of {origin} has a relevant document; see that the ids of qrels are those of "
            "queries and corpus"
        )
    ids = sorted(documents, key=str.encode, reverse=True)
    found = Collection(tuple(ids), tuple(documents[one][1] for one in ids), relevance, without_own)
    return RankingRows(origin, kept, found, dropped, len(asked))


def _texts(spec: TaskSpec, rows: Iterable[Place], read: Callable[[Place], str]) -> dict[str, tuple[str, str]]:
    """Return the place and the text of each row by its id, `_id` or `id`."""
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        where, values = row
        given = values.get("_id", values.get("id"))
        if given is None or isinstance(given, bool) or not str(given):
            raise ResourceError(f"{where}: task `{spec.name}`: the row has no `_id`; give each row one of its own")
        name = str(given)
        check_unicode(name, f"{where}: `_id`")
        if name in found:
            raise ResourceError(
                f"{where}: task `{spec.name}`: the id {name!r} stands at {found[name][0]} too; give each row its own"
            )
        found[name] = (where, read(row))
    return found


def _document(spec: TaskSpec, row: Place) -> str:
    title = _text(spec, row, "title") if row[1].get("title") is not None else ""
    return f"{title} {_text(spec, row, 'text')}".strip()


def _text(spec: TaskSpec, row: Place, column: str) -> str:
    where, values = row
    text = values.get(column)
    if not isinstance(text, str):
        said = f"`{column}` is {text!r}, not a string" if column in values else f"there is no `{column}`"
        raise ResourceError(f"{where}: task `{spec.name}`: {said}; this row has {', '.join(values)}")
    check_unicode(text, f"{where}: `{column}`")
    return text.strip()


def _grade(spec: TaskSpec, where: str, value: Any) -> int:
    """Return a grade of relevance, a whole number. Raises ResourceError for anything else."""
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
        if number == int(number):
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ResourceError(
        f"{where}: task `{spec.name}`: the relevance {value!r} is no whole number; write 1 for relevant, 0 for not"
    )
