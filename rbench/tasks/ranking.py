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

import csv
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rbench.config.tabular import check_unicode, numbered_lines
from rbench.errors import ResourceError
from rbench.schema import HubData, RankingHub, RankingPairs, TaskSpec, is_text_file
from rbench.system.own_code import failing_in
from rbench.tasks import lines, local, online
from rbench.tasks.clean import EMPTY, DroppedRows, Example, SourceRow
from rbench.tasks.data import TaskData, hash_examples

logger = logging.getLogger("rbench")

UNANSWERED = "no relevant document"
"""The reason for a query that is left out."""
QRELS_COLUMNS = ("query-id", "corpus-id", "score")
PlacedRow = tuple[str, Mapping[str, Any]]
"""A row: where it stands, for messages, and its values by column."""


@dataclass(frozen=True)
class DocumentCollection:
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
        grades = (
            f"{query} {sorted(grades_of_query.items())}" for query, grades_of_query in sorted(self.relevance.items())
        )
        for part in (*self.ids, *self.texts, *grades):
            digest.update(f"{len(part)}:{part}".encode())
        return digest.hexdigest()

    def find_left_out(self, query: str) -> int | None:
        """Return the place of the document that is left out of a query's ranking; None where none is."""
        return self.place.get(query) if self.without_own else None


@dataclass(frozen=True)
class RankingRows:
    """What was read of a ranking task."""

    origin: str
    queries: list[Example]
    collection: DocumentCollection
    dropped: DroppedRows
    read: int
    """Number of queries before any was left out."""


@dataclass(frozen=True)
class RankingSource:
    """Where the rows of a ranking task are. They are read, and the hub is asked, when a field is called."""

    locate: Callable[[], str]
    files: Callable[[], list[Path]]
    read: Callable[[], RankingRows]


