"""Make triples of the embedded world: a judgement, the same in other words, and an edit by which its label changes.

The kept text has synonyms in the place of one or two words, so its meaning is the same by the language's own grammar.
The changed text has one word exchanged, added or left out, and the oracle gives it the other label.
"""

from __future__ import annotations

from random import Random

from rbench.mini import generators
from rbench.mini.contrast import contrast_rows
from rbench.mini.generators import Row
from rbench.mini.lexical import synonyms
from rbench.mini.oracle import meaning
from rbench.mini.reading import WORD

SPLITS = ("test",)
MOST_REPLACED = 2


def generate(seed: int = 0) -> dict[str, list[Row]]:
    """Return `original`, `kept` and `changed` of each judgement that has both, by split, the same on every machine."""
    made: list[Row] = []
    rows = generators.generate("mini-sentiment")
    for number, row in enumerate(contrast_rows("mini-sentiment", rows)):
        original = str(row["original_text"])
        kept = _reworded(original, Random(f"mini-triples {seed} {number}"))
        if kept is not None:
            made.append({"original": original, "kept": kept, "changed": row["perturbed_text"]})
    return {"test": made}


def _reworded(text: str, rng: Random) -> str | None:
    """Return a text of the same meaning with one or two words replaced by synonyms; None where there is none."""
    places = [word for word in WORD.finditer(text) if synonyms(word[0])]
    rng.shuffle(places)
    replaced, done = text, 0
    for word in sorted(places[:MOST_REPLACED], key=lambda word: -word.start()):
        other = rng.choice(synonyms(word[0]))
        other = other[:1].upper() + other[1:] if word[0][0].isupper() else other
        tried = replaced[: word.start()] + other + replaced[word.end() :]
        if meaning(tried) is not None and meaning(tried) == meaning(text):
            replaced, done = tried, done + 1
    return replaced if done else None
