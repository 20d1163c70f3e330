"""Reads scores of single items from the files of other tools: what `rbench compare A B` compares.

| file                              | an item is known by       | its score                                     |
|-----------------------------------|---------------------------|-----------------------------------------------|
| samples of lm-eval (JSON Lines)   | `doc_id`                  | one of the names in `metrics`, of one filter  |
| predictions of mteb (JSON)        | its place, or the query   | with `gold`: whether it is right, or nDCG@10  |
| scores by query (JSON)            | the query                 | the value, or one of several                  |
| log of inspect (JSON, or as CSV)  | `id`, its epochs averaged | one of `scores`; C is 1, I is 0, P is 0.5     |
| log of TextAttack (CSV)           | its original text         | `aua`, `asr` or `queries`                     |
| any other CSV, TSV, JSON (Lines)  | `id`, or the first column | `score`, or the first other column of numbers |
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.attack_log import is_textattack_log, of_textattack
from rbench.config.registry import unknown_message
from rbench.config.tabular import FileTable, open_place, parse_object, read_table_text, suffix_of, text_of_label
from rbench.errors import ResourceError

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl")
"""The files of scores. A RUN is a folder or a `.zip`."""
IDS = ("id", "doc_id", "sample_id", "example_id", "item_id", "query-id", "query_id", "qid", "item", "index", "idx")
"""Columns that say which item a row is of, the first that a file has."""
SCORES = ("score", "value", "correct", "is_correct", "right", "acc", "accuracy")
"""Columns that are taken for the score, the first that a file has."""
CLUSTERS = ("cluster", "document", "document_id", "group")
"""Columns that are taken for clusters, the first that a file has."""
SEED = "seed"
REPEATS = ("epoch", "repeat")
GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "TRUE": 1.0, "FALSE": 0.0}
"""What inspect writes for correct, incorrect, partly correct and no answer; and truth in a CSV file."""
OF_LOG = ("aua", "asr", "queries")
CUT = 10
"""Documents of a ranking that nDCG counts, as mteb's main score of retrieval does."""


class Item(NamedTuple):
    """A score of one item."""

    id: str
    value: float
    cluster: str | None = None
    seed: str | None = None
    content: str | None = None
    """The hash of what was asked, where the file states one: equal ids of other content are other items."""


@dataclass(frozen=True)
class ItemScores:
    """The scores of a file, in its order."""

    name: str
    """The file, for people."""
    score: str
    """What was read as the score."""
    items: tuple[Item, ...] = field(repr=False)
    cluster: str | None = None
    """The column of the clusters."""
    notes: tuple[str, ...] = ()
    """What was guessed, for the user to read."""


def is_scores(path: Path) -> bool:
    """Whether a file holds scores, by its name."""
    name = path.name.lower().removesuffix(".gz")
    return path.is_file() and name.endswith(SUFFIXES)


def files_of_scores(folder: Path) -> list[Path]:
    """Return the samples that lm-eval wrote into a folder or the folders of its models; none where it is a RUN."""
    if not folder.is_dir() or (folder / "plan.json").exists():
        return []
    return sorted([*folder.glob("samples_*.jsonl"), *folder.glob("*/samples_*.jsonl")])


def read_item_scores(
    path: Path, *, score: str | None = None, cluster: str | None = None, gold: Path | None = None
) -> ItemScores:
    """Read the scores of a file.

    Args:
        path: the file, in one of the forms above.
        score: which score is meant where there are several; of lm-eval also with its filter, such as
            `exact_match,strict-match`.
        cluster: the column of clusters; None: one of CLUSTERS, where there is one.
        gold: of mteb's predictions: a table with the label of each row of the split, in its order, or qrels.

    Raises:
        ResourceError: the file cannot be read, has no such column, or a value is no number; names `file:line`. `gold`
            is given, and the file holds no predictions of mteb.
    """
    if suffix_of(path.name) == ".json" and (nested_scores := _nested(path, score, gold)) is not None:
        return nested_scores
    if gold is not None:
        raise ResourceError(f"{path}: --gold is for predictions of mteb, and this file has scores of its own")
    table = open_place(path).tables[0]
    if not table.rows:
        raise ResourceError(f"{path}: the file has no rows")
    if is_textattack_log(table):
        return _of_log(table, score)
    if "doc_id" in table.columns and ("filtered_resps" in table.columns or "resps" in table.columns):
        return _of_lm_eval(table, score, cluster)
    return of_table(table, score, cluster)


