"""Make contrast sets of the embedded world: test rows in which one word is replaced, added or removed.

The edit changes the label. All edits are tried on the text, and the oracle, which does not know how they were made,
decides which of them belong to the language and have another label. No edit is a row of its task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

from rbench.mini.generators import Row
from rbench.mini.lexicon import Form, load
from rbench.mini.oracle import oracle
from rbench.mini.reading import WORD

EDITED = ("mini-sentiment", "mini-nli")
ORIGINALS = 500
"""Number of bundles in a set. The 95% interval of a share is then at most 9 points wide."""


def contrast_rows(name: str, splits: dict[str, list[Row]]) -> list[Row]:
    """Return a row for each edit of the first ORIGINALS test rows that have an edit.

    Each row has `pair_id`, `original_X` and `perturbed_X` for each text column X, `original_label` and
    `perturbed_label`. A test row has one edit for each other label that one word can give it. The edit is drawn by a
    generator seeded with the row.

    Args:
        name: the generator's name.
        splits: all rows of the generator, by split.
    """
    columns = [column for column, value in splits["test"][0].items() if isinstance(value, str)]
    known = {tuple(row[column] for column in columns) for split in splits.values() for row in split}
    labels = {row["label"] for row in splits["test"]}
    made: list[Row] = []
    originals = 0
    for number, row in enumerate(splits["test"]):
        if originals == ORIGINALS:
            break
        texts = tuple(str(row[column]) for column in columns)
        found = _drawn(name, texts, labels - {row["label"]}, known, Random(f"{name} contrast 0 {number}"))
        originals += bool(found)
        for label, edited in sorted(found.items()):
            pair = {"pair_id": f"{name}-{number}-{label}", "original_label": row["label"], "perturbed_label": label}
            for side, values in (("original", texts), ("perturbed", edited)):
                pair |= {f"{side}_{column}": value for column, value in zip(columns, values, strict=True)}
            made.append(pair)
    return made


def _drawn(
    name: str, texts: tuple[str, ...], wanted: set[int], known: set[tuple[str, ...]], rng: Random
) -> dict[int, tuple[str, ...]]:
    """Return, for each wanted label, the first edit with that label in a random order of all edits, if there is one."""
    edits = [edit for edit in _edits(texts) if edit not in known]
    rng.shuffle(edits)
    found: dict[int, tuple[str, ...]] = {}
    for edit in edits:
        if found.keys() >= wanted:
            break
        label = oracle(name, edit)
        if label in wanted:
            found.setdefault(int(label), edit)
    return found


def _edits(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the texts with one word of one of them replaced, added or removed; each result once."""
    seen = {tuple(texts)}
    for i, text in enumerate(texts):
        for edited in _edited(text):
            whole = (*texts[:i], edited, *texts[i + 1 :])
            if whole not in seen:
                seen.add(whole)
                yield whole


def _edited(text: str) -> Iterator[str]:
    words = list(WORD.finditer(text))
    for at, word in enumerate(words):
        form = load().forms[word[0].lower()]
        for other in _others(form):
            yield _replaced(text, words, at, other)
        part = load().concepts[form.concept].part
        if part in ("be", "verb"):
            yield _replaced(text, words, at, f"{word[0]} not" if part == "be" else f"never {word[0]}")
        if at:  # a sentence can hardly ever do without its first word
            yield re.sub(r"\s+", " ", _replaced(text, words, at, "")).replace(" ,", ",").replace(" .", ".")


@cache
def _others(form: Form) -> list[str]:
    """Return the most frequent words for the antonym, the hypernym and the hyponyms of a form, in its inflection."""
    lexicon = load()
    concept = lexicon.concepts[form.concept]
    names = [
        concept.antonym,
        concept.isa,
        *(other for other, its in lexicon.concepts.items() if its.isa == concept.name),
    ]
    words = [lexicon.concepts[name].words[0] for name in names if name is not None]
    return [lexicon.inflected[word, form.feature] for word in words if (word, form.feature) in lexicon.inflected]


def _replaced(text: str, words: Sequence[re.Match[str]], at: int, other: str) -> str:
    """Replace a word of the text, keep its capital, and adapt `a` or `an` before it."""
    word = words[at]
    if word[0][0].isupper():
        other = other[:1].upper() + other[1:]
    start, before = word.start(), words[at - 1] if at else None
    if before is not None and before[0].lower() in ("a", "an"):
        following = other or (words[at + 1][0] if at + 1 < len(words) else "")
        article = "an" if following[:1].lower() in tuple("aeiou") else "a"
        start, other = before.start(), f"{article.capitalize() if before[0][0].isupper() else article} {other}"
    return text[:start] + other + text[word.end() :]
