"""The texts whose vectors tell whether an encoder is still what it was: short ones, noised ones and long ones.

They were written for rbench. A stored baseline has vectors of exactly these texts, so a change of one makes all stored
baselines useless: `DIGITS` is in each, and one with other digits is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

DOCUMENTS = (
    "Let the dough rise under a damp cloth until it has doubled, then fold it twice and shape the loaf.",
    "Onions taste sweet when they are cooked slowly in butter for at least forty minutes.",
    "A pinch of salt in the boiling water keeps the pasta from tasting flat.",
    "The soup was too thin, so she stirred in a spoonful of flour and waited.",
    "Fresh basil loses its scent in the fridge; keep it in a glass of water by the window.",
    "The moon drifts away from the earth by almost four centimetres every year.",
    "A comet's tail always points away from the sun, whichever way the comet travels.",
    "Neutron stars are so dense that a spoonful of one would weigh as much as a mountain.",
    "Through a small telescope you can see four of Jupiter's moons on any clear night.",
    "The probe lost contact with mission control for nine minutes while it passed behind Mars.",
    "The central bank raised its interest rate by a quarter of a point to slow inflation.",
    "Shares of the shipping company fell by 12% after it cut its forecast for 2023.",
    "She moved her savings from a current account into government bonds.",
    "A weak currency makes exports cheaper and holidays abroad more expensive.",
    "The auditors refused to sign the accounts because two invoices could not be found.",
    "The function returns None when the list is empty, so check for that before you index it.",
    "Rebasing the branch on main removed the duplicate commit but broke one test.",
    "The server ran out of memory because every request kept a copy of the whole table.",
    "Use a hash map if you need to look up values by key in constant time.",
    "The new release drops support for Python 3.8 and fixes a race in the logger.",
    "The nurse measured his blood pressure twice, once sitting and once standing.",
    "Antibiotics do not help against a cold, which is caused by a virus.",
    "After the operation on her knee she could not climb stairs for six weeks.",
    "The vaccine is given in two doses, three weeks apart, in the upper arm.",
    "He was told to drink more water and less coffee, and to sleep before midnight.",
    "The night train to Lisbon leaves at 21:40 and arrives shortly after breakfast.",
    "Our hotel room looked over the harbour, but the lift was out of order all week.",
    "You do not need a visa for a stay of less than ninety days.",
    "They missed the last ferry and slept on a bench beside the ticket office.",
    "The trail climbs through a pine forest and ends at a lake that is frozen until June.",
    "The goalkeeper saved two penalties and was carried off the pitch by the fans.",
    "It rained on the final day, so the match ended in a draw.",
    "She broke the national record in the 400 metres by a tenth of a second.",
    "The coach resigned after the team had lost seven games in a row.",
    "Chess players lose weight during long tournaments because thinking hard uses energy.",
    "The tenant may end the contract with three months' notice in writing.",
    "A court in Madrid ruled that the company must pay back the fees.",
    "The witness could not say whether the car was blue or green.",
    "Parliament passed the law on rents by a majority of only one vote.",
    "The painting was returned to the heirs of its owner after a trial that lasted eleven years.",
)
"""Eight subjects, five texts each."""
QUERIES = (
    "how long should bread dough rise",
    "why do my onions not taste sweet?",
    "which way does the tail of a comet point",
    "distance between earth and moon is growing",
    "effect of higher interest rates",
    "what happens to exports if the currency is weak",
    "out of memory error on server",
    "look up a value by its key quickly",
    "do antibiotics cure a cold",
    "recovery time after knee surgery",
    "overnight train to Portugal",
    "visa for a short stay",
    "penalty saved by goalkeeper",
    "women's 400 metres record",
    "how can a tenant cancel a lease",
    "stolen art given back to the family",
)
"""Two for each subject, in the same order."""
STORIES = 3
"""How many long texts are cut to every number of words."""
WORDS = {
    "30 to 90 words": (30, 60, 90),
    "110 to 170 words": (110, 130, 150, 170),
    "210 to 350 words": (210, 250, 300, 350),
    "420 to 700 words": (420, 500, 600, 700),
}
"""By group, the numbers of words of its texts. English has four tokens for three words, more or less, so the last three
groups are beyond 128, 256 and 512 tokens."""
SHORT = "short texts"
NOISED = ("capital letters", "misspelt words", "other characters")
_OTHER = str.maketrans({"a": "\u00e4", "o": "\u043e", "i": "\uff49", "e": "\u00e9", ".": " \U0001f642\n", " ": "  "})
"""Accents, a letter of another alphabet, a wide letter, an emoji, line ends and double spaces."""


class WatchedText(NamedTuple):
    """A text and its group."""

    group: str
    text: str
    story: int | None = None
    """Of a long text, which one it is the beginning of."""
    words: int = 0
    """Of a long text, how many words of it there are."""


@cache
def build_texts() -> tuple[WatchedText, ...]:
    """Return all texts: documents, queries, and then the noised and the long ones."""
    return (*(WatchedText(SHORT, text) for text in (*DOCUMENTS, *QUERIES)), *_build_noised(), *_build_long())


def _build_noised() -> Iterator[WatchedText]:
    for document in DOCUMENTS[::4]:
        misspelt = " ".join(
            word[0] + word[2] + word[1] + word[3:] if len(word) > 4 else word for word in document.split()
        )
        for group, text in zip(NOISED, (document.upper(), misspelt, document.translate(_OTHER)), strict=True):
            yield WatchedText(group, text)


def _build_long() -> Iterator[WatchedText]:
    for story in range(STORIES):
        # Each story begins with another document, and has the documents in another order.
        order = [DOCUMENTS[(13 * story + (7 + 2 * story) * i) % len(DOCUMENTS)] for i in range(len(DOCUMENTS) + 10)]
        words = " ".join(order).split()
        for group, lengths in WORDS.items():
            yield from (WatchedText(group, " ".join(words[:count]), story, count) for count in lengths)


@cache
def hash_texts() -> str:
    """Return the hash of all texts, 16 hex digits."""
    return hashlib.sha256("\0".join(one.text for one in build_texts()).encode()).hexdigest()[:16]