def number_of(value: Any, where: str) -> float | None:
    """Return a score as a number; None where it is empty. Raises ResourceError where it is no finite number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and value.strip().upper() in GRADES:
        return GRADES[value.strip().upper()]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ResourceError(f"{where}: the score is {str(value)[:40]!r}, and not a finite number")
    return number


def _is_number(value: Any) -> bool:
    try:
        return number_of(value, "") is not None
    except ResourceError:
        return False


def of_table(table: FileTable, score: str | None, cluster: str | None) -> ItemScores:
    """Return the scores of a table; see `read_item_scores`."""
    columns, notes = table.columns, []
    key = next((name for name in IDS if name in columns), columns[0])
    cluster_column = _first(columns, CLUSTERS) if cluster is None else _known(table.path, "cluster", cluster, columns)
    seed = SEED if SEED in columns and cluster_column != SEED else None
    others = {key, cluster_column, seed, *REPEATS} - {None}
    if score is None:
        graded = [name for name in columns if name.startswith("score_")]  # as inspect names them
        numeric = [name for name in columns if name not in others and all(_is_number(v) for v in _values(table, name))]
        named = _first(columns, SCORES)
        candidates = [named] if named is not None else graded or numeric
        if not candidates:
            raise ResourceError(
                f"{table.path}: no column holds scores alone; it has {', '.join(columns)}. Say which: --score NAME"
            )
        score, *further = candidates
        if further:
            notes.append(f"{table.path}: {score} was read as the score; there is also {', '.join(further)} (--score)")
    else:
        _known(table.path, "score", score, columns)
    items = []
    for where, values in table.rows:
        if (value := number_of(values.get(score), where)) is not None:
            if cluster_column is not None and not text_of_label(values.get(cluster_column)):
                raise ResourceError(f"{where}: it has no {cluster_column}, in which items of one cluster agree")
            group, drawn = (str(values.get(name)) if name is not None else None for name in (cluster_column, seed))
            items.append(Item(str(values.get(key)), value, group, drawn))
    return ItemScores(str(table.path), score, tuple(items), cluster_column, tuple(notes))


def _of_lm_eval(table: FileTable, score: str | None, cluster: str | None) -> ItemScores:
    wanted, _, named_filter = (score or "").partition(",")
    filters = list(dict.fromkeys(str(row.values.get("filter", "none")) for row in table.rows))
    stated = table.rows[0].values.get("metrics")
    first = table.rows[0].values
    metrics = [str(name) for name in stated] if isinstance(stated, list) else []
    metrics = metrics or [name for name, value in first.items() if name != "doc_id" and isinstance(value, int | float)]
    metrics = [name for name in metrics if _is_number(first.get(name))]
    metric = _known(table.path, "score", wanted or next(iter(metrics), ""), metrics)
    chosen = _known(table.path, "filter", named_filter or filters[0], filters)
    others = [f"{m},{f}" for m in metrics for f in filters if (m, f) != (metric, chosen)]
    notes = (
        [f"{table.path}: {metric},{chosen} was read as the score; there is also {', '.join(others)} (--score)"]
        if others and score is None
        else []
    )
    items = []
    for where, values in table.rows:
        if str(values.get("filter", "none")) == chosen and (v := number_of(values.get(metric), where)) is not None:
            doc = values.get("doc") if isinstance(values.get("doc"), Mapping) else {}
            group = None if cluster is None else str(_cluster_of(values, doc, cluster, where))
            content = values.get("doc_hash")
            items.append(Item(str(values["doc_id"]), v, group, content=None if content is None else str(content)))
    return ItemScores(str(table.path), f"{metric},{chosen}", tuple(items), cluster, tuple(notes))


def _cluster_of(values: Mapping[str, Any], doc: Any, cluster: str, where: str) -> Any:
    """Return the cluster of a sample of lm-eval: a field of its own, or of the document that it quotes."""
    fields = {**doc, **values}
    return fields[_known(where, "cluster", cluster, fields)]


def _of_log(table: FileTable, score: str | None) -> ItemScores:
    """Return what an attack did to each text of a log of TextAttack."""
    score = _known(table.path, "score", score or "aua", OF_LOG)
    notes = [] if score != "aua" else [f"{table.path}: {score} (1: right before and after the attack) was read"]
    seen: dict[str, int] = {}
    items = []
    for attack in of_textattack(table).attacks:
        text = "\n".join(attack.texts_before)
        seen[text] = seen.get(text, 0) + 1
        if attack.status == "errored" or (score != "aua" and attack.status == "skipped"):
            continue
        value = {
            "aua": float(attack.status == "failed"),
            "asr": float(attack.status == "succeeded"),
        }.get(score, attack.num_queries)
        if value is not None:
            items.append(Item(f"{text} ({seen[text]})" if seen[text] > 1 else text, value))
    return ItemScores(str(table.path), score, tuple(items), notes=tuple(notes))


def _nested(path: Path, score: str | None, gold: Path | None) -> ItemScores | None:
    """Return what a JSON file with one object holds; None where it is a table."""
    text = read_table_text(path).strip()
    if not text.startswith("{"):
        return None
    try:
        content = parse_object(text, str(path))
    except ResourceError:
        return None  # one object a line
    if isinstance(content.get("samples"), list) and "eval" in content:
        return _of_inspect(path, content["samples"], score)
    if "mteb_model_meta" in content:
        return _of_mteb(path, content, gold)
    if content and all(_is_number(value) for value in content.values()):
        items = [Item(key, number_of(value, f"{path}: {key}") or 0.0) for key, value in content.items()]
        return ItemScores(str(path), "score", tuple(items))
    if content and all(isinstance(value, Mapping) for value in content.values()):
        names = [name for name, value in next(iter(content.values())).items() if _is_number(value)]
        chosen = _chosen(path, names, score)
        items = [_item_of(path, key, value, chosen) for key, value in content.items()]
        notes = _also(path, chosen, names) if score is None else ()
        return ItemScores(str(path), chosen, tuple(items), notes=notes)
    return None


def _item_of(path: Path, key: str, values: Mapping[str, Any], score: str) -> Item:
    value = number_of(values.get(score), f"{path}: {key}")
    if value is None:
        raise ResourceError(f"{path}: {key}: it has no {score}")
    return Item(key, value)


def _chosen(path: Path, names: Sequence[str], score: str | None) -> str:
    return _known(path, "score", score or next(iter(names), ""), names)


def _also(path: Path, score: str, names: Sequence[str]) -> tuple[str, ...]:
    others = ", ".join(name for name in names if name != score)
    return (f"{path}: {score} was read as the score; there is also {others} (--score)",) if others else ()


def _of_inspect(path: Path, samples: Sequence[Any], score: str | None) -> ItemScores:
    scored = [sample for sample in samples if isinstance(sample, Mapping) and isinstance(sample.get("scores"), Mapping)]
    names = list(dict.fromkeys(name for sample in scored for name in sample["scores"]))
    chosen = _chosen(path, names, score)
    items = []
    for sample in scored:
        graded = sample["scores"].get(chosen)
        value = graded.get("value") if isinstance(graded, Mapping) else None
        where = f"{path}: sample {sample.get('id')}"
        if (number := number_of(value, where)) is not None:
            items.append(Item(str(sample.get("id")), number))
    notes = _also(path, chosen, names) if score is None else ()
    return ItemScores(str(path), chosen, tuple(items), notes=notes)


def _of_mteb(path: Path, content: Mapping[str, Any], gold: Path | None) -> ItemScores:
    """Score mteb's predictions: each prediction is right or wrong, each ranking has its nDCG@10."""
    if gold is None:
        raise ResourceError(
            f"{path}: mteb's predictions say nothing of what is right. Name a table with the label of each row, in the "
            "order of the split, or the qrels of the ranking: --gold FILE"
        )
    truth = open_place(gold).tables[0]
    splits = [
        (f"{subset}/{split}", predicted)
        for subset, predictions in content.items()
        if subset != "mteb_model_meta"
        for split, predicted in predictions.items()
    ]
    if len(splits) != 1:
        names = ", ".join(name for name, _ in splits)
        raise ResourceError(f"{path}: it has predictions of {names or 'no split'}; one file of one split is compared")
    ((name, predicted),) = splits
    if isinstance(predicted, Mapping) and all(isinstance(predictions, Mapping) for predictions in predicted.values()):
        return ItemScores(str(path), f"ndcg@{CUT}", tuple(_ranked(path, predicted, truth)))
    rounds = predicted if isinstance(predicted, list) and predicted and isinstance(predicted[0], list) else [predicted]
    if not all(isinstance(predictions, list) for predictions in rounds):
        raise ResourceError(
            f"{path}: {name} holds {type(predicted).__name__}s; predictions of classifications and rankings have a "
            "score for each item, and the correlation of an STS task has not"
        )
    return ItemScores(str(path), "correct", tuple(_classified(path, rounds, truth)))


