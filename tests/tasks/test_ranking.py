"""Ranking tasks: BEIR's layout, pairs, the hub, and what is refused with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbench.errors import ResourceError
from rbench.schema import RankingData, RankingPairs, TaskSpec
from rbench.tasks import TaskData, open_task
from rbench.tasks.ranking import QRELS_COLUMNS, gather_rows
from tests.hub import Hub, hub, python  # noqa: F401

HEAD = "\t".join(QRELS_COLUMNS)


def beir(folder: Path, **changed: str) -> TaskSpec:
    """Two queries, three documents and a judgement of each; `changed` replaces the content of files."""
    files = {
        "corpus": '{"_id": "d1", "title": "Ants", "text": " are small."}\n{"_id": "d10", "text": "Bees."}\n'
        '{"_id": "d2", "title": "", "text": "Cats."}\n',
        "queries": '{"_id": "q1", "text": "what is small"}\n{"_id": "d2", "text": "what purrs"}\n'
        '{"_id": "q3", "text": "what sings"}\n',
        "qrels": f"{HEAD}\nq1\td1\t2\nq1\td10\t0\nd2\td2\t1\nd2\td10\t1\n",
    } | changed
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_text(files["corpus"])
    (folder / "queries.jsonl").write_text(files["queries"])
    (folder / "qrels" / "test.tsv").write_text(files["qrels"])
    return TaskSpec(name="mine", kind="ranking", columns=("query",), ranking=RankingData(folder=str(folder)))


def test_a_folder_in_the_layout_of_beir(tmp_path: Path) -> None:
    spec = beir(tmp_path)
    data = open_task(spec)
    assert [(one.id, one.texts) for one in data.split("test")] == [("q1", ("what is small",)), ("d2", ("what purrs",))]
    of = data.collection
    assert of is not None
    assert of.ids == ("d2", "d10", "d1")  # as trec_eval breaks ties: descending, byte by byte
    assert of.texts == ("Cats.", "Bees.", "Ants are small.")
    assert of.relevance == {"q1": {"d1": 2}, "d2": {"d2": 1, "d10": 1}}  # a grade of 0 is none
    assert data.dropped == {"test: no relevant document": 1} and "queries.jsonl:3" in str(data.where)
    assert data.read == {"test": 3} and data.sizes == {"test": 2} and of.find_left_out("d2") is None


def test_ids_with_quotes_are_read_as_a_writer_of_csv_writes_them(tmp_path: Path) -> None:
    with_quotes, doubled = 'the "d1" of old', '"the ""d1"" of old"'
    corpus = f'{{"_id": {json.dumps(with_quotes)}, "text": "Ants."}}\n{{"_id": "d2", "text": "Cats."}}\n'
    data = open_task(beir(tmp_path, corpus=corpus, qrels=f"{HEAD}\nq1\t{doubled}\t1\nq3\td2\t1\n"))
    assert data.collection is not None and data.collection.relevance["q1"] == {with_quotes: 1}


def test_a_documents_own_id_is_left_out_where_the_task_says_so(tmp_path: Path) -> None:
    spec = beir(tmp_path)
    own = spec.model_copy(update={"ranking": RankingData(folder=str(tmp_path), without_own=True)})
    data, plain = open_task(own), open_task(spec)
    assert data.collection is not None
    assert data.collection.relevance["d2"] == {"d10": 1} and data.collection.find_left_out("d2") == 0
    assert data.fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("corpus", "Bees.", "Wasps."),
        ("queries", "what is small", "what is tiny"),
        ("qrels", "q1\td1\t2", "q1\td1\t1"),
    ],
)
def test_whatever_decides_a_ranking_is_in_the_fingerprint(tmp_path: Path, file: str, before: str, after: str) -> None:
    found = open_task(beir(tmp_path))
    path = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": "qrels/test.tsv"}[file]
    text = (tmp_path / path).read_text()
    assert before in text
    (tmp_path / path).write_text(text.replace(before, after))
    other = open_task(beir(tmp_path, **{file: text.replace(before, after)}))
    assert other.split_fingerprint("test") != found.split_fingerprint("test")


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"qrels": f"{HEAD}\nq9\td1\t1\n"}, "test.tsv:2: "),
        ({"qrels": f"{HEAD}\nq1\td9\t1\n"}, "test.tsv:2: "),
        ({"qrels": f"{HEAD}\nq1\td1\t0.5\n"}, "test.tsv:2: "),
        ({"qrels": f"{HEAD}\nq1\td1\n"}, "test.tsv:2: "),
        ({"qrels": f"{HEAD}\nq1\td1\t1\nq1\td1\t2\n"}, "test.tsv:3: "),
        ({"qrels": f"{HEAD}\n"}, "folder "),
        ({"corpus": '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n'}, "corpus.jsonl:2: "),
        ({"corpus": '{"text": "x"}\n'}, "corpus.jsonl:1: "),
        ({"queries": '{"_id": "a", "body": "x"}\n'}, "queries.jsonl:1: "),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(tmp_path: Path, changed: dict[str, str], place: str) -> None:
    with pytest.raises(ResourceError) as caught:
        open_task(beir(tmp_path, **changed))
    assert place in str(caught.value)


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    spec = beir(tmp_path / "set")
    (tmp_path / "set" / "queries.jsonl").unlink()
    with pytest.raises(ResourceError) as caught:
        open_task(spec)
    assert "queries.jsonl is missing" in str(caught.value)
    gone = TaskSpec(name="mine", kind="ranking", columns=("query",), ranking=RankingData(folder="nowhere"))
    with pytest.raises(ResourceError) as caught:
        open_task(gone, [tmp_path])
    assert "nowhere" in str(caught.value)


def test_pairs_join_equal_texts(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    rows = [("is it", "yes"), ("is it ", "no"), ("was it", "yes"), ("is it", "yes")]
    (tmp_path / "f" / "rows.jsonl").write_text("".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in rows))
    pairs = RankingPairs(source="f/rows", query="a", document="b")
    data = open_task(
        TaskSpec(name="mine", kind="ranking", columns=("query",), ranking=RankingData(pairs=pairs)), [tmp_path]
    )
    assert [(one.id, one.texts[0]) for one in data.split("test")] == [("q0", "is it"), ("q1", "was it")]
    assert data.collection is not None and data.collection.ids == ("d1", "d0")
    assert data.collection.relevance == {"q0": {"d0": 1, "d1": 1}, "q1": {"d0": 1}}


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)


@given(
    documents=st.dictionaries(NAMES, st.text("ab ", max_size=3), min_size=1, max_size=6),
    queries=st.dictionaries(NAMES, st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4),
    draw=st.data(),
)
def test_any_judgements_are_kept_as_they_are(
    documents: dict[str, str], queries: dict[str, str], draw: st.DataObject
) -> None:
    pairs = st.tuples(st.sampled_from(sorted(queries)), st.sampled_from(sorted(documents)))
    grades = draw.draw(st.dictionaries(pairs, st.integers(-1, 3)))
    spec = TaskSpec(name="mine", kind="ranking", columns=("query",), ranking=RankingData(folder="x"))

    def read() -> Any:
        return gather_rows(
            spec,
            "here",
            [("c", {"_id": name, "text": text}) for name, text in documents.items()],
            [("q", {"_id": name, "text": text}) for name, text in queries.items()],
            [("r", dict(zip(QRELS_COLUMNS, (*pair, grade), strict=True))) for pair, grade in grades.items()],
        )

    wanted: dict[str, dict[str, int]] = {}
    for (query, document), grade in grades.items():
        if grade > 0:
            wanted.setdefault(query, {})[document] = grade
    if not wanted:
        with pytest.raises(ResourceError):
            read()
        return
    found = read()
    assert found.collection.relevance == wanted
    assert [one.id for one in found.queries] == [name for name in queries if name in wanted]
    assert [*found.collection.ids] == sorted(documents, key=str.encode, reverse=True)
    assert sum(found.dropped.counts.values()) == len(queries) - len(wanted)


def test_the_embedded_worlds_relevance_is_the_oracles() -> None:
    from rbench.mini.ranking import is_relevant, keeps_relevant

    data = mini_ranking()
    of, queries = data.collection, data.split("test")
    assert of is not None and len(of.ids) == 1000 and len(queries) == 200
    for query in queries[::20]:
        found = {name for name, text in zip(of.ids, of.texts, strict=True) if is_relevant(query.texts[0], text)}
        assert found == of.relevance[query.id].keys()
        assert keeps_relevant(query.texts[0], query.texts[0], of.texts) == 1
    assert keeps_relevant("No such words.", queries[0].texts[0], of.texts) is None
    assert keeps_relevant(queries[1].texts[0], queries[0].texts[0], of.texts) == 0


def mini_ranking() -> TaskData:
    return open_task(TaskSpec(name="mini", kind="ranking", columns=("query",), generator="mini-ranking"))


CODE = """
import json, sys
from rbench.schema import RankingData, RankingHub, TaskSpec
from rbench.tasks import open_task
hub = RankingHub(**json.loads(sys.argv[1]))
data = open_task(TaskSpec(name="mine", kind="ranking", columns=("query",), ranking=RankingData(hub=hub)))
print(json.dumps([data.origin, data.sizes, data.collection.ids, data.collection.relevance]))
"""


def test_a_set_of_the_hub_by_its_configurations_and_revision(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    readme = "---\nconfigs:\n" + "".join(
        f"- config_name: {config}\n  data_files:\n  - split: {split}\n    path: {path}\n"
        for config, split, path in [
            ("default", "test", "qrels/test.jsonl"),
            ("corpus", "corpus", "corpus.jsonl"),
            ("queries", "queries", "queries.jsonl"),
        ]
    )
    files = {
        "README.md": (readme + "---\n").encode(),
        "qrels/test.jsonl": b'{"query-id": "q1", "corpus-id": "d2", "score": 1.0}\n',
        "corpus.jsonl": b'{"_id": "d1", "title": "", "text": "x"}\n{"_id": "d2", "title": "t", "text": "y"}\n',
        "queries.jsonl": b'{"_id": "q1", "text": "what"}\n',
    }
    commit = hub.add("dataset", "mteb/little", files)
    asked = json.dumps({"id": "mteb/little", "revision": commit})
    origin, sizes, ids, relevance = python(CODE, hub.env(tmp_path), asked)
    assert origin == f"hub mteb/little@{commit} (corpus)"
    assert (sizes, ids, relevance) == ({"test": 1}, ["d2", "d1"], {"q1": {"d2": 1}})