def source(spec: TaskSpec, data_path: Sequence[Path]) -> RankingSource:
    """Return where the rows of a task are: generated, in a folder, in a file of pairs, or on the hub.

    Raises ResourceError where there are none; says where it looked.
    """
    if spec.generator is not None:
        generated_from = f"generated ({spec.generator})"
        return RankingSource(lambda: generated_from, list, lambda: _generate(spec, generated_from))
    ranking_spec = spec.ranking
    assert ranking_spec is not None  # TaskSpec has checked it
    if ranking_spec.pairs is not None:
        path, pairs = (
            _find_path(spec, local.file_of_source(ranking_spec.pairs.source), data_path, ranking_spec.hub),
            ranking_spec.pairs,
        )
        assert path is not None
        return RankingSource(lambda: f"pairs {path}", lambda: [path], lambda: _read_pairs(spec, pairs, path))
    folder = (
        _find_path(spec, ranking_spec.folder, data_path, ranking_spec.hub) if ranking_spec.folder is not None else None
    )
    if folder is None:
        hub = ranking_spec.hub
        assert hub is not None
        return RankingSource(lambda: f"hub {hub.id}@{hub.revision}", list, lambda: _read_hub(spec, hub))
    folder_files = [folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels" / f"{ranking_spec.split}.tsv"]
    if missing := [str(path) for path in folder_files if not path.is_file()]:
        raise ResourceError(
            f"task `{spec.name}`: {', '.join(missing)} is missing. A folder of a ranking task has corpus.jsonl, "
            f"queries.jsonl and qrels/{ranking_spec.split}.tsv"
        )
    return RankingSource(
        lambda: f"folder {folder}", lambda: folder_files, lambda: _read_folder(spec, folder, folder_files)
    )


def open_task(spec: TaskSpec, data_path: Sequence[Path]) -> TaskData:
    """Open a ranking task. All its queries are of the split `test`. Raises ResourceError as `source` does."""
    ranking_rows = source(spec, data_path).read()
    examples, dropped, documents = {"test": ranking_rows.queries}, ranking_rows.dropped, ranking_rows.collection
    for reason, count in dropped.counts.items():
        logger.info("task %s: %d queries left out, %s", spec.name, count, reason)
    fingerprint = hashlib.sha256(f"{hash_examples(examples)} {documents.digest}".encode()).hexdigest()
    sizes = {"test": ranking_rows.read}
    return TaskData(
        spec,
        ranking_rows.origin,
        fingerprint,
        dict(dropped.counts),
        dropped.places,
        {},
        examples,
        sizes,
        collection=documents,
    )


def _find_path(spec: TaskSpec, name: str, data_path: Sequence[Path], hub: RankingHub | None) -> Path | None:
    """Return a file or folder: a path, or one below a data folder. None where the hub has it, too."""
    if hub is None:
        return lines.find_place(name, data_path, f"task `{spec.name}`")
    _, _, places = lines.candidate_places(name, data_path)
    return next(filter(Path.exists, places), None)


# ----------------------------------------------------------------------------------------------------- sources


def _read_folder(spec: TaskSpec, folder: Path, files: Sequence[Path]) -> RankingRows:
    corpus, queries = map(_read_placed, files[:2])
    return gather_rows(spec, f"folder {folder}", corpus, queries, _read_qrels(files[2]))


def _read_placed(path: Path) -> Iterator[PlacedRow]:
    for number, values in lines.read(path):
        yield f"{path}:{number}", values


def _read_qrels(path: Path) -> Iterator[PlacedRow]:
    for number, line in numbered_lines(path):
        if number == 1 and tuple(line.split("\t")) == QRELS_COLUMNS:
            continue
        with failing_in(f"{path}:{number}", remedy="A line has query-id, corpus-id and score, with tabs between"):
            (values,) = csv.reader([line], delimiter="\t")  # as BEIR reads them: an id with quotes is quoted
            given = dict(zip(QRELS_COLUMNS, values, strict=True))
        yield f"{path}:{number}", given


def _read_pairs(spec: TaskSpec, pairs: RankingPairs, path: Path) -> RankingRows:
    """Read pairs. Ids are numbers in the order in which texts first appear: `q0`, `d0`."""
    ids: dict[str, dict[str, str]] = {"q": {}, "d": {}}
    rows: dict[str, list[PlacedRow]] = {"q": [], "d": [], "qrels": []}
    for where, values in _read_placed(path):
        pair_ids = []
        for kind, column in (("q", pairs.query), ("d", pairs.document)):
            text = _read_text(spec, (where, values), column)
            if text not in ids[kind]:
                ids[kind][text] = f"{kind}{len(ids[kind])}"
                rows[kind].append((where, {"_id": ids[kind][text], "text": text}))
            pair_ids.append(ids[kind][text])
        rows["qrels"].append((where, dict(zip(QRELS_COLUMNS, (*pair_ids, 1), strict=True))))
    return gather_rows(spec, f"pairs {path}", rows["d"], rows["q"], rows["qrels"], repeated=True)


def _read_hub(spec: TaskSpec, hub: RankingHub) -> RankingRows:
    def read(name: str) -> tuple[str, list[SourceRow]]:
        config, _, split = (None, "", name) if is_text_file(name) else name.partition("/")
        hub_data = HubData(
            id=hub.id, revision=hub.revision, config=config, columns={}, splits={"test": split or online.ONLY_SPLIT}
        )
        origin, rows = online.read(hub_data)
        return origin, rows["test"]

    read_files = {name: read(name) for name in dict.fromkeys((hub.corpus, hub.queries, hub.qrels))}
    places = ([(row.where, row.values) for row in read_files[name][1]] for name in (hub.corpus, hub.queries, hub.qrels))
    return gather_rows(spec, read_files[hub.corpus][0], *places)


def _generate(spec: TaskSpec, origin: str) -> RankingRows:
    from rbench import mini

    generated = {split: mini.rows(str(spec.generator), split) for split in mini.splits(str(spec.generator))}
    corpus, queries, qrels = (
        [(f"{origin} {split} row {i}", row) for i, row in enumerate(generated[split])]
        for split in ("corpus", "test", "qrels")
    )
    return gather_rows(spec, origin, corpus, queries, qrels)


# ------------------------------------------------------------------------------------------------ rows to queries


def gather_rows(
    spec: TaskSpec,
    origin: str,
    corpus: Iterable[PlacedRow],
    queries: Iterable[PlacedRow],
    qrels: Iterable[PlacedRow],
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
    documents = _collect_texts(spec, corpus, partial(_document_text, spec))
    query_texts = _collect_texts(spec, queries, lambda row: _read_text(spec, row, "text"))
    grades: dict[str, dict[str, int]] = {}
    for where, values in qrels:
        query, document, grade = (values.get(name) for name in QRELS_COLUMNS)
        for name, known, file_name in ((query, query_texts, "queries"), (document, documents, "corpus")):
            if str(name) not in known:
                raise ResourceError(
                    f"{where}: task `{spec.name}`: {name!r} is no id of the {file_name}; take the line out, "
                    "or add the id"
                )
        number, relevant = _parse_grade(spec, where, grade), grades.setdefault(str(query), {})
        if str(document) in relevant and not repeated:
            raise ResourceError(
                f"{where}: task `{spec.name}`: {query!r} and {document!r} have a grade above; leave one of the lines"
            )
        relevant[str(document)] = number
    dropped, examples, relevance = DroppedRows(), [], {}
    without_own = spec.ranking is not None and spec.ranking.without_own
    for name, (where, text) in query_texts.items():
        relevant = {
            document_name: grade_value
            for document_name, grade_value in grades.get(name, {}).items()
            if grade_value > 0 and not (without_own and document_name == name)
        }
        if not text or not relevant:
            dropped.add(f"test: {UNANSWERED if text else EMPTY}", where)
            continue
        relevance[name] = relevant
        examples.append(Example(name, (text,), 1))
    if not examples:
        raise ResourceError(
            f"task `{spec.name}`: no query of {origin} has a relevant document; see that the ids of qrels are those of "
            "queries and corpus"
        )
    # The order decides which of two documents with one score is ranked first. It enters the digest, and so keys.
    ids = sorted(documents, key=str.encode, reverse=True)
    collection = DocumentCollection(
        tuple(ids), tuple(documents[document_id][1] for document_id in ids), relevance, without_own
    )
    return RankingRows(origin, examples, collection, dropped, len(query_texts))


def _collect_texts(
    spec: TaskSpec, rows: Iterable[PlacedRow], read: Callable[[PlacedRow], str]
) -> dict[str, tuple[str, str]]:
    """Return the place and the text of each row by its id, `_id` or `id`."""
    texts: dict[str, tuple[str, str]] = {}
    for row in rows:
        where, values = row
        stated_id = values.get("_id", values.get("id"))
        if stated_id is None or isinstance(stated_id, bool) or not str(stated_id):
            raise ResourceError(f"{where}: task `{spec.name}`: the row has no `_id`; give each row one of its own")
        name = str(stated_id)
        check_unicode(name, f"{where}: `_id`")
        if name in texts:
            raise ResourceError(
                f"{where}: task `{spec.name}`: the id {name!r} stands at {texts[name][0]} too; give each row its own"
            )
        texts[name] = (where, read(row))
    return texts


def _document_text(spec: TaskSpec, row: PlacedRow) -> str:
    title = _read_text(spec, row, "title") if row[1].get("title") is not None else ""
    return f"{title} {_read_text(spec, row, 'text')}".strip()


def _read_text(spec: TaskSpec, row: PlacedRow, column: str) -> str:
    where, values = row
    text = values.get(column)
    if not isinstance(text, str):
        problem = f"`{column}` is {text!r}, not a string" if column in values else f"there is no `{column}`"
        raise ResourceError(f"{where}: task `{spec.name}`: {problem}; this row has {', '.join(values)}")
    check_unicode(text, f"{where}: `{column}`")
    return text.strip()


def _parse_grade(spec: TaskSpec, where: str, value: Any) -> int:
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