def _classified(path: Path, rounds: Sequence[Sequence[Any]], truth: FileTable) -> Iterator[Item]:
    column = next((name for name in ("label", "labels", "target", "gold") if name in truth.columns), truth.columns[-1])
    numbers = {name: str(number) for number, name in enumerate(truth.names.get(column, ()))}
    labels = [numbers.get(label := str(row.values.get(column)), label) for row in truth.rows]
    for number, predicted in enumerate(rounds):
        if len(predicted) != len(labels):
            raise ResourceError(f"{path}: it has {len(predicted)} predictions, and {truth.path} has {len(labels)} rows")
        for i, (answer, label) in enumerate(zip(predicted, labels, strict=True)):
            yield Item(str(i), float(str(answer) == label), seed=str(number) if len(rounds) > 1 else None)


def _ranked(path: Path, run: Mapping[str, Mapping[str, float]], truth: FileTable) -> Iterator[Item]:
    from rbench.score.ranking import ranking_scores

    query_column = _first(truth.columns, ("query-id", "query_id"))
    document_column = _first(truth.columns, ("corpus-id", "corpus_id"))
    if query_column is None or document_column is None or "score" not in truth.columns:
        raise ResourceError(f"{truth.path}: qrels have the columns query-id, corpus-id and score")
    relevance: dict[str, dict[str, int]] = {}
    for where, values in truth.rows:
        grade = number_of(values["score"], where)
        if grade:
            relevance.setdefault(str(values[query_column]), {})[str(values[document_column])] = int(grade)
    queries = [query for query in relevance if query in run]
    ndcg = ranking_scores(run, relevance, queries, CUT)["ndcg"]
    return (Item(query, float(value)) for query, value in zip(queries, ndcg, strict=True))


def _first(names: Iterable[str], wanted: Iterable[str]) -> str | None:
    available = set(names)
    return next((name for name in wanted if name in available), None)


def _known(place: Path | str, what: str, name: str, available: Collection[str]) -> str:
    """Return a name that is available. Raises ResourceError, with the nearest names, where it is not."""
    if name not in available:
        raise ResourceError(f"{place}: {unknown_message(what, name, available)}")
    return name


def _values(table: FileTable, column: str) -> list[Any]:
    return [row.values.get(column) for row in table.rows]
