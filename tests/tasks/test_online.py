"""Data from the hub: the real client against a small server, in a process of its own."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.hub import Hub, hub, python  # noqa: F401

OPEN = """
import json, sys
from rbench.errors import ResourceError
from rbench.schema import TaskSpec
from rbench.tasks import locate_task, open_task

def opened(spec):
    try:
        before = locate_task(TaskSpec(**spec))
        data = open_task(TaskSpec(**spec))
    except ResourceError as error:
        return {"error": str(error)}
    first = {name: data.split(name)[:2] for name in data.sizes}
    return {"before": before, "origin": data.origin, "sizes": data.sizes, "dropped": data.dropped, "where": data.where,
            "first": first, "fingerprint": data.fingerprint}

print(json.dumps([opened(spec) for spec in json.loads(sys.argv[1])]))
"""
NO_TORCH = "assert 'torch' not in sys.modules\n"


def opened(env: dict[str, str], *specs: dict[str, Any]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = python(OPEN, env, json.dumps(specs))
    return answer


def task(repo: str, revision: str, **more: Any) -> dict[str, Any]:
    splits = {"train": "train", "validation": "train[holdout]", "test": "test"}
    source = {"id": repo, "revision": revision, "splits": splits, "columns": {"text": "sentence"}} | more
    return {"name": "toy", "kind": "single", "columns": ["text"], "labels": ["bad", "good"], "hub": source}


def jsonl(n: int, word: str) -> bytes:
    return "".join(json.dumps({"sentence": f"{word} {i}", "label": i % 2}) + "\n" for i in range(n)).encode()


def parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


REVIEWS = {"README.md": b"---\nlicense: mit\n---\n", "train.jsonl": jsonl(40, "seen"), "test.jsonl": jsonl(6, "new")}


def test_pinned_data_is_downloaded_once_and_read_again_without_asking(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    hub.add("dataset", "someone/reviews", {**REVIEWS, "test.jsonl": jsonl(3, "later")})
    (first,) = python(f"{OPEN}{NO_TORCH}", hub.env(tmp_path), json.dumps([task("someone/reviews", commit)]), fresh=True)
    assert first["origin"] == f"hub someone/reviews@{commit}"
    assert first["sizes"] == {"train": 36, "validation": 4, "test": 6}
    assert first["first"]["test"] == [["test:0", ["new 0"], 0], ["test:1", ["new 1"], 1]]
    assert first["before"] == f"{first['origin']}, not downloaded yet"
    assert any(request.startswith("GET /datasets/someone/reviews/resolve/") for request in hub.requests)
    hub.requests.clear()
    again, offline = (opened(hub.env(tmp_path, **more), task("someone/reviews", commit))[0] for more in ({}, OFFLINE))
    assert again == offline == first | {"before": f"{first['origin']}, in the cache"}
    assert hub.requests == []


OFFLINE = {"HF_HUB_OFFLINE": "1"}


def test_a_branch_is_resolved_and_offline_the_origin_says_what_was_cached(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    old = hub.add("dataset", "someone/reviews", REVIEWS)
    (first,) = opened(hub.env(tmp_path), task("someone/reviews", "main"))
    assert first["origin"].endswith(old)
    new = hub.add("dataset", "someone/reviews", {**REVIEWS, "test.jsonl": jsonl(3, "later")})
    (offline,) = opened(hub.env(tmp_path, **OFFLINE), task("someone/reviews", "main"))
    assert offline == first | {"before": f"{first['origin']}, in the cache"}
    pinned, online = opened(hub.env(tmp_path, **OFFLINE), task("someone/reviews", new), task("no/where", "main"))
    assert f"the cache holds someone/reviews@{old}, not {new}" in pinned["error"]
    assert "no/where" in online["error"] and "HF_HUB_OFFLINE" in online["error"]
    (updated,) = opened(hub.env(tmp_path), task("someone/reviews", "main"))
    assert updated["origin"].endswith(new)
    assert updated["sizes"]["test"] == 3
    assert updated["fingerprint"] != first["fingerprint"]


def test_a_split_from_another_repository_has_its_own_columns_labels_and_commit(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    """The test split lies elsewhere, in other columns, and its revision is a branch, which is resolved and recorded."""
    trained = hub.add("dataset", "someone/reviews", REVIEWS)
    rows = "".join(
        json.dumps({"text": text, "mood": mood}) + "\n"
        for text, mood in [("a", "POS"), ("b", "NEG"), ("seen 3", "NEG")]
    )
    tested = hub.add("dataset", "another/labelled", {"test.jsonl": rows.encode(), "train.jsonl": rows.encode()})
    other = {
        "id": "another/labelled",
        "revision": "main",
        "split": "test",
        "columns": {"text": "text", "label": "mood"},
    }
    splits = {"train": "train", "validation": "train[holdout]"}
    spec = task(
        "someone/reviews", trained, splits=splits, elsewhere={"test": other | {"label_map": {"NEG": 0, "POS": 1}}}
    )
    (first,) = opened(hub.env(tmp_path), spec)
    assert first["origin"] == f"hub someone/reviews@{trained}; test: hub another/labelled@{tested}"
    assert first["before"] == (
        f"hub someone/reviews@{trained}, not downloaded yet; test: hub another/labelled@{tested}, not downloaded yet"
    )
    assert first["first"]["test"] == [["test:0", ["a"], 1], ["test:1", ["b"], 0]]
    assert first["dropped"] == {"train: also in test": 1} and first["sizes"] == {
        "train": 35,
        "validation": 4,
        "test": 3,
    }
    later = hub.add("dataset", "another/labelled", {"test.jsonl": rows.replace("a", "c").encode()})
    (offline,) = opened(hub.env(tmp_path, **OFFLINE), spec)
    assert offline["origin"] == first["origin"] and offline["fingerprint"] == first["fingerprint"]
    (updated,) = opened(hub.env(tmp_path), spec)
    assert updated["origin"].endswith(f"another/labelled@{later}")
    assert updated["fingerprint"] != first["fingerprint"]


def test_what_another_repository_lacks_is_said_with_its_name(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    other = {"revision": commit, "split": "dev", "columns": {"text": "sentence"}}
    gone, lacking = (
        task("someone/reviews", commit, splits={"train": "train"}, elsewhere={"test": other | {"id": name}})
        for name in ("no/where", "someone/reviews")
    )
    missing, wrong = opened(hub.env(tmp_path), gone, lacking)
    assert "no dataset no/where" in missing["error"] and "--data" in missing["error"]
    assert 'Unknown split "dev"' in wrong["error"] and "'train', 'test'" in wrong["error"]


def test_configurations_parquet_and_labels_as_glue_and_snli_have_them(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    card = b"""---
configs:
- config_name: nli
  data_files:
  - {split: train, path: nli/train-*}
  - {split: test, path: nli/test-*}
