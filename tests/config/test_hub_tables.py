"""Data sets of the hub as tasks: `hf:OWNER/NAME`, from the real client against a small server."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from rbench.config.hub_tables import read_name, with_labelled_test
from rbench.errors import ResourceError
from tests.hub import Hub, hub, python  # noqa: F401

LOAD = """
import json, sys
from rbench.config import load_mapping
from rbench.config.registry import Registry
from rbench.errors import RbenchError
from rbench.tasks import open_task

found = []
for entry in json.loads(sys.argv[1]):
    suite = {"name": "s", "encoders": ["mini-bert-packaged"], "tasks": [entry], "attacks": ["pwws"]}
    suite["resources"] = "mini"
    try:
        loaded = load_mapping(suite, registry=Registry())
        ((name, spec),) = loaded.tasks.items()
        data = open_task(spec)
        first = {split: [data.split(split)[0].texts, data.split(split)[0].label] for split in data.sizes}
        found.append({"name": name, "kind": spec.kind, "labels": spec.labels, "columns": spec.columns, "first": first,
            "sizes": data.sizes, "notes": loaded.notes, "where": spec.local.file, "fingerprint": data.fingerprint})
    except RbenchError as error:
        found.append({"error": str(error)})
print(json.dumps(found))
"""
NAMES = datasets.ClassLabel(names=["negative", "positive"])


def rows(n: int, word: str, *, hidden: bool = False) -> datasets.Dataset:
    features = datasets.Features({"idx": datasets.Value("int32"), "sentence": datasets.Value("string"), "label": NAMES})
    values = {"idx": [*range(n)], "sentence": [f"{word} {i}" for i in range(n)]}
    return datasets.Dataset.from_dict(values | {"label": [-1 if hidden else i % 2 for i in range(n)]}, features)


def parquet(one: datasets.Dataset) -> bytes:
    file = io.BytesIO()
    one.to_parquet(file)
    return file.getvalue()


def loaded(hub: Hub, home: Path, *entries: Any, **more: str) -> list[dict[str, Any]]:  # noqa: F811
    env = hub.env(home, RBENCH_CACHE=str(home / "rbench"), **more)
    found: list[dict[str, Any]] = python(LOAD, env, json.dumps(entries))
    return found


FILES = {f"data/{name}-00000-of-00001.parquet": rows(n, name) for name, n in (("train", 40), ("test", 8))}


def test_columns_and_labels_are_guessed_or_said_and_the_commit_is_said(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    commit = hub.add("dataset", "someone/reviews", {name: parquet(one) for name, one in FILES.items()})
    moods = [
        {"headline": f"h {i}", "body": f"b {i}", "mood": ["sad", "glad"][i % 2], "topic": i % 3} for i in range(30)
    ]
    content = "".join(json.dumps(line) + "\n" for line in moods).encode()
    hub.add("dataset", "someone/news", {"train.jsonl": content, "test.jsonl": content.replace(b"h ", b"t ")})
    hub.add("dataset", "someone/code", {"code.py": b"print(1)\n"})
    found, unclear, clear, ordered, gone, empty, malformed = loaded(
        hub,
        tmp_path,
        "hf:someone/reviews",
        "hf:someone/news",
        {"hf:someone/news": {"text": "headline", "label": "mood", "name": "own"}},
        {"hf:someone/news": {"text": "headline", "label": "mood", "labels": ["sad", "glad"]}},
        *("hf:no/where", "hf:someone/code", "hf:two words"),
    )
    assert (found["name"], found["kind"], found["labels"]) == ("reviews", "single", ["negative", "positive"])
    assert found["first"]["test"] == [["test 0"], 0] and found["sizes"]["test"] == 8
    notes = " ".join(found["notes"])
    assert commit in notes and "`sentence`" in notes and "`label`" in notes
    assert found["where"].endswith(f"someone--reviews@{commit}")
    # What is said of a table goes before guesses.
    assert "headline, body, mood, topic" in unclear["error"]
    assert (clear["name"], clear["labels"], clear["first"]["test"]) == ("own", ["glad", "sad"], [["t 0"], 1])
    assert (ordered["labels"], ordered["first"]["test"]) == (["sad", "glad"], [["t 0"], 0])
    # What the hub does not have is told at once.
    assert "has no dataset no/where" in gone["error"] and "s:tasks" not in gone["error"]
    assert "hf:someone/code" in empty["error"] and "hf:OWNER/NAME:CONFIG" in malformed["error"]

    later = hub.add("dataset", "someone/reviews", {name: parquet(rows(20, f"later {name[5:9]}")) for name in FILES})
    pinned, newest = loaded(hub, tmp_path, f"hf:someone/reviews@{commit}", "hf:someone/reviews")
    assert pinned["fingerprint"] == found["fingerprint"] and newest["where"].endswith(later)
    (offline,) = loaded(hub, tmp_path, "hf:someone/reviews", HF_HUB_OFFLINE="1")
    assert offline["fingerprint"] == newest["fingerprint"] and "saved before" in " ".join(offline["notes"])


def test_a_hidden_test_split_gives_way_to_the_validation_split() -> None:
    splits = {"train": rows(4, "a"), "validation": rows(3, "b"), "test": rows(2, "c", hidden=True)}
    found = with_labelled_test(splits)
    assert [*found] == ["train", "test"] and found["test"]["sentence"] == ["b 0", "b 1", "b 2"]
    assert with_labelled_test({**splits, "test": rows(2, "c")})["test"]["sentence"] == ["c 0", "c 1"]


def test_hidden_scores_are_hidden_labels() -> None:
    def scored(*scores: float) -> datasets.Dataset:
        return datasets.Dataset.from_dict({"sentence": ["a"] * len(scores), "label": scores})

    splits = {"validation": scored(3.5, 0.0), "test": scored(-1.0, -1.0)}
    assert with_labelled_test(splits) == {"test": splits["validation"]}
    assert with_labelled_test({**splits, "test": scored(-1.0, 2.0)})["test"]["label"] == [-1.0, 2.0]


@pytest.mark.parametrize(
    ("written", "expected", "name"),
    [
        ("hf:stanfordnlp/sst2", ("stanfordnlp/sst2", None, None), "sst2"),
        ("hf:nyu-mll/glue:mrpc", ("nyu-mll/glue", "mrpc", None), "glue-mrpc"),
        ("hf:nyu-mll/glue:mrpc@abc", ("nyu-mll/glue", "mrpc", "abc"), "glue-mrpc"),
        ("hf:imdb@main", ("imdb", None, "main"), "imdb"),
    ],
)
def test_names_are_read(written: str, expected: tuple[str | None, ...], name: str) -> None:
    found = read_name(written)
    assert tuple(found) == expected and found.name == name


def test_other_forms_are_refused() -> None:
    for written in ("hf:", "hf:a/b/c", "hf:../x", "hf:a b/c"):
        with pytest.raises(ResourceError):
            read_name(written)
