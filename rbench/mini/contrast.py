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

WITH_CONTRAST_SET = ("mini-sentiment", "mini-nli")
NUM_ORIGINALS = 500
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
    task_texts = {tuple(row[column] for column in columns) for split in splits.values() for row in split}
    labels = {row["label"] for row in splits["test"]}
    edited_rows: list[Row] = []
    originals = 0
    for number, row in enumerate(splits["test"]):
        if originals == NUM_ORIGINALS:
            break
        texts = tuple(str(row[column]) for column in columns)
        edit_by_label = _draw_edits(
            name, texts, labels - {row["label"]}, task_texts, Random(f"{name} contrast 0 {number}")
        )
        originals += bool(edit_by_label)
        for label, edited in sorted(edit_by_label.items()):
            pair = {"pair_id": f"{name}-{number}-{label}", "original_label": row["label"], "perturbed_label": label}
            for side, values in (("original", texts), ("perturbed", edited)):
                pair |= {f"{side}_{column}": value for column, value in zip(columns, values, strict=True)}
            edited_rows.append(pair)
    return edited_rows


def _draw_edits(
    name: str, texts: tuple[str, ...], wanted: set[int], known: set[tuple[str, ...]], rng: Random
) -> dict[int, tuple[str, ...]]:
    """Return, for each wanted label, the first edit with that label in a random order of all edits, if there is one."""
    edits = [edit for edit in _list_edits(texts) if edit not in known]
    # Shuffled with the generator of this row: the edits of a row do not depend on the rows before it.
    rng.shuffle(edits)
    edit_by_label: dict[int, tuple[str, ...]] = {}
    for edit in edits:
        if edit_by_label.keys() >= wanted:
            break
        label = oracle(name, edit)
        if label in wanted:
            edit_by_label.setdefault(int(label), edit)
    return edit_by_label


def _list_edits(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the texts with one word of one of them replaced, added or removed; each result once."""
    seen = {tuple(texts)}
    for i, text in enumerate(texts):
        for edited in _edit_text(text):
            edited_texts = (*texts[:i], edited, *texts[i + 1 :])
            if edited_texts not in seen:
                seen.add(edited_texts)
                yield edited_texts


def _edit_text(text: str) -> Iterator[str]:
    words = list(WORD.finditer(text))
    for place, word in enumerate(words):
        form = load().forms[word[0].lower()]
        for other in _related_words(form):
            yield _replace_word(text, words, place, other)
        part = load().concepts[form.concept].part
        if part in ("be", "verb"):
            yield _replace_word(text, words, place, f"{word[0]} not" if part == "be" else f"never {word[0]}")
        if place:  # a sentence can hardly ever do without its first word
            yield re.sub(r"\s+", " ", _replace_word(text, words, place, "")).replace(" ,", ",").replace(" .", ".")


@cache
def _related_words(form: Form) -> list[str]:
    """Return the most frequent words for the antonym, the hypernym and the hyponyms of a form, in its inflection."""
    lexicon = load()
    concept = lexicon.concepts[form.concept]
    names = [
        concept.antonym,
        concept.isa,
        *(other for other, other_concept in lexicon.concepts.items() if other_concept.isa == concept.name),
    ]
    words = [lexicon.concepts[name].words[0] for name in names if name is not None]
    return [lexicon.inflected[word, form.feature] for word in words if (word, form.feature) in lexicon.inflected]


def _replace_word(text: str, words: Sequence[re.Match[str]], place: int, other: str) -> str:
    """Replace a word of the text, keep its capital, and adapt `a` or `an` before it."""
    word = words[place]
    if word[0][0].isupper():
        other = other[:1].upper() + other[1:]
    start, previous = word.start(), words[place - 1] if place else None
    if previous is not None and previous[0].lower() in ("a", "an"):
        following = other or (words[place + 1][0] if place + 1 < len(words) else "")
        article = "an" if following[:1].lower() in tuple("aeiou") else "a"
        start, other = previous.start(), f"{article.capitalize() if previous[0][0].isupper() else article} {other}"
    return text[:start] + other + text[word.end() :]