- config_name: words
  data_files:
  - {split: train, path: words/train-*}
  - {split: test, path: words/test-*}
---
"""
    pairs = parquet(premise=["a", "b", None, "c"], hypothesis=["x", "y", "z", ""], label=[0, -1, 1, 2])
    named = parquet(sentence=["one ", "two", "three"], label=["POS", "NEG", "ODD"])
    files = {"nli/train-0.parquet": pairs, "nli/test-0.parquet": pairs}
    more = {"words/train-0.parquet": named, "words/test-0.parquet": parquet(sentence=["four"], label=["NEG"])}
    commit = hub.add("dataset", "nyu/glue", {"README.md": card, **files, **more})
    plain = {"train": "train", "test": "test"}
    nli = task("nyu/glue", commit, config="nli", splits={"test": "test"}, columns={})
    nli |= {"kind": "nli", "columns": ["premise", "hypothesis"], "labels": ["entailment", "neutral", "contradiction"]}
    words = task("nyu/glue", commit, config="words", splits=plain, label_map={"NEG": 0, "POS": 1})
    found, mapped, missing = opened(hub.env(tmp_path), nli, words, task("nyu/glue", commit, config="none"))
    assert "error" not in found, found
    assert found["dropped"] == {"test: label outside the map": 1, "test: text is empty": 2}
    assert found["where"]["test: label outside the map"] == ["nyu/glue test row 1"]
    assert found["first"]["test"] == [["test:0", ["a", "x"], 0]]
    assert found["origin"] == f"hub nyu/glue@{commit} (nli)"
    assert mapped["first"] == {
        "train": [["train:0", ["one"], 1], ["train:1", ["two"], 0]],
        "test": [["test:0", ["four"], 0]],
    }
    assert mapped["dropped"] == {"train: label outside the map": 1}
    assert "'none' not found" in missing["error"] and "--data" in missing["error"]


def test_files_of_a_repository_that_datasets_cannot_read(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    """A repository of files of several kinds, of which one is the corpus."""
    files = {"wiki.txt": "Erste Zeile.\n\nA second\u2028one.\r\n".encode(), "nli.csv": b"a,b\n", "more.tar": b"\0"}
    old = hub.add("dataset", "someone/corpora", files)
    corpus = task("someone/corpora", "main", splits={"train": "wiki.txt"}, columns={}) | {
        "kind": "unlabelled",
        "labels": [],
    }
    (first,) = opened(hub.env(tmp_path), corpus)
    assert first["origin"] == f"hub someone/corpora@{old}, wiki.txt"
    assert first["first"] == {"train": [["train:0", ["Erste Zeile."], None], ["train:1", ["A second\u2028one."], None]]}
    assert first["before"] == f"hub someone/corpora@{old}, not downloaded yet"
    assert not any(request.endswith(".csv") for request in hub.requests)
    (offline,) = opened(hub.env(tmp_path, **OFFLINE), corpus)
    assert offline == first | {"before": f"hub someone/corpora@{old}, in the cache"}
    pinned = corpus | {"hub": corpus["hub"] | {"revision": old}}
    new = hub.add("dataset", "someone/corpora", files | {"wiki.txt": b"Another.\n"})
    same, other, gone, nowhere = opened(
        hub.env(tmp_path),
        pinned,
        corpus,
        corpus | {"hub": corpus["hub"] | {"splits": {"train": "no.txt"}}},
        corpus | {"hub": corpus["hub"] | {"id": "no/where"}},
    )
    assert same["fingerprint"] == first["fingerprint"]
    assert other["origin"].startswith(f"hub someone/corpora@{new}") and other["fingerprint"] != first["fingerprint"]
    assert "someone/corpora, file no.txt, on the hub" in gone["error"]
    assert "no dataset no/where" in nowhere["error"]


def test_what_is_not_there_is_said_in_a_sentence(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    script = hub.add("dataset", "someone/code", {"code.py": b"raise SystemExit('never run')"})
    cases = {
        "no dataset no/where, or it is private": task("no/where", "main"),
        "has someone/reviews, but no revision 'v9'": task("someone/reviews", "v9"),
        "someone/reviews on the hub: Unknown split": task("someone/reviews", commit, splits={"test": "dev"}),
        "needs a column `text`; this row has sentence, label": task("someone/reviews", commit, columns={}),
        "made by a script, and rbench runs no code": task("someone/code", script),
    }
    for words, answer in zip(cases, opened(hub.env(tmp_path), *cases.values()), strict=True):
        assert words in answer["error"], answer


def test_a_hub_that_does_not_answer_is_asked_once_and_briefly(tmp_path: Path) -> None:
    env = Hub("http://127.0.0.1:9").env(tmp_path)
    first, second = opened(env, task("someone/one", "main"), task("someone/two", "0" * 40))
    assert "http://127.0.0.1:9 cannot be reached" in first["error"]
    assert "someone/two is not in the cache" in second["error"]


def test_a_file_is_not_asked_for_where_the_hub_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would ask for it six times, and print a traceback's worth of words each time."""
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    from rbench.errors import ResourceError
    from rbench.schema import HubData
    from rbench.system import hub as client
    from rbench.tasks import online

    def unreachable(*_: object) -> str:
        raise client.HubUnreachable("http://x cannot be reached (refused)")

    def download(*_: object, local_files_only: bool, **__: object) -> str:
        assert local_files_only
        raise LocalEntryNotFoundError("not there")

    monkeypatch.setattr(client, "ask", unreachable)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    corpus = HubData(id="someone/corpora", revision="main", splits={"train": "wiki.txt"}, columns={})
    with pytest.raises(ResourceError) as caught:
        online.read(corpus)
    assert "wiki.txt" in str(caught.value) and "http://x" in str(caught.value)


