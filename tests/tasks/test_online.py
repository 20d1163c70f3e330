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


OFFLINE = {"HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_data_is_downloaded_once_and_a_branch_is_asked_for_again(hub: Hub, tmp_path: Path, fresh: bool) -> None:  # noqa: F811
    """A commit, a branch, a test split from another repository and a file that `datasets` cannot read.

    A `fresh` process shows that reading them loads no PyTorch.
    """
    pinned = hub.add("dataset", "someone/pinned", REVIEWS)
    hub.add("dataset", "someone/pinned", {**REVIEWS, "test.jsonl": jsonl(3, "later")})
    old = hub.add("dataset", "someone/reviews", REVIEWS)
    # The test split lies elsewhere, in other columns.
    moods = [("a", "POS"), ("b", "NEG"), ("seen 3", "NEG")]
    rows = "".join(json.dumps({"text": text, "mood": mood}) + "\n" for text, mood in moods).encode()
    tested = hub.add("dataset", "another/labelled", {"test.jsonl": rows, "train.jsonl": rows})
    columns = {"text": "text", "label": "mood"}
    other = {"id": "another/labelled", "revision": "main", "split": "test", "columns": columns}
    divided = task(
        "someone/pinned",
        pinned,
        splits={"train": "train", "validation": "train[holdout]"},
        elsewhere={"test": other | {"label_map": {"NEG": 0, "POS": 1}}},
    )
    # A repository of files of several kinds, of which one is the corpus.
    files = {"wiki.txt": "Erste Zeile.\n\nA second\u2028one.\r\n".encode(), "nli.csv": b"a,b\n", "more.tar": b"\0"}
    wiki = hub.add("dataset", "someone/corpora", files)
    corpus = task("someone/corpora", "main", splits={"train": "wiki.txt"}, columns={})
    corpus |= {"kind": "unlabelled", "labels": []}
    specs = [task("someone/pinned", pinned), task("someone/reviews", "main"), divided, corpus]

    code = OPEN + NO_TORCH * fresh
    first = python(code, hub.env(tmp_path), json.dumps(specs), fresh=fresh)
    assert all("error" not in one for one in first), first
    assert [one["origin"] for one in first] == [
        f"hub someone/pinned@{pinned}",
        f"hub someone/reviews@{old}",
        f"hub someone/pinned@{pinned}; test: hub another/labelled@{tested}",
        f"hub someone/corpora@{wiki}, wiki.txt",
    ]
    assert first[0]["sizes"] == {"train": 36, "validation": 4, "test": 6}
    assert first[0]["first"]["test"] == [["test:0", ["new 0"], 0], ["test:1", ["new 1"], 1]]
    assert first[0]["before"] == f"{first[0]['origin']}, not downloaded yet"
    assert first[2]["before"].endswith(f"; test: hub another/labelled@{tested}, not downloaded yet")
    assert first[2]["first"]["test"] == [["test:0", ["a"], 1], ["test:1", ["b"], 0]]
    assert first[2]["dropped"] == {"train: also in test": 1}
    assert first[2]["sizes"] == {"train": 35, "validation": 4, "test": 3}
    texts = [["train:0", ["Erste Zeile."], None], ["train:1", ["A second\u2028one."], None]]
    assert first[3]["first"] == {"train": texts}
    assert any(request.startswith("GET /datasets/someone/pinned/resolve/") for request in hub.requests)
    assert not any(request.endswith(".csv") for request in hub.requests)

    # Offline all is as it was cached, though the hub has other commits by now.
    new = hub.add("dataset", "someone/reviews", {**REVIEWS, "test.jsonl": jsonl(3, "later")})
    later = hub.add("dataset", "another/labelled", {"test.jsonl": rows.replace(b'"a"', b'"c"')})
    longer = hub.add("dataset", "someone/corpora", files | {"wiki.txt": b"Another.\n"})
    hub.requests.clear()
    lacking = (task("someone/reviews", new), task("no/where", "main"))
    *offline, wrong, unknown = opened(hub.env(tmp_path, **OFFLINE), *specs, *lacking)
    for one, before in zip(offline, first, strict=True):
        assert {**one, "before": ""} == {**before, "before": ""}
    assert [one["before"] for one in offline[:2]] == [f"{one['origin']}, in the cache" for one in first[:2]]
    assert offline[3]["before"] == f"hub someone/corpora@{wiki}, in the cache"
    assert f"the cache holds someone/reviews@{old}, not {new}" in wrong["error"]
    assert "no/where" in unknown["error"] and "HF_HUB_OFFLINE" in unknown["error"]
    assert hub.requests == []

    # Online a commit is as before, without asking, and a branch is where it is now.
    same = corpus | {"hub": corpus["hub"] | {"revision": wiki}}
    again, branch, moved, other_corpus, pinned_corpus = opened(hub.env(tmp_path), *specs, same)
    assert again == offline[0] and not [request for request in hub.requests if "someone/pinned" in request]
    assert branch["origin"].endswith(new) and branch["sizes"]["test"] == 3
    assert moved["origin"].endswith(f"another/labelled@{later}")
    assert other_corpus["origin"].startswith(f"hub someone/corpora@{longer}")
    for one, before in zip((branch, moved, other_corpus), first[1:], strict=True):
        assert one["fingerprint"] != before["fingerprint"]
    assert pinned_corpus["fingerprint"] == first[3]["fingerprint"]


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


def test_configurations_columns_and_archives_are_read_as_the_task_says(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    """Labels as glue and snli have them, a text of several columns, and a table in an archive."""
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
    both = parquet(premise=["a", "b", None, "c"], hypothesis=["x", "y", "z", ""], label=[0, -1, 1, 2])
    named = parquet(sentence=["one ", "two", "three"], label=["POS", "NEG", "ODD"])
    files = {"nli/train-0.parquet": both, "nli/test-0.parquet": both}
    more = {"words/train-0.parquet": named, "words/test-0.parquet": parquet(sentence=["four"], label=["NEG"])}
    commit = hub.add("dataset", "nyu/glue", {"README.md": card, **files, **more})
    plain = {"train": "train", "test": "test"}
    nli = task("nyu/glue", commit, config="nli", splits={"test": "test"}, columns={})
    nli |= {"kind": "nli", "columns": ["premise", "hypothesis"], "labels": ["entailment", "neutral", "contradiction"]}
    words = task("nyu/glue", commit, config="words", splits=plain, label_map={"NEG": 0, "POS": 1})
    pages = parquet(title=["E. D. Abbott ", "Only a title"], content=[" A coachbuilder.", ""], label=[0, 1])
    joined = {"text": "title + content", "label": "label"}
    added = hub.add("dataset", "someone/pages", {"test.parquet": pages})
    text = f'{HEAD}1\tA dog "runs\tA cat sits\t1.5\tNEUTRAL\r\n3\tTwo men\tTwo people\t4\tENTAILMENT\n'
    packed = hub.add("dataset", "someone/sets", {"data.tar": archive(test=text, train=HEAD)})
    found, mapped, several, sets = opened(
        hub.env(tmp_path),
        nli,
        words,
        task("someone/pages", added, splits={"test": "test"}, columns=joined),
        pairs("someone/sets", packed),
    )
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
    titles = [["test:0", ["E. D. Abbott A coachbuilder."], 0], ["test:1", ["Only a title"], 1]]
    assert several["first"]["test"] == titles
    assert sets["sizes"] == {"test": 2} and sets["origin"].startswith(f"hub someone/sets@{packed}")
    scored = [["test:0", ['A dog "runs', "A cat sits"], 1.5], ["test:1", ["Two men", "Two people"], 4.0]]
    assert sets["first"]["test"] == scored


def test_what_is_not_there_is_said_in_a_sentence(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    script = hub.add("dataset", "someone/code", {"code.py": b"raise SystemExit('never run')"})
    sets = hub.add("dataset", "someone/sets", {"data.tar": archive(test=f"{HEAD}1\tA dog\n")})
    other = {"revision": commit, "split": "dev", "columns": {"text": "sentence"}}
    gone, lacking = (
        task("someone/reviews", commit, splits={"train": "train"}, elsewhere={"test": other | {"id": name}})
        for name in ("another/where", "someone/reviews")
    )
    corpus = task("someone/reviews", commit, splits={"train": "no.txt"}, columns={})
    cases = {
        "no dataset no/where, or it is private": task("no/where", "main"),
        "has someone/reviews, but no revision 'v9'": task("someone/reviews", "v9"),
        "someone/reviews on the hub: Unknown split": task("someone/reviews", commit, splits={"test": "dev"}),
        "'none' not found": task("someone/reviews", commit, config="none"),
        "needs a column `text`; this row has sentence, label": task("someone/reviews", commit, columns={}),
        "made by a script, and rbench runs no code": task("someone/code", script),
        "someone/reviews, file no.txt, on the hub": corpus | {"kind": "unlabelled", "labels": []},
        "no dataset another/where": gone,
        'Unknown split "dev"': lacking,
        "trial.txt: the archive has 0 files with this path": pairs("someone/sets", sets, "SICK/trial.txt"),
        "data.tar/SICK/test.txt:2: ": pairs("someone/sets", sets),
    }
    answers = dict(zip(cases, opened(hub.env(tmp_path), *cases.values()), strict=True))
    for words, answer in answers.items():
        assert words in answer["error"], answer
    assert "--data" in answers["no dataset another/where"]["error"]
    assert "'train', 'test'" in answers['Unknown split "dev"']["error"]


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


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
def test_the_server_answers_as_the_hub_does(verb: str, hub: Hub) -> None:  # noqa: F811
    import requests

    commit = hub.add("dataset", "someone/reviews", REVIEWS)
    answer = requests.request(verb, f"{hub.url}/datasets/someone/reviews/resolve/main/test.jsonl", timeout=5)
    assert answer.headers["X-Repo-Commit"] == commit
    assert answer.content == (REVIEWS["test.jsonl"] if verb == "GET" else b"")
    missing = requests.request(verb, f"{hub.url}/datasets/someone/reviews/resolve/main/none", timeout=5)
    assert (missing.status_code, missing.headers["X-Error-Code"]) == (404, "EntryNotFound")
