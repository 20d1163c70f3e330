"""The rows of the embedded world, against the oracle, each other and the sizes that the tasks promise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rbench import mini
from rbench.errors import ResourceError
from rbench.mini.generators import SENTENCE_LENGTHS, SIZES, generate
from rbench.mini.reading import read

LABELLED = [name for name in mini.GENERATORS if name != "mini-corpus"]


def texts_of(row: dict[str, object]) -> tuple[str, ...]:
    return tuple(value for value in row.values() if isinstance(value, str))


@pytest.mark.parametrize("name", LABELLED)
def test_the_oracle_agrees_with_every_generated_label(name: str) -> None:
    for split in mini.splits(name):
        for row in mini.rows(name, split)[::4]:  # a mistake is made in many
            assert mini.oracle(name, texts_of(row)) == row.get("label", row.get("score")), row


def test_sentences_of_the_corpus_can_be_read() -> None:
    assert all(read(row["text"]) for row in mini.rows("mini-corpus", "train")[::8])


@pytest.mark.parametrize("name", mini.GENERATORS)
def test_splits_share_no_text_and_no_row_is_repeated(name: str) -> None:
    texts = [{text for row in mini.rows(name, split) for text in texts_of(row)} for split in mini.splits(name)]
    assert len(set.union(*texts)) == sum(len(part) for part in texts)
    firsts = [texts_of(row)[0] for split in mini.splits(name) for row in mini.rows(name, split)]
    assert len(set(firsts)) == len(firsts)


@pytest.mark.parametrize("name", mini.GENERATORS)
def test_splits_have_their_sizes_and_labels_are_balanced(name: str) -> None:
    assert {split: len(mini.rows(name, split)) for split in mini.splits(name)} == SIZES[name]
    labels = Counter(row["label"] for row in mini.rows(name, mini.splits(name)[0]) if "label" in row)
    if labels:
        assert sorted(labels) == list(range(len(labels)))
        assert min(labels.values()) > 0.85 * max(labels.values())


@pytest.mark.parametrize("name", ["mini-sentiment", "mini-topic"])
def test_sentences_have_8_to_16_words(name: str) -> None:
    assert all(len(row["text"].split()) in SENTENCE_LENGTHS for row in mini.rows(name, "test"))


def test_scores_span_the_scale() -> None:
    scores = [row["score"] for row in mini.rows("mini-sts", "test")]
    assert min(scores) == 0 and max(scores) == 5
    assert all(sum(low <= score < low + 1 for score in scores) > 50 for low in range(5))


def test_another_seed_gives_other_rows() -> None:
    rows = {split: mini.rows("mini-topic", split) for split in mini.splits("mini-topic")}
    other = generate("mini-topic", seed=1)
    assert other.keys() == rows.keys() and other != rows


def test_rows_are_those_of_a_process_with_another_hash_seed(tmp_path: Path) -> None:
    code = "from rbench import mini; print(mini.fingerprint('mini-sts'))"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {"PYTHONHASHSEED": seed, "RBENCH_CACHE": str(tmp_path)}  # so that it makes its own rows
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == mini.fingerprint("mini-sts")


def test_a_caller_cannot_change_what_others_get() -> None:
    mini.rows("mini-topic", "test")[0]["text"] = "something else"
    assert mini.rows("mini-topic", "test")[0]["text"] != "something else"


def test_fingerprints_tell_generators_apart() -> None:
    assert len({mini.fingerprint(name) for name in mini.GENERATORS}) == len(mini.GENERATORS)
    assert mini.fingerprint() == mini.fingerprint()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ResourceError, match="mini-sentiment"):
        mini.rows("mini-sentimental", "train")
    with pytest.raises(ResourceError, match="validation"):
        mini.rows("mini-topic", "dev")
