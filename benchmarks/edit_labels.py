"""Do edits that shall change the meaning change it? Draws a sheet for labellers, and counts what they found.

    python benchmarks/edit_labels.py draw --data DATA --models MODELS --sheet SHEET
    python benchmarks/edit_labels.py count --sheet SHEET

`draw` makes edits of each kind, and as many texts that keep the meaning, of sentences of MR, SNLI and STS-B, at most
one of each sentence. SHEET/items.jsonl has them in a random order, without their kinds, and in parts for labellers;
SHEET/key.jsonl has the kinds. The sheet of `rbench judge` cannot hold them: it asks about successes of attacks in a
RUN, and has no answer for a text that is no English any more.

Labellers, who work apart, write SHEET/labels-A-01.jsonl, SHEET/labels-B-01.jsonl and so on: id, and `same`, `changed`
or `broken`. `count` joins their answers to the key in benchmarks/edit_labels.jsonl. A text is stored as its place in
the data and the letters that the edit changed, since the data's licences do not clearly allow to pass texts on. What
was found is written to benchmarks/results/edit_labels.json.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.code import find, open_checked
from rbench.config.registry import Registry
from rbench.edits import EditKind, edited
from rbench.noise import NoiseKind, cased, noised
from rbench.schema import ResourceSet, ResourceSource
from rbench.score.statistics import wilson
from rbench.system.words import fold_letters, word_spans
from rbench.words.resources import Resources
from rbench.words.resources.lexical import listed_synonyms

HERE = Path(__file__).parent
LABELS = HERE / "edit_labels.jsonl"
SEED = "edit labels 1"
MOST_WORDS, LEAST_WORDS = 30, 4
EDITS_OF_A_KIND = 200
PART = 300
SOURCES = {
    "mr": (("all",), ("text",)),
    "snli": (("train", "validation", "test"), ("premise", "hypothesis")),
    "stsb": (("train", "validation", "test"), ("sentence1", "sentence2")),
}
"""Splits and columns of each data set. SST-2 is left out, since its sentences are MR's."""
KEEPING = {
    "contractions": (200, 1.0),
    "numbers": (100, 1.0),
    "typos": (150, 0.02),
    "swaps": (100, 0.02),
    "repeats": (100, 0.02),
    "punctuation": (150, 0.1),
    "title": (100, 0.3),
    "upper": (100, 0.2),
}
"""Kinds of noise that keep the meaning: how many texts, and the degree."""
SYNONYMS = 200
"""Texts with one word replaced by a synonym that PPDB and WordNet both list."""


class Sentence(NamedTuple):
    """A sentence, and where it stands in the data."""

    text: str
    place: tuple[str, str, int, str]
    """Data set, split, line (from 0) and column."""