def test_a_text_may_be_made_of_several_columns(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    rows = parquet(title=["E. D. Abbott ", "Only a title"], content=[" A coachbuilder.", ""], label=[0, 1])
    commit = hub.add("dataset", "someone/pages", {"test.parquet": rows})
    columns = {"text": "title + content", "label": "label"}
    (found,) = opened(hub.env(tmp_path), task("someone/pages", commit, splits={"test": "test"}, columns=columns))
    assert found["first"]["test"] == [["test:0", ["E. D. Abbott A coachbuilder."], 0], ["test:1", ["Only a title"], 1]]


HEAD = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"


def archive(**tables: str) -> bytes:
    """A tar archive of tables, each in a folder of folders, with a link that must not be followed."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, text in tables.items():
            one = tarfile.TarInfo(f"downstream/SICK/{name}.txt")
            one.size = len(text.encode())
            tar.addfile(one, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("elsewhere/SICK/test.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return file.getvalue()


def pairs(repo: str, commit: str, member: str = "SICK/test.txt") -> dict[str, Any]:
    columns = {"sentence1": "sentence_A", "sentence2": "sentence_B", "score": "relatedness_score"}
    source = {"id": repo, "revision": commit, "splits": {"test": f"data.tar/{member}"}, "columns": columns}
    return {
        "name": "toy",
        "kind": "sts",
        "columns": ["sentence1", "sentence2"],
        "metric": "spearman",
        "scale": [1, 5],
        "hub": source,
    }


def test_a_split_may_be_a_table_in_an_archive(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    text = f'{HEAD}1\tA dog "runs\tA cat sits\t1.5\tNEUTRAL\r\n3\tTwo men\tTwo people\t4\tENTAILMENT\n'
    commit = hub.add("dataset", "someone/sets", {"data.tar": archive(test=text, train=HEAD)})
    (found,) = opened(hub.env(tmp_path), pairs("someone/sets", commit))
    assert found["sizes"] == {"test": 2}
    assert found["first"]["test"] == [
        ["test:0", ['A dog "runs', "A cat sits"], 1.5],
        ["test:1", ["Two men", "Two people"], 4.0],
    ]
    assert found["origin"].startswith(f"hub someone/sets@{commit}")


@pytest.mark.parametrize(
    ("files", "member", "message"),
    [
        ({"test": HEAD}, "SICK/trial.txt", "data.tar/SICK/trial.txt: the archive has 0 files with this path"),
        ({"test": f"{HEAD}1\tA dog\n"}, "SICK/test.txt", "data.tar/SICK/test.txt:2: "),
    ],
)
def test_a_wrong_table_in_an_archive_is_an_error(
    hub: Hub,  # noqa: F811
    tmp_path: Path,
    files: dict[str, str],
    member: str,
    message: str,
) -> None:
    commit = hub.add("dataset", "someone/sets", {"data.tar": archive(**files)})
    (found,) = opened(hub.env(tmp_path), pairs("someone/sets", commit, member))
    assert message in found["error"]


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
def test_the_server_answers_as_the_hub_does(verb: str, hub: Hub) -> None:  # noqa: F811
    import requests

    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    answer = requests.request(verb, f"{hub.url}/datasets/someone/reviews/resolve/main/test.jsonl", timeout=5)
    assert answer.headers["X-Repo-Commit"] == commit
    assert answer.content == (REVIEWS["test.jsonl"] if verb == "GET" else b"")
    missing = requests.request(verb, f"{hub.url}/datasets/someone/reviews/resolve/main/none", timeout=5)
    assert (missing.status_code, missing.headers["X-Error-Code"]) == (404, "EntryNotFound")