def main() -> None:
    """Draw a sheet, or count its labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("draw", "count"))
    parser.add_argument("--sheet", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", type=Path, help="has the folder ppdb, with synonyms.txt")
    asked = parser.parse_args()
    if asked.what == "draw":
        draw(asked.data, asked.models, asked.sheet)
    else:
        join(asked.sheet)
        report = json.dumps(count(read_lines(LABELS)), indent=1)
        (HERE / "results" / "edit_labels.json").write_text(f"{report}\n", encoding="utf-8")
        print(report)


# ---------------------------------------------------------------------------------------------------------- drawing


def draw(data: Path, models: Path, sheet: Path) -> None:
    """Write the items, their parts and the key."""
    sentences = list(draw_sentences(data))
    used: set[int] = set()
    drawn: list[tuple[str, Sentence, str]] = []
    for name, wanted, write in writers(models):
        found = 0
        for i, sentence in enumerate(sentences):
            if found == wanted:
                break
            if i not in used and (text := write(sentence.text)) is not None and text != sentence.text:
                used.add(i)
                drawn.append((name, sentence, text))
                found += 1
        print(name, found)
    rng = random.Random(SEED)
    rng.shuffle(drawn)
    ids = [f"{number:08x}" for number in rng.sample(range(16**8), len(drawn))]
    items = [
        {"id": name, "original": sentence.text, "edited": text}
        for name, (_, sentence, text) in zip(ids, drawn, strict=True)
    ]
    key = [
        {"id": name, "kind": kind, "place": sentence.place, "changes": changes(sentence.text, text)}
        | {"original": text_hash(sentence.text), "edited": text_hash(text)}
        for name, (kind, sentence, text) in zip(ids, drawn, strict=True)
    ]
    write_lines(sheet / "items.jsonl", items)
    write_lines(sheet / "key.jsonl", key)
    for i in range(0, len(items), PART):
        write_lines(sheet / f"part-{i // PART + 1:02}.jsonl", items[i : i + PART])


def draw_sentences(data: Path) -> Iterator[Sentence]:
    """Yield all short sentences of the data in a random order, one data set after the other, each text once."""
    known: set[str] = set()
    by_source = []
    for task, (splits, columns) in SOURCES.items():
        of_task = [
            Sentence(row[column], (task, split, line, column))
            for split in splits
            for line, row in enumerate(read_lines(data / task / f"{split}.jsonl"))
            for column in columns
        ]
        random.Random(f"{SEED} {task}").shuffle(of_task)
        by_source.append(of_task)
    for sentence in chain.from_iterable(zip_longest(*by_source)):
        if sentence is None or not LEAST_WORDS <= len(word_spans(sentence.text)) <= MOST_WORDS:
            continue
        letters = fold_letters(sentence.text)
        if letters not in known:
            known.add(letters)
            yield sentence


def writers(models: Path) -> Iterator[tuple[str, int, Callable[[str], str | None]]]:
    """Yield each kind with how many texts are wanted and what writes them: the rarest first, as they find least."""
    tools = Resources(
        ResourceSet(
            name="sheet",
            title="WordNet and NLTK",
            synonyms=ResourceSource(kind="wordnet"),
            pos_tagger=ResourceSource(kind="nltk"),
        )
    )
    kinds: dict[str, EditKind] = {name: open_checked(find("edits", name)) for name in Registry().names("edits")}
    for name in sorted(kinds, key=lambda name: name not in RARE):
        yield name, EDITS_OF_A_KIND, lambda text, kind=kinds[name]: edited(kind, text, SEED, tools)
    for name, (wanted, degree) in KEEPING.items():
        noise: NoiseKind = open_checked(find("noise", name))
        yield name, wanted, lambda text, noise=noise, degree=degree: noised(noise, text, degree, SEED).text
    listed = listed_synonyms(models / "ppdb" / "synonyms.txt")
    yield "synonym", SYNONYMS, lambda text: with_synonym(text, tools, listed)


RARE = ("roles", "quantifier", "number")


def with_synonym(text: str, tools: Resources, listed: Callable[[str], list[str]]) -> str | None:
    """Return the text with one word replaced by a synonym that both sources list; None where there is none."""
    spans = word_spans(text)
    words = [text[start:end] for start, end in spans]
    rng = random.Random(f"{SEED} {text}")
    found = [
        (span, synonym)
        for span, (word, tag) in zip(spans, tools.pos_tags(words), strict=True)
        for synonym in tools.thesaurus(word, tag).synonyms
        if synonym in listed(word.lower())
    ]
    if not found:
        return None
    (start, end), synonym = rng.choice(found)
    return f"{text[:start]}{cased(synonym, text[start:end])}{text[end:]}"


def changes(original: str, text: str) -> list[tuple[int, int, str]]:
    """Return what makes the text of the original: start, end and what stands there instead."""
    matcher = difflib.SequenceMatcher(None, original, text, autojunk=False)
    return [(i, j, text[k:m]) for what, i, j, k, m in matcher.get_opcodes() if what != "equal"]


def text_hash(text: str) -> str:
    """Return the first digits of a text's hash."""
    return sha256(text.encode()).hexdigest()[:12]


# --------------------------------------------------------------------------------------------------------- counting


def join(sheet: Path) -> None:
    """Write the key with both labels of each item to the committed file. An item without both is an error."""
    labels = {
        labeller: {
            row["id"]: row["label"] for path in sorted(sheet.glob(f"labels-{labeller}-*")) for row in read_lines(path)
        }
        for labeller in "AB"
    }
    rows = [
        row | {labeller: labels[labeller][row["id"]] for labeller in "AB"} for row in read_lines(sheet / "key.jsonl")
    ]
    write_lines(LABELS, rows)


def count(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what was found of each kind and over all: shares with Wilson's 95% intervals, and agreement."""
    kinds = sorted({row["kind"] for row in rows})
    report: dict[str, Any] = {"n": len(rows), **agreement(rows), "kinds": {}}
    for kind in kinds:
        of_kind = [row for row in rows if row["kind"] == kind]
        changed = [sum(row[labeller] == "changed" for row in of_kind) for labeller in "AB"]
        both = sum(row["A"] == row["B"] == "changed" for row in of_kind)
        report["kinds"][kind] = {
            "n": len(of_kind),
            "changed_by_both": both,
            "interval": wilson(both, len(of_kind)),
            "changed_by_A": changed[0],
            "changed_by_B": changed[1],
            "broken_by_A": sum(row["A"] == "broken" for row in of_kind),
            "broken_by_B": sum(row["B"] == "broken" for row in of_kind),
            **agreement(of_kind),
        }
    return report


def agreement(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the share of items with one label, and Cohen's kappa."""
    agreed = sum(row["A"] == row["B"] for row in rows) / len(rows)
    first, second = (Counter(row[labeller] for row in rows) for labeller in "AB")
    by_chance = sum(first[label] * second[label] for label in first) / len(rows) ** 2
    return {"agreement": agreed, "kappa": (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else 1.0}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a file of JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
